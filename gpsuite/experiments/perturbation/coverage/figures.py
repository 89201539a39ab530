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
    """Draw coverage minus 1 - q/m: exact cells by group on the left, broken ones by cause on the right."""
    import pandas as pd

    with report.figure("coverage", columns=2, size=(11.5, 5.4)) as drawing:
        left, right = drawing.axes
        if len(exact):
            _pooled(left, exact.assign(kind=exact["group"].map(TITLES)))
        left.set_title("assumptions hold: cells, groups with 95 % intervals")
        _points(right, broken.assign(kind=broken["broken"]), "where something is missing")
        drawing.name_axes("nominal coverage 1 - q/m (probability)", "measured coverage - (1 - q/m)")
        for ax, count in ((left, 3), (right, 2)):
            if ax.get_legend_handles_labels()[0]:
                ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=count)
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


def _points(ax: Axes, frame: pd.DataFrame, heading: str) -> None:
    """Draw each cell's deviation with its interval, slightly apart where nominal values agree."""
    import matplotlib as mpl

    kinds = list(dict.fromkeys(frame["kind"]))
    colours = mpl.colormaps["tab10"](np.arange(len(kinds)))
    step = 0.04 / max(6, len(kinds))
    for number, (kind, colour) in enumerate(zip(kinds, colours, strict=True)):
        part = frame[frame["kind"] == kind]
        apart = np.linspace(-1.0, 1.0, len(part)) * 0.3 * step + (number - (len(kinds) - 1) / 2.0) * step
        ends = np.array([part["coverage"] - part["low"], part["high"] - part["coverage"]])
        deviation = part["coverage"] - part["nominal"]
        ax.errorbar(
            part["nominal"] + apart,
            deviation,
            ends,
            fmt="o",
            ms=3,
            lw=0.7,
            color=colour,
            alpha=0.7,
            label=kind,
        )
    ax.axhline(0.0, color="0.3", lw=1.0)
    ax.set_title(f"{heading}; 95 % intervals")
