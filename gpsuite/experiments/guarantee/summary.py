"""What a run of guarantee shows: sentences, tables and figures of a regression or a classification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee import conformal
from gpsuite.experiments.guarantee.answer import (
    APART,
    JUDGED,
    SECONDS,
    add_ranges,
    bounded_rows,
    copies_counted,
    heading,
    keep,
    learned,
    own_interval_sentence,
    own_intervals_held,
    range_sentences,
    reading_sentences,
    regression_sentences,
    row_numbers,
    signs,
    tell,
    which_test_rows,
)
from gpsuite.experiments.guarantee.checks import regression_checks, row_checks, with_verdicts
from gpsuite.experiments.guarantee.plan import new_rows
from gpsuite.experiments.guarantee.saved import FOLDER
from gpsuite.experiments.guarantee.sets_and_spread import class_table, set_sentences, spread_sentences
from gpsuite.experiments.guarantee.tasks import BAND, CONFORMAL, GuaranteeSettings, off_by, tolerances_of
from gpsuite.experiments.perturbation.region_problem import MODELS, input_number
from gpsuite.experiments.sentences import certified, mistakes_bounded
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.files import cannot
from gpsuite.reporting.palette import BLUE, VERMILION

if TYPE_CHECKING:
    import pandas as pd

WITHOUT_COPIES = f"{JUDGED} and their copies"
MOST_NAMED = 3  # decisive inputs in a sentence
STATED = "the error of the probabilities of so many classes, or of such variances, is estimated, not bounded"
MOST_DRAWN = 40  # rows whose intervals are told apart
# of which model, column of the table, how it is drawn and named
CURVES = (
    ("kept", "PAC-Bayes bound, kept model", "o-", BLUE, "PAC-Bayes, kept model"),
    ("judged", "test bound, judged model", "s-", VERMILION, "test rows, judged model"),
    ("judged", "share of test rows", "--", "0.4", "share of the test rows"),
)


def draw_bounds(report: Report[GuaranteeSettings], curve: pd.DataFrame) -> None:
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
            ax.set_title(f"{MODELS[str(record.axes['model'])].title}; other inputs at their median")
            frames.append(pd.DataFrame({"model": record.axes["model"], "x": x, "lower": low, "upper": high}))
        drawing.name_axes(data.input_names[column], data.target_names[0])
        drawing.legend("below", columns=2)
        drawing.data = pd.concat(frames, ignore_index=True)


def summarise(report: Report[GuaranteeSettings]) -> list[Statistic]:
    """Tell, write and draw the answer; keep the model."""
    if report.request.require_dataset().task == "classification":
        return _summarise_classes(report)
    return _summarise_regression(report)


def _summarise_regression(report: Report[GuaranteeSettings]) -> list[Statistic]:
    parts = {str(record.axes["part"]): record for record in report.records() if record.axes["part"] != BAND}
    bands = report.records(part=BAND)
    held = own_intervals_held(parts["rows"]) if "rows" in parts else None
    data = load(report.request.require_dataset())
    checks = regression_checks(data, parts["judged"], held, bands, report.settings) if "judged" in parts else []
    said = regression_sentences(report, parts, bands)
    said += [] if held is None else [own_interval_sentence(held, report.settings)]
    if CONFORMAL in parts:
        said += spread_sentences(parts[CONFORMAL], report.settings, data)
    tail = ["", APART, *signs(report, data, checks)]
    of_rows: list[str] = []
    if {"bounded", "judged"} <= parts.keys():
        curve = curve_table(parts["bounded"], parts["judged"])
        report.table(
            curve, "guarantee", f"{report.request.require_dataset().shown_name}: bounds on the share of larger errors"
        )
        draw_bounds(report, curve)
    if bands:
        draw_bands(report, bands)
    if "rows" in parts:
        frame = predictions_table(parts["rows"], report.settings, data)
        frame = with_calibrated(report, parts, frame)
        keep(report, parts["rows"], frame, [*said, *tail])
        keep_calibrated(report, parts)
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


def with_calibrated(report: Report[GuaranteeSettings], parts: dict[str, Record], frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table of predictions with intervals that follow the spread, or sets of classes, before its end."""
    if CONFORMAL not in parts:
        return frame
    dataset, calibrated = report.request.require_dataset(), conformal.of_record(parts[CONFORMAL].arrays)
    rows, data = new_rows(dataset), load(dataset)
    if rows is None:
        examples = parts["rows"].arrays["examples"]
        X, own = data.X[examples], None if data.weights is None else data.weights[examples]
    else:
        X, own = rows.X[rows.readable], None if rows.weights is None else rows.weights[rows.readable]
    at = list(frame.columns).index("outside_training_range")
    for place, (name, values) in enumerate(calibrated.columns(X, own).items()):
        frame.insert(at + place, name, values)
    return frame


