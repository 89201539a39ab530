"""Published values beside ours: the verdict on each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpsuite.reporting.published import Criterion, Published, read_published
from gpsuite.reporting.rows import (
    VERDICTS,
    Cause,
    ComparisonRow,
    Statistic,
    Verdict,
    read_comparison,
    read_statistics,
    statistic_name,
    write_comparison,
    write_statistics,
)

__all__ = [
    "VERDICTS",
    "ComparisonRow",
    "Criterion",
    "Published",
    "Statistic",
    "Verdict",
    "compare",
    "judge",
    "not_run",
    "read_comparison",
    "read_published",
    "read_statistics",
    "statistic_name",
    "write_comparison",
    "write_statistics",
]

# relative; so that 5.2 lies within 0.1 of 5.1 although their difference is 0.10000000000000053
_ROUNDING = 1e-12


def judge(test: Criterion, ours: float) -> tuple[Verdict, float]:
    """Decide on a number, which may be infinite: a threshold never reached, say.

    Args:
        test: what is asked; of any kind but `each` and `context`.
        ours: the statistic, or the end of its interval that is judged; for `all_of` a share in [0, 1].

    Returns:
        The verdict, and the signed difference to what is asked: the value or limit, 1 for all_of, the nearest end of
        `between`, 0 inside it.
    """
    value = 1.0 if test.value is None else test.value
    difference = ours - value
    outside = abs(difference)
    if test.kind == "at_least":
        outside = max(0.0, -difference)
    elif test.kind == "at_most":
        outside = max(0.0, difference)
    elif test.low is not None and test.high is not None:
        difference = ours - min(max(ours, test.low), test.high)
        outside = abs(difference)
    slack = _ROUNDING * max(abs(ours), abs(ours - difference)) if math.isfinite(ours) else 0.0
    if outside <= test.tolerance + slack:
        return "reproduced", difference
    partly = 0.0 if test.partly is None else 1.0 - test.partly
    return ("partly" if outside <= partly + slack else "not reproduced"), difference


def judge_each(test: Criterion, ours: Sequence[float]) -> tuple[Verdict, float, str]:
    """Decide on repetitions, each held against its own value.

    Args:
        test: of kind `each`.
        ours: as many values, in the same order.

    Returns:
        The verdict, the difference of largest size, and how many are within the tolerance.
    """
    differences = [own - value for own, value in zip(ours, test.values, strict=True)]
    within = [abs(difference) <= test.tolerance for difference in differences]
    largest = max(differences, key=abs)
    counted = f"{sum(within)} of {len(within)} within {test.tolerance:g}; largest difference {largest:.2g}"
    share = sum(within) / len(within)
    if share == 1.0:
        return "reproduced", largest, counted
    return ("partly" if share >= (test.partly or 1.0) else "not reproduced"), largest, counted


def compare(published: Iterable[Published], statistics: Iterable[Statistic]) -> list[ComparisonRow]:
    """Set each published value beside the run's statistic of that name.

    Args:
        published: the experiment's entries.
        statistics: what the run computed; it must be one that may be held against the paper.
    """
    by_name = {statistic.name: statistic for statistic in statistics}
    rows = []
    for entry in published:
        ours = by_name.get(entry.statistic)
        if entry.test.kind == "context":
            shown = ours if ours is not None and math.isfinite(ours.value) else None
            note = ours.note if ours else ""
            rows.append(_row(entry, "not comparable", note, ours=shown, cause=entry.test.cause))
        elif ours is None:
            rows.append(not_run(entry, f"this run has no statistic {entry.statistic}"))
        elif entry.test.kind == "each":
            rows.append(_compare_each(entry, ours))
        else:
            rows.append(_compare_one(entry, ours))
    return rows


def not_run(entry: Published, why: str) -> ComparisonRow:
    """Return the row of a value that has nothing beside it."""
    return _row(entry, "not run", why)


def _compare_each(entry: Published, ours: Statistic) -> ComparisonRow:
    if len(ours.repetitions) != len(entry.test.values):
        found = f"ours has {len(ours.repetitions)} repetitions, not {len(entry.test.values)}"
        return _row(entry, "not comparable", found, ours.note, cause="value lost")
    if not all(map(math.isfinite, ours.repetitions)):
        return _lost(entry, ours)
    verdict, difference, counted = judge_each(entry.test, ours.repetitions)
    return _row(entry, verdict, counted, ours.note, ours=ours, difference=difference)


def _lost(entry: Published, ours: Statistic) -> ComparisonRow:
    return _row(entry, "not comparable", "ours could not be computed", ours.note, cause="value lost")


def _compare_one(entry: Published, ours: Statistic) -> ComparisonRow:
    number = ours.judged(entry.test.of)
    if math.isnan(ours.value):
        return _lost(entry, ours)
    if math.isnan(number):
        found = f"ours has no {entry.test.of} end of an interval"
        return _row(entry, "not comparable", found, ours.note, cause="value lost")
    if entry.test.kind == "all_of" and (not 0.0 <= ours.value <= 1.0 or ours.n == 0):
        found = f"ours is not a share of cells: {ours.value:g}, n={ours.n}"
        return _row(entry, "not comparable", found, ours.note, cause="value lost")
    verdict, difference = judge(entry.test, number)
    if entry.standard_error is not None and entry.printed is not None:
        difference = number - entry.printed  # whatever limit the test has
    judged = "" if entry.test.of == "value" else f"judged: {entry.test.of} end of the interval, {number:.6g}"
    if math.isinf(number):
        return _row(entry, verdict, judged, ours.note, ours=ours)
    notes = (judged, _in_cells(entry, ours), _in_standard_errors(entry, ours, difference), ours.note)
    return _row(entry, verdict, *notes, ours=ours, difference=difference)


def _in_cells(entry: Published, ours: Statistic) -> str:
    if entry.test.kind != "all_of" or ours.n is None or not ours.interval:
        return ""  # without one it is a decision, whose n counts something else
    counted = f"{round(ours.value * ours.n)} of {ours.n}"
    return "" if ours.note.startswith(counted) else f"holds in {counted}"


def _in_standard_errors(entry: Published, ours: Statistic, difference: float) -> str:
    if entry.standard_error is None:
        return ""
    own = math.nan if ours.standard_error is None else ours.standard_error
    name = "combined standard errors" if math.isfinite(own) else "published standard errors"
    combined = math.hypot(entry.standard_error, own if math.isfinite(own) else 0.0)
    if combined == 0.0:
        return ""
    return f"difference = {difference / combined:.2f} {name}"


def _row(
    entry: Published,
    verdict: Verdict,
    *notes: str,
    ours: Statistic | None = None,
    difference: float | None = None,
    cause: Cause | None = None,
) -> ComparisonRow:
    return ComparisonRow(
        id=entry.id,
        paper=entry.paper,
        where=entry.where,
        experiment=entry.experiment,
        dataset=entry.dataset,
        method=entry.method,
        basis=entry.basis,
        quantity=entry.quantity,
        unit=entry.unit,
        condition=entry.condition,
        published=entry.published,
        asked=str(entry.test),
        ours=ours.value if ours else None,
        standard_error=ours.standard_error if ours else None,
        n=ours.n if ours else None,
        interval=_interval(ours) if ours else "",
        difference=difference,
        verdict=verdict,
        cause=cause,
        note="; ".join(note for note in notes if note),
        remark=entry.remark,
        rules=entry.rules,
    )


def _interval(ours: Statistic) -> str:
    if not ours.interval or ours.interval_low is None or ours.interval_high is None:
        return ""
    return f"{ours.interval} [{ours.interval_low:.6g}, {ours.interval_high:.6g}]"
