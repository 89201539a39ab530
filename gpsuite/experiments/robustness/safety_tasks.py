"""Settings and tasks of robustness/safety: test points of any dataset, one region each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError, unknown
from gpsuite.experiments.base import MethodOptions, Request, Task, require
from gpsuite.experiments.robustness.classifiers import (
    Problem,
    class_count,
    classifier_method,
    classifier_params,
    present_classes,
    read_classes,
    read_rows,
)
from gpsuite.experiments.robustness.inputs import (
    BY_NAME,
    Chosen,
    check_images,
    check_words,
    choose,
    refuse_categories_alone,
    version_with,
)
from gpsuite.experiments.robustness.tasks import (
    AnyDataSettings,
    ClassifierParams,
    ClassifierSettings,
    Radius,
    increasing_pair,
    up_to_ten,
)
from gpsuite.experiments.settings import Count, Positive, at_least, one_of, unique
from gpsuite.experiments.tasks import left_out_as, take
from gpsuite.methods.robustness.point_search import SEVERAL_CLASS_BOUNDS, bound_names
from gpsuite.methods.robustness.search.regions import Region, box, l1_ball, l2_ball, linf_ball

DEFAULT_CLASSES = {name: ["3", "8"] for name in ("digits", "mnist")}  # where `classes` names none
# raised when the numbers of a kind of task change
POINT_VERSION, CHECK_VERSION, CLASSES_VERSION, STUDY_VERSION = 5, 4, 8, 5
SECONDS = {"safety_any": 0.1, "safety_check": 1.2, "safety_classes": 1.0}  # of a task's kind, with 300 rows
NORMS = {"linf": linf_ball, "l2": l2_ball, "l1": l1_ball}


@dataclass
class SafetySettings(AnyDataSettings):
    """Settings of certified safety on any dataset.

    Attributes:
        classes: two to ten labels, of two the negative class first. Empty: the dataset's classes.
        features: inputs that may move.
        uncertain: names of the inputs that may move. Empty: `features` chooses.
        within: distance per name of `uncertain`, in the input's units. Empty: `radius` for all.
        evaluations: largest number of evaluations of the marginal likelihood in training.
        train_for_radius: radius of a box. Among equally accurate lengthscales, training takes those with which most
            training rows are proved in this box, by cross-validation. 0: those of the marginal likelihood.
        norm: norm of the region: linf, l2 or l1.
        radius: radius of the region, in scaled inputs.
        domain: lowest and highest value of every input, in the dataset's units. Empty: each input's range in the data.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both searches of a point, 0 gives the trivial bound.
        bound: name of the bound.
        starts: starting points of the attack that the bounds are compared with.
        certificates: whether to write a certificate for every point.
        certificate_boxes: limit per claim when a certificate is made. It then claims as much as it can prove.
        check_points: points at which the paper's statements are checked.
        check_tolerances: tolerances of these checks.
        margin_radii: radii at which these points are judged among three classes.
        margin_boxes: limit for all searches of one of these verdicts.
        samples: points sampled in each region by the checks.
    """

    classes: Annotated[list[str], up_to_ten]
    features: str
    uncertain: Annotated[list[str], unique]
    within: list[Positive]
    evaluations: Count
    train_for_radius: Radius
    norm: Annotated[str, one_of(NORMS)]
    radius: Radius
    domain: Annotated[list[float], increasing_pair]
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]
    bound: Annotated[str, one_of(bound_names)]
    starts: Count
    certificates: bool
    certificate_boxes: Count
    check_points: Annotated[int, at_least(0)]
    check_tolerances: list[Positive]
    margin_radii: Annotated[list[Positive], unique]
    margin_boxes: Count
    samples: Count

    def check(self) -> None:
        """Refuse features that the inputs do not have, and more test rows than there are."""
        super().check()
        if not self.uncertain:
            check_images([self.features], self.scaling)
        fits = len(self.within) in (0, len(self.uncertain))
        require(fits, "within", self.within, f"one amount per input of uncertain={self.uncertain} is needed")
        require(not self.within or self.norm == "linf", "norm", self.norm, "amounts of `within` are a box's: linf")
        self.refuse_absent_points(self.test_rows)


@dataclass(frozen=True, kw_only=True)
class RegionTask:
    """The region around a test point. Further fields as in `SafetySettings`.

    Attributes:
        model: the classifier.
        point: number of the test row.
        features: inputs that may move.
        uncertain: names of inputs that may move, instead. Of no name the features choose.
        within: how far each of them, in its own units; without, by the radius.
    """

    model: ClassifierParams
    point: int
    features: str
    norm: str
    radius: float
    domain: Sequence[float]
    boxes: int
    bound: str
    starts: int
    uncertain: tuple[str, ...] = field(default=(), metadata=left_out_as(()))
    within: tuple[float, ...] = field(default=(), metadata=left_out_as(()))
    kind: str


@dataclass(frozen=True, kw_only=True)
class PointTask(RegionTask):
    """A certified range, a verdict and an attack. No certificate at 0 of its boxes."""

    tolerance: float
    certificate_boxes: int
    kind: str = "safety_any"


@dataclass(frozen=True, kw_only=True)
class CheckTask(RegionTask):
    """The paper's statements, checked at a point."""

    tolerances: Sequence[float]
    samples: int
    kind: str = "safety_check"


