"""Local safety: certified ranges and attacks for growing radii (Blaas et al. 2020, Sec. 6.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.catalogue import read_spec
from gpsuite.data.loading import PreparedDataset, prepare
from gpsuite.experiments.base import BUDGET, DONE, Outcome, Request, SharedWork, Task, finite_or_none, require
from gpsuite.experiments.robustness.classifiers import (
    Problem,
    classifier_params,
    model_metrics,
    task_classifier,
    unconverged_is_diverged,
)
from gpsuite.experiments.robustness.inputs import check_images, check_words, choose, split_word
from gpsuite.experiments.robustness.tasks import AUTHORS, Axes, ClassifierParams, ClassifierSettings, Metrics, Radius
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, filled, increasing, one_of, unique
from gpsuite.experiments.tasks import take
from gpsuite.methods.robustness.point_search import PointSearch, bound_names
from gpsuite.methods.robustness.search.attacks import gpfgs, gpjm, strong_attack
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region, linf_ball
from gpsuite.methods.robustness.verdict import binary_comparison, judge
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.plugins import shipped_conf_dir
from gpsuite.seeds import stream

SHOWN = ("attack_fails", "locally_linear")
NAMED_POINT = re.compile(r"point(\d+)")
# dataset -> the one with all inputs of its file
WHOLE_FILE = {"spambase11": "spambase", "spambase11_authors": "spambase_authors"}
VERSION = 3  # raised when the numbers of a point change
ATTACK_VERSION = 4  # the same of an attack at larger radii
ATTACKS = ("gpfgs", "gpjm", "strong")
VERDICTS = ("safe", "unsafe", "unknown", "timeout")
MARGIN = 0.5  # around the points of the contour plot
FIT_POINTS = 40  # per coefficient of the linear fit

shown_point = Rule(
    lambda word: word in SHOWN or NAMED_POINT.fullmatch(word) is not None,
    f"unknown rule\nvalid: {', '.join(SHOWN)}, point<N> for a test row, from 0",
)


@dataclass
class LocalSafetySettings(ClassifierSettings):
    """Settings of Fig. 2 and 3 of Blaas et al. 2020.

    Attributes:
        features: inputs that may move. Each entry is a panel.
        evaluations: largest number of evaluations of the marginal likelihood in training, one number per entry of
            `features`, or one for all.
        gammas: radii of the L-infinity balls, in scaled inputs, increasing.
        attack_gammas: radii beyond `gammas` at which only GPFGS is run. Empty: none.
        tolerance: largest gap between attained and proved probability.
        points: number of test points.
        boxes: limit per search, 0 gives the trivial bound.
        starts: starting points of the strong attack.
        bound: name of the bound.
        shown: rule for the displayed point, one per entry of `features`, or one for all. attack_fails: GPFGS fails
            although an adversarial example exists. locally_linear: the latent mean is most nearly linear. point<N>:
            this test row, from 0.
        shown_labels: label of the displayed point, one per entry of `features`. Empty: any.
        shown_range: range of the class probability in the displayed curves. Empty: 0 to 1.
        map_points: points per axis of the contour plot, 0 for images.
        accuracy_splits: splits on which the accuracy is compared with that of all inputs of the file (SPAM only). At
            most 1 with protocol=authors, which has one.
    """

    features: Annotated[list[str], filled, unique]
    evaluations: list[Count]
    gammas: Annotated[list[Radius], filled, unique, increasing]
    attack_gammas: Annotated[list[Radius], unique, increasing]
    tolerance: Positive
    points: Count
    boxes: Annotated[int, at_least(0)]
    starts: Count
    bound: Annotated[str, one_of(bound_names)]
    shown: Annotated[list[str], filled]
    shown_labels: list[str]
    shown_range: Annotated[list[float], increasing]
    map_points: Annotated[int, at_least(0)]
    accuracy_splits: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse unknown features, lists of another length than theirs, and more points than test rows."""
        super().check()
        check_images(self.features, self.scaling)
        for gamma in self.attack_gammas[:1]:
            require(
                gamma > self.gammas[-1],
                "attack_gammas",
                gamma,
                f"must be above {self.gammas[-1]:g}, the last of gammas",
            )
        for word in self.shown:
            shown_point.check("shown", word)
        several = self.accuracy_splits > 1 and self.protocol == AUTHORS
        require(not several, "accuracy_splits", self.accuracy_splits, "protocol=authors has one split")
        require(len(self.shown_range) in (0, 2), "shown_range", self.shown_range, "two increasing numbers, or []")
        count = len(self.features)
        for name, values, lengths in (
            ("evaluations", self.evaluations, (1, count)),
            ("shown", self.shown, (1, count)),
            ("shown_labels", self.shown_labels, (0, count)),
        ):
            fits = len(values) in lengths
            require(fits, name, values, f"one per entry of features={self.features} is needed")
        require(self.points <= self.test_rows, "points", self.points, f"must be 1 to {self.test_rows}")

    def evaluations_of(self, number: int) -> int:
        return self.evaluations[number if len(self.evaluations) > 1 else 0]

    def shown_of(self, number: int) -> str:
        """Return the rule for panel `number`'s displayed point."""
        return self.shown[number if len(self.shown) > 1 else 0]

    def label_of(self, number: int) -> str:
        """Return the label of panel `number`'s displayed point, or an empty string."""
        return self.shown_labels[number] if self.shown_labels else ""


