"""Fig. 3 of Reeb et al. 2018: bounds, risks and errors against M."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.shared.tables import PANELS
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.panels import panel

if TYPE_CHECKING:
    import pandas as pd


KERNEL_TITLES = {"se": "one lengthscale", "se_ard": "ARD"}

STYLES = {"vfe_fitc_posterior": {"linestyle": "--"}}  # trained as VFE is


def draw(report: Report, tidy: pd.DataFrame, heading: str, name: str) -> None:
    """Draw the paper's five panels against the number of inducing inputs: means and their standard errors."""
    with report.figure(name, columns=len(PANELS), size=(16, 3.8)) as drawing:
        for ax, measured in zip(drawing.axes, PANELS, strict=True):
            panel(ax, tidy[tidy["metric"] == measured], "inducing", report.titles, styles=STYLES)
            ax.set_xticks(sorted(tidy["inducing"].unique()))
            ax.set_ylim(bottom=0.0)
            ax.set_title(metric(measured).axis)
        drawing.name_axes("inducing inputs M", "")
        drawing.legend(columns=6, title=heading)
        drawing.data = tidy[tidy["metric"].isin(PANELS)]
