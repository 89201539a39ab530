"""The figure of perturbation/coverage: stated against observed coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Report
from gpsuite.experiments.perturbation.coverage.settings import CoverageSettings
from gpsuite.experiments.statistics import clopper_pearson
from gpsuite.reporting.figures import figure_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


ERROR = 0.05  # of the intervals shown


TITLES = {
    "signs": "sign changes",
    "permutations": "permutations",
    "signed_permutations": "signed permutations",
}


def draw(report: Report[CoverageSettings], exact: pd.DataFrame, broken: pd.DataFrame) -> None:
    """Draw coverage minus 1 - q/m: exact cells by group on the left, broken ones by cause on the right."""
    import matplotlib.pyplot as plt
    import pandas as pd

    with figure_style():
        fig, (left, right) = plt.subplots(1, 2, figsize=(11.5, 5.4))
        if len(exact):
            _pooled(left, exact.assign(kind=exact["group"].map(TITLES)))
        left.set_title("assumptions hold: cells, groups with 95 % intervals")
        left.set_xlabel("nominal coverage 1 - q/m (probability)")
        _points(right, broken.assign(kind=broken["broken"]), "where something is missing")
        left.set_ylabel("measured coverage - (1 - q/m)")
        for ax, count in ((left, 3), (right, 2)):
            if ax.get_legend_handles_labels()[0]:
                ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=count)
        data = pd.concat([exact, broken], ignore_index=True)
        report.figure(fig, data.drop(columns="assumption", errors="ignore"), "coverage")


def _pooled(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw cells as small dots, and each group's cells of a level together with their interval."""
    places = [-0.012, 0.0, 0.012]  # one a group
    for number, (kind, part) in enumerate(frame.groupby("kind", sort=False)):
        colour = f"C{number}"
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
            low, high = clopper_pearson(inside, total, ERROR)
            share, place = inside / total, float(str(nominal)) + places[number]
            label = str(kind) if nominal == part["nominal"].min() else "_"
            ends = [[share - low], [high - share]]
            ax.errorbar(
                [place],
                [share - float(str(nominal))],
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
    ax.set_xlabel("nominal coverage 1 - q/m (probability)")
    ax.set_title(f"{heading}; 95 % intervals")
