"""One panel for every figure of means with their errors: a line, points, bars or a band per series, against x."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from gpsuite.reporting.palette import method_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from gpsuite.arrays import FloatArray

Kind = Literal["line", "points", "bars", "band"]
Error = Literal["standard_error", "interval"]

PAPER = "printed in the paper"

_ROOM = 0.8  # of the distance between two ticks, which bars beside one another fill
_MARKS = 8  # about so many markers along a line with a band


def panel(
    ax: Axes,
    frame: pd.DataFrame,
    x: str,
    titles: Mapping[str, str],
    *,
    by: str = "method",
    kind: Kind = "line",
    error: Error = "standard_error",
    ticks: Mapping[Any, str] | None = None,
    apart: float = 0.0,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Draw mean and error of each series against x; missing errors (one repetition) are not drawn.

    Args:
        ax: what is drawn on.
        frame: one row per series and x, with the columns x, `by`, mean and standard_error, or interval_low and
            interval_high, as `summarise_groups` returns them for one metric.
        x: the column along the horizontal axis.
        titles: name of a series in the column `by` -> its label, in the order drawn; others are left out.
        by: the column that names a series.
        kind: lines through markers, markers alone, bars, or lines with a shaded band.
        error: what bars and bands reach to: one standard error to either side, or the ends of the interval.
        ticks: value of x -> its label, evenly spaced in this order; None for a numeric axis.
        apart: distance between neighbouring series at one x, so that their errors do not overlap.
        styles: name of a series -> properties that replace those of its method.
    """
    present = [name for name in titles if (frame[by] == name).any()]
    step = _ROOM / max(len(present), 1) if kind == "bars" else apart
    for number, name in enumerate(present):
        rows = frame[frame[by] == name].sort_values(x)
        if ticks is not None:
            rows = rows.set_index(x).reindex(list(ticks)).assign(**{x: range(len(ticks))})
        mean = rows["mean"].to_numpy(dtype=float)
        ends = _ends(rows, mean, error)
        place = rows[x].to_numpy(dtype=float) + step * (number - (len(present) - 1) / 2)
        style = {**method_style(name), **(styles or {}).get(name, {})}
        _draw(ax, kind, place, mean, ends, step, titles[name], style)
    if ticks is not None:
        ax.set_xticks(range(len(ticks)), list(ticks.values()))
        ax.set_xlim(-0.5, len(ticks) - 0.5)


def paper_marks(ax: Axes, marks: Sequence[tuple[str, float, float]]) -> None:
    """Draw the paper's printed numbers as hollow marks in the colours of their series.

    Args:
        ax: what is drawn on.
        marks: name of the series, x and the printed number of each.
    """
    for name, x, value in marks:
        style = method_style(name)
        ax.plot(
            [x],
            [value],
            style["marker"],
            ms=11,
            mfc="none",
            mec=style["color"],
            mew=1.8,
            ls="",
            zorder=6,
            clip_on=False,
        )
    if marks:
        ax.plot([], [], "o", ms=9, mfc="none", mec="0.25", mew=1.6, ls="", label=PAPER)


def _ends(rows: pd.DataFrame, mean: FloatArray, error: Error) -> FloatArray:
    """Return how far the error reaches below and above the mean, [2, k]; NaN, drawn as none, where it is missing."""
    if error == "standard_error":
        low = high = rows["standard_error"].to_numpy(dtype=float)
    else:
        low = mean - rows["interval_low"].to_numpy(dtype=float)
        high = rows["interval_high"].to_numpy(dtype=float) - mean
    import numpy as np

    return np.vstack([low, high])


def _draw(
    ax: Axes,
    kind: Kind,
    place: FloatArray,
    mean: FloatArray,
    ends: FloatArray,
    width: float,
    label: str,
    style: Mapping[str, Any],
) -> None:
    # as lists: of a single place matplotlib takes an array's row for a number
    errors = ends.tolist()
    if kind == "bars":
        whiskers = {"ecolor": "0.35", "elinewidth": 1.5, "capsize": 2}
        ax.bar(place, mean, width, yerr=errors, label=label, color=style["color"], error_kw=whiskers)
    elif kind == "band":
        ax.plot(place, mean, label=label, markevery=max(1, len(mean) // _MARKS), **style)
        ax.fill_between(place, mean - ends[0], mean + ends[1], color=style["color"], alpha=0.18, lw=0)
    else:
        line = {"linestyle": ""} if kind == "points" else {}
        ax.errorbar(place, mean, yerr=errors, label=label, capsize=3, **{**line, **style})
