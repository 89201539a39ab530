"""Colours of methods by their names, from Okabe and Ito (safe for colour-blind readers), and panels of means."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from gpsuite.arrays import FloatArray

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#000000", "#777777"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)  # in the order of `house.mplstyle`
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HIGHEST, LOWEST = BLUE, GREEN  # what belongs to a maximum, and to a minimum
LIMIT = "0.4"  # lines at a limit, a nominal value, zero
NOTE = "#9a3412"
PAPER = "printed in the paper"
_ROOM = 0.8  # share of the distance between two ticks that neighbouring bars fill together
_MARKS = 8  # about so many markers along a line with a band
METHODS = {
    "kl_pac_gp": (BLUE, "o"),
    "kl_pac_sgp": (BLUE, "s"),
    "kl_pac_gp_restarts": (BLACK, "^"),
    "kl_pac_sgp_restarts": (BLACK, "v"),
    "kl_pac_free_form": (BLACK, "P"),
    "sqrt_pac_gp": (VERMILION, "s"),
    "sqrt_pac_sgp": (VERMILION, "o"),
    "sqrt_pac_gp_restarts": (GREY, "v"),
    "sqrt_pac_sgp_restarts": (GREY, "^"),
    "full_gp": (ORANGE, "D"),
    "vfe": (GREEN, "^"),
    "fitc": (PURPLE, "X"),
    "vfe_fitc_posterior": (SKY, "v"),
    "laplace": (BLUE, "o"),
    "ep": (VERMILION, "s"),
    "gpr": (GREEN, "o"),
    "sgpr": (PURPLE, "s"),
    "al_mogp": (VERMILION, "s"),
    "al_mogp_full": (VERMILION, "X"),
    "al_indgps": (GREEN, "^"),
    "al_indgps_full": (GREEN, "v"),
    "rs_mogp": (BLUE, "o"),
    "rs_mogp_full": (BLUE, "P"),
    "al_mogp_nosafe": (PURPLE, "D"),
    "al_convolution": (ORANGE, "v"),
    "rs_convolution": (SKY, "P"),
    "gwi": (BLUE, "o"),
    "gwi_kernel": (BLUE, "s"),
    "gwi_softmax": (SKY, "P"),
    "gwi_nngp": (BLUE, "D"),
    "svgp": (VERMILION, "o"),
    "svgp_softmax": (VERMILION, "^"),
    "map": (ORANGE, "s"),
    "temperature": (ORANGE, "v"),
    "mc_dropout": (PURPLE, "P"),
    "ensemble": (GREEN, "X"),
    "mean_field": (SKY, "D"),
    "last_layer_laplace": (BLACK, "*"),
    "gwi_regression": (BLUE, "P"),
    "gwi_kernel_regression": (SKY, "s"),
    "gwi_nngp_regression": (PURPLE, "D"),
    "svgp_regression": (VERMILION, "v"),
    "exact_gp": (BLACK, "X"),
    "gwi_classifier": (PURPLE, "P"),
    "svgp_classifier": (VERMILION, "v"),
    "mapie_split": (ORANGE, "D"),
    "mapie_jackknife": (ORANGE, "s"),
    "crepes_split": (GREEN, "^"),
    "crepes_spread": (GREEN, "X"),
}
INFERENCES = {"smc": (BLUE, "o"), "hmc": (BLACK, "X"), "map": (ORANGE, "s"), "ml": (GREEN, "^")}
DATASETS = {"synthetic2d": (BLUE, "o"), "spam": (VERMILION, "s"), "mnist38": (GREEN, "^")}
Style = dict[str, str]
PanelKind = Literal["line", "points", "bars", "band"]
ErrorKind = Literal["standard_error", "interval"]


def tint(color: str, share: float) -> str:
    """Return a colour `#RRGGBB` with this share of it in white, opaque: overlapping bands keep the legend's colours."""
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)


def method_style(name: str) -> Style:
    """Return `color` and `marker` of a method for `Axes.plot`, the same in every figure.

    A method that is not listed gets one of the pairs that no listed method has, by its name's hash.
    """
    return _style(METHODS, name)


def inference_style(name: str) -> Style:
    """Return `color` and `marker` of a kind of inference, for figures of one method."""
    return _style(INFERENCES, name)


def dataset_style(name: str) -> Style:
    """Return `color` and `marker` of a dataset, for figures of several."""
    return _style(DATASETS, name)


def numbered_style(number: int) -> Style:
    """Return `color` and `marker` of a line without a name, by its place in the figure from 0."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def _style(named: dict[str, tuple[str, str]], name: str) -> Style:
    if name in named:
        colour, marker = named[name]
    else:
        free = [pair for pair in product(COLOURS, MARKERS) if pair not in named.values()]
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        colour, marker = free[number % len(free)]
    return {"color": colour, "marker": marker}


def panel(
    ax: Axes,
    frame: pd.DataFrame,
    x: str,
    titles: Mapping[str, str],
    *,
    by: str = "method",
    kind: PanelKind = "line",
    error: ErrorKind = "standard_error",
    ticks: Mapping[Any, str] | None = None,
    apart: float = 0.0,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Draw mean and error of each series against x. Missing errors (one repetition) are not drawn.

    Args:
        ax: the axes.
        frame: one row per series and x, with the columns x, `by`, mean and standard_error, or interval_low and
            interval_high, as `summarise_groups` returns them for one metric.
        x: the column along the horizontal axis.
        titles: name of a series in the column `by` -> its label, in the order drawn. Others are left out.
        by: the column that names a series.
        kind: lines through markers, only markers, bars, or lines with a shaded band.
        error: what bars and bands reach to: one standard error to either side, or the ends of the interval.
        ticks: value of x -> its label, evenly spaced in this order. None for a numeric axis.
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
    """Draw the paper's printed numbers (series, x, number) as hollow marks in the colours of their series."""
    for name, x, value in marks:
        style = method_style(name)
        hollow: dict[str, Any] = {"ms": 11, "mfc": "none", "mew": 1.8, "ls": "", "zorder": 6}
        ax.plot([x], [value], style["marker"], mec=style["color"], clip_on=False, **hollow)
    if marks:
        ax.plot([], [], "o", ms=9, mfc="none", mec="0.25", mew=1.6, ls="", label=PAPER)


def _ends(rows: pd.DataFrame, mean: FloatArray, error: ErrorKind) -> FloatArray:
    """Return how far the error reaches below and above the mean, [2, k]. NaN, which is not drawn, if it is missing."""
    if error == "standard_error":
        low = high = rows["standard_error"].to_numpy(dtype=float)
    else:
        low = mean - rows["interval_low"].to_numpy(dtype=float)
        high = rows["interval_high"].to_numpy(dtype=float) - mean
    import numpy as np

    return np.vstack([low, high])


def _draw(
    ax: Axes,
    kind: PanelKind,
    place: FloatArray,
    mean: FloatArray,
    ends: FloatArray,
    width: float,
    label: str,
    style: Mapping[str, Any],
) -> None:
    # as lists: for a single place matplotlib would take an array's row for a number
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
