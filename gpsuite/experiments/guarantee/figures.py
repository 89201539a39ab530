"""Figures of guarantee: bounds over errors, intervals of rows, bands of the function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee.settings import GuaranteeSettings
from gpsuite.experiments.guarantee.tolerances import tolerances_of
from gpsuite.experiments.perturbation.region import MODELS
from gpsuite.experiments.perturbation.region_problem import input_number
from gpsuite.reporting.palette import BLUE, VERMILION

if TYPE_CHECKING:
    import pandas as pd

MOST_DRAWN = 40  # rows whose intervals are told apart
# of which model, column of the table, how it is drawn and named
CURVES = (
    ("kept", "PAC-Bayes bound, kept model", "o-", BLUE, "PAC-Bayes, kept model"),
    ("judged", "test bound, judged model", "s-", VERMILION, "test rows, judged model"),
    ("judged", "share of test rows", "--", "0.4", "share of the test rows"),
)


def draw_bounds(report: Report[GuaranteeSettings], curve: pd.DataFrame) -> None:
    """Draw what share of predictions is off by more, at most, over the error."""
    target = load(report.request.require_dataset()).target_names[0]
    with report.figure("bounds", size=(6.4, 4.4)) as drawing:
        ax = drawing.ax
        for model, column, style, colour, label in CURVES:
            ax.plot(curve[f"error, {model} model"], curve[column], style, color=colour, label=label)
        ax.set_xlabel(f"error t ({target})")
        ax.set_ylabel("share of predictions off by more than t")
        ax.set_ylim(0.0, 1.02)
        drawing.legend("below", columns=3)
        drawing.data = curve


def draw_predictions(report: Report[GuaranteeSettings], frame: pd.DataFrame) -> None:
    """Draw the first rows' predictions with their intervals and the widest proved range."""
    shown, data = frame.head(MOST_DRAWN), load(report.request.require_dataset())
    places = np.arange(len(shown))
    with report.figure("predictions", size=(7.0, 4.4)) as drawing:
        ax = drawing.ax
        for shift, name, colour, label in (
            (-0.2, "jackknife", BLUE, "jackknife+, judged models"),
            (0.2, "conformal", "0.5", "split conformal, judged model"),
        ):
            low, high = shown[f"{name}_low"], shown[f"{name}_high"]
            seen = np.isfinite(low) & np.isfinite(high)
            label += "" if seen.any() else ": unbounded"
            ax.vlines(places[seen] + shift, low[seen], high[seen], color=colour, label=label)
        for widest in tolerances_of(data, report.settings)[-1:]:
            low, high = (shown[f"proved_{end}_{widest:g}"] for end in ("low", "high"))
            label = f"proved, {'numbers' if data.level_inputs else 'inputs'} off by up to {widest:g} sd"
            ax.vlines(places, low, high, color=VERMILION, linewidth=3, label=label)
        ax.plot(places, shown["prediction"], "o", color="black", markersize=4, label="prediction, kept model")
        named = shown.columns[0]  # row or line
        ax.set_xlabel(named)
        ax.set_xticks(places[:: max(1, len(places) // 10)], shown[named][:: max(1, len(places) // 10)])
        ax.set_ylabel(data.target_names[0])
        drawing.legend("below", columns=2)
        drawing.data = shown


def draw_bands(report: Report[GuaranteeSettings], bands: Sequence[Record]) -> None:
    """Draw estimate and band of each model along the input that the target follows most closely."""
    import pandas as pd

    data, q = load(report.request.require_dataset()), report.settings.excluded
    column, frames = input_number(data, ""), []
    with report.figure("bands", columns=len(bands), size=(5.0 * len(bands), 4.2), sharey=True) as drawing:
        for ax, record in zip(drawing.axes, bands, strict=True):
            low, high = (record.arrays[f"pointwise_{end}_{q}"] for end in ("lower", "upper"))
            seen = np.isfinite(low) & np.isfinite(high)
            x, label = record.arrays["x"], f"band, {100 * (1 - q / report.settings.m):g} %"
            ax.fill_between(x, low, high, where=seen, color=BLUE, alpha=0.3, linewidth=0, label=label)
            ax.plot(x, record.arrays["estimate"], color=VERMILION, label="estimate")
            ax.set_title(f"{MODELS[str(record.axes['model'])]}; other inputs at their median")
            frames.append(pd.DataFrame({"model": record.axes["model"], "x": x, "lower": low, "upper": high}))
        drawing.name_axes(data.input_names[column], data.target_names[0])
        drawing.legend("below", columns=2)
        drawing.data = pd.concat(frames, ignore_index=True)