@dataclass(frozen=True)
class CurveTask:
    """Certified range and attacks of one test point for growing radii, as in `LocalSafetySettings`."""

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


def _point_tasks(request: Request[LocalSafetySettings]) -> Iterator[Task[object]]:
    """Yield one task per panel, method and test point, those of only the attack, and one for every contour plot.

    Raises:
        UserError: if the features do not fit the dataset.
    """
    settings, dataset = request.settings, request.require_dataset()
    check_words(settings.features, int(dataset.spec["n_inputs"]), request.model)
    mapped: list[str] = []  # panels of one training share the plot
    for number, word in enumerate(settings.features):
        for method, options in request.methods.items():
            model = classifier_params(request, settings, options, 0, settings.evaluations_of(number))
            group = model.group(dataset)
            axes: Axes = {"features": word, "method": method}
            for point in range(settings.points):
                yield request.task(
                    take(CurveTask, settings, model=model, point=point, features=word),
                    label=f"{options.title}  {word}  point {point}",
                    axes={**axes, "part": "point", "point": point},
                    version=VERSION,
                    cost=_cost(settings, word),
                    group=group,
                )
            if settings.attack_gammas:
                yield from _attack_tasks(request, model, word, f"{options.title}  {word}", axes)
            if settings.map_points and model.name not in mapped:
                mapped.append(model.name)
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
    settings = request.settings
    for point in range(settings.points):
        yield request.task(
            AttackTask(model, point, word, settings.attack_gammas),
            label=f"{title}  point {point}  attack at larger radii",
            axes={**axes, "part": "attack", "point": point},
            version=ATTACK_VERSION,
            cost=0.001 * len(settings.attack_gammas),
            group=model.group(request.require_dataset()),
        )


def _cost(settings: LocalSafetySettings, word: str) -> float:
    count = split_word(word)[1] or 5
    rows = settings.train_rows / 1000
    return len(settings.gammas) * rows**2 * 0.02 * count


@dataclass(frozen=True)
class Step:
    """Results at one radius. Probabilities of the positive class.

    Attributes:
        extremum: the certified extremum towards the other class.
        verdict: index in `VERDICTS`.
        attacks: probability each of `ATTACKS` surely reaches.
        checked: the classifier itself puts the witness in the other class.
    """

    extremum: Extremum
    verdict: int
    attacks: tuple[float, ...]
    checked: bool


@unconverged_is_diverged
def run_accuracy(task: Task[AccuracyTask], shared: SharedWork) -> Outcome:
    """Return a classifier's accuracy."""
    metrics = model_metrics(task_classifier(task, shared))
    return Outcome(metrics, headline=f"accuracy {metrics['test_accuracy']:.4f}")


@unconverged_is_diverged
def run_map(task: Task[MapTask], shared: SharedWork) -> Outcome:
    """Return the contour plot of a classifier."""
    classifier = task_classifier(task, shared)
    return contour_map(classifier.problem, classifier.posterior, task.params.map_points)


