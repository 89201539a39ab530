"""Fig. 2 of Reeb et al. 2018: bounds, risks, KL and noise against the accuracy goal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.epsilon_boston.settings import EpsilonSettings
from gpsuite.experiments.pac_bayes.shared.tables import PANELS
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.panels import panel

if TYPE_CHECKING:
    import pandas as pd


def draw(report: Report[EpsilonSettings], tidy: pd.DataFrame, heading: str) -> None:
    """Draw the paper's five panels against epsilon: bars are means, ticks their standard errors."""
    goals = {goal: f"{goal:g}" for goal in sorted(tidy["epsilon"].unique())}
    with report.figure("epsilon_boston", columns=len(PANELS), size=(15, 3.6)) as drawing:
        for ax, name in zip(drawing.axes, PANELS, strict=True):
            part = tidy[tidy["metric"] == name]
            panel(ax, part, "epsilon", report.titles, kind="bars", ticks=goals)
            ax.set_title(metric(name).axis)
            ax.set_xlabel("accuracy goal ε (std. of target)")
        drawing.legend("above", columns=len(report.titles), title=heading)
        drawing.data = tidy[tidy["metric"].isin(PANELS)]
