"""Protocol of Blaas et al. 2020 for each dataset, shared by the experiments over one and over all three."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import BUDGET, DONE, Outcome, Request, SharedWork, Task, finite_or_none, require
from gpsuite.experiments.robustness.classifiers import (
    classifier_method,
    classifier_params,
    model_metrics,
    task_classifier,
    unconverged_is_diverged,
)
from gpsuite.experiments.robustness.inputs import check_images, check_words, choice_of_inputs, choose
from gpsuite.experiments.robustness.tasks import (
    AUTHORS,
    Axes,
    ClassifierParams,
    ClassifierSettings,
    Metrics,
    TrainingSettings,
)
from gpsuite.experiments.settings import Count, Positive, filled, one_of, unique
from gpsuite.experiments.tasks import take
from gpsuite.methods.robustness.point_search import probability_range
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.methods.robustness.verdict import ClassRange
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.statistics.estimates import Estimate, corrected_mean, finite, medians, slopes
from gpsuite.statistics.paired import Paired
from gpsuite.statistics.significance import corrected_t_p, shown_by_t, shown_together

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Study:
    """One dataset of the paper.

    Attributes:
        title: the paper's name for it, in lower case, as statistics carry it.
        scaling: of the inputs.
        features: which inputs move in Fig. 4.
        radii: half, a quarter and the whole of the largest radius in Fig. 2-3. The first is compared with the paper.
        tolerance: of each end of the probability's range.
    """

    title: str
    scaling: str
    features: str
    radii: tuple[float, ...]
    tolerance: float


STUDIES = {
    "synthetic2d": Study("synthetic2d", "none", "all", (0.7, 0.35, 1.4), 0.002),
    "spambase11": Study("spam", "all", "all", (0.07, 0.035, 0.14), 0.001),
    "mnist38": Study("mnist38", "pixels", "sift10", (0.5, 0.25, 1.0), 0.005),
}

STATED = "stated"
# Changes of how a classifier is trained, to show how the conclusions depend on it: the start and the search's box.
TRAININGS: dict[str, dict[str, float]] = {
    STATED: {},
    "high_start": {"start_variance": 100.0},
    "short_start": {"start_lengthscale": 0.5},
    "small_box": {"largest_variance": 100.0},
}

VERSION = 3  # raised when the numbers of a point change. The classifier has its own in the model
ROUNDING = 1e-9  # relative, of a variance at the end of the search's box

LAPLACE, EP = "laplace", "ep"
ABOUT_FIVE = (2.5, 10.0)  # "about 5 times", within a factor of two
SLACK = 1e-12  # the two definitions differ by sums of the same rounded numbers


@dataclass
class DeltaSettings(TrainingSettings):
    """Settings of the distribution of delta over test points, but for what belongs to a dataset.

    Attributes:
        points: number of test points, the first test rows.
        draws: random choices of training and test rows, 1 with protocol=authors, which has one.
        evaluations: numbers of evaluations of the marginal likelihood in training (the paper's epochs).
        boxes: limit on boxes per point.
        trainings: starts and limits of the training. The first is compared with the paper, the others are run on
            the first draw and radius. One with protocol=authors, which starts and ends as their code.
    """

    points: Count
    draws: Count
    evaluations: Annotated[list[Count], filled, unique]
    boxes: Count
    trainings: Annotated[list[Annotated[str, one_of(TRAININGS)]], filled, unique]

    def check(self) -> None:
        """Refuse more points than test rows, and what protocol=authors leaves no choice of."""
        super().check()
        enough = self.points <= self.test_rows
        require(enough, "points", self.points, f"must be at most test_rows={self.test_rows}")
        free = self.protocol != AUTHORS
        require(free or self.draws == 1, "draws", self.draws, "protocol=authors has one draw")
        require(free or len(self.trainings) == 1, "trainings", self.trainings, "protocol=authors has one training")


@dataclass
class SearchSettings(DeltaSettings, ClassifierSettings):
    """Search for delta on one dataset.

    Attributes:
        features: inputs that may move.
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
    """The class probability over the box (L-infinity) around one test point, as in `SearchSettings`."""

    model: ClassifierParams
    radius: float
    point: int
    features: str
    tolerance: float
    boxes: int
    kind: str = "delta"


def delta_tasks(
    request: Request[object], settings: SearchSettings, dataset: PreparedDataset, radii: Sequence[float], axes: Axes
) -> Iterator[Task[DeltaTask]]:
    """Yield one task per training, draw, number of evaluations, method, radius and test point.

    Args:
        request: the validated request.
        settings: what is trained and searched.
        dataset: a classification dataset.
        radii: of the boxes. Changed trainings are run with the first only.
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
                    own = {**axes, "method": method, "evaluations": evaluations, "draw": draw, "training": name}
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
    rows = min(settings.train_rows, dataset.rows)
    whole = classifier_method(model.method).cost(model, rows, 2)
    cost = whole.seconds / settings.points + 0.1 * (whole.held / 1000) ** 2 + 0.01
    about = f"{dataset.name}  {title}  {model.evaluations} evaluations  draw {draw}  radius {radius:g}"
    for point in range(settings.points):
        yield request.task(
            take(DeltaTask, settings, model=model, radius=radius, point=point),
            label=f"{about}  point {point}",
            axes={**axes, "radius": radius, "point": point},
            version=VERSION,
            cost=cost,
            group=model.group(dataset),
            dataset=dataset,
        )


@unconverged_is_diverged
def run_delta(task: Task[DeltaTask], shared: SharedWork) -> Outcome:
    """Bound the class probability over the box around one test point of a trained classifier."""
    params = task.params
    classifier = task_classifier(task, shared)
    problem, posterior, trained = classifier.problem, classifier.posterior, classifier.trained
    x = problem.X_test[params.point]
    free = choose(params.features, problem, posterior.lengthscales, x)
    region = linf_ball(x, params.radius, free.inputs.tolist(), problem.domain)
    budget = shared.budget(task.budget_seconds, boxes=params.boxes)
    found = probability_range(posterior, region, params.tolerance, budget)
    metrics = shared.once("model metrics", lambda: model_metrics(classifier))
    boxed = params.model.protocol != AUTHORS
    at_end = boxed and posterior.variance >= (1.0 - ROUNDING) * params.model.largest_variance
    limited = found.status == "budget" or bool(trained.cut_short)
    reason = "" if found.status == "closed" else f"{found.minimum.reason}; {found.maximum.reason}"
    return Outcome(
        {**range_metrics(found), **metrics, "variance_at_end": at_end, "chosen_by": free.by},
        BUDGET if limited else DONE,
        reason or trained.cut_short,
        headline=f"delta {found.spread[0]:.3f} to {found.spread[1]:.3f}",
    )


def range_metrics(found: ClassRange) -> Metrics:
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
    kept: Metrics = {name: finite_or_none(value) for name, value in numbers.items()}
    return {**kept, "boxes": found.boxes, "verdict": found.verdict.status}


def by_classifier(frame: pd.DataFrame) -> Paired:
    """Return the metrics by method and evaluations over draws and points. NaN if a record is missing.

    Args:
        frame: one row per record of one radius.
    """
    return Paired(frame, ["draw", "point"], ["method", "evaluations"])


def draw_medians(deltas: Paired, evaluations: int) -> tuple[FloatArray, FloatArray]:
    """Return Laplace's and EP's medians over the points where both are known, one per draw with such points."""
    laplace, ep = deltas("delta", LAPLACE, evaluations), deltas("delta", EP, evaluations)
    both = np.isfinite(laplace) & np.isfinite(ep)
    kept = both.any(axis=1)
    first, second = (medians(np.where(both, values, np.nan)[kept]) for values in (laplace, ep))
    return first, second


def log_ratios(deltas: Paired, evaluations: int) -> FloatArray:
    """Return the finite logarithms of the draws' ratios of median deltas Laplace / EP."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return finite(np.log(np.divide(*draw_medians(deltas, evaluations))))


def ratio_of_medians(deltas: Paired, evaluations: int, test_over_training: float) -> Estimate:
    """Return the ratio of median deltas Laplace / EP. NaN without pairs.

    Its interval is as wide, in logarithms, as that of the mean logarithm over training draws, which share rows. The
    test points of one draw share a classifier, so that one draw gives none.
    """
    laplace, ep = deltas.pair("delta", (LAPLACE, evaluations), (EP, evaluations))
    if not len(ep):
        return Estimate(float("nan"))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.median(laplace) / np.median(ep))
        found = corrected_mean(log_ratios(deltas, evaluations), test_over_training).moved_to(float(np.log(ratio)))
    low, high = float(np.exp(found.low)), float(np.exp(found.high))
    return Estimate(ratio, n=found.n, low=low, high=high, interval=found.interval)


