"""The figure of perturbation/region: bands along one input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.perturbation.region.problem import input_number
from gpsuite.experiments.perturbation.region.settings import MODELS, RegionSettings
from gpsuite.reporting.palette import BLUE, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(report: Report[RegionSettings]) -> None:
    """Draw the estimate with pointwise bands at every level, and the widest level's ellipsoid band, along an input."""
    import pandas as pd

    data, settings, records = load(report.request.require_dataset()), report.settings, report.records()
    column = input_number(data, settings.along)
    size = (5.4 * len(records), 4.6)
    with report.figure("region", columns=len(records), size=size, sharey=True) as drawing:
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


def _bands(ax: Axes, record: Record, settings: RegionSettings) -> None:
    arrays = record.arrays
    levels = sorted(settings.excluded)
    for depth, q in enumerate(levels):
        lower, upper = arrays[f"pointwise_lower_{q}"], arrays[f"pointwise_upper_{q}"]
        bounded = np.isfinite(lower) & np.isfinite(upper)
        shade = 0.15 + 0.5 * depth / len(levels)
        label = f"pointwise extremes, 1 - q/m = {1.0 - q / settings.m:g}"
        ax.fill_between(
            arrays["x"], lower, upper, where=bounded, color=BLUE, alpha=shade, linewidth=0, label=label
        )
    for number, end in enumerate(("lower", "upper")):
        label = f"ellipsoid, 1 - q/m = {1.0 - levels[0] / settings.m:g}" if number == 0 else "_"
        values = arrays[f"ellipsoid_{end}_{levels[0]}"]
        ax.plot(arrays["x"], np.where(np.isfinite(values), values, np.nan), "--", color="0.3", label=label)
    ax.plot(arrays["x"], arrays["estimate"], color=VERMILION, label="estimate")


def _named(name: str, units: object) -> str:
    unit = units.get(name) if hasattr(units, "get") else None
    return f"{name} ({unit or 'own units'})"
