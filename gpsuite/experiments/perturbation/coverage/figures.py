"""The figure of perturbation/coverage: stated against observed coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Report
from gpsuite.experiments.perturbation.coverage.settings import CoverageSettings
from gpsuite.reporting.palette import COLOURS
from gpsuite.statistics.estimates import proportion

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


TITLES = {
    "signs": "sign changes",
    "permutations": "permutations",
    "signed_permutations": "signed permutations",
}


def draw(report: Report[CoverageSettings], exact: pd.DataFrame, broken: pd.DataFrame) -> None:
    """Draw coverage minus 1 - q/m: exact cells by group on the left, broken ones by assumption on the right."""
    import pandas as pd

    with report.figure("coverage", columns=2, size=(13.0, 5.8)) as drawing:
        left, right = drawing.axes
        if len(exact):
            _pooled(left, exact.assign(kind=exact["group"].map(TITLES)))
        left.set_title("assumptions hold: cells, groups with 95 % intervals")
        if len(broken):
            _rows(right, broken.assign(kind=broken["broken"]))
        left.set_xlabel("nominal coverage 1 - q/m (probability)")
        left.set_ylabel("measured coverage - (1 - q/m)")
        for ax, count, title in ((left, 3, ""), (right, 5, "nominal coverage 1 - q/m")):
            if ax.get_legend_handles_labels()[0]:
                ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=count, title=title or None)
        data = pd.concat([exact, broken], ignore_index=True)
        drawing.data = data.drop(columns="assumption", errors="ignore")


def _pooled(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw cells as small dots, and each group's cells of a level together with their interval."""
    places = [-0.012, 0.0, 0.012]  # one a group
    for number, (kind, part) in enumerate(frame.groupby("kind", sort=False)):
        colour = COLOURS[number]
        ax.plot(
            part["nominal"] + places[number],
            part["coverage"] - part["nominal"],
            ".",
            ms=2,
            color=colour,
            alpha=0.4,
        )
        for nominal, level in part.groupby("nominal"):
            total = int(level["n"].sum())
            inside = int((level["coverage"] * level["n"]).round().sum())
            found, place = proportion(inside, total), float(str(nominal)) + places[number]
            label = str(kind) if nominal == part["nominal"].min() else "_"
            ends = [[found.value - found.low], [found.high - found.value]]
            ax.errorbar(
                [place],
                [found.value - float(str(nominal))],
                ends,
                fmt="D",
                ms=4,
                color=colour,
                label=label,
                capsize=4,
            )
    ax.axhline(0.0, color="0.3", lw=1.0)


def _rows(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw one row per missing assumption: each cell's deviation with its interval, coloured by its nominal level."""
    kinds, levels = list(dict.fromkeys(frame["kind"])), sorted(set(frame["nominal"].round(6)))
    step = 0.8 / max(len(levels), 1)
    for number, level in enumerate(levels):
        colour, place = COLOURS[number % len(COLOURS)], step * (number - (len(levels) - 1) / 2)
        for row, kind in enumerate(kinds):
            part = frame[(frame["kind"] == kind) & (frame["nominal"].round(6) == level)]
            ends = np.array([part["coverage"] - part["low"], part["high"] - part["coverage"]])
            label = f"{level:g}" if row == 0 else "_"
            ax.errorbar(part["coverage"] - part["nominal"], np.full(len(part), row + place), xerr=ends, fmt="o",
                        ms=3, lw=0.7, capsize=0, color=colour, alpha=0.7, label=label)  # fmt: skip
    ax.axvline(0.0, color="0.3", lw=1.0)
    for row in range(1, len(kinds)):
        ax.axhline(row - 0.5, color="0.85", lw=0.7)
    ax.set_yticks(range(len(kinds)), kinds)
    ax.set_ylim(len(kinds) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("measured coverage - (1 - q/m)")
    ax.set_title("an assumption broken, by which; 95 % intervals")