def delta_claims(frames: Sequence[pd.DataFrame], test_over_training: float) -> list[Statistic]:
    """Return the statistics of conf/paper/blaas2020.yaml on one dataset.

    Args:
        frames: records of the shipped training, radius by radius. The sizes of ratios are judged at the first.
        test_over_training: test rows over training rows of a draw.
    """
    frame, tables = frames[0], [by_classifier(each) for each in frames]
    deltas, found = tables[0], [definitions_agree(frame)]
    if {LAPLACE, EP} <= set(frame["method"]):
        largest = deltas.levels("evaluations")[-1]
        ratio = ratio_of_medians(deltas, largest, test_over_training)
        pairs = len(deltas.pair("delta", (LAPLACE, largest), (EP, largest))[0])
        note = f"{pairs} test points" if pairs else ""
        found.append(Statistic.of("delta_ratio_laplace_over_ep", ratio, note=note))
    single = signs_of_one_draw(tables) if len(deltas.levels("draw")) == 1 else []
    return [*found, *claims_over_draws(tables, test_over_training), *single]


def claims_over_draws(tables: Sequence[Paired], test_over_training: float) -> list[Statistic]:
    """Return the paper's claims on one dataset as tests over training draws. NaN for one draw.

    Args:
        tables: `by_classifier` of each radius. The sizes of ratios and the trend are judged at the first.
        test_over_training: test rows over training rows of a draw.
    """
    deltas, found = tables[0], []
    if {LAPLACE, EP} <= set(deltas.levels("method")):
        ratios = [ratio_of_medians(deltas, each, test_over_training) for each in deltas.levels("evaluations")]
        found = [ep_more_robust(tables, test_over_training), claim("share_ratio_about_five", about_five(ratios))]
    return [*found, falls_with_evaluations(deltas, deltas.levels("method"), test_over_training)]


