"""Figures of guarantee: bounds over errors, intervals of rows, bands of the function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee.answer import (
    APART,
    add_ranges,
    keep,
    range_sentences,
    regression_sentences,
    row_numbers,
    tell,
    violations,
)
from gpsuite.experiments.guarantee.checks import regression_checks
from gpsuite.experiments.guarantee.summary_classes import summarise_classes
from gpsuite.experiments.guarantee.tasks import BAND, GuaranteeSettings, tolerances_of
from gpsuite.experiments.perturbation.region import MODELS
from gpsuite.experiments.perturbation.region_problem import input_number
from gpsuite.reporting.comparison import Statistic
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


def summarise(report: Report[GuaranteeSettings]) -> list[Statistic]:
    """Tell, write and draw the answer; keep the model."""
    if report.request.require_dataset().task == "classification":
        return summarise_classes(report)
    return _summarise_regression(report)


def _summarise_regression(report: Report[GuaranteeSettings]) -> list[Statistic]:
    """Tell, write and draw a regression's answer."""
    parts = {str(record.axes["part"]): record for record in report.records() if record.axes["part"] != BAND}
    bands, excluded = report.records(part=BAND), report.settings.excluded
    checks = regression_checks(parts["judged"], bands, excluded) if "judged" in parts else []
    said, tail = regression_sentences(report, parts, bands), ["", APART, *violations(checks)]
    of_rows: list[str] = []
    if {"bounded", "judged"} <= parts.keys():
        curve = curve_table(parts["bounded"], parts["judged"])
        report.table(
            curve,
            "guarantee",
            f"{report.request.require_dataset().shown_name}: bounds on the share of larger errors",
        )
        draw_bounds(report, curve)
    if bands:
        draw_bands(report, bands)
    if "rows" in parts:
        data = load(report.request.require_dataset())
        frame = predictions_table(parts["rows"], report.settings, data)
        keep(report, parts["rows"], frame, [*said, *tail])
        draw_predictions(report, frame)
        of_rows = [*range_sentences(parts["rows"], report.settings, data)]
    return tell(report, [*said, *of_rows, *tail], checks)


def curve_table(bounded: Record, judged: Record) -> pd.DataFrame:
    """Return both curves over the errors; the standard deviations differ a little, so do the errors."""
    import pandas as pd

    columns = {
        "error, kept model": bounded.arrays["errors"],
        "PAC-Bayes bound, kept model": bounded.arrays["bounds"],
        "PAC-Bayes bound, random draw": bounded.arrays["gibbs_bounds"],
        "error, judged model": judged.arrays["errors"],
        "share of test rows": judged.arrays["shares"],
        "test bound, judged model": judged.arrays["bounds"],
    }
    return pd.DataFrame(columns)


def predictions_table(record: Record, settings: GuaranteeSettings, data: Dataset) -> pd.DataFrame:
    """Return one row per predicted row, with proved ranges for the first."""
    import pandas as pd

    names = (
        "prediction",
        "gp_low",
        "gp_high",
        "prediction_judged",
        "conformal_low",
        "conformal_high",
        "jackknife_low",
        "jackknife_high",
    )
    frame = pd.DataFrame({**row_numbers(record, data), **{name: record.arrays[name] for name in names}})
    add_ranges(frame, record.arrays["ranges"], tolerances_of(data, settings))
    frame["outside_training_range"] = record.arrays["outside"]
    return frame