def plan(request: Request[SafetySettings]) -> list[Task[object]]:
    """Return one task per method and point, and the checks of the paper's statements at the first points.

    The data are read here, so that wrong labels, points and domains are refused before any work.

    Raises:
        UserError: if the data have not the classes or too few rows, or a point lies outside the domain.
    """
    settings, dataset = request.settings, request.require_dataset()
    chosen = replace(settings, classes=classes_of(dataset.name, settings))
    tasks: list[Task[object]] = []
    several = has_several(dataset, settings)
    if several:
        check_bound(settings.bound, class_count(load(dataset), chosen.classes))
    methods = methods_of_several(request.methods) if several else request.methods
    for number, (name, options) in enumerate(methods.items()):
        model = classifier_params(request, chosen, options, 0, settings.evaluations)
        if number == 0:
            problem = read_rows(dataset, model)
        method = classifier_method(options)
        method.check(problem, model)
        _check_free(problem, request)
        check_domain(problem, dataset, settings.domain, settings.chosen_points)
        own: list[Task[RegionTask]] = []
        for rank, point in enumerate(settings.chosen_points):
            judged, version = _judged(settings, model, point, several)
            own.append(_task(request, judged, f"{options.title}  point {point}", name, "point", version))
            if rank < settings.check_points and method.refit is not None and not several:
                check = take(CheckTask, settings, model=model, point=point, tolerances=settings.check_tolerances)
                title = f"{options.title}  checks at point {point}"
                own.append(_task(request, check, title, name, "check", CHECK_VERSION))
        tasks += _priced(own, problem)
    return tasks if several else [*tasks, *_three_classes(request, chosen)]


def _three_classes(request: Request[SafetySettings], chosen: SafetySettings) -> list[Task[object]]:
    """Return verdicts among three classes at the checked points, over regions of several radii.

    The classes are the two that are compared and the first other one.

    There are none if the data have two classes, Laplace's method is not requested, or the bound is not for several.
    """
    dataset, settings = request.require_dataset(), request.settings
    present = present_classes(load(dataset))[2]
    others = [name for name in present if name not in chosen.classes]
    methods = {name: each for name, each in _for_several(request.methods).items() if classifier_method(each).refit}
    if len(present) < 3 or len(chosen.classes) != 2 or not methods or settings.bound not in SEVERAL_CLASS_BOUNDS:
        return []
    method, options = next(iter(methods.items()))
    three = replace(chosen, classes=[*chosen.classes, others[0]])
    model = classifier_params(request, three, options, 0, settings.evaluations)
    try:
        problem = read_classes(dataset, model)
    except UserError:
        # too few rows of the third class: nobody requested it
        return []
    found: list[Task[RegionTask]] = []
    points = settings.chosen_points[: settings.check_points]
    uncertified = replace(settings, certificates=False, boxes=settings.margin_boxes, within=[])
    for point, radius in itertools.product(points, settings.margin_radii):
        params, _ = _judged(replace(uncertified, radius=radius), model, point, True)
        title = f"{options.title}  three classes at point {point}, radius {radius:g}"
        task = _task(request, params, title, method, "three_classes", STUDY_VERSION)
        found.append(replace(task, axes={**task.axes, "radius": radius}))
    return _priced(found, problem)


def _judged(settings: SafetySettings, model: ClassifierParams, point: int, several: bool) -> tuple[PointTask, int]:
    kind, version = ("safety_classes", CLASSES_VERSION) if several else ("safety_any", POINT_VERSION)
    boxes = settings.certificate_boxes if settings.certificates else 0
    params = take(PointTask, settings, model=model, point=point, certificate_boxes=boxes)
    return replace(params, kind=kind), version


def classes_of(dataset: str, settings: ClassifierSettings) -> list[str]:
    """Return the labels requested: the user's, 3 and 8 of digits, otherwise none, the dataset's own."""
    return settings.classes or DEFAULT_CLASSES.get(dataset, [])


def has_several(dataset: PreparedDataset, settings: SafetySettings) -> bool:
    """Return whether more than two classes are compared."""
    data = load(dataset)
    return data.task == "classification" and class_count(data, classes_of(dataset.name, settings)) > 2


