"""Box plots of delta, as Fig. 4 of Blaas et al. 2020: one panel per radius."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.robustness.distribution.settings import DistributionSettings
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import method_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


WIDTH = 0.34


FLOOR = 1e-4  # smaller ones lie on the edge


FLOORED = f"median, quartiles, 1.5 of their distance, and points beyond; smaller δ are drawn at {FLOOR:g}"


SHOWN = ["method", "evaluations", "radius", "draw", "point", "delta", "delta_proved", "deviation"]


def draw(report: Report[DistributionSettings], frame: pd.DataFrame, heading: str, name: str) -> None:
    """Draw one panel per radius, the first being the one that is held against the paper.

    Args:
        report: gives titles and radii.
        frame: one row per record.
        heading: above the panels.
        name: of the files.
    """
    radii = report.settings.radii
    size = (1.4 + 3.6 * len(radii), 4.6)
    with report.figure(name, remark=FLOORED, columns=len(radii), size=size, sharey=True) as drawing:
        for ax, radius in zip(drawing.axes, radii, strict=True):
            _draw_panel(ax, frame[frame["radius"] == radius], report.titles)
            stated = " (stated rule)" if radius == radii[0] and len(radii) > 1 else ""
            ax.set_title(f"γ = {radius:g}{stated}")
        drawing.name_axes("", math_label(r"$\delta = \pi_{\max} - \pi_{\min}$ (probability)"))
        drawing.fig.supxlabel("evaluations of the marginal likelihood (epochs)")
        drawing.legend(columns=len(report.titles), title=heading)
        drawing.data = frame[SHOWN]


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: Mapping[str, str]) -> None:
    numbers = sorted(part["evaluations"].unique())
    for place, method in enumerate(titles):
        own = part[part["method"] == method]
        values = [
            own.loc[own["evaluations"] == number, "delta"].dropna().clip(lower=FLOOR) for number in numbers
        ]
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
            label=titles[method],
        )
    ax.set_xticks(range(len(numbers)), [f"{number:g}" for number in numbers])
    ax.autoscale_view()
    ax.set_yscale("log")
    ax.set_ylim(0.7 * FLOOR, 1.4)
