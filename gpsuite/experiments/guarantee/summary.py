"""What a run of guarantee shows: the answer in sentences, answer.md, a page, predictions, assumptions, figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee.answer import (
    range_sentences,
    regression_sentences,
    violations,
)
from gpsuite.experiments.guarantee.assumptions import regression_checks
from gpsuite.experiments.guarantee.figures import draw_bands, draw_bounds, draw_predictions
from gpsuite.experiments.guarantee.outputs import APART, add_ranges, keep, row_numbers, tell
from gpsuite.experiments.guarantee.settings import GuaranteeSettings
from gpsuite.experiments.guarantee.summary_classes import summarise_classes
from gpsuite.experiments.guarantee.tasks import BAND
from gpsuite.experiments.guarantee.tolerances import tolerances_of
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd


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