def signs_of_one_draw(tables: Sequence[Paired]) -> list[Statistic]:
    """Return what the paper's one draw says, by values and signs: its points share the classifiers, nothing is tested.

    Args:
        tables: as in `claims_over_draws`.
    """
    deltas, (low, high) = tables[0], ABOUT_FIVE
    methods, tried, found = deltas.levels("method"), deltas.levels("evaluations"), []
    if {LAPLACE, EP} <= set(methods):
        ratios = np.array([[ratio_of_medians(table, each, 0.0).value for each in tried] for table in tables])
        known = np.isfinite(ratios)
        found.append(claim("share_ep_smaller_by_sign", (ratios[known] > 1.0).tolist(), "radii and evaluations"))
        inside = (low <= ratios[0]) & (ratios[0] <= high)
        found.append(claim("share_ratio_about_five_by_value", inside[known[0]].tolist(), "evaluations"))
    if len(tried) < 3:
        return found
    curves = (
        np.array([medians(deltas("delta", method, each))[0] for each in tried]) for method in deltas.levels("method")
    )
    falls = [bool(slopes(curve[None], np.log(tried))[0] < 0.0) for curve in curves if np.isfinite(curve).all()]
    return [*found, claim("share_delta_falls_by_sign", falls, "methods")]


def ep_more_robust(tables: Sequence[Paired], test_over_training: float) -> Statistic:
    """Return the share of radii and evaluation counts at which EP's median delta is surely smaller (Holm)."""
    p_values, opposites = [], []
    for deltas, each in ((table, each) for table in tables for each in table.levels("evaluations")):
        laplace, ep = draw_medians(deltas, each)
        if len(ep) >= 2:
            total = laplace + ep
            relative = np.divide(laplace - ep, total, out=np.zeros_like(total), where=total > 0.0)
            p_values.append(corrected_t_p(relative, test_over_training))
            opposites.append(corrected_t_p(-relative, test_over_training))
    return claim("share_ep_more_robust", shown_together(p_values, opposites))


def about_five(ratios: Sequence[Estimate]) -> list[bool | None]:
    """Return which ratios are "about 5": the whole interval lies in the range. None if a part, none without one."""
    low, high = ABOUT_FIVE
    known = [each for each in ratios if np.isfinite([each.low, each.high]).all()]
    return [
        True if low <= each.low and each.high <= high else None if each.low <= high and low <= each.high else False
        for each in known
    ]


def falls_with_evaluations(deltas: Paired, methods: Sequence[str], test_over_training: float) -> Statistic:
    """Return the share of methods whose median delta falls with the logarithm of the evaluations, draw by draw."""
    cells = []
    tried = deltas.levels("evaluations")
    for method in methods:
        found = np.array([medians(deltas("delta", method, each)) for each in tried]).T
        found = found[np.isfinite(found).all(axis=1)]
        scale = found.mean(axis=1, keepdims=True)
        if len(tried) >= 3 and len(found) >= 2:
            relative = np.divide(found, scale, out=np.zeros_like(found), where=scale > 0.0)
            cells.append(shown_by_t(-slopes(relative, np.log(tried)), test_over_training))
    return claim("share_delta_falls_with_epochs", cells)


def definitions_agree(frame: pd.DataFrame) -> Statistic:
    """Count the records without Definition 1 <= pi_max - pi_min <= 2 Definition 1, attained or proved."""
    violations, counted = 0, 0
    for end in ("", "_proved"):
        delta, first = (frame[f"{name}{end}"].to_numpy(float) for name in ("delta", "deviation"))
        known = np.isfinite(delta) & np.isfinite(first)
        wrong = (delta < first - SLACK) | (delta > 2.0 * first + SLACK)
        violations, counted = violations + int((wrong & known).sum()), counted + int(known.sum())
    note = "attained and proved values of every record"
    return Statistic("violations_delta_definitions", violations, n=counted, note=note)
