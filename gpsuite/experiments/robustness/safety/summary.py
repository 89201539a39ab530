"""What a run of robustness/safety shows of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpsuite.data.loading import load
from gpsuite.data.splits import DifferentRows
from gpsuite.experiments.base import Record, Report, Request
from gpsuite.experiments.robustness.safety.claims import check_statistics, margin_statistics, point_statistics
from gpsuite.experiments.robustness.safety.figures import draw_ranges, draw_traces
from gpsuite.experiments.robustness.safety.plan import classes_of, has_several
from gpsuite.experiments.robustness.safety.settings import SafetySettings
from gpsuite.experiments.robustness.safety.tables import (
    change_table,
    is_certified,
    is_safe,
    point_table,
    summary_table,
    timing_table,
)
from gpsuite.experiments.robustness.shared.classifiers import present_classes
from gpsuite.experiments.robustness.shared.free_inputs import BY_NAME, describe
from gpsuite.experiments.robustness.shared.held_out import told_few_learnt
from gpsuite.experiments.robustness.shared.stored_certificates import told_uncertified, write_certificates
from gpsuite.experiments.sentences import certified
from gpsuite.methods.pac_bayes.copies import cautious_upper_bound
from gpsuite.reporting.comparison import Statistic
from gpsuite.rounding import rounded

DELTA = 0.01  # allowed probability that a sentence on new rows is wrong
NORMS = {"linf": "L-infinity", "l2": "L2", "l1": "L1"}


def summarise(report: Report[SafetySettings]) -> list[Statistic]:
    """Write the certificates, one row per point, verdicts and changes; draw ranges and traces."""
    request, settings = report.request, report.settings
    points, checks = report.records(part="point"), report.records(part="check")
    certificates = write_certificates(points, report.folder / "certificates")
    several = has_several(request.require_dataset(), settings)
    statistics = check_statistics(checks, settings.check_tolerances)
    statistics += margin_statistics(points if several else report.records(part="three_classes"))
    if not points:
        return statistics
    computed = {str(record.axes["method"]) for record in points}
    titles = {name: title for name, title in report.titles.items() if not several or name in computed}
    free = describe(settings.features, len(points[0].arrays["free"]))
    if load(request.require_dataset()).level_inputs:
        free += " that are numbers (categories stay)"
    if settings.uncertain:
        free = f"the values of {', '.join(settings.uncertain)}"
    caption = _caption(request, str(points[0].metrics["chosen_by"]), free)
    if not settings.points:  # points that the user chose are no sample
        report.answer.extend(certified_sentences(report, points, titles, free))
    rows = point_table(points, titles)
    report.table(summary_table(points, titles), "safety", caption)
    where = "; the range is the predicted class'" if several else ""
    if certificates:
        where += "; certificates: certificates/METHOD_point_I.npz"
    report.table(rows, "safety_points", f"{caption}{where}")
    names = load(request.require_dataset()).input_names
    changes = f"{caption}; what turns the point into its counterexample, in units of the dataset"
    report.table(change_table(points, titles, names), "safety_changes", changes)
    report.table(timing_table(points, titles), "safety_timing", caption)
    if several and len(titles) < len(request.methods):
        report.warnings.append("expectation propagation is for two classes: it is left out")
    report.warnings.extend(told_uncertified(points))
    report.warnings.extend(told_few_learnt(_rows(request), settings.test_rows))
    labels = sorted({str(record.metrics["label"]) for record in points})
    draw_ranges(report, rows, "the predicted class" if several else _positive(request, labels), not several)
    draw_traces(report, points)
    return statistics + point_statistics(points, titles)


def certified_sentences(
    report: Report[SafetySettings], points: Sequence[Record], titles: Mapping[str, str], free: str
) -> Iterator[str]:
    """Yield what the certified test rows of each method say of new rows, whatever copies among them are."""
    change = f"{free} move within the {_shape(report.settings)} and stay within {_within(report.settings)}"
    groups = load(report.request.require_dataset()).groups
    learnt = np.empty(0, dtype=np.int64)  # no copy of a test row
    compared = _compared(report.request)
    rows = f"new rows of class {' or '.join(compared)}" if compared else "new rows"
    for method, title in titles.items():
        own = [record for record in points if record.axes["method"] == method]
        if not own:
            continue
        asked = sum(record.matches(method=method, part="point") for record in report.planned)
        if len(own) < asked:  # which rows fail or take long depends on them: the others are no sample
            lacking = f"{asked - len(own)} of {asked} test rows failed or are missing"
            yield f"{title}: nothing is said of {rows}, as {lacking}."
            continue
        safe = sum(map(is_safe, own))
        held = np.array([is_certified(each) for each in own])
        different = DifferentRows.of(np.array([each.metrics["row"] for each in own]), learnt, groups)
        bound = 1.0 - cautious_upper_bound(~held, different, DELTA)
        yield f"{title}: {certified(DELTA, bound, 'this model', change, rows)}"
        counted = f"{held.sum()} of {len(own)} test rows"
        if different is not None:
            counted += f"; of the {len(different.places)} that repeat no other {held[different.places].sum()}"
        if held.sum() < safe:
            counted += f"; {safe - held.sum()} more by a cubature whose error is stated, not proved"
        yield f"  ({counted}.)"


def _positive(request: Request[SafetySettings], labels: Sequence[str]) -> str:
    """Return the name of the positive class."""
    data = request.require_dataset()
    named = classes_of(data.name, request.settings)
    if named:
        return named[1]
    names = load(data).label_names
    return names[-1] if names and len(names) == 2 else labels[-1]


def _rows(request: Request[SafetySettings]) -> int:
    """Return how many rows the dataset has of the classes that are compared."""
    dataset = request.require_dataset()
    known, labels, present = present_classes(load(dataset))
    named = classes_of(dataset.name, request.settings) or present
    return int(np.isin(labels, [known.index(name) for name in named]).sum())


def _compared(request: Request[SafetySettings]) -> list[str]:
    """Return the classes that are compared, if the dataset has others."""
    dataset = request.require_dataset()
    named, present = classes_of(dataset.name, request.settings), present_classes(load(dataset))[2]
    return named if len(named) < len(present) else []


def _caption(request: Request[SafetySettings], chosen_by: str, free: str) -> str:
    settings = request.settings
    data = request.require_dataset()
    name = data.shown_name
    if compared := _compared(request):
        name += f", classes {', '.join(compared[:-1])} and {compared[-1]}"
    asked = chosen_by == BY_NAME or chosen_by in settings.features
    fallback = "" if asked else f", chosen by {chosen_by}"
    return (
        f"{name}: class probability over the {_shape(settings)} around test points, within {_within(settings)}; "
        f"free: {free}{fallback}; tolerance {settings.tolerance:g}, bound {settings.bound}"
    )


def _shape(settings: SafetySettings) -> str:
    if settings.within:
        return f"box of {', '.join(f'± {rounded(amount, 6, -1)}' for amount in settings.within)} (own units)"
    scaled = {"none": "", "pixels": " (pixels from 0 to 1)"}.get(settings.scaling, " standard deviations")
    return f"{NORMS[settings.norm]} ball of radius {rounded(settings.radius, 6, -1)}{scaled}"


def _within(settings: SafetySettings) -> str:
    """Return the inputs' domain, to which every region is cut."""
    ends = ", ".join(f"{end:g}" for end in settings.domain)
    return f"[{ends}]" if ends else "the inputs' ranges in the data"
