"""Box plots of delta, as Fig. 4 of Blaas et al. 2020: one panel per radius."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.reporting.figures import figure_style, math_label, method_style, save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


WIDTH = 0.34


SHOWN = ["method", "evaluations", "radius", "draw", "point", "delta", "delta_proved", "deviation"]


def draw(
    frame: pd.DataFrame,
    titles: Mapping[str, str],
    radii: Sequence[float],
    heading: str,
    folder: Path,
    name: str,
    note: str | None,
) -> None:
    """Draw one panel per radius, the first being the one that is held against the paper.

    Args:
        frame: one row per record.
        titles: method -> title.
        radii: in the order of the panels.
        heading: above the panels.
        folder: the run's figures folder.
        name: of the files.
        note: drawn small at the bottom.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    with figure_style():
        fig, axes = plt.subplots(1, len(radii), figsize=(1.4 + 3.6 * len(radii), 4.6), squeeze=False)
        for ax, radius in zip(axes[0], radii, strict=True):
            _draw_panel(ax, frame[frame["radius"] == radius], titles)
            ax.set_title(
                f"γ = {radius:g}" + (" (stated rule)" if radius == radii[0] and len(radii) > 1 else "")
            )
        axes[0, 0].set_ylabel(math_label(r"$\delta = \pi_{\max} - \pi_{\min}$ (probability)"))
        fig.supxlabel("evaluations of the marginal likelihood (epochs)")
        handles = [Patch( facecolor=method_style(method)["color"], alpha=0.55)
                   for method in titles]  # fmt: skip
        fig.legend(
            handles, list(titles.values()), loc="outside upper center", ncols=len(titles), title=heading
        )
        save_figure(fig, frame[SHOWN], folder, name, note)


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: Mapping[str, str]) -> None:
    numbers = sorted(part["evaluations"].unique())
    for place, method in enumerate(titles):
        own = part[part["method"] == method]
        values = [own.loc[own["evaluations"] == number, "delta"].dropna() for number in numbers]
        offset = (place - (len(titles) - 1) / 2) * 1.15 * WIDTH
        style = method_style(method)
        ax.boxplot(
            values,
            positions=[number + offset for number in range(len(numbers))],
            widths=WIDTH,
            patch_artist=True,
            boxprops={"facecolor": style["color"], "alpha": 0.55},
            medianprops={"color": "black", "linewidth": 1.6},
            flierprops={"marker": style["marker"], "markersize": 3, "markerfacecolor": style["color"]},
            manage_ticks=False,
        )
    ax.set_xticks(range(len(numbers)), [f"{number:g}" for number in numbers])
    ax.autoscale_view()
    ax.set_ylim(bottom=0.0)