@unconverged_is_diverged
def run_curve(task: Task[CurveTask], shared: SharedWork) -> Outcome:
    """Return bounds, attacks and verdicts of one test point at every radius.

    When the task's seconds end, the remaining radii get the trivial bound.
    """
    clock, params, point = shared.budget(task.budget_seconds), task.params, task.params.point
    classifier = task_classifier(task, shared)
    problem, posterior, gammas = classifier.problem, classifier.posterior, params.gammas
    x = problem.X_test[point]
    chosen = choose(params.features, problem, posterior.lengthscales, x)
    regions = [linf_ball(x, gamma, chosen.inputs.tolist(), problem.domain) for gamma in gammas]
    search = PointSearch(posterior, x, regions[0].free, params.bound)
    [comparison], (probability, *_) = search.centre.comparisons, search.centre.probability(search.followed())
    steps = [_step(search, region, params, clock) for region in regions]
    positive, sign = bool(problem.y_test[point] > 0), comparison.sign
    metrics: Metrics = {
        "row": int(problem.test_rows[point]),
        "label": problem.label_names[int(positive)],
        "correct": positive == (sign < 0),
        "probability": probability,
        "sign": sign,
        "chosen_by": chosen.by,
        "free_inputs": len(chosen.inputs),
        **curve_metrics(gammas, sign, steps, params.tolerance),
        "linear_r2": finite_or_none(linear_fit(posterior, regions[-1], point)),
    }
    ended = [step.extremum for step in steps if step.extremum.status == "budget"]
    arrays = _arrays(gammas, steps, x, chosen.inputs)
    headline = f"p {probability:.3f}, first unsafe radius {metrics['cross_gamma']}"
    reason = f"{len(ended)} of {len(steps)} radii: {ended[0].reason}" if ended else ""
    return Outcome(metrics, BUDGET if ended else DONE, reason, arrays, headline)


@unconverged_is_diverged
def run_attack(task: Task[AttackTask], shared: SharedWork) -> Outcome:
    """Return the class probability that GPFGS reaches at every radius, and the latent mean there."""
    params = task.params
    classifier = task_classifier(task, shared)
    problem, posterior = classifier.problem, classifier.posterior
    x = problem.X_test[params.point]
    free = choose(params.features, problem, posterior.lengthscales, x).inputs.tolist()
    regions = [linf_ball(x, gamma, free, problem.domain) for gamma in params.attack_gammas]
    points = np.stack([gpfgs(posterior, region) for region in regions])
    reached = posterior.probability(points)
    arrays = {"gamma": np.array(params.attack_gammas), "gpfgs": reached, "mean": posterior.latent(points)[0]}
    return Outcome({"largest_gpfgs": float(reached.max())}, arrays=arrays)


def curve_metrics(
    gammas: Sequence[float], sign: int, steps: Sequence[Step], tolerance: float
) -> dict[str, float | int | bool | None]:
    """Return what a curve says in single numbers.

    Args:
        gammas: the radii, increasing.
        sign: 1 if the search is for the maximum.
        steps: one per radius.
        tolerance: of the searches. The curve counts as monotone up to it.
    """
    inner = np.array([step.extremum.inner for step in steps])
    outer = np.array([step.extremum.outer for step in steps])
    attacks = np.array([step.attacks for step in steps])
    comparison = binary_comparison(sign)
    cross = first_radius(gammas, comparison.crossed(inner))
    safe = np.array([step.verdict == VERDICTS.index("safe") for step in steps])
    falls = sign * np.diff(np.stack([inner, outer]), axis=1) >= -tolerance
    first = {
        f"{name}_gamma": first_radius(gammas, comparison.crossed(attacks[:, number]))
        for number, name in enumerate(ATTACKS)
    }
    return {
        "cross_gamma": cross,
        "safe_gamma": float(np.array(gammas)[safe].max()) if safe.any() else None,
        **first,
        "largest_gpfgs": float(attacks[:, 0].max()),
        "largest_gpfgs_towards": float(sign * np.max(sign * attacks[:, 0])),
        "attack_fails_radii": int(np.sum(comparison.crossed(inner) & ~comparison.crossed(attacks[:, 0]))),
        "witness_checked": any(step.checked for step in steps),
        "monotone": bool(falls.all()),
        "boxes": sum(step.extremum.boxes for step in steps),
        "largest_gap": max(step.extremum.gap for step in steps),
        "search_seconds": sum(step.extremum.seconds for step in steps),
    }


def first_radius(gammas: Sequence[float], hit: BoolArray) -> float | None:
    """Return the smallest radius with a hit, or None."""
    return float(gammas[int(np.argmax(hit))]) if hit.any() else None


