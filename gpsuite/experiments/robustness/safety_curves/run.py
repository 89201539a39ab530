"""One test point's safety curve: certified range and attacks for growing radii (Blaas et al. 2020, Sec. 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.robustness.safety_curves.plan import (
    AccuracyTask,
    AttackTask,
    CurveTask,
    MapTask,
    label_name,
)
from gpsuite.experiments.robustness.shared.classifiers import Problem, model_metrics, task_classifier
from gpsuite.experiments.robustness.shared.free_inputs import choose
from gpsuite.methods.robustness.decision import binary_contest, judge
from gpsuite.methods.robustness.search.attacks import gpfgs, gpjm, strong_attack
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region, linf_ball
from gpsuite.methods.robustness.verdict import PointSearch
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.seeds import stream

ATTACKS = ("gpfgs", "gpjm", "strong")


VERDICTS = ("safe", "unsafe", "unknown", "timeout")


MARGIN = 0.5  # around the points of the contour plot


FIT_POINTS = 40  # per coefficient of the linear fit


@dataclass(frozen=True)
class Step:
    """What is known at one radius; probabilities of the positive class.

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


def run_accuracy(task: Task[AccuracyTask], shared: SharedWork) -> Outcome:
    """Return a classifier's accuracy."""
    try:
        metrics = model_metrics(*task_classifier(task, shared))
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    return Outcome(metrics, headline=f"accuracy {metrics['test_accuracy']:.4f}")


def run_map(task: Task[MapTask], shared: SharedWork) -> Outcome:
    """Return the contour plot of a classifier."""
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    return contour_map(problem, trained.fit.require_converged(), task.params.map_points)


def run_curve(task: Task[CurveTask], shared: SharedWork) -> Outcome:
    """Return bounds, attacks and verdicts of one test point at every radius.

    When the task's seconds end, the remaining radii get the trivial bound.
    """
    clock, params, point = Budget(seconds=task.budget_seconds), task.params, task.params.point
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    x, posterior, gammas = problem.X_test[point], trained.fit.require_converged(), params.gammas
    chosen = choose(params.features, problem, trained.fit.posterior.lengthscales, x)
    regions = [linf_ball(x, gamma, chosen.inputs.tolist(), problem.domain) for gamma in gammas]
    search = PointSearch(posterior, x, regions[0].free, params.bound)
    centre = search.centre
    steps = [_step(search, region, params, clock) for region in regions]
    positive, sign = bool(problem.y_test[point] > 0), centre.sign
    metrics: dict[str, float | int | str | bool | None] = {
        "row": int(problem.test_rows[point]),
        "label": label_name(problem, positive),
        "correct": positive == (sign < 0),
        "probability": centre.value,
        "sign": sign,
        "chosen_by": chosen.by,
        "free_inputs": len(chosen.inputs),
        **curve_metrics(gammas, sign, steps, params.tolerance),
        "linear_r2": finite_or_none(linear_fit(posterior, regions[-1], point)),
    }
    ended = [step.extremum for step in steps if step.extremum.status == "budget"]
    arrays = _arrays(gammas, steps, x, chosen.inputs)
    headline = f"p {centre.value:.3f}, first unsafe radius {metrics['cross_gamma']}"
    reason = f"{len(ended)} of {len(steps)} radii: {ended[0].reason}" if ended else ""
    return Outcome(metrics, BUDGET if ended else DONE, reason, arrays, headline)


def run_attack(task: Task[AttackTask], shared: SharedWork) -> Outcome:
    """Return the class probability that GPFGS reaches at every radius."""
    params = task.params
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    x, posterior = problem.X_test[params.point], trained.fit.require_converged()
    free = choose(params.features, problem, trained.fit.posterior.lengthscales, x).inputs.tolist()
    regions = [linf_ball(x, gamma, free, problem.domain) for gamma in params.attack_gammas]
    reached = posterior.probability(np.stack([gpfgs(posterior, region) for region in regions]))
    arrays = {"gamma": np.array(params.attack_gammas), "gpfgs": reached}
    return Outcome({"largest_gpfgs": float(reached.max())}, arrays=arrays)


def curve_metrics(
    gammas: Sequence[float], sign: int, steps: Sequence[Step], tolerance: float
) -> dict[str, float | int | bool | None]:
    """Return what a curve says in single numbers.

    Args:
        gammas: the radii, increasing.
        sign: 1 if the search is for the maximum.
        steps: one per radius.
        tolerance: of the searches; the curve counts as monotone up to it.
    """
    inner = np.array([step.extremum.inner for step in steps])
    outer = np.array([step.extremum.outer for step in steps])
    attacks = np.array([step.attacks for step in steps])
    contest = binary_contest(sign)
    cross = first_radius(gammas, contest.crossed(inner))
    safe = np.array([step.verdict == VERDICTS.index("safe") for step in steps])
    falls = sign * np.diff(np.stack([inner, outer]), axis=1) >= -tolerance
    first = {
        f"{name}_gamma": first_radius(gammas, contest.crossed(attacks[:, number]))
        for number, name in enumerate(ATTACKS)
    }
    return {
        "cross_gamma": cross,
        "safe_gamma": float(np.array(gammas)[safe].max()) if safe.any() else None,
        **first,
        "largest_gpfgs": float(attacks[:, 0].max()),
        "largest_gpfgs_towards": float(sign * np.max(sign * attacks[:, 0])),
        "attack_fails_radii": int(np.sum(contest.crossed(inner) & ~contest.crossed(attacks[:, 0]))),
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
    posterior, contest = search.posterior, search.centre.contest
    budget = clock.rest(boxes=params.boxes, observer=clock.observer)
    sign = contest.sign
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
        contest.crossed(posterior.probability(verdict.counterexample[None]))[0]
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
    """Return the two inputs that an L1-penalised logistic regression keeps longest; the two of a plane."""
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
