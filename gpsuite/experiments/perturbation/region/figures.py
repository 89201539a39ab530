"""The figure of perturbation/region: bands along one input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.perturbation.region.plan import region_tasks
from gpsuite.experiments.perturbation.region.problem import input_number, split_rows
from gpsuite.experiments.perturbation.region.settings import MODELS, RegionSettings
from gpsuite.reporting.palette import BLUE, VERMILION, tint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NAMED = 4
"""Of the inputs that are held, said with their values."""


def draw(report: Report[RegionSettings]) -> None:
    """Draw the estimate with pointwise bands at every level, and the widest level's ellipsoid band, along an input."""
    import pandas as pd

    data, settings, records = load(report.request.require_dataset()), report.settings, report.records()
    column = input_number(data, settings.along)
    size = (5.4 * len(records), 4.6)
    held = _held(report, column)
    with report.figure("region", columns=len(records), size=size, sharey=True, remark=held) as drawing:
        for ax, record in zip(drawing.axes, records, strict=True):
            _bands(ax, record, settings)
            ax.set_title(MODELS[str(record.axes["model"])])
        drawing.name_axes(
            _named(data.input_names[column], data.units), _named(data.target_names[0], data.units)
        )
        drawing.legend("below", columns=2)
        frames = [
            pd.DataFrame(
                {"model": record.axes["model"]} | {k: v for k, v in record.arrays.items() if k != "ranks"}
            )
            for record in records
        ]
        drawing.data = pd.concat(frames, ignore_index=True)


def _held(report: Report[RegionSettings], column: int) -> str:
    """Return where the other inputs are held: at their medians over the rows of the region."""
    data = load(report.request.require_dataset())
    others = [number for number in range(len(data.input_names)) if number != column]
    if not others:
        return ""
    if len(others) > MOST_NAMED:
        return f"the other {len(others)} inputs at their medians"
    rows = (split_rows(data, params) for params in region_tasks(report.request))
    medians = np.array([np.median(each.X[each.rest], axis=0) for each in rows])
    lows, highs = medians.min(axis=0), medians.max(axis=0)  # models may leave out other rows
    listed = [
        f"{data.input_names[number]} = "
        + " to ".join(dict.fromkeys(f"{value:.4g}" for value in (lows[number], highs[number])))
        for number in others
    ]
    return f"other inputs at their medians: {', '.join(listed)}"


def _bands(ax: Axes, record: Record, settings: RegionSettings) -> None:
    """Draw a panel; what is unbounded is written in it, as the legend is of all panels."""
    arrays, unbounded = record.arrays, []
    levels = sorted(settings.excluded)
    for depth, q in enumerate(levels):
        lower, upper = arrays[f"pointwise_lower_{q}"], arrays[f"pointwise_upper_{q}"]
        bounded = np.isfinite(lower) & np.isfinite(upper)
        color = tint(BLUE, 0.2 + 0.5 * depth / len(levels))
        label = f"pointwise extremes, 1 - q/m = {1.0 - q / settings.m:g}"
        if not bounded.any():
            unbounded.append(label)
            continue
        ax.fill_between(arrays["x"], lower, upper, where=bounded, color=color, linewidth=0, label=label)
    label = f"ellipsoid, 1 - q/m = {1.0 - levels[0] / settings.m:g}"
    ends = [arrays[f"ellipsoid_{end}_{levels[0]}"] for end in ("lower", "upper")]
    if np.isfinite(ends).any():
        for values, named in zip(ends, (label, "_"), strict=True):
            ax.plot(
                arrays["x"], np.where(np.isfinite(values), values, np.nan), "--", color="0.3", label=named
            )
    else:
        unbounded.append(label)
    ax.plot(arrays["x"], arrays["estimate"], color=VERMILION, label="estimate")
    if unbounded:
        text = "\n".join(["unbounded:", *unbounded])
        ax.text(0.02, 0.98, text, transform=ax.transAxes, fontsize=8, verticalalignment="top")


def _named(name: str, units: object) -> str:
    unit = units.get(name) if hasattr(units, "get") else None
    return f"{name} ({unit or 'own units'})"
