"""Tasks of local safety: one curve a test point, one map, and accuracies on the whole file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpsuite.data.catalogue import read_spec, shipped_conf_dir
from gpsuite.data.loading import PreparedDataset, prepare
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.robustness.safety_curves.settings import LocalSafetySettings
from gpsuite.experiments.robustness.shared.classifiers import Problem
from gpsuite.experiments.robustness.shared.free_inputs import check_words, split_word
from gpsuite.experiments.robustness.shared.probability_change import Axes
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, classifier_params

WHOLE_FILE = {"spambase11": "spambase"}  # dataset -> the one with all inputs of its file


VERSION = 3  # raised when the numbers of a point change


@dataclass(frozen=True)
class CurveTask:
    """Certified range and attacks of one test point for growing radii.

    Attributes:
        model: the classifier.
        point: number of the test row.
        features: which inputs may move.
        gammas: as every other field, of `LocalSafetySettings`.
        kind: of task.
    """

    model: ClassifierParams
    point: int
    features: str
    gammas: Sequence[float]
    tolerance: float
    boxes: int
    starts: int
    bound: str
    kind: str = "safety_point"


@dataclass(frozen=True)
class AttackTask:
    """GPFGS at one test point and radii beyond those of its curve."""

    model: ClassifierParams
    point: int
    features: str
    attack_gammas: Sequence[float]
    kind: str = "safety_attack"


@dataclass(frozen=True)
class MapTask:
    """The class probability on a grid of so many points per axis over two inputs."""

    model: ClassifierParams
    map_points: int
    kind: str = "safety_map"


@dataclass(frozen=True)
class AccuracyTask:
    """A classifier's accuracy on its test rows."""

    model: ClassifierParams
    kind: str = "accuracy"


def plan(request: Request[LocalSafetySettings]) -> list[Task[object]]:
    """Return one task per panel, method and test point, the contour plots, and the accuracies to compare."""
    return [*_point_tasks(request), *_accuracy_tasks(request)]


def _accuracy_tasks(request: Request[LocalSafetySettings]) -> Iterator[Task[object]]:
    """Yield one task per split with the chosen inputs and one with all of the file."""
    settings, ours = request.settings, request.require_dataset()
    if not settings.accuracy_splits or ours.name not in WHOLE_FILE:
        return
    method, options = next(iter(request.methods.items()))
    evaluations = settings.evaluations_of(0)
    for dataset in (ours, whole_file(request, ours)):
        for split in range(settings.accuracy_splits):
            model = classifier_params(request, settings, options, split, evaluations)
            yield request.task(
                AccuracyTask(model),
                label=f"accuracy  {dataset.name}  split {split}",
                axes={"features": dataset.name, "method": method, "part": "accuracy", "point": split},
                version=VERSION,
                cost=0.3 * evaluations * (settings.train_rows / 1000) ** 3,
                group=model.group(dataset),
                dataset=dataset,
            )


def whole_file(request: Request[object], ours: PreparedDataset) -> PreparedDataset:
    """Return the dataset with all inputs of the file that ours is a part of."""
    spec = read_spec(shipped_conf_dir(), WHOLE_FILE[ours.name])
    return prepare(
        spec,
        cache_dir=Path(str(request.options["data_dir"])),
        allow_stand_in=request.scale == "smoke",
        allow_absent=bool(ours.absent),
    )


def panels(settings: LocalSafetySettings) -> list[tuple[int, str]]:
    """Return number and features of every panel."""
    return list(enumerate(settings.features))


def _point_tasks(request: Request[LocalSafetySettings]) -> Iterator[Task[object]]:
    """Yield one task per panel, method and test point, those of the attack alone, and one for every contour plot.

    Raises:
        UserError: if the features do not fit the dataset.
    """
    settings, dataset = request.settings, request.require_dataset()
    check_words(settings.features, int(dataset.spec["n_inputs"]), request.model)
    mapped: list[ClassifierParams] = []  # panels of one training share the plot
    for number, word in panels(settings):
        for method, options in request.methods.items():
            model = classifier_params(request, settings, options, 0, settings.evaluations_of(number))
            group = model.group(dataset)
            axes: Axes = {"features": word, "method": method}
            for point in range(settings.points):
                yield request.task(
                    CurveTask(
                        model=model,
                        point=point,
                        features=word,
                        gammas=settings.gammas,
                        tolerance=settings.tolerance,
                        boxes=settings.boxes,
                        starts=settings.starts,
                        bound=settings.bound,
                    ),
                    label=f"{options.title}  {word}  point {point}",
                    axes={**axes, "part": "point", "point": point},
                    version=VERSION,
                    cost=_cost(settings, word),
                    group=group,
                )
            if settings.attack_gammas:
                yield from _attack_tasks(request, model, word, f"{options.title}  {word}", axes)
            if settings.map_points and model not in mapped:
                mapped.append(model)
                yield request.task(
                    MapTask(model, settings.map_points),
                    label=f"{options.title}  {word}  contour plot",
                    axes={**axes, "part": "map", "point": -1},
                    version=VERSION,
                    group=group,
                )


def _attack_tasks(
    request: Request[LocalSafetySettings], model: ClassifierParams, word: str, title: str, axes: Axes
) -> Iterator[Task[object]]:
    """Yield one task per test point that follows the attack alone to larger radii."""
    settings = request.settings
    for point in range(settings.points):
        yield request.task(
            AttackTask(model, point, word, settings.attack_gammas),
            label=f"{title}  point {point}  attack at larger radii",
            axes={**axes, "part": "attack", "point": point},
            version=VERSION,
            cost=0.001 * len(settings.attack_gammas),
            group=model.group(request.require_dataset()),
        )


def _cost(settings: LocalSafetySettings, word: str) -> float:
    """Return a rough guess of CPU seconds per point."""
    count = split_word(word)[1] or 5
    rows = settings.train_rows / 1000
    return len(settings.gammas) * rows**2 * 0.02 * count


def label_name(problem: Problem, positive: bool) -> str:
    """Return the name of a class."""
    return problem.label_names[int(positive)]
