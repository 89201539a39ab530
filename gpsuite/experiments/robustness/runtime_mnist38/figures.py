"""Fig. 7 of Blaas et al. 2020: seconds by dimension and by tolerance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.robustness.runtime_mnist38.tables import seconds_table
from gpsuite.reporting.figures import figure_style, save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


COLOURS = {0: "#0072B2", 1: "#D55E00", 2: "#009E73"}


STYLES = ({"ls": "-", "marker": "o"}, {"ls": "--", "marker": "^"})  # ours, the reference


def draw_runtime(frame: pd.DataFrame, epsilon: float, d: int, folder: Path, note: str | None) -> None:
    """Draw mean seconds against the dimension at one tolerance, and against the tolerance at one dimension.

    Args:
        frame: one row per search.
        epsilon: tolerance of the left panel.
        d: dimension of the right panel.
        folder: the run's figures folder.
        note: drawn at the bottom.
    """
    import matplotlib.pyplot as plt

    means = seconds_table(frame)
    with figure_style():
        fig, axes = plt.subplots(1, 2, figsize=(9.6, 4.6), sharey=True)
        _panel(axes[0], frame[frame["eps"] == epsilon], means[means["eps"] == epsilon], "d")
        _panel(axes[1], frame[frame["d"] == d], means[means["d"] == d], "eps")
        axes[0].set_xticks(sorted(set(means["d"])))
        axes[0].set_xlabel("d (free pixels)")
        axes[0].set_title(f"ε = {epsilon:g}")
        axes[1].set_xticks(sorted(set(means.loc[means["d"] == d, "eps"])))
        axes[1].set_xlabel("ε (tolerance)")
        axes[1].set_title(f"d = {d}")
        axes[0].set_ylabel("seconds for π max")
        fig.legend(
            *axes[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=2,
            title="mean; dots: single points; arrow: some searches ended unclosed, the mean is a lower bound",
        )
        save_figure(fig, means, folder, "runtime_mnist38_timing", note)


def _panel(ax: Axes, frame: pd.DataFrame, means: pd.DataFrame, axis: str) -> None:
    ax.set_yscale("log")
    for number, bound in enumerate(dict.fromkeys(means["bound"])):
        for colour, gamma in enumerate(sorted(set(means["gamma"]))):
            style: dict[str, Any] = {**STYLES[number], "color": COLOURS[colour % len(COLOURS)]}
            own = means[(means["bound"] == bound) & (means["gamma"] == gamma)].sort_values(axis)
            single = frame[(frame["bound"] == bound) & (frame["gamma"] == gamma)]
            ax.plot(single[axis], single["search_seconds"], ".", ms=2.5, alpha=0.35, color=style["color"])
            ax.plot(own[axis], own["mean_seconds"], label=f"bound {bound}, γ = {gamma:g}", **style)
            unclosed = own[own["closed"] < own["points"]]
            ax.plot(
                unclosed[axis],
                unclosed["mean_seconds"] * 1.35,
                marker=r"$\uparrow$",
                ms=8,
                ls="",
                color=style["color"],
            )
