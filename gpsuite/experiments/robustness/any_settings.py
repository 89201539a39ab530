"""Settings and tasks of robustness/safety: test points of any dataset, one region each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import unknown_name
from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.robustness.classifiers import Array, Problem, read_problem
from gpsuite.experiments.robustness.free_inputs import available, check_images, check_words
from gpsuite.experiments.robustness.safety_settings import check_search
from gpsuite.experiments.robustness.settings import (
    ClassifierSettings,
    check_distinct,
    check_point,
    check_positive,
    check_radius,
    model_group,
    model_params,
    request_dataset,
)
from gpsuite.methods.robustness.regions import Region, l1_ball, l2_ball, linf_ball

POINT, CHECK = "safety_any", "safety_check"
VERSIONS = {POINT: 3, CHECK: 4}  # raised when the numbers of a kind of task change
DEFAULT_CLASSES = {name: ["3", "8"] for name in ("digits", "mnist")}  # where `classes` names none
NORMS = {"linf": linf_ball, "l2": l2_ball, "l1": l1_ball}


@dataclass
class SafetySettings(ClassifierSettings):
    """Settings of certified safety on any dataset.

    Attributes:
        features: which inputs may move (`free_inputs.VALID`).
        evaluations: of the marginal likelihood in training.
        norm: of the region: linf, l2 or l1.
        radius: of the region, in scaled inputs.
        domain: lowest and highest value of every input, in the dataset's own units; empty: each input's own range.
        points: test rows to certify; empty: the first `count`.
        count: how many, if `points` is empty.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both searches of a point; 0 gives the trivial bound.
        bound: name of the bound.
        starts: of the attack that is set against the bounds.
        certificates: whether to write a certificate for every point.
        certificate_boxes: limit per claim when a certificate is made; it then claims as much as it can prove.
        check_points: points at which the paper's statements are checked.
        check_tolerances: tolerances of these checks.
        samples: points sampled in each region by the checks.
    """

    features: str = "shortest5"
    evaluations: int = 20
    norm: str = "linf"
    radius: float = 0.5
    domain: list[float] = field(default_factory=list)
    points: list[int] = field(default_factory=list)
    count: int = 20
    tolerance: float = 0.02
    boxes: int = 20000
    bound: str = "rkhs_taylor"
    starts: int = 8
    certificates: bool = True
    certificate_boxes: int = 2000
    check_points: int = 5
    check_tolerances: list[float] = field(default_factory=lambda: [0.1, 0.02, 0.005])
    samples: int = 2000

    def check(self) -> None:
        """Refuse values of the right type that are impossible."""
        super().check()
        require(self.evaluations >= 1, "evaluations", self.evaluations, "must be 1 or more")
        if self.norm not in NORMS:
            raise unknown_name("norm", self.norm, NORMS)
        check_images([self.features], self.scaling)
        check_radius("radius", self.radius)
        ordered = not self.domain or (len(self.domain) == 2 and self.domain[0] < self.domain[1])
        require(ordered, "domain", self.domain, "two increasing numbers, or [] for every input's own range")
        for point in self.points:
            check_point("points", point, self.test_rows)
        if self.points:
            check_distinct("points", self.points)
        require(1 <= self.count <= self.test_rows, "count", self.count, f"must be 1 to {self.test_rows}")
        check_search(self.tolerance, self.boxes, self.bound)
        for name in ("starts", "samples", "certificate_boxes"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
        require(self.check_points >= 0, "check_points", self.check_points, "must be 0 or more")
        for tolerance in self.check_tolerances:
            check_positive("check_tolerances", tolerance)

    @property
    def chosen_points(self) -> list[int]:
        """The test rows to certify."""
        return self.points or list(range(self.count))


def plan(request: Request) -> list[Task]:
    """Return one task per method and point, and the checks of the paper's statements at the first points.

    The data are read here, so that wrong labels, points and domains are refused before any work.

    Raises:
        UserError: if the data have not two classes or too few rows, or a point lies outside the domain.
    """
    settings: SafetySettings = request.settings
    dataset = request_dataset(request)
    word = available(settings.features)
    chosen = replace(settings, classes=classes_of(dataset.name, settings))
    tasks = []
    for number, (method, options) in enumerate(request.methods.items()):
        model = model_params(request, chosen, options, 0, settings.evaluations)
        if number == 0:
            problem = read_problem(dataset, model)
            check_words([word], problem.X.shape[1])
            check_images([word], settings.scaling, problem.input_names)
            _check_domain(problem, dataset, settings)
        group = model_group(dataset, model)
        region = {
            "features": word,
            "norm": settings.norm,
            "radius": settings.radius,
            "domain": settings.domain,
        }
        search = {name: getattr(settings, name) for name in ("boxes", "bound", "starts")}
        for rank, point in enumerate(settings.chosen_points):
            shared = {"model": model, "point": point, **region, **search}
            own = {
                **shared,
                "kind": POINT,
                "tolerance": settings.tolerance,
                "certificate_boxes": settings.certificate_boxes if settings.certificates else 0,
            }
            tasks.append(
                _task(request, f"{options.title}  point {point}", method, "point", point, own, group)
            )
            if rank < settings.check_points:
                checks = {"tolerances": settings.check_tolerances, "samples": settings.samples}
                own = {**shared, "kind": CHECK, **checks}
                title = f"{options.title}  checks at point {point}"
                tasks.append(_task(request, title, method, "check", point, own, group))
    return tasks


def classes_of(dataset: str, settings: SafetySettings) -> list[str]:
    """Return the two labels asked for: the user's, 3 and 8 of digits, else none, the dataset's own."""
    return settings.classes or DEFAULT_CLASSES.get(dataset, [])


def point_region(problem: Problem, data_rows: Array, params: Mapping[str, Any], free: list[int]) -> Region:
    """Return a point's region, clipped to the domain.

    Args:
        problem: gives the scaled point.
        data_rows: all inputs of the dataset in its own units, [R, D].
        params: of the task.
        free: inputs that may move.

    Raises:
        UserError: if the point lies outside the domain.
    """
    point = int(params["point"])
    x, own = problem.X_test[point], data_rows[problem.test_rows[point]]
    low, high = own_domain(data_rows, params["domain"])
    domain = (x + (low - own) / problem.scale, x + (high - own) / problem.scale)
    return NORMS[params["norm"]](x, float(params["radius"]), free, domain)


def own_domain(data_rows: Array, domain: list[float]) -> tuple[Array, Array]:
    """Return lowest and highest values [D] of the inputs, in the dataset's own units."""
    if not domain:
        return data_rows.min(axis=0), data_rows.max(axis=0)
    inputs = data_rows.shape[1]
    return np.full(inputs, float(domain[0])), np.full(inputs, float(domain[1]))


def _check_domain(problem: Problem, dataset: PreparedDataset, settings: SafetySettings) -> None:
    rows = load(dataset).X
    low, high = own_domain(rows, settings.domain)
    for point in settings.chosen_points:
        x = rows[problem.test_rows[point]]
        outside = np.flatnonzero((x < low) | (x > high))
        if len(outside):
            name = problem.input_names[outside[0]]
            fault = f"test point {point} lies outside: its {name} is {x[outside[0]]:g}"
            require(False, "domain", settings.domain, fault)


def _task(
    request: Request, label: str, method: str, part: str, point: int, params: dict[str, Any], group: str
) -> Task:
    dataset = request_dataset(request)
    return Task(
        experiment=request.experiment,
        label=label,
        axes={"method": method, "part": part, "point": point},
        params=params,
        dataset=dataset,
        version=VERSIONS[params["kind"]],
        group=group,
        cost=2.0 * (min(dataset.rows, request.settings.train_rows) / 300) ** 2,
        budget_seconds=request.budget_seconds,
    )
