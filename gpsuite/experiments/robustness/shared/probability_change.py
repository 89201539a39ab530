"""How far the class probability can move around a test point: the task that Fig. 4 and the posterior study share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    Outcome,
    Request,
    SharedWork,
    Task,
    finite_or_none,
    require,
)
from gpsuite.experiments.robustness.shared.classifiers import cut_short, model_metrics, task_classifier
from gpsuite.experiments.robustness.shared.free_inputs import (
    check_images,
    check_words,
    choice_of_inputs,
    choose,
)
from gpsuite.experiments.robustness.shared.settings import (
    ClassifierSettings,
    TrainingSettings,
)
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, classifier_params
from gpsuite.experiments.settings import Count, Positive, filled, one_of, unique
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.methods.robustness.verdict import ProbabilityRange, probability_range
from gpsuite.models.classification.approximation import NotConvergedError

STATED = "stated"
Axes = dict[str, str | int | float]


TRAININGS: dict[str, dict[str, float]] = {
    STATED: {},
    "high_start": {"start_variance": 100.0},
    "short_start": {"start_lengthscale": 0.5},
    "small_box": {"largest_variance": 100.0},
}


"""Changes of how a classifier is trained, to show what the conclusions owe to it: the start and the search's box."""


VERSION = 3  # raised when the numbers of a point change; the classifier has its own in the model


ROUNDING = 1e-9  # relative, of a variance at the end of the search's box


# CPU seconds per evaluation of the marginal likelihood at N = 1000
TRAINING_SECONDS = {"laplace": 0.18, "ep": 0.8}


@dataclass
class DeltaSettings(TrainingSettings):
    """Settings of the distribution of delta over test points, but for what belongs to a dataset.

    Attributes:
        points: number of test points, the first test rows.
        draws: random choices of training and test rows.
        evaluations: numbers of evaluations of the marginal likelihood in training (the paper's epochs).
        boxes: limit on boxes per point.
        trainings: starts and limits of the training; the first is held against the paper, the others are run on
            the first draw and radius.
    """

    points: Count
    draws: Count
    evaluations: Annotated[list[Count], filled, unique]
    boxes: Count
    trainings: Annotated[list[Annotated[str, one_of(TRAININGS)]], filled, unique]

    def check(self) -> None:
        """Refuse more points than test rows."""
        super().check()
        enough = self.points <= self.test_rows
        require(enough, "points", self.points, f"must be at most test_rows={self.test_rows}")


@dataclass
class SearchSettings(DeltaSettings, ClassifierSettings):
    """How delta is searched on one dataset.

    Attributes:
        features: which inputs may move.
        tolerance: largest gap between the attained and the proved probability at each end of the range.
    """

    features: Annotated[str, choice_of_inputs]
    tolerance: Positive

    def trained(self, name: str) -> SearchSettings:
        """Return the settings with the named change of training."""
        changes: dict[str, Any] = TRAININGS[name]
        return replace(self, **changes)


@dataclass(frozen=True)
class DeltaTask:
    """The class probability over the box around one test point.

    Attributes:
        model: the classifier.
        radius: of the box (L-infinity).
        point: number of the test row.
        features: which inputs may move.
        tolerance: largest gap at each end of the range.
        boxes: limit on boxes.
        kind: of task.
    """

    model: ClassifierParams
    radius: float
    point: int
    features: str
    tolerance: float
    boxes: int
    kind: str = "delta"


