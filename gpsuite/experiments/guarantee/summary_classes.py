"""What a run of guarantee shows of a classification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
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
    reading_sentences,
    row_numbers,
    tell,
    violations,
)
from gpsuite.experiments.guarantee.checks import row_checks
from gpsuite.experiments.guarantee.tasks import GuaranteeSettings, off_by, tolerances_of
from gpsuite.experiments.sentences import certified, mistakes_bounded
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.palette import BLUE, VERMILION

if TYPE_CHECKING:
    import pandas as pd

WITHOUT_COPIES = f"{JUDGED} and their copies"
MOST_NAMED = 3  # decisive inputs in a sentence
STATED = "the error of the probabilities of so many classes, or of such variances, is estimated, not bounded"


def summarise_classes(report: Report[GuaranteeSettings]) -> list[Statistic]:
    """Tell, write and draw a classification's answer; keep the model."""
    parts = {str(record.axes["part"]): record for record in report.records()}
    checks = row_checks(parts["judged"]) if "judged" in parts else []
    data = load(report.request.require_dataset())
    said = [heading(report, data), ""]
    if "judged" in parts:
        said += _judged_sentences(parts["judged"], report.settings, data)
        if np.any(parts["judged"].arrays["certified"]):  # else no bound is above 0 either
            _draw_certified(report, parts["judged"])
    tail, of_rows = ["", APART, *violations(checks)], []
    if "rows" in parts:
        of_rows = [*_row_sentences(report, parts["rows"])]
        keep(report, parts["rows"], predictions_table(report, parts["rows"]), [*said, *tail])
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
    yield from _certified_sentences(record, settings, data)


def _judged(record: Record) -> str:
    return WITHOUT_COPIES if record.metrics.get("repeated_rows") else JUDGED


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


def range_sentences(record: Record, data: Dataset, tolerances: Sequence[float]) -> Iterator[str]:
    """Yield for each tolerance above what the predicted class' probability provably stays."""
    unknown = SECONDS if record.metrics.get("cut") else STATED
    for place, tolerance in enumerate(tolerances):
        lows = record.arrays["ranges"][:, place, 0]
        proved = lows[lows >= 0.001]  # false for NaN
        vain = int(np.count_nonzero(lows < 0.001))
        why = " and ".join(
            [f"the bound of {vain} is 0"] * (vain > 0) + [unknown] * (len(proved) + vain < len(lows))
        )
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
    yield from range_sentences(record, data, tolerances_of(data, report.settings))
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


def predictions_table(report: Report[GuaranteeSettings], record: Record) -> pd.DataFrame:
    """Return one row per predicted row, with proved ranges of the predicted class' probability for the first."""
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
    """Return what raising each input alone does to the predicted class' probability, over the rows."""
    import pandas as pd

    effects, inputs = _found_effects(record), load(report.request.require_dataset()).input_names
    size = np.abs(effects).mean(axis=0)
    columns = {"mean size": size, "lowest": effects.min(axis=0), "highest": effects.max(axis=0)}
    frame = pd.DataFrame({"input": inputs, **columns, "rows": len(effects)})
    return frame.sort_values("mean size", ascending=False)


def _draw_certified(report: Report[GuaranteeSettings], record: Record) -> None:
    """Draw the share of rows that are right and provably stay so, and its lower bound, over tolerances."""
    import pandas as pd

    arrays = record.arrays
    frame = pd.DataFrame({name: arrays[name] for name in ("tolerances", "certified", "certified_bounds")})
    with report.figure("certified", size=(6.0, 4.2)) as drawing:
        ax = drawing.ax
        ax.plot(frame["tolerances"], frame["certified"], "o--", color=BLUE, label="share of the test rows")
        ax.plot(
            frame["tolerances"], frame["certified_bounds"], "s-", color=VERMILION, label="proved for new rows"
        )
        ax.set_xlabel("each number off by up to (standard deviations)")
        ax.set_ylabel("right, and provably so")
        ax.set_ylim(0.0, 1.02)
        drawing.legend("below", columns=2)
        drawing.data = frame
