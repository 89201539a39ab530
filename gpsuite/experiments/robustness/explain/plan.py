"""Tasks of robustness/explain: test points of any dataset, all inputs of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.robustness.explain.settings import ExplainSettings
from gpsuite.experiments.robustness.safety.plan import methods_of_several, own_domain
from gpsuite.experiments.robustness.safety.settings import DEFAULT_CLASSES
from gpsuite.experiments.robustness.shared.classifiers import Problem, read_problem
from gpsuite.experiments.robustness.shared.free_inputs import refuse_categories_alone, version_with
from gpsuite.experiments.robustness.shared.several_classes import class_count, read_classes
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, classifier_params

# raised when the numbers of a task change; the classifier of two classes has its own in the model
VERSION, CLASSES_VERSION = 1, 3
SOFTMAX_LINE = 0.4  # seconds of an input for each of several classes, measured with 5 inputs and 3 classes


@dataclass(frozen=True)
class PointTask:
    """What every input does alone at a test point.

    Attributes:
        model: the classifier.
        point: number of the test row.
        radius: as every other field, of `ExplainSettings`.
    """

    model: ClassifierParams
    point: int
    radius: float
    domain: Sequence[float]
    tolerance: float
    boxes: int
    kind: str = "explain"


@dataclass(frozen=True)
class ClassesPointTask(PointTask):
    """The same among several classes, of the predicted class' probability."""

    kind: str = "explain_classes"


@dataclass(frozen=True)
class GradientTask:
    """Effects of falling radii against the gradient at a test point."""

    model: ClassifierParams
    point: int
    radii: Sequence[float]
    boxes: int
    kind: str = "explain_gradient"


def plan(request: Request[ExplainSettings]) -> list[Task[object]]:
    """Return one task per method and point, and of two classes the checks against the gradient at the first points.

    The data are read here, so that wrong labels, points and domains are refused before any work.

    Raises:
        UserError: if the data have not the classes or too few rows, or a point lies outside the domain.
    """
    settings, dataset = request.settings, request.require_dataset()
    chosen = replace(settings, classes=classes_of(dataset, settings))
    several = class_count(load(dataset), chosen.classes) > 2
    kind, version = (ClassesPointTask, CLASSES_VERSION) if several else (PointTask, VERSION)
    version, check_version = (version_with(load(dataset), each) for each in (version, VERSION))
    tasks: list[Task[object]] = []
    methods = methods_of_several(request.methods) if several else request.methods
    for number, (method, options) in enumerate(methods.items()):
        model = classifier_params(request, chosen, options, 0, settings.evaluations)
        if number == 0:
            problem = (read_classes if several else read_problem)(dataset, model)
            refuse_categories_alone(len(problem.numbers))
            _check_domain(request, problem)
        cost = 0.5 * (min(dataset.rows, settings.train_rows) / 300) ** 2
        cost += SOFTMAX_LINE * len(problem.input_names) * len(problem.label_names) if several else 0.0
        for rank, point in enumerate(settings.chosen_points):
            own = kind(model, point, settings.radius, settings.domain, settings.tolerance, settings.boxes)
            title = f"{options.title}  point {point}"
            axes: dict[str, str | int | float] = {"method": method, "part": "point", "point": point}
            group = model.group(dataset)
            tasks.append(request.task(own, label=title, axes=axes, version=version, cost=cost, group=group))
            if rank < settings.check_points and not several:
                check = GradientTask(model, point, settings.check_radii, settings.boxes)
                title, axes = f"{options.title}  gradient at point {point}", {**axes, "part": "gradient"}
                tasks.append(
                    request.task(check, label=title, axes=axes, version=check_version, cost=cost, group=group)
                )
    return tasks


def classes_of(dataset: PreparedDataset, settings: ExplainSettings) -> list[str]:
    """Return the labels asked for: the user's, 3 and 8 of digits, else none, the dataset's own."""
    return settings.classes or DEFAULT_CLASSES.get(dataset.name, [])


def _check_domain(request: Request[ExplainSettings], problem: Problem) -> None:
    settings, rows = request.settings, load(request.require_dataset()).X
    low, high = own_domain(rows, settings.domain)
    for point in settings.chosen_points:
        x = rows[problem.test_rows[point]]
        outside = np.flatnonzero((x < low) | (x > high))
        if len(outside):
            fault = (
                f"test point {point} lies outside: its {problem.input_names[outside[0]]} is {x[outside[0]]:g}"
            )
            require(False, "domain", settings.domain, fault)
