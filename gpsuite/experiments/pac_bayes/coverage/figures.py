"""The figure of pac_bayes/coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.coverage.settings import CoverageSettings
from gpsuite.reporting.figures import figure_style, method_style

if TYPE_CHECKING:
    import pandas as pd


def draw(points: pd.DataFrame, report: Report[CoverageSettings]) -> None:
    """Draw each data set's bound against its true risk; the bound holds above the diagonal."""
    import matplotlib.pyplot as plt

    with figure_style():
        fig, ax = plt.subplots(figsize=(5.5, 4.8))
        for name, title in report.titles.items():
            part = points[points["method"] == name]
            colour = method_style(name)["color"]
            # open markers: the methods' clouds lie on each other
            ax.scatter(
                part["risk"],
                part["bound"],
                s=12,
                alpha=0.6,
                label=title,
                edgecolors=colour,
                facecolors="none",
            )
        ax.plot([0, 1], [0, 1], color="0.4", linestyle="--", label="bound = risk")
        ax.set_xlim(0.0, 1.0)
        ax.set_ylim(0.0, 1.02)
        ax.set_xlabel("true Gibbs risk (probability)")
        ax.set_ylabel(f"upper bound, δ = {report.settings.deltas[0]:g} (probability)")
        ax.legend(loc="lower right")
        report.figure(fig, points, "coverage")
