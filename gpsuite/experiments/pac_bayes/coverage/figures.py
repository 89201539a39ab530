"""The figure of pac_bayes/coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.coverage.settings import CoverageSettings
from gpsuite.reporting.palette import LIMIT, method_style

if TYPE_CHECKING:
    import pandas as pd


def draw(report: Report[CoverageSettings], points: pd.DataFrame) -> None:
    """Draw each data set's bound against its true risk, one panel per method; the bound holds above the diagonal."""
    delta, edge = report.settings.deltas[0], 1.05 * float(max(points["bound"].max(), points["risk"].max()))
    size = (4.2 * len(report.titles), 4.8)
    with report.figure(
        "coverage", columns=len(report.titles), size=size, sharey=True, sharex=True
    ) as drawing:
        for ax, (name, title) in zip(drawing.axes, report.titles.items(), strict=True):
            part = points[points["method"] == name]
            held = int((part["bound"] >= part["risk"]).sum())
            ax.plot(part["risk"], part["bound"], ".", ms=3, alpha=0.25, color=method_style(name)["color"])
            ax.plot([0, edge], [0, edge], color=LIMIT, linestyle="--", label="bound = risk")
            ax.set_title(f"{title}: held in {held} of {len(part)} sets")
            ax.set_xlim(0.0, edge)
            ax.set_ylim(0.0, edge)
        drawing.legend("below")
        drawing.name_axes("true Gibbs risk (probability)", f"upper bound, δ = {delta:g} (probability)")
        drawing.data = points
