"""Tasks of robustness/safety: test points of any dataset, one region each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.robustness.safety.settings import (
    CHECK,
    DEFAULT_CLASSES,
    NORMS,
    POINT,
    SafetySettings,
)
from gpsuite.experiments.robustness.shared.classifiers import Array, Problem, read_problem
from gpsuite.experiments.robustness.shared.free_inputs import available, check_images, check_words
from gpsuite.experiments.robustness.shared.settings import model_group, model_params, request_dataset
from gpsuite.methods.robustness.search.regions import Region

VERSIONS = {POINT: 4, CHECK: 4}  # raised when the numbers of a kind of task change


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
