"""The figure of pac_bayes/rounding: what each grid changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.rounding.run import AGAINST_PAPER
from gpsuite.experiments.pac_bayes.rounding.settings import RoundingSettings
from gpsuite.experiments.pac_bayes.shared.tables import summarise_splits
from gpsuite.reporting.figures import figure_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


MILLIONTHS = 1e6


# the figure's panels: metric -> label of the vertical axis and title
PANELS = {
    "bound_kl": ("upper bound B_kl (probability)", "the bound, its grid paid for"),
    AGAINST_PAPER: ("difference of B_kl, paired by split", "the bound against 2 decimals"),
    "bound_change": ("|B_kl after − before rounding|", "rounding alone, same penalty"),
}


def draw(frame: pd.DataFrame, report: Report[RoundingSettings]) -> None:
    """Draw bound, its difference to two decimals and the effect of rounding alone, with 95 % t intervals."""
    import matplotlib.pyplot as plt

    sizes = frame.assign(bound_change=frame["bound_change"].abs())
    tidy = summarise_splits(sizes, ["method", "epsilon", "decimals"], list(PANELS))
    with figure_style():
        fig, axes = plt.subplots(1, len(PANELS), figsize=(13, 4.2))
        for ax, (metric, (label, title)) in zip(axes, PANELS.items(), strict=True):
            _draw_panel(ax, tidy[tidy["metric"] == metric], report.titles)
            ax.set_ylabel(label)
            ax.set_title(title)
        axes[1].axhline(0.0, color="0.4", linewidth=0.8)
        axes[2].set_yscale("log")
        handles, labels = axes[0].get_legend_handles_labels()
        fig.legend(
            handles, labels, loc="outside upper center", ncols=4, title="mean and 95 % t interval over splits"
        )
        report.figure(fig, tidy, "rounding")


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: Mapping[str, str]) -> None:
    lines = list(part[["method", "epsilon"]].drop_duplicates().itertuples(index=False, name=None))
    for number, (method, epsilon) in enumerate(lines):
        rows = part[(part["method"] == method) & (part["epsilon"] == epsilon)]
        ax.errorbar(
            rows["decimals"] + 0.06 * (number - (len(lines) - 1) / 2),
            rows["mean"],
            yerr=(rows["interval_high"] - rows["mean"]).fillna(0.0),
            marker="osD^v"[number % 5],
            color=f"C{number}",
            label=f"{titles[method]}, ε = {epsilon:g}",
        )
    ax.set_xticks(sorted(part["decimals"].unique()))
    ax.set_xlabel("decimals of ln(variance), ln(lengthscale)")
