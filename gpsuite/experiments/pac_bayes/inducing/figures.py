"""Fig. 3 of Reeb et al. 2018: bounds, risks and errors against M."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.inducing.settings import InducingSettings
from gpsuite.experiments.pac_bayes.shared.tables import PANELS
from gpsuite.reporting.figures import figure_style, method_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


KERNEL_TITLES = {"se": "one lengthscale", "se_ard": "ARD"}


def draw(tidy: pd.DataFrame, heading: str, name: str, report: Report[InducingSettings]) -> None:
    """Draw the paper's five panels against the number of inducing inputs: means and their standard errors."""
    import matplotlib.pyplot as plt

    with figure_style():
        fig, axes = plt.subplots(1, len(PANELS), figsize=(16, 3.8))
        for ax, (metric, label) in zip(axes, PANELS.items(), strict=True):
            _draw_panel(ax, tidy[tidy["metric"] == metric], report.titles, label)
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside upper center", ncols=len(labels), title=heading)
        report.figure(fig, tidy[tidy["metric"].isin(list(PANELS))], name)


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: dict[str, str], label: str) -> None:
    numbers = sorted(part["inducing"].unique())
    for method, title in titles.items():
        style = method_style(method)
        rows = part[part["method"] == method].set_index("inducing").reindex(numbers)
        ax.errorbar(
            numbers,
            rows["mean"],
            yerr=rows["standard_error"].fillna(0.0),
            label=title,
            linestyle="--" if method == "vfe_fitc_posterior" else "-",
            capsize=3,
            color=style["color"],
            marker=style["marker"],
        )
    ax.set_xticks(numbers)
    ax.set_xlabel("inducing inputs M")
    ax.set_ylim(bottom=0.0)
    ax.set_title(label)
