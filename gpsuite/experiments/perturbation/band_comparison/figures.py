"""The figure of perturbation/band_comparison: coverage against width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Report
from gpsuite.experiments.perturbation.band_comparison.peers import PEERS, SIMULTANEOUS
from gpsuite.experiments.perturbation.band_comparison.settings import BandSettings
from gpsuite.reporting.figures import figure_style

if TYPE_CHECKING:
    import pandas as pd


MARKERS = "o^sDvP"  # of the bands for the function, in the order of `PEERS`


def draw(report: Report[BandSettings], frame: pd.DataFrame) -> None:
    """Draw coverage against width, a panel per target and noise."""
    import matplotlib.pyplot as plt

    level = 1.0 - report.settings.q / report.settings.m
    noises = list(dict.fromkeys(frame["noise"]))
    with figure_style():
        fig, axes = plt.subplots(1, len(noises), figsize=(5.4 * len(noises), 5.0), sharey=True, squeeze=False)
        for ax, noise in zip(axes[0], noises, strict=True):
            for row in frame[(frame["noise"] == noise) & np.isfinite(frame["width"])].to_dict("records"):
                place = list(PEERS).index(str(row["band"]))
                colour = f"C{place}"
                ends = [[row["simultaneous"] - row["low"]], [row["high"] - row["simultaneous"]]]
                filled = colour if row["kind"] == SIMULTANEOUS else "white"
                label = f"{row['title']}{'' if row['kind'] == SIMULTANEOUS else ' (pointwise)'}"
                ax.errorbar(
                    [row["width"]],
                    [row["simultaneous"]],
                    ends,
                    fmt=MARKERS[place],
                    color=colour,
                    mfc=filled,
                    capsize=3,
                    label=label,
                )
            ax.axhline(level, color="0.3", linestyle="--", lw=1.0)
            ax.set_xlabel("mean width (units of y)")
            ax.set_title(f"{noise} noise")
            ax.set_ylim(-0.03, 1.03)
        axes[0, 0].set_ylabel("coverage of f at all x at once (95 % interval)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=2)
        report.figure(fig, frame, "band_comparison")
