"""Fig. 7 of Blaas et al. 2020: seconds by dimension and by tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.base import Report
from gpsuite.experiments.robustness.runtime_mnist38.settings import RuntimeSettings
from gpsuite.experiments.robustness.runtime_mnist38.tables import seconds_table
from gpsuite.reporting.palette import COLOURS, LIMIT

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


STYLES = ({"ls": "-", "marker": "o"}, {"ls": "--", "marker": "^"})  # ours, the reference


PRINTED_SECONDS, PRINTED_BEYOND = 250.0, 7
"""Of App. E.1, at the larger gamma: "almost 250 seconds beyond 7 dimensions"."""

PRINTED_LIMIT, PRINTED_UP_TO = 5.0, 5
"""Below these seconds for up to so many dimensions."""

PRINTED_FINEST = (0.01, 2.0)
"""Tolerance and seconds of App. E.2, below which it stays."""


def draw_runtime(report: Report[RuntimeSettings], frame: pd.DataFrame) -> None:
    """Draw mean seconds against the dimension at one tolerance, and against the tolerance at one dimension.

    Args:
        report: gives both.
        frame: one row per search.
    """
    epsilon, d = report.settings.tolerances[-1], report.settings.tolerance_dimension
    reference = report.settings.reference
    means = seconds_table(frame)
    with report.figure("runtime_mnist38_timing", columns=2, size=(9.6, 4.6), sharey=True) as drawing:
        left, right = drawing.axes
        _panel(left, frame[frame["eps"] == epsilon], means[means["eps"] == epsilon], "d")
        _panel(right, frame[frame["d"] == d], means[means["d"] == d], "eps")
        left.set_xticks(sorted(set(means["d"])))
        left.set_xlabel("d (free pixels)")
        left.set_title(f"ε = {epsilon:g}")
        right.set_xticks(sorted(set(means.loc[means["d"] == d, "eps"])))
        right.set_xlabel("ε (tolerance)")
        right.set_title(f"d = {d}")
        left.set_ylabel("seconds for π max")
        if report.comparable:
            _draw_printed(left, right, sorted(set(means["d"])))
        limit = report.settings.reference_seconds
        if limit is not None:
            for ax in (left, right):
                ax.axhline(
                    limit,
                    color=LIMIT,
                    ls=":",
                    lw=1.2,
                    label=f"limit of a search with bound {reference}: {limit:g} s",
                )
        how = "mean; dots: single points; arrow: some searches ended unclosed, the mean is a lower bound"
        drawing.legend(columns=2, title=how)
        drawing.data = means


def _draw_printed(left: Axes, right: Axes, dimensions: Sequence[int]) -> None:
    """Draw what the paper's text says of its own curves, all at the larger gamma."""
    mark: dict[str, Any] = {"color": COLOURS[1], "lw": 1.0, "marker": "o", "mfc": "none", "ms": 9}
    beyond = [d for d in dimensions if d > PRINTED_BEYOND]
    low = [d for d in dimensions if d <= PRINTED_UP_TO]
    said = [
        f"below {PRINTED_LIMIT:g} s, then almost {PRINTED_SECONDS:g} s",
        f"right: below {PRINTED_FINEST[1]:g} s",
    ]
    label = f"printed in the paper (γ = 0.25): {'; '.join(said)}"
    for group, seconds in ((low, PRINTED_LIMIT), (beyond, PRINTED_SECONDS)):
        if group:
            left.plot([group[0], group[-1]], [seconds] * 2, label=label, **mark)
    right.plot(*([each] for each in PRINTED_FINEST), label=label, **mark)


def _panel(ax: Axes, frame: pd.DataFrame, means: pd.DataFrame, axis: str) -> None:
    ax.set_yscale("log")
    for number, bound in enumerate(dict.fromkeys(means["bound"])):
        for colour, gamma in enumerate(sorted(set(means["gamma"]))):
            style: dict[str, Any] = {**STYLES[number], "color": COLOURS[colour % len(COLOURS)]}
            own = means[(means["bound"] == bound) & (means["gamma"] == gamma)].sort_values(axis)
            single = frame[(frame["bound"] == bound) & (frame["gamma"] == gamma)]
            ax.plot(single[axis], single["search_seconds"], ".", ms=2.5, alpha=0.35, color=style["color"])
            ax.plot(own[axis], own["mean_seconds"], label=f"bound {bound}, γ = {gamma:g}", **style)
            unclosed = own[own["closed"] < own["points"]]
            ax.plot(
                unclosed[axis],
                unclosed["mean_seconds"] * 1.35,
                marker=r"$\uparrow$",
                ms=8,
                ls="",
                color=style["color"],
            )
