"""The figure of pac_bayes/coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.coverage.settings import CoverageSettings
from gpsuite.reporting.palette import LIMIT, method_style

if TYPE_CHECKING:
    import pandas as pd


def draw(report: Report[CoverageSettings], points: pd.DataFrame) -> None:
    """Draw each data set's bound against its true risk; the bound holds above the diagonal."""
    with report.figure("coverage", size=(5.5, 4.8)) as drawing:
        ax = drawing.ax
        for name, title in report.titles.items():
            part, colour = points[points["method"] == name], method_style(name)["color"]
            # open markers: the methods' clouds lie on each other
            ax.scatter(part["risk"], part["bound"], s=12, alpha=0.6, label=title, ec=colour, fc="none")
        ax.plot([0, 1], [0, 1], color=LIMIT, linestyle="--", label="bound = risk")
        ax.set_xlim(0.0, 1.0)
        ax.set_ylim(0.0, 1.02)
        ax.legend(loc="lower right")
        delta = report.settings.deltas[0]
        drawing.name_axes("true Gibbs risk (probability)", f"upper bound, δ = {delta:g} (probability)")
        drawing.data = points