def check_bound(bound: str, classes: int) -> None:
    """Refuse a bound that there is not for so many classes.

    Raises:
        UserError: if there is none of this name.
    """
    fault = "more than two classes have the bound rkhs_taylor, three also paper"
    require(bound in SEVERAL_CLASS_BOUNDS and (bound != "paper" or classes == 3), "bound", bound, fault)


def _for_several(methods: Mapping[str, MethodOptions]) -> dict[str, MethodOptions]:
    return {name: each for name, each in methods.items() if classifier_method(each).most_classes(each) > 2}


def methods_of_several(methods: Mapping[str, MethodOptions]) -> dict[str, MethodOptions]:
    """Return the methods that there are for several classes. Laplace's has the softmax for its link then.

    Raises:
        UserError: if there is none.
    """
    found = _for_several(methods)
    if not found:
        fault = f"{', '.join(each.title for each in methods.values())} is for two classes"
        raise UserError(f"methods={list(methods)}: {fault}. Use method=laplace, or name two classes", key="methods")
    return found


def point_region(
    problem: Problem, data_rows: FloatArray, params: RegionTask, lengthscales: FloatArray
) -> tuple[Chosen, Region]:
    """Return a point's free inputs and its region, clipped to the domain.

    Args:
        problem: gives the scaled point.
        data_rows: all inputs of the dataset in its own units, [R, D].
        params: of the task.
        lengthscales: of the classifier, [D].

    Raises:
        UserError: if the point lies outside the domain.
    """
    x, own = problem.X_test[params.point], data_rows[problem.test_rows[params.point]]
    low, high = own_domain(data_rows, params.domain)
    domain = (x + (low - own) / problem.scale, x + (high - own) / problem.scale)
    places = np.array([problem.input_names.index(name) for name in params.uncertain], dtype=np.int64)
    chosen = Chosen(np.sort(places), BY_NAME) if len(places) else choose(params.features, problem, lengthscales, x)
    if params.within:
        radii = np.zeros(len(x))
        radii[places] = np.array(params.within) / problem.scale[places]
        return chosen, box(x, radii, domain)
    return chosen, NORMS[params.norm](x, params.radius, chosen.inputs.tolist(), domain)


def own_domain(data_rows: FloatArray, domain: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return lowest and highest values [D] of the inputs, in the dataset's own units."""
    if not domain:
        return data_rows.min(axis=0), data_rows.max(axis=0)
    inputs = data_rows.shape[1]
    return np.full(inputs, float(domain[0])), np.full(inputs, float(domain[1]))


def _check_free(problem: Problem, request: Request[SafetySettings]) -> None:
    """Refuse unknown inputs, and rules that choose none of these."""
    settings = request.settings
    for name in settings.uncertain:
        if name not in problem.input_names:
            raise unknown(f"uncertain={name}: no such input", name, problem.input_names, "uncertain")
    if not settings.uncertain:
        refuse_categories_alone(len(problem.numbers))
        check_words([settings.features], len(problem.numbers), request.model)
        check_images([settings.features], settings.scaling, problem.input_names)


def check_domain(problem: Problem, dataset: PreparedDataset, domain: Sequence[float], points: Sequence[int]) -> None:
    """Raise UserError if a test point lies outside the domain."""
    rows = load(dataset).X
    low, high = own_domain(rows, domain)
    for point in points:
        x = rows[problem.test_rows[point]]
        outside = np.flatnonzero((x < low) | (x > high))
        if len(outside):
            name = problem.input_names[outside[0]]
            fault = f"test point {point} lies outside: its {name} is {x[outside[0]]:g}"
            require(False, "domain", list(domain), fault)


def _task(
    request: Request[SafetySettings], params: RegionTask, label: str, method: str, part: str, version: int
) -> Task[RegionTask]:
    dataset = request.require_dataset()
    return request.task(
        params,
        label=label,
        axes={"method": method, "part": part, "point": params.point},
        version=version_with(load(dataset), version),
        group=params.model.group(dataset),
    )


def _priced(tasks: Sequence[Task[RegionTask]], problem: Problem) -> list[Task[object]]:
    """Return the tasks on one classifier with their seconds. Each includes its part of the training.

    Seconds are one core's with 300 rows of digits. They grow with the square of the rows that the posterior holds.
    """
    found: list[Task[object]] = []
    for task in tasks:
        model = task.params.model
        cost = classifier_method(model.method).cost(model, len(problem.train_rows), len(problem.label_names))
        own = SECONDS[task.params.kind] * (cost.held / 300) ** 2
        found.append(replace(task, cost=cost.seconds / len(tasks) + own))
    return found
