"""What a run of local safety shows of its records."""

from __future__ import annotations

from collections.abc import Sequence

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Record, Report, Request
from gpsuite.experiments.robustness.safety_curves.claims import (
    accuracy_gain,
    dataset_statistics,
    gpfgs_statistics,
    never_attacked,
    point_statistics,
)
from gpsuite.experiments.robustness.safety_curves.display import DisplayedPoint, choose_shown, curves, maps
from gpsuite.experiments.robustness.safety_curves.figures import draw_accuracy, draw_safety
from gpsuite.experiments.robustness.safety_curves.plan import WHOLE_FILE, whole_file
from gpsuite.experiments.robustness.safety_curves.settings import LocalSafetySettings
from gpsuite.experiments.robustness.safety_curves.tables import (
    accuracy_table,
    curve_table,
    point_table,
    timing_table,
)
from gpsuite.experiments.robustness.shared.free_inputs import describe
from gpsuite.reporting.comparison import Statistic

SECONDS = "seconds and boxes of one search, means over the test points"


def summarise(report: Report[LocalSafetySettings]) -> list[Statistic]:
    """Write curves, accuracies, points and timings; draw the displayed points; return the statistics."""
    request, records = report.request, report.records()
    settings = report.settings
    dataset, name = request.require_dataset(), request.experiment.split("/")[1]
    titles = report.titles
    points = curves(records)
    statistics = dataset_statistics(load(dataset))
    statistics += _file_statistics(request, dataset, records)
    if not points:
        return statistics
    caption = _caption(settings, dataset.name, _words(points))
    report.table(point_table(points, titles), f"{name}_points", caption)
    accuracy = accuracy_table(points, titles)
    report.table(accuracy, f"{name}_accuracy", caption)
    report.table(timing_table(points, titles), f"{name}_timing", SECONDS)
    draw_accuracy(report, accuracy, f"{name}_accuracy")
    method = next(iter(request.methods))
    shown = _shown(settings, points, method)
    if shown:
        curve = curve_table(shown, titles)
        rules = "; ".join(f"point {each.record.axes['point']}: {each.rule}" for each in shown)
        report.table(curve, name, f"{caption}; displayed: {rules}")
        contour = maps(records, method)
        draw_safety(report, shown, contour, load(dataset), curve, name, _credit(dataset, contour))
    first = shown[:1] if contour_run(records) else shown
    own = [each.record.axes["features"] for each in first]
    panel = [point for point in points if point.axes["features"] in own]
    statistics += [*point_statistics(first, panel), *never_attacked(panel, records)]
    return statistics + gpfgs_statistics(first, records)


def contour_run(records: Sequence[Record]) -> bool:
    """Tell whether the panels are the same point with other inputs free; the first is the paper's."""
    return any(record.axes.get("part") == "map" for record in records)


def _shown(settings: LocalSafetySettings, points: Sequence[Record], method: str) -> list[DisplayedPoint]:
    found = []
    for number, word in enumerate(_words(points)):
        own = curves(points, word, method)
        each = choose_shown(own, settings.shown, settings.label_of(number))
        if each is not None:
            found.append(each)
    return found


def _words(points: Sequence[Record]) -> list[str]:
    """Return the choices of inputs in the order of the settings, with the fallback that was used."""
    return list(dict.fromkeys(str(point.axes["features"]) for point in points))


def _file_statistics(
    request: Request[LocalSafetySettings], dataset: PreparedDataset, records: Sequence[Record]
) -> list[Statistic]:
    if dataset.name not in WHOLE_FILE:
        return []
    other, settings = WHOLE_FILE[dataset.name], request.settings
    inputs = int(whole_file(request, dataset).spec["n_inputs"])
    return [
        Statistic("dataset_file_inputs", float(inputs)),
        *accuracy_gain(records, dataset.name, other, settings.test_rows / settings.train_rows),
    ]


def _caption(settings: LocalSafetySettings, dataset: str, words: Sequence[str]) -> str:
    moving = "; ".join(f"{word}: {describe(word)}" for word in words)
    return (
        f"{dataset}: class probability over L-infinity balls of radius γ (scaled inputs), tolerance "
        f"{settings.tolerance:g}, bound {settings.bound}; free inputs: {moving}"
    )


def _credit(dataset: PreparedDataset, contour: Record | None) -> str:
    """Return whom a drawn image is owed to."""
    if contour is not None or dataset.stand_in:
        return ""
    return "digits: MNIST, LeCun et al. 1998 (CC BY-SA 3.0)" if dataset.name == "mnist38" else ""