def delta_tasks(
    request: Request[object],
    settings: SearchSettings,
    dataset: PreparedDataset,
    radii: Sequence[float],
    axes: Axes,
) -> Iterator[Task[DeltaTask]]:
    """Yield one task per training, draw, number of evaluations, method, radius and test point.

    Args:
        request: the validated request.
        settings: what is trained and searched.
        dataset: a classification dataset.
        radii: of the boxes; changed trainings are run with the first only.
        axes: further columns of records.csv.
    """
    names = load(dataset).input_names
    check_words([settings.features], len(names), request.model)
    check_images([settings.features], settings.scaling, names)
    for name in settings.trainings:
        changed, main = settings.trained(name), name == settings.trainings[0]
        for draw in range(settings.draws if main else 1):
            for evaluations in settings.evaluations:
                for method, options in request.methods.items():
                    model = classifier_params(request, changed, options, draw, evaluations)
                    own = {
                        **axes,
                        "method": method,
                        "evaluations": evaluations,
                        "draw": draw,
                        "training": name,
                    }
                    for radius in radii if main else radii[:1]:
                        yield from _point_tasks(request, settings, dataset, model, radius, own)


def _point_tasks(
    request: Request[object],
    settings: SearchSettings,
    dataset: PreparedDataset,
    model: ClassifierParams,
    radius: float,
    axes: Axes,
) -> Iterator[Task[DeltaTask]]:
    title, draw = request.methods[str(axes["method"])].title, axes["draw"]
    rows = min(settings.train_rows, dataset.rows) / 1000
    per_evaluation = TRAINING_SECONDS.get(model.method.inference, 1.0) * rows**3
    cost = per_evaluation * model.evaluations / settings.points + 0.1 * rows**2 + 0.01
    about = f"{dataset.name}  {title}  {model.evaluations} evaluations  draw {draw}  radius {radius:g}"
    for point in range(settings.points):
        yield request.task(
            DeltaTask(model, radius, point, settings.features, settings.tolerance, settings.boxes),
            label=f"{about}  point {point}",
            axes={**axes, "radius": radius, "point": point},
            version=VERSION,
            cost=cost,
            group=model.group(dataset),
            dataset=dataset,
        )


def run_delta(task: Task[DeltaTask], shared: SharedWork) -> Outcome:
    """Bound the class probability over the box around one test point of a trained classifier."""
    params = task.params
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    x = problem.X_test[params.point]
    free = choose(params.features, problem, trained.fit.posterior.lengthscales, x)
    region = linf_ball(x, params.radius, free.inputs.tolist(), problem.domain)
    budget = Budget(task.budget_seconds, boxes=params.boxes, observer=shared.observer)
    found = probability_range(trained.fit.posterior, region, params.tolerance, budget)
    metrics = shared.once("model metrics", lambda: model_metrics(problem, trained))
    at_end = trained.hyperparameters.variance >= (1.0 - ROUNDING) * params.model.largest_variance
    limited = found.status == "budget" or cut_short(trained, params.model)
    reason = "" if found.status == "closed" else f"{found.minimum.reason}; {found.maximum.reason}"
    return Outcome(
        {**range_metrics(found), **metrics, "variance_at_end": at_end, "chosen_by": free.by},
        BUDGET if limited else DONE,
        reason or (trained.reason if limited else ""),
        headline=f"delta {found.spread[0]:.3f} to {found.spread[1]:.3f}",
    )


def range_metrics(found: ProbabilityRange) -> dict[str, float | int | str | bool | None]:
    """Return both definitions of delta, attained and proved, and what they are made of.

    delta is pi_max - pi_min (Sec. 6.2 of Blaas et al. 2020), deviation max |pi(x) - pi(x*)| (their Definition 1).
    """
    delta, delta_proved = found.spread
    deviation, deviation_proved = found.deviation
    numbers = {
        "delta": delta,
        "delta_proved": delta_proved,
        "deviation": deviation,
        "deviation_proved": deviation_proved,
        "probability": found.probability,
        "minimum": found.minimum.inner,
        "minimum_proved": found.minimum.outer,
        "maximum": found.maximum.inner,
        "maximum_proved": found.maximum.outer,
    }
    kept: dict[str, float | int | str | bool | None] = {
        name: finite_or_none(value) for name, value in numbers.items()
    }
    return {**kept, "boxes": found.boxes, "verdict": found.verdict.status}