def _step(search: PointSearch, region: Region, params: CurveTask, clock: Budget) -> Step:
    posterior, [comparison] = search.posterior, search.centre.comparisons
    budget = clock.rest(boxes=params.boxes, observer=clock.observer)
    sign = comparison.sign
    extremum = search.extremum(region, sign, params.tolerance, budget)
    verdict = judge(search.centre, (extremum,), region)
    name = verdict.status
    if name == "unknown" and extremum.status == "budget" and "seconds" in extremum.reason:
        name = "timeout"
    rng = stream(0, "attack", params.point)
    strong = strong_attack(posterior, region, sign, params.starts, rng)[0]
    path = np.vstack([strong[None], gpfgs(posterior, region)[None], gpjm(posterior, region)])
    reached = search.attained(path[:, region.free], sign)
    attacks = (float(reached[1]), float(sign * np.max(sign * reached[2:])), float(reached[0]))
    checked = verdict.counterexample is not None and bool(
        comparison.crossed(posterior.probability(verdict.counterexample[None]))[0]
    )
    return Step(extremum, VERDICTS.index(name), attacks, checked)


def _arrays(
    gammas: Sequence[float], steps: Sequence[Step], x: FloatArray, free: IntArray
) -> dict[str, npt.NDArray[Any]]:
    missing = np.full(len(free), np.nan)
    witness = [missing if s.extremum.witness is None else s.extremum.witness for s in steps]
    attacks = np.array([step.attacks for step in steps])
    return {
        "gamma": np.array(gammas),
        "inner": np.array([step.extremum.inner for step in steps]),
        "outer": np.array([step.extremum.outer for step in steps]),
        **{name: attacks[:, number] for number, name in enumerate(ATTACKS)},
        "verdict": np.array([step.verdict for step in steps]),
        "boxes": np.array([step.extremum.boxes for step in steps]),
        "seconds": np.array([step.extremum.seconds for step in steps]),
        "witness": np.array(witness),
        "x": x,
        "free": free,
    }


def linear_fit(posterior: GPCPosterior, region: Region, point: int) -> float:
    """Return R^2 of the least-squares linear fit to the latent mean at uniform points of the region's box."""
    low, high = region.lower, region.upper
    varied = np.flatnonzero(high > low)
    if not len(varied):
        return float("nan")
    rng = stream(0, "linear fit", point)
    points = rng.uniform(low, high, size=(FIT_POINTS * (len(varied) + 1), len(low)))
    mean = posterior.latent(region.embed(points))[0]
    design = np.column_stack([np.ones(len(points)), (points - region.start)[:, varied]])
    rest = mean - design @ np.linalg.lstsq(design, mean, rcond=None)[0]
    total = float(np.sum((mean - mean.mean()) ** 2))
    return 1.0 - float(rest @ rest) / total if total > 0.0 else float("nan")


def contour_map(problem: Problem, posterior: GPCPosterior, points: int) -> Outcome:
    """Return the class probability on a grid over two inputs, the others at the training rows' mean.

    With more than two inputs, those two are shown that an L1-penalised logistic regression keeps longest.
    """
    first, second = shown_inputs(problem)
    both = np.vstack([problem.X, problem.X_test])
    low, high = np.quantile(both[:, [first, second]], [0.005, 0.995], axis=0)
    axes = [np.linspace(low[k] - MARGIN, high[k] + MARGIN, points) for k in (0, 1)]
    grid = np.tile(problem.X.mean(axis=0), (points * points, 1))
    grid[:, first], grid[:, second] = (axis.ravel() for axis in np.meshgrid(*axes))
    probability = posterior.probability(grid).reshape(points, points)
    arrays = {
        "axis_first": axes[0],
        "axis_second": axes[1],
        "map": probability,
        "points": problem.X_test[:, [first, second]],
        "labels": problem.y_test,
        "inputs": np.array([first, second]),
    }
    names = {"map_first": problem.input_names[first], "map_second": problem.input_names[second]}
    return Outcome(names, arrays=arrays, headline="contour plot")


def shown_inputs(problem: Problem) -> tuple[int, int]:
    """Return the two inputs that an L1-penalised logistic regression keeps longest. The two of a plane."""
    inputs = problem.X.shape[1]
    if inputs <= 2:
        return 0, inputs - 1
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import l1_min_c

    least = l1_min_c(problem.X, problem.y, loss="log")
    kept = np.zeros(inputs)
    for strength in least * np.logspace(0.05, 3.0, 60):
        # liblinear penalises the intercept too, which is as weak as its scale is large
        model = LogisticRegression(
            l1_ratio=1.0, C=strength, solver="liblinear", intercept_scaling=1e3, random_state=0
        ).fit(problem.X, problem.y)
        kept += np.abs(model.coef_[0]) > 0
        if np.count_nonzero(kept) >= 2:
            break
    order = np.argsort(-kept, kind="stable")
    return int(order[0]), int(order[1])
