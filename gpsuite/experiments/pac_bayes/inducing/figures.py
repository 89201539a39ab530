"""Fig. 3 of Reeb et al. 2018: bounds, risks and errors against M."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.inducing.settings import InducingSettings
from gpsuite.experiments.pac_bayes.shared.tables import PANELS
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.panels import panel

if TYPE_CHECKING:
    import pandas as pd


KERNEL_TITLES = {"se": "one lengthscale", "se_ard": "ARD"}


STYLES = {"vfe_fitc_posterior": {"linestyle": "--"}}  # the training of another line


def draw(report: Report[InducingSettings], tidy: pd.DataFrame, name: str, heading: str) -> None:
    """Draw the paper's five panels against the number of inducing inputs: means and their standard errors."""
    with report.figure(name, columns=len(PANELS), size=(16, 3.8)) as drawing:
        for ax, shown in zip(drawing.axes, PANELS, strict=True):
            panel(ax, tidy[tidy["metric"] == shown], "inducing", report.titles, styles=STYLES)
            ax.set_xticks(sorted(tidy["inducing"].unique()))
            ax.set_xlabel("inducing inputs M")
            ax.set_ylim(bottom=0.0)
            ax.set_title(metric(shown).axis)
        drawing.legend("above", columns=len(report.titles), title=heading)
        drawing.data = tidy[tidy["metric"].isin(PANELS)]