def keep_calibrated(report: Report[GuaranteeSettings], parts: dict[str, Record]) -> None:
    """Write what later predictions need of it, with the model."""
    if CONFORMAL not in parts:
        return
    try:
        conformal.write(conformal.of_record(parts[CONFORMAL].arrays), report.folder / FOLDER)
    except OSError as error:
        raise cannot("write", report.folder / FOLDER, error) from error


def _summarise_classes(report: Report[GuaranteeSettings]) -> list[Statistic]:
    parts = {str(record.axes["part"]): record for record in report.records()}
    data = load(report.request.require_dataset())
    checks = with_verdicts(row_checks(data, parts["judged"])) if "judged" in parts else []
    said = [heading(report, data), *(f"Classifier: {title} (method=)." for title in report.titles.values()), ""]
    if "judged" in parts:
        said += _judged_sentences(parts["judged"], report.settings, data)
        if np.any(parts["judged"].arrays["certified"]):  # else no bound is above 0 either
            _draw_certified(report, parts["judged"])
    if CONFORMAL in parts:
        said += set_sentences(parts[CONFORMAL], report.settings, data)
        caption = f"{report.request.require_dataset().shown_name}: what is missed of each class"
        report.table(class_table(parts[CONFORMAL]), "per_class", caption)
    tail, of_rows = ["", APART, *signs(report, data, checks)], []
    if "rows" in parts:
        of_rows = [*_row_sentences(report, parts["rows"])]
        frame = with_calibrated(report, parts, class_predictions_table(report, parts["rows"]))
        keep(report, parts["rows"], frame, [*said, *tail])
        keep_calibrated(report, parts)
        if len(_found_effects(parts["rows"])):
            caption = f"{report.request.require_dataset().shown_name}: what inputs decide"
            report.table(effects_table(report, parts["rows"]), "inputs", caption)
    return tell(report, [*said, *of_rows, *tail], checks)


def _judged_sentences(record: Record, settings: GuaranteeSettings, data: Dataset) -> Iterator[str]:
    wrong, n = int(record.number("wrong")), int(record.number("n_test"))
    subject = _judged(record)
    majority = f"{100.0 * record.number('majority'):.3g} %"
    yield f"Test rows: {mistakes_bounded(settings.delta, record.number('bound'), subject)}"
    guess = f"always saying the commonest class is wrong on {majority}"
    yield f"  ({wrong} of the {n} test rows were{copies_counted(record)}; {learned(record)}; {guess}.)"
    if untested := str(record.metrics["untested"]).splitlines():
        yield f"  No test row is {' or '.join(untested)}: of such rows nothing was seen."
    yield from which_test_rows(data)
    yield from _certified_sentences(record, settings, data)


def _judged(record: Record) -> str:
    return WITHOUT_COPIES if record.metrics.get("n_copies") else JUDGED


def _certified_sentences(record: Record, settings: GuaranteeSettings, data: Dataset) -> Iterator[str]:
    bounds, points = record.arrays["certified_bounds"], int(record.number("points"))
    searched, stated = (int(record.metrics.get(name) or 0) for name in ("searched", "stated"))
    if searched and stated == searched:
        subject = f"{_judged(record)} says if inputs are off, at any of {points} test rows"
        yield f"Certified: Nothing is proved of what {subject}: {STATED}."
        return
    arrays = (record.arrays[name] for name in ("tolerances", "certified_bounds", "certified"))
    for tolerance, bound, share in zip(*arrays, strict=True):
        change = off_by(data, float(tolerance))
        yield f"Certified: {certified(settings.delta, float(bound), _judged(record), change)}"
        yield f"  ({round(float(share) * points)} of {points} test rows; paid for {len(bounds)} tolerances together.)"
    if record.metrics.get("cut"):
        yield f"  {SECONDS}: the rows that they did not reach count as not certified."


