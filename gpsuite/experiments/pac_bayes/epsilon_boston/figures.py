"""Fig. 2 of Reeb et al. 2018: bounds, risks, KL and noise against the accuracy goal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.epsilon_boston.settings import EpsilonSettings
from gpsuite.experiments.pac_bayes.shared.tables import PANELS
from gpsuite.reporting.figures import figure_style, method_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def draw(tidy: pd.DataFrame, heading: str, report: Report[EpsilonSettings]) -> None:
    """Draw the paper's five panels against epsilon: bars are means, ticks their standard errors."""
    import matplotlib.pyplot as plt

    with figure_style():
        fig, axes = plt.subplots(1, len(PANELS), figsize=(15, 3.6))
        for ax, (metric, label) in zip(axes, PANELS.items(), strict=True):
            _draw_panel(ax, tidy[tidy["metric"] == metric], report.titles, label)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), title=heading)
        shown = tidy[tidy["metric"].isin(list(PANELS))]
        report.figure(fig, shown, "epsilon_boston")


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: dict[str, str], label: str) -> None:
    goals = sorted(part["epsilon"].unique())
    width = 0.8 / len(titles)
    for number, (name, title) in enumerate(titles.items()):
        rows = part[part["method"] == name].set_index("epsilon").reindex(goals)
        places = [k + (number - (len(titles) - 1) / 2) * width for k in range(len(goals))]
        ax.bar(
            places,
            rows["mean"],
            width,
            yerr=rows["standard_error"].fillna(0.0),
            label=title,
            color=method_style(name)["color"],
            error_kw={"ecolor": "0.35", "elinewidth": 1.5, "capsize": 2},
        )
    ax.set_xticks(range(len(goals)), [f"{goal:g}" for goal in goals])
    ax.set_xlabel("accuracy goal ε (std. of target)")
    ax.set_title(label)
