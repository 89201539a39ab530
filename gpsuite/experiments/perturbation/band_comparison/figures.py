"""The figure of perturbation/band_comparison: coverage against width."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.experiments.base import Report
from gpsuite.experiments.perturbation.band_comparison.peers import PEERS, SIMULTANEOUS
from gpsuite.experiments.perturbation.band_comparison.settings import BandSettings
from gpsuite.reporting.palette import COLOURS, LIMIT

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


MARKERS = "o^sDvP"  # of the bands for the function, in the order of `PEERS`


def draw(report: Report[BandSettings], frame: pd.DataFrame) -> None:
    """Draw coverage against width, a panel per target and noise."""
    level = 1.0 - report.settings.q / report.settings.m
    noises = list(dict.fromkeys(frame["noise"]))
    size = (5.4 * len(noises), 5.0)
    with report.figure("band_comparison", columns=len(noises), size=size, sharey=True) as drawing:
        for ax, noise in zip(drawing.axes, noises, strict=True):
            for row in frame[(frame["noise"] == noise) & np.isfinite(frame["width"])].to_dict("records"):
                _point(ax, row)
            ax.axhline(level, color=LIMIT, linestyle="--", lw=1.0)
            ax.set_title(f"{noise} noise")
            ax.set_ylim(-0.03, 1.03)
        drawing.name_axes("mean width (units of y)", "coverage of f at all x at once (95 % interval)")
        drawing.legend("below", columns=2)
        drawing.data = frame


def _point(ax: Axes, row: Mapping[Hashable, Any]) -> None:
    """Draw one band's coverage over its width, filled where it is simultaneous."""
    simultaneous = row["kind"] == SIMULTANEOUS
    place = list(PEERS).index(str(row["band"]))
    ax.errorbar(
        [row["width"]],
        [row["simultaneous"]],
        [[row["simultaneous"] - row["low"]], [row["high"] - row["simultaneous"]]],
        fmt=MARKERS[place],
        color=COLOURS[place],
        mfc=COLOURS[place] if simultaneous else "white",
        capsize=3,
        label=str(row["title"]) if simultaneous else f"{row['title']} (pointwise)",
    )
