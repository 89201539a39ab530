"""robustness/safety_synthetic2d, safety_spam, safety_mnist38: local safety (Blaas et al. 2020, Fig. 2-3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpsuite.data.catalogue import read_spec, shipped_conf_dir
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Request, Task, only_arrays
from gpsuite.experiments.robustness.free_inputs import describe
from gpsuite.experiments.robustness.safety_choice import Shown, choose_shown, curves, maps
from gpsuite.experiments.robustness.safety_claims import (
    accuracy_gain,
    dataset_statistics,
    gpfgs_statistics,
    point_statistics,
)
from gpsuite.experiments.robustness.safety_figures import draw_accuracy, draw_safety
from gpsuite.experiments.robustness.safety_points import run_local_safety
from gpsuite.experiments.robustness.safety_settings import (
    ACCURACY,
    VERSION,
    LocalSafetySettings,
    point_tasks,
)
from gpsuite.experiments.robustness.safety_tables import (
    accuracy_table,
    curve_table,
    point_table,
    timing_table,
)
from gpsuite.experiments.robustness.settings import AGREEMENT, model_group, model_params, request_dataset
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import write_table

WHOLE_FILE = {"spambase11": "spambase"}  # dataset -> the one with all inputs of its file
SECONDS = "seconds and boxes of one search, means over the test points"


def plan(request: Request) -> list[Task]:
    """Return one task per panel, method and test point, the contour plots, and the accuracies to compare."""
    return point_tasks(request) + _accuracy_tasks(request)


def _accuracy_tasks(request: Request) -> list[Task]:
    """Return one task per split with the chosen inputs and one with all of the file."""
    settings: LocalSafetySettings = request.settings
    ours = request_dataset(request)
    if not settings.accuracy_splits or ours.name not in WHOLE_FILE:
        return []
    tasks = []
    first = next(iter(request.methods.items()))
    for dataset in (ours, _whole_file(request, ours)):
        for split in range(settings.accuracy_splits):
            model = model_params(request, settings, first[1], split, settings.evaluations_of(0))
            tasks.append(
                Task(
                    experiment=request.experiment,
                    label=f"accuracy  {dataset.name}  split {split}",
                    axes={"features": dataset.name, "method": first[0], "part": "accuracy", "point": split},
                    params={"kind": ACCURACY, "model": model},
                    dataset=dataset,
                    version=VERSION,
                    group=model_group(dataset, model),
                    cost=0.3 * settings.evaluations_of(0) * (settings.train_rows / 1000) ** 3,
                    budget_seconds=request.budget_seconds,
                )
            )
    return tasks


def _whole_file(request: Request, ours: PreparedDataset) -> PreparedDataset:
    spec = read_spec(shipped_conf_dir(), WHOLE_FILE[ours.name])
    return prepare(
        spec, cache_dir=Path(str(request.options["data_dir"])), allow_stand_in=request.scale == "smoke"
    )


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write curves, accuracies, points and timings; draw the displayed points; return the statistics."""
    settings: LocalSafetySettings = request.settings
    dataset, name = request_dataset(request), request.experiment.split("/")[1]
    titles = {method: options.title for method, options in request.methods.items()}
    points = curves(records)
    tables, statistics = folder / "tables", dataset_statistics(load(dataset))
    statistics += _file_statistics(request, dataset, records)
    if not points:
        return statistics
    caption = _caption(settings, dataset.name, _words(points), note)
    write_table(point_table(points, titles), tables, f"{name}_points", caption)
    accuracy = accuracy_table(points, titles)
    write_table(accuracy, tables, f"{name}_accuracy", caption)
    write_table(timing_table(points, titles), tables, f"{name}_timing", SECONDS)
    draw_accuracy(accuracy, folder / "figures", f"{name}_accuracy", note)
    method = next(iter(request.methods))
    shown = _shown(settings, points, method)
    if shown:
        curve = curve_table(shown, titles)
        rules = "; ".join(f"point {each.record.axes['point']}: {each.rule}" for each in shown)
        write_table(curve, tables, name, f"{caption}; displayed: {rules}")
        contour = maps(records, method)
        credit = "; ".join(part for part in (_credit(dataset, contour), note) if part)
        draw_safety(shown, contour, load(dataset), curve, folder / "figures", name, credit or None)
    first = shown[:1] if contour_run(records) else shown
    own = [each.record.axes["features"] for each in first]
    statistics += point_statistics(first, [point for point in points if point.axes["features"] in own])
    return statistics + gpfgs_statistics(first)


def contour_run(records: Sequence[Record]) -> bool:
    """Tell whether the panels are the same point with other inputs free; the first is the paper's."""
    return any(record.axes.get("part") == "map" for record in records)


def _shown(settings: LocalSafetySettings, points: Sequence[Record], method: str) -> list[Shown]:
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
    request: Request, dataset: PreparedDataset, records: Sequence[Record]
) -> list[Statistic]:
    if dataset.name not in WHOLE_FILE:
        return []
    other, settings = WHOLE_FILE[dataset.name], request.settings
    inputs = int(_whole_file(request, dataset).spec["n_inputs"])
    return [
        Statistic("dataset_file_inputs", float(inputs)),
        *accuracy_gain(records, dataset.name, other, settings.test_rows / settings.train_rows),
    ]


def _caption(settings: LocalSafetySettings, dataset: str, words: Sequence[str], note: str | None) -> str:
    moving = "; ".join(f"{word}: {describe(word)}" for word in words)
    return (
        f"{dataset}: class probability over L-infinity balls of radius γ (scaled inputs), tolerance "
        f"{settings.tolerance:g}, bound {settings.bound}; free inputs: {moving}{f' ({note})' if note else ''}"
    )


def _credit(dataset: PreparedDataset, contour: Record | None) -> str:
    """Return whom a drawn image is owed to."""
    if contour is not None or dataset.stand_in:
        return ""
    return "digits: MNIST, LeCun et al. 1998 (CC BY-SA 3.0)" if dataset.name == "mnist38" else ""


EXPERIMENT = Experiment(
    LocalSafetySettings,
    plan,
    run_local_safety,
    summarise,
    builders=("gpc",),
    parts=("points",),
    published=only_arrays("[!xw]*"),  # neither x, a row of the dataset, nor the witnesses near it
    agreement=AGREEMENT,
)
for _name in ("safety_synthetic2d", "safety_spam", "safety_mnist38"):
    EXPERIMENTS.register(f"robustness/{_name}")(EXPERIMENT)
