"""Fig. 2 and 3 of Blaas et al. 2020: where the point lies and which pixels move; below, bounds and attacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.safety_curves.display import DisplayedPoint
from gpsuite.experiments.robustness.shared.free_inputs import describe, image_order
from gpsuite.methods.robustness.decision import HALF
from gpsuite.reporting.palette import BLACK, HIGHEST, LIMIT, LOWEST, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


STYLES: dict[str, dict[str, Any]] = {
    "gpfgs": {"color": PURPLE, "marker": "o", "label": "GPFGS attack"},
    "gpjm": {"color": ORANGE, "marker": "s", "label": "GPJM attack"},
    "strong": {"color": BLACK, "marker": "x", "label": "multi-start attack"},
}


CLASSES = (SKY, VERMILION)


def draw_safety(
    report: Report[object],
    shown: Sequence[DisplayedPoint],
    contour: Record | None,
    data: Dataset,
    curves: pd.DataFrame,
    name: str,
    credit: str,
) -> None:
    """Draw one column per displayed point: the point above, its curves below.

    Args:
        report: the run's.
        shown: the displayed points.
        contour: the contour plot's record, or None for images.
        data: the dataset, of which an image is drawn.
        curves: the numbers of the curves, saved beside the figure.
        name: file name.
        credit: whom an image is owed to, drawn at the bottom.
    """
    size = (max(6.4, 4.9 * len(shown)), 7.6)
    with report.figure(
        name, remark=credit, rows=2, columns=len(shown), size=size, height_ratios=(1.15, 1)
    ) as drawing:
        for column, each in enumerate(shown):
            above, below = drawing.grid[:, column]
            if contour is None:
                _draw_image(above, each.record, data)
            else:
                _draw_contour(above, each.record, contour)
            _draw_curves(below, each.record)
        drawing.legend("below")
        drawing.data = curves


def draw_accuracy(report: Report[object], table: pd.DataFrame, name: str) -> None:
    """Draw certified and attacked accuracy against the radius, one panel per choice of inputs."""
    words = list(dict.fromkeys(table["features"]))
    size = (max(6.4, 4.6 * len(words)), 4.2)
    with report.figure(name, columns=len(words), size=size, sharey=True) as drawing:
        for ax, word in zip(drawing.axes, words, strict=True):
            first = table[table["features"] == word]
            rows = first[first["method"] == first["method"].iloc[0]]
            gamma = rows["gamma"]
            ax.plot(gamma, rows["certified"], color=HIGHEST, marker="v", label="certified")
            ax.plot(gamma, rows["not proved unsafe"], color=HIGHEST, ls="--", label="not proved unsafe")
            for attack, style in STYLES.items():
                ax.plot(gamma, rows[f"under {attack}"], ls=":", **style)
            ax.set_title(f"{describe(word)}, {rows['points'].iloc[0]} test points", fontsize=10)
            ax.set_ylim(-0.02, 1.02)
        drawing.name_axes("γ (radius, scaled inputs)", "share of points classified correctly")
        drawing.legend("below")
        drawing.data = table


def _draw_curves(ax: Axes, record: Record) -> None:
    """Draw the certified bounds and the attacks against the radius."""
    arrays, highest = record.arrays, record.number("sign") > 0
    gamma, color = arrays["gamma"], HIGHEST if highest else LOWEST
    what = "max" if highest else "min"
    ax.fill_between(gamma, arrays["inner"], arrays["outer"], color=color, alpha=0.2, lw=0)
    ax.plot(gamma, arrays["outer"], color=color, label=f"π {what}: proved")
    ax.plot(gamma, arrays["inner"], color=color, ls="--", label=f"π {what}: attained")
    for attack, style in STYLES.items():
        ax.plot(gamma, arrays[attack], ls=":", ms=4, **style)
    ax.axhline(HALF, color=LIMIT, lw=1)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("γ (radius, scaled inputs)")
    ax.set_ylabel("probability of the positive class")


def _draw_contour(ax: Axes, record: Record, contour: Record) -> None:
    """Draw the class probability over two inputs, the test points and, in red, the displayed one."""
    arrays = contour.arrays
    levels = np.linspace(0, 1, 11)
    filled = ax.contourf(
        arrays["axis_first"], arrays["axis_second"], arrays["map"], levels=levels, cmap="cividis", alpha=0.75
    )
    ax.contour(
        arrays["axis_first"],
        arrays["axis_second"],
        arrays["map"],
        levels=[HALF],
        colors=BLACK,
        linewidths=1.5,
    )
    ax.plot([], [], color=BLACK, lw=1.5, label="probability one half")
    for positive, color in enumerate(CLASSES):
        points = arrays["points"][(arrays["labels"] > 0) == bool(positive)]
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=9,
            color=color,
            edgecolor="white",
            linewidth=0.3,
            label=f"test points of the {('negative', 'positive')[positive]} class",
        )
    place = arrays["points"][int(record.axes["point"])]
    ax.scatter(place[0], place[1], s=70, color="red", edgecolor="white", zorder=5, label="the point below")
    ax.set_xlim(float(arrays["axis_first"][0]), float(arrays["axis_first"][-1]))
    ax.set_ylim(float(arrays["axis_second"][0]), float(arrays["axis_second"][-1]))
    ax.set_xlabel(f"{contour.metrics['map_first']} (scaled)")
    ax.set_ylabel(f"{contour.metrics['map_second']} (scaled)")
    ax.set_title(_heading(record), fontsize=10)
    ax.figure.colorbar(filled, ax=ax, label="probability of the positive class")


def _draw_image(ax: Axes, record: Record, data: Dataset) -> None:
    """Draw the digit with the free pixels framed."""
    from matplotlib.patches import Rectangle

    order = image_order(data.input_names)
    image = data.X[int(record.number("row"))][order]
    ax.imshow(image, cmap="gray", vmin=float(data.X.min()), vmax=float(data.X.max()))
    for place in record.arrays["free"]:
        row, column = np.argwhere(order == place)[0]
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="red", linewidth=1.6))
    ax.set_axis_off()
    ax.set_title(_heading(record), fontsize=10)


def _heading(record: Record) -> str:
    word = describe(str(record.axes["features"]))
    return f"test point {record.axes['point']}, label {record.metrics['label']}\n{word}"