def probability_sentences(record: Record, data: Dataset, tolerances: Sequence[float]) -> Iterator[str]:
    """Yield for each tolerance above what the predicted class' probability provably stays."""
    unknown = SECONDS if record.metrics.get("cut") else STATED
    for place, tolerance in enumerate(tolerances):
        lows = record.arrays["ranges"][:, place, 0]
        proved = lows[lows >= 0.001]  # false for NaN
        vain = int(np.count_nonzero(lows < 0.001))
        why = " and ".join([f"the bound of {vain} is 0"] * (vain > 0) + [unknown] * (len(proved) + vain < len(lows)))
        change = f"if {off_by(data, tolerance)}"
        many = f"of the {len(lows)} {bounded_rows(record)}"
        if not len(proved):
            yield f"Not proved for any {many}: the probability of the predicted class {change}; {why}."
            continue
        share = "all" if len(proved) == len(lows) else f"{len(proved)}"
        rest = "" if len(proved) == len(lows) else f"; not proved for the others, {why}"
        yield (
            f"Proved: {change}, the probability of the predicted class stays above "
            f"{np.floor(1000.0 * proved.min()) / 1000.0:g} for {share} {many}{rest}."
        )


def _row_sentences(report: Report[GuaranteeSettings], record: Record) -> Iterator[str]:
    data, found = load(report.request.require_dataset()), _found_effects(record)
    names, level = data.input_names, ", or a category's change to this level," if data.categories else ""
    yield from probability_sentences(record, data, tolerances_of(data, report.settings))
    if len(found):
        effects = np.abs(found).mean(axis=0)
        strongest = np.argsort(-effects)[:MOST_NAMED]
        listed = ", ".join(f"{names[number]} ({effects[number]:.3f})" for number in strongest)
        yield f"Decisive inputs, by what one standard deviation{level} moves the probability on average: {listed}."
    yield from reading_sentences(record)


def _found_effects(record: Record) -> FloatArray:
    """Return the effects [B', D] at the rows that the seconds let be searched."""
    effects = record.arrays["effects"]
    return np.asarray(effects[~np.isnan(effects).any(axis=1)])


def class_predictions_table(report: Report[GuaranteeSettings], record: Record) -> pd.DataFrame:
    import pandas as pd

    labels, arrays = str(record.metrics["labels"]).split("\n"), record.arrays
    data = load(report.request.require_dataset())
    probabilities, inputs = arrays["probabilities"], data.input_names
    count, own = len(probabilities), np.argmax(probabilities, axis=1)
    frame = pd.DataFrame({**row_numbers(record, data), "predicted": [labels[number] for number in own]})
    for place, name in enumerate(labels):
        frame[f"p_{name}"] = probabilities[:, place]
    add_ranges(frame, arrays["ranges"], tolerances_of(data, report.settings))
    decisive = ["" if np.isnan(row).any() else inputs[np.argmax(np.abs(row))] for row in arrays["effects"]]
    frame["decisive_input"] = decisive + [""] * (count - len(decisive))
    frame["outside_training_range"] = arrays["outside"]
    return frame


def effects_table(report: Report[GuaranteeSettings], record: Record) -> pd.DataFrame:
    import pandas as pd

    effects, inputs = _found_effects(record), load(report.request.require_dataset()).input_names
    size = np.abs(effects).mean(axis=0)
    columns = {"mean size": size, "lowest": effects.min(axis=0), "highest": effects.max(axis=0)}
    frame = pd.DataFrame({"input": inputs, **columns, "rows": len(effects)})
    return frame.sort_values("mean size", ascending=False)


def _draw_certified(report: Report[GuaranteeSettings], record: Record) -> None:
    import pandas as pd

    arrays = record.arrays
    frame = pd.DataFrame({name: arrays[name] for name in ("tolerances", "certified", "certified_bounds")})
    with report.figure("certified", size=(6.0, 4.2)) as drawing:
        ax = drawing.ax
        ax.plot(frame["tolerances"], frame["certified"], "o--", color=BLUE, label="share of the test rows")
        ax.plot(frame["tolerances"], frame["certified_bounds"], "s-", color=VERMILION, label="proved for new rows")
        ax.set_xlabel("each number off by up to (standard deviations)")
        ax.set_ylabel("certified accuracy (share of rows)")
        ax.set_ylim(0.0, 1.02)
        drawing.legend("below", columns=2)
        drawing.data = frame
