"""Tasks of robustness/regression: test points of any dataset, one box of inputs each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpsuite.data.loading import load
from gpsuite.experiments.base import MethodOptions, Request, Task, require
from gpsuite.experiments.robustness.methods import GPRegressionOptions
from gpsuite.experiments.robustness.regression.models import RegressionParams, read_regression
from gpsuite.experiments.robustness.regression.settings import RegressionSettings
from gpsuite.experiments.robustness.shared.classifiers import numbers_of
from gpsuite.experiments.robustness.shared.free_inputs import refuse_categories_alone, version_with
from gpsuite.seeds import derived_seed

VERSION = 3  # raised when the numbers of a task change


@dataclass(frozen=True)
class RangeTask:
    """Proved prediction ranges around a test point, with a certificate unless it may take no box.

    Attributes:
        model: the regression.
        point: number of the test row.
        uncertain: as every other field, of `RegressionSettings`.
    """

    model: RegressionParams
    point: int
    uncertain: Sequence[str]
    within: Sequence[float]
    radius: float
    quantiles: Sequence[float]
    tolerance: float
    boxes: int
    certificate_boxes: int
    samples: int
    kind: str = "regression_range"


def plan(request: Request[RegressionSettings]) -> list[Task[object]]:
    """Return one task per method and point.

    The data are read here, so that wrong names are refused before any work.

    Raises:
        UserError: if an input does not exist, there are several targets or too few rows.
    """
    settings, dataset = request.settings, request.require_dataset()
    tasks: list[Task[object]] = []
    for method, options in request.methods.items():
        model = _model(request, options)
        problem = read_regression(dataset, model)
        names = problem.inputs
        if not settings.uncertain:
            refuse_categories_alone(len(numbers_of(names, problem.level_inputs)))
        for name in settings.uncertain:
            require(name in names, "uncertain", name, f"no such input\nvalid: {', '.join(names)}")
        for point in settings.chosen_points:
            own = RangeTask(
                model=model,
                point=point,
                uncertain=settings.uncertain,
                within=settings.within,
                radius=settings.radius,
                quantiles=settings.quantiles,
                tolerance=settings.tolerance,
                boxes=settings.boxes,
                certificate_boxes=settings.certificate_boxes if settings.certificates else 0,
                samples=settings.samples,
            )
            tasks.append(
                request.task(
                    own,
                    label=f"{options.title}  point {point}",
                    axes={"method": method, "point": point},
                    version=version_with(load(dataset), VERSION),
                    cost=1.0,
                    group=f"{dataset.name}/{model.name}",
                )
            )
    return tasks


def _model(request: Request[RegressionSettings], options: MethodOptions) -> RegressionParams:
    assert isinstance(options, GPRegressionOptions)
    settings = request.settings
    return RegressionParams(
        inducing=options.inducing,
        version=options.method.version,
        kernel=request.model.kernel,
        ard=request.model.ard,
        noise_floor=request.model.noise_floor,
        draw_seed=derived_seed(request.seed, "draw", 0),
        evaluations=settings.evaluations,
        train_rows=settings.train_rows,
        test_rows=settings.test_rows,
    )
