"""Figures of robustness/explain: bars of proved ranges by input, or heat maps of an image's pixels."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.explain.tables import unproved
from gpsuite.experiments.robustness.shared.free_inputs import PIXEL, image_order
from gpsuite.methods.robustness.decision import HALF
from gpsuite.methods.robustness.explain.effects import DOWN, UP
from gpsuite.reporting.palette import BLACK, BLUE, LIMIT, VERMILION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST_POINTS, MOST_INPUTS = 6, 10
PREDICTED = "the predicted class"
ENDS = {
    "interval": (LIMIT, 1.0, "95 % t interval over points"),
    "proved": (BLACK, 2.5, "mean of proved ends"),
}
SIDES = {DOWN: ("lowered", BLUE), UP: ("raised", VERMILION)}


def is_image(data: Dataset) -> bool:
    """Tell whether the inputs are the pixels of an image, all of them."""
    if not all(PIXEL.fullmatch(name) for name in data.input_names):
        return False
    with contextlib.suppress(UserError):  # some have no input
        return bool(image_order(data.input_names).size)
    return False


def draw_bars(
    report: Report[Any],
    records: Sequence[Record],
    inputs: tuple[Sequence[str], Mapping[str, str]],
    second: str | None,
    table: pd.DataFrame,
) -> None:
    """Draw, for the first points, the proved and attained range of the class probability as each input moves alone.

    Args:
        report: writes the figure.
        records: of one method.
        inputs: names of those that move, and units by name.
        second: the second of two classes, whose probability is followed; None of several: the predicted one's.
        table: the figure's numbers.
    """
    shown = records[:MOST_POINTS]
    rows = -(-len(shown) // 2)
    most = min(MOST_INPUTS, len(inputs[0]))
    with report.figure(
        "explain_points", rows=rows, columns=min(2, len(shown)), size=(11.5, 1.0 + rows * (0.9 + 0.34 * most))
    ) as drawing:
        for ax, record in zip(drawing.axes, shown, strict=False):
            _draw_point(ax, record, *inputs)
            title = f"point {record.axes['point']}, label {record.metrics['label']}"
            if second is None:
                title += f", predicted {record.metrics['predicted']}"
            else:
                ax.axvline(HALF, color=LIMIT, lw=1, ls=":")
            ax.set_title(title, fontsize=10)
        drawing.name_axes(f"probability of {second or PREDICTED}", "")
        thin = "stated" if unproved(records) else "proved"
        drawing.legend("below", 4, f"thin: {thin}, wide: attained range as one input moves alone")
        drawing.data = table


def _draw_point(ax: Axes, record: Record, inputs: Sequence[str], units: Mapping[str, str]) -> None:
    arrays = record.arrays
    order = np.argsort(-np.abs(arrays["delta"]), kind="stable")[:MOST_INPUTS][::-1]
    for side, (word, colour) in SIDES.items():
        places = np.arange(len(order)) + (0.18 if side == UP else -0.18)
        low, lowest, highest, high = arrays["ranges"][order, side].T
        ax.hlines(places, low, high, color=colour, alpha=0.35, lw=2)
        ax.hlines(places, lowest, highest, color=colour, lw=6, label=f"input {word}")
    ax.axvline(record.number("probability"), color=BLACK, lw=1, label="at the point")
    names = [inputs[place] for place in order]
    moved = [
        f"−{abs(arrays['moved'][place, DOWN]):.3g} +{abs(arrays['moved'][place, UP]):.3g} {units.get(name, '')}"
        for place, name in zip(order, names, strict=True)
    ]
    names = [f"{name}  {by}".rstrip() for name, by in zip(names, moved, strict=True)]
    ax.set_yticks(range(len(order)), names, fontsize=8)
    ax.set_ylim(-0.6, len(order) - 0.4)
    ax.set_xlim(-0.02, 1.02)


def draw_maps(report: Report[Any], records: Sequence[Record], data: Dataset, credit: str) -> None:
    """Draw, for the first points, the image, the effects of its pixels and LIME's slopes."""
    shown = records[:MOST_POINTS]
    order = image_order(data.input_names)
    with report.figure(
        "explain_points", remark=credit, rows=3, columns=len(shown), size=(0.8 + 2.0 * len(shown), 6.6)
    ) as drawing:
        for column, record in enumerate(shown):
            image, effect, lime = drawing.grid[:, column]
            pixels = data.X[int(record.number("row"))][order]
            image.imshow(pixels, cmap="gray", vmin=float(data.X.min()), vmax=float(data.X.max()))
            image.set_title(
                f"point {record.axes['point']}\n{record.metrics['label']}, p {record.number('probability'):.2f}",
                fontsize=9,
            )
            image.set_xticks([])
            image.set_yticks([])
            heat_map(effect, record.arrays["delta"][order])
            heat_map(lime, record.arrays["lime"][order])
        names = ("image", f"effect Δ, γ = {report.settings.radius:g}", "LIME slope a unit")
        for ax, name in zip(drawing.grid[:, 0], names, strict=True):
            ax.set_ylabel(name)
        drawing.data = _pixel_frame(shown, data.input_names)


def heat_map(ax: Axes, values: npt.NDArray[np.float64]) -> None:
    """Draw values [h, w]: red where a lighter pixel raises the probability, blue where it lowers it."""
    largest = float(np.max(np.abs(values))) or 1.0
    ax.imshow(values, cmap="RdBu_r", vmin=-largest, vmax=largest)
    ax.set_title(f"blue −{largest:.2g}, red +{largest:.2g}", fontsize=8)
    ax.set_xticks([])
    ax.set_yticks([])


def _pixel_frame(records: Sequence[Record], input_names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    parts: list[Mapping[str, Any]] = [
        {
            "method": record.axes["method"],
            "point": record.axes["point"],
            "input": list(input_names),
            "effect": record.arrays["delta"],
            "LIME slope": record.arrays["lime"],
        }
        for record in records
    ]
    return pd.concat([pd.DataFrame(part) for part in parts])


def draw_means(report: Report[Any], table: pd.DataFrame, stated: str) -> None:
    """Draw the mean effect of the strongest inputs with its proved range and its interval over points.

    Args:
        report: writes the figure.
        table: `mean_table`.
        stated: what is not proved of the range, empty if all is.
    """
    titles = list(dict.fromkeys(table["method"]))
    most = min(2 * MOST_INPUTS, table["input"].nunique())
    with report.figure("explain", rows=len(titles), size=(7.5, len(titles) * (1.2 + 0.26 * most))) as drawing:
        drawing.data = table
        for ax, title in zip(drawing.axes, titles, strict=True):
            own = table[table["method"] == title].head(most).iloc[::-1]
            places = np.arange(len(own))
            ax.barh(places, own["mean"], color=BLUE, height=0.7, label="mean effect")
            for ends, (colour, width, label) in ENDS.items():
                ax.hlines(
                    places, own[f"{ends}_low"], own[f"{ends}_high"], color=colour, lw=width, label=label
                )
            ax.axvline(0.0, color=LIMIT, lw=0.8)
            ax.set_yticks(places, own["input"], fontsize=8)
            inputs = table.loc[table["method"] == title, "input"].nunique()
            ax.set_title(title if most == inputs else f"{title}, the strongest {most} of {inputs} inputs")
        drawing.name_axes("effect Δ on the class probability", "")
        drawing.legend("below", title=stated)
