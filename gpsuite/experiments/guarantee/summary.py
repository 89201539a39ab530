"""Output of a run of guarantee: tables, pictures, predictions, the model, and the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee import conformal
from gpsuite.experiments.guarantee.answer import Answer, write_answer
from gpsuite.experiments.guarantee.certificates import write_certificates
from gpsuite.experiments.guarantee.checks import CONTRADICTED, Check, regression_checks, row_checks, with_verdicts
from gpsuite.experiments.guarantee.guarantees import Found, takes_spread
from gpsuite.experiments.guarantee.pictures import (
    draw_accuracy,
    draw_bands,
    draw_bounds,
    draw_certified,
    draw_predictions,
    draw_reliability,
    draw_widths,
)
from gpsuite.experiments.guarantee.plan import new_rows
from gpsuite.experiments.guarantee.predictions import (
    OUTSIDE,
    class_predictions,
    number_predictions,
    own_intervals_held,
    unread_of,
    with_unread,
)
from gpsuite.experiments.guarantee.saved import FOLDER, unpacked, write_model
from gpsuite.experiments.guarantee.sets_and_spread import class_table
from gpsuite.experiments.guarantee.tasks import BAND, CONFORMAL, GuaranteeSettings
from gpsuite.experiments.guarantee.told import answer_of, found_effects
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.files import cannot, write_text

if TYPE_CHECKING:
    import pandas as pd


def summarise(report: Report[GuaranteeSettings]) -> list[Statistic]:
    """Tell, write and draw the answer. Keep the model."""
    parts = {str(record.axes["part"]): record for record in report.records() if record.axes["part"] != BAND}
    data = load(report.request.require_dataset())
    classes = data.task == "classification"
    found = _of_classes(report, parts) if classes else _of_numbers(report, parts)
    frame = None
    calibrated = conformal.of_record(parts[CONFORMAL].arrays) if CONFORMAL in parts else None
    if "rows" in parts:
        table = class_predictions if classes else number_predictions
        frame = _with_calibrated(report, parts["rows"], table(parts["rows"], report.settings, data), calibrated)
        if not classes:
            draw_predictions(report, frame, "spread" if takes_spread(parts) else "conformal")
        frame = with_unread(frame, unread_of(parts["rows"]))
    if classes and CONFORMAL in parts:
        caption = f"{report.request.require_dataset().shown_name}: what is missed of each class"
        report.table(class_table(parts[CONFORMAL]), "per_class", caption)
    write_certificates(list(parts.values()), report.folder / "certificates")
    answer = answer_of(found, frame)
    if frame is not None:
        _keep(report, parts["rows"], frame, answer, calibrated)
    return _tell(report, answer, found.checks)


def _of_numbers(report: Report[GuaranteeSettings], parts: dict[str, Record]) -> Found:
    """Return what was found of a regression, its tables written and its figures drawn."""
    data, bands, held = load(report.request.require_dataset()), report.records(part=BAND), None
    if {"bounded", "judged"} <= parts.keys():
        curve = curve_table(parts["bounded"], parts["judged"])
        caption = f"{report.request.require_dataset().shown_name}: bounds on the share of larger errors"
        report.table(curve, "guarantee", caption)
        draw_bounds(report, curve)
    if bands:
        draw_bands(report, bands)
    if "rows" in parts:
        held = own_intervals_held(parts["rows"])
        draw_accuracy(report, parts["rows"])
        draw_widths(report, parts["rows"])
    checks = regression_checks(data, parts["judged"], held, bands, report.settings) if "judged" in parts else []
    return Found(report, data, parts, bands, held, checks)


def _of_classes(report: Report[GuaranteeSettings], parts: dict[str, Record]) -> Found:
    """Return what was found of a classification, its tables written and its figures drawn."""
    data, checks = load(report.request.require_dataset()), []
    if "judged" in parts:
        checks = with_verdicts(row_checks(data, parts["judged"]))
        if "test_classes" in parts["judged"].arrays:  # not in records of earlier versions
            draw_reliability(report, parts["judged"])
        if np.any(parts["judged"].arrays["certified"]):  # otherwise no bound is above 0
            draw_certified(report, parts["judged"])
    if "rows" in parts and len(found_effects(parts["rows"])):
        caption = f"{report.request.require_dataset().shown_name}: what inputs decide"
        report.table(effects_table(report, parts["rows"]), "inputs", caption)
    return Found(report, data, parts, checks=checks)


def curve_table(bounded: Record, judged: Record) -> pd.DataFrame:
    """Return both curves over the errors. The standard deviations differ a little, so do the errors."""
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


def effects_table(report: Report[GuaranteeSettings], record: Record) -> pd.DataFrame:
    import pandas as pd

    effects, inputs = found_effects(record), load(report.request.require_dataset()).input_names
    size = np.abs(effects).mean(axis=0)
    columns = {"mean size": size, "lowest": effects.min(axis=0), "highest": effects.max(axis=0)}
    frame = pd.DataFrame({"input": inputs, **columns, "rows": len(effects)})
    return frame.sort_values("mean size", ascending=False)


def _with_calibrated(
    report: Report[GuaranteeSettings], record: Record, frame: pd.DataFrame, calibrated: conformal.Calibrated | None
) -> pd.DataFrame:
    """Return the table of predictions with intervals that follow the spread, or sets of classes, before its end."""
    if calibrated is None:
        return frame
    dataset = report.request.require_dataset()
    rows, data = new_rows(dataset), load(dataset)
    if rows is None:
        examples = record.arrays["examples"]
        X, own = data.X[examples], None if data.weights is None else data.weights[examples]
    else:
        X, own = rows.X[rows.readable], None if rows.weights is None else rows.weights[rows.readable]
    at = list(frame.columns).index(OUTSIDE)
    for place, (name, values) in enumerate(calibrated.columns(X, own).items()):
        frame.insert(at + place, name, values)
    return frame


def _keep(
    report: Report[GuaranteeSettings],
    record: Record,
    frame: pd.DataFrame,
    answer: Answer,
    calibrated: conformal.Calibrated | None,
) -> None:
    """Write predictions.csv, and the model with its intervals or sets and what is promised of any rows."""
    write_text(report.folder / "predictions.csv", frame.to_csv(index=False, lineterminator="\n"))
    saved = unpacked(record.arrays, answer.kept)
    try:
        write_model(saved, report.folder / FOLDER)
        if calibrated is not None:
            conformal.write(calibrated, report.folder / FOLDER)
    except OSError as error:
        raise cannot("write", report.folder / FOLDER, error) from error
    report.table(frame, "predictions", f"{report.request.require_dataset().shown_name}: {saved.target}")


def _tell(report: Report[GuaranteeSettings], answer: Answer, checks: Sequence[Check]) -> list[Statistic]:
    """Tell and write the answer and the assumptions. Return how many are contradicted."""
    report.answer.extend(answer.lines(report.folder))
    if checks:
        report.table(assumption_table(checks), "assumptions", "Assumptions of the guarantees, and what the data say")
    report.warnings.extend(write_answer(report.folder, answer))
    contradicted = sum(check.verdict == CONTRADICTED for check in checks)
    return [Statistic("contradicted", contradicted, n=len(checks) or None)]


def assumption_table(checks: Sequence[Check]) -> pd.DataFrame:
    """Return one row per assumption."""
    import pandas as pd

    names = ("assumption", "needed_by", "finding", "verdict")
    return pd.DataFrame([{name: getattr(check, name) for name in names} for check in checks])
