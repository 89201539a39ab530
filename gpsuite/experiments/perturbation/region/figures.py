"""The figure of perturbation/region: bands along one input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.perturbation.region.problem import input_number
from gpsuite.experiments.perturbation.region.settings import MODELS, RegionSettings
from gpsuite.reporting.figures import figure_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(report: Report[RegionSettings]) -> None:
    """Draw the estimate with pointwise bands at every level, and the widest level's ellipsoid band, along an input."""
    import matplotlib.pyplot as plt
    import pandas as pd

    data, settings, records = load(report.request.require_dataset()), report.settings, report.records()
    column = input_number(data, settings.along)
    with figure_style():
        fig, axes = plt.subplots(
            1, len(records), figsize=(5.4 * len(records), 4.6), sharey=True, squeeze=False
        )
        for ax, record in zip(axes[0], records, strict=True):
            _bands(ax, record, settings)
            ax.set_title(MODELS[str(record.axes["model"])])
            ax.set_xlabel(_named(data.input_names[column], data.units))
        axes[0, 0].set_ylabel(_named(data.target_names[0], data.units))
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=2)
        frames = [
            pd.DataFrame(
                {"model": record.axes["model"]} | {k: v for k, v in record.arrays.items() if k != "ranks"}
            )
            for record in records
        ]
        report.figure(fig, pd.concat(frames, ignore_index=True), "region")


def _bands(ax: Axes, record: Record, settings: RegionSettings) -> None:
    arrays = record.arrays
    levels = sorted(settings.excluded)
    for depth, q in enumerate(levels):
        lower, upper = arrays[f"pointwise_lower_{q}"], arrays[f"pointwise_upper_{q}"]
        bounded = np.isfinite(lower) & np.isfinite(upper)
        shade = 0.15 + 0.5 * depth / len(levels)
        label = f"pointwise extremes, 1 - q/m = {1.0 - q / settings.m:g}"
        ax.fill_between(
            arrays["x"], lower, upper, where=bounded, color="#0072B2", alpha=shade, linewidth=0, label=label
        )
    for number, end in enumerate(("lower", "upper")):
        label = f"ellipsoid, 1 - q/m = {1.0 - levels[0] / settings.m:g}" if number == 0 else "_"
        values = arrays[f"ellipsoid_{end}_{levels[0]}"]
        ax.plot(arrays["x"], np.where(np.isfinite(values), values, np.nan), "--", color="0.3", label=label)
    ax.plot(arrays["x"], arrays["estimate"], color="#D55E00", label="estimate")


def _named(name: str, units: object) -> str:
    unit = units.get(name) if hasattr(units, "get") else None
    return f"{name} ({unit or 'own units'})"
