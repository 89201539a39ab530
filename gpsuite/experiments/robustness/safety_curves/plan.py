"""Tasks of local safety: one curve a test point, one map, and accuracies on the whole file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpsuite.data.catalogue import read_spec, shipped_conf_dir
from gpsuite.data.loading import PreparedDataset, prepare
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.robustness.safety_curves.settings import (
    ACCURACY,
    MAP,
    POINT,
    Axes,
    LocalSafetySettings,
)
from gpsuite.experiments.robustness.shared.classifiers import Problem
from gpsuite.experiments.robustness.shared.free_inputs import available, check_words, split_word
from gpsuite.experiments.robustness.shared.settings import (
    model_group,
    model_params,
    request_dataset,
)
from gpsuite.experiments.settings import unique

WHOLE_FILE = {"spambase11": "spambase"}  # dataset -> the one with all inputs of its file


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
    for dataset in (ours, whole_file(request, ours)):
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


def whole_file(request: Request, ours: PreparedDataset) -> PreparedDataset:
    """Return the dataset with all inputs of the file that ours is a part of."""
    spec = read_spec(shipped_conf_dir(), WHOLE_FILE[ours.name])
    return prepare(
        spec, cache_dir=Path(str(request.options["data_dir"])), allow_stand_in=request.scale == "smoke"
    )


VERSION = 3  # raised when the numbers of a point change


def search_params(settings: LocalSafetySettings) -> dict[str, Any]:
    """Return the part of a point's parameters that says how it is searched."""
    names = ("gammas", "tolerance", "boxes", "starts", "bound")
    return {name: getattr(settings, name) for name in names}


def panels(settings: LocalSafetySettings) -> list[tuple[int, str]]:
    """Return number and features of every panel, with the fallback where OpenCV is missing."""
    words = [available(word) for word in settings.features]
    unique.check("features", words)
    return list(enumerate(words))


def point_tasks(request: Request) -> list[Task]:
    """Return one task per panel, method and test point, and one for every contour plot.

    Raises:
        UserError: if the features do not fit the dataset.
    """
    settings: LocalSafetySettings = request.settings
    dataset = request_dataset(request)
    check_words(settings.features, int(dataset.spec["n_inputs"]))
    tasks = []
    for number, word in panels(settings):
        for method, options in request.methods.items():
            model = model_params(request, settings, options, 0, settings.evaluations_of(number))
            group = model_group(dataset, model)
            title = f"{options.title}  {word}"
            params = {"kind": POINT, "model": model, "features": word, **search_params(settings)}
            for point in range(settings.points):
                axes: Axes = {"features": word, "method": method, "part": "point", "point": point}
                own = {**params, "point": point}
                tasks.append(
                    _task(request, f"{title}  point {point}", axes, own, group, _cost(settings, word))
                )
            if settings.map_points:
                axes = {"features": word, "method": method, "part": "map", "point": -1}
                own = {"kind": MAP, "model": model, "map_points": settings.map_points}
                tasks.append(_task(request, f"{title}  contour plot", axes, own, group, 1.0))
    return tasks


def _task(
    request: Request,
    label: str,
    axes: Axes,
    params: dict[str, Any],
    group: str,
    cost: float,
) -> Task:
    return Task(
        experiment=request.experiment,
        label=label,
        axes=axes,
        params=params,
        dataset=request_dataset(request),
        version=VERSION,
        group=group,
        cost=cost,
        budget_seconds=request.budget_seconds,
    )


def _cost(settings: LocalSafetySettings, word: str) -> float:
    """Return a rough guess of CPU seconds per point."""
    count = split_word(word)[1] or 5
    rows = settings.train_rows / 1000
    return len(settings.gammas) * rows**2 * 0.02 * count


def label_name(problem: Problem, positive: bool) -> str:
    """Return the name of a class."""
    return problem.label_names[int(positive)]
