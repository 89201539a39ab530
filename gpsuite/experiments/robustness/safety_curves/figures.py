"""Fig. 2 and 3 of Blaas et al. 2020: where the point lies and which pixels move; below, bounds and attacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.safety_curves.display import Shown
from gpsuite.experiments.robustness.shared.free_inputs import describe, image_order
from gpsuite.methods.robustness.decision import HALF
from gpsuite.reporting.figures import figure_style, save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


UPPER, LOWER = "#0072B2", "#009E73"  # curves of a maximum and of a minimum, as in the paper


STYLES: dict[str, dict[str, Any]] = {
    "gpfgs": {"color": "#CC79A7", "marker": "o", "label": "GPFGS attack"},
    "gpjm": {"color": "#E69F00", "marker": "s", "label": "GPJM attack"},
    "strong": {"color": "#000000", "marker": "x", "label": "multi-start attack"},
}


CLASSES = ("#56B4E9", "#D55E00")


def draw_safety(
    shown: Sequence[Shown],
    contour: Record | None,
    data: Dataset,
    curves: pd.DataFrame,
    folder: Path,
    name: str,
    note: str | None,
) -> None:
    """Draw one column per displayed point: the point above, its curves below.

    Args:
        shown: the displayed points.
        contour: the contour plot's record, or None for images.
        data: the dataset, of which an image is drawn.
        curves: the numbers of the curves, saved beside the figure.
        folder: the run's figures folder.
        name: file name.
        note: drawn at the bottom.
    """
    import matplotlib.pyplot as plt

    with figure_style():
        size = (max(6.4, 4.9 * len(shown)), 7.6)
        fig, axes = plt.subplots(2, len(shown), figsize=size, squeeze=False, height_ratios=(1.15, 1))
        for column, each in enumerate(shown):
            if contour is None:
                _draw_image(axes[0, column], each.record, data)
            else:
                _draw_contour(axes[0, column], each.record, contour)
            _draw_curves(axes[1, column], each.record)
        handles, labels = _legend(axes[1])
        fig.legend(handles, labels, loc="outside lower center", ncols=3)
        save_figure(fig, curves, folder, name, note)


def draw_accuracy(table: pd.DataFrame, folder: Path, name: str, note: str | None) -> None:
    """Draw certified and attacked accuracy against the radius, one panel per choice of inputs."""
    import matplotlib.pyplot as plt

    words = list(dict.fromkeys(table["features"]))
    with figure_style():
        size = (max(6.4, 4.6 * len(words)), 4.2)
        fig, axes = plt.subplots(1, len(words), figsize=size, squeeze=False, sharey=True)
        for ax, word in zip(axes[0], words, strict=True):
            first = table[table["features"] == word]
            rows = first[first["method"] == first["method"].iloc[0]]
            ax.plot(rows["gamma"], rows["certified"], color=UPPER, marker="v", label="certified")
            ax.plot(rows["gamma"], rows["not proved unsafe"], color=UPPER, ls="--", label="not proved unsafe")
            for attack, style in STYLES.items():
                ax.plot(rows["gamma"], rows[f"under {attack}"], ls=":", **style)
            ax.set_title(f"{describe(word)}, {rows['points'].iloc[0]} test points", fontsize=10)
            ax.set_xlabel("γ (radius, scaled inputs)")
            ax.set_ylim(-0.02, 1.02)
        axes[0, 0].set_ylabel("share of points classified correctly")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        save_figure(fig, table, folder, name, note)


def _draw_curves(ax: Axes, record: Record) -> None:
    """Draw the certified bounds and the attacks against the radius."""
    arrays, highest = record.arrays, record.number("sign") > 0
    gamma, color = arrays["gamma"], UPPER if highest else LOWER
    what = "max" if highest else "min"
    ax.fill_between(gamma, arrays["inner"], arrays["outer"], color=color, alpha=0.2, lw=0)
    ax.plot(gamma, arrays["outer"], color=color, label=f"π {what}: proved")
    ax.plot(gamma, arrays["inner"], color=color, ls="--", label=f"π {what}: attained")
    for attack, style in STYLES.items():
        ax.plot(gamma, arrays[attack], ls=":", ms=4, **style)
    ax.axhline(HALF, color="#555555", lw=1)
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
        colors="white",
        linewidths=1.5,
    )
    for positive, color in enumerate(CLASSES):
        points = arrays["points"][(arrays["labels"] > 0) == bool(positive)]
        ax.scatter(
            points[:, 0],
            points[:, 1],
            s=9,
            color=color,
            edgecolor="white",
            linewidth=0.3,
            label=("−1", "+1")[positive],
        )
    place = arrays["points"][int(record.axes["point"])]
    ax.scatter(place[0], place[1], s=70, color="red", edgecolor="white", zorder=5)
    ax.set_xlim(float(arrays["axis_first"][0]), float(arrays["axis_first"][-1]))
    ax.set_ylim(float(arrays["axis_second"][0]), float(arrays["axis_second"][-1]))
    ax.set_xlabel(str(contour.metrics["map_first"]))
    ax.set_ylabel(str(contour.metrics["map_second"]))
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


def _legend(row: Sequence[Axes]) -> tuple[list[Artist], list[str]]:
    """Return the handles of all panels, each label once."""
    found: dict[str, Artist] = {}
    for ax in row:
        handles, labels = ax.get_legend_handles_labels()
        found.update(
            {label: handle for handle, label in zip(handles, labels, strict=True) if label not in found}
        )
    return list(found.values()), list(found)
