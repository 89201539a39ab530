"""One point of robustness/explain: proved ranges as each input moves alone, LIME, and the check of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.loading import load
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.explain.plan import ClassesPointTask, GradientTask, PointTask
from gpsuite.experiments.robustness.safety.plan import own_domain
from gpsuite.experiments.robustness.safety_curves.plan import label_name
from gpsuite.experiments.robustness.shared.categories import switched
from gpsuite.experiments.robustness.shared.classifiers import Problem, task_classifier
from gpsuite.experiments.robustness.shared.several_classes import trained_classes
from gpsuite.methods.robustness.decision import HALF
from gpsuite.methods.robustness.explain.binary_lines import binary_lines
from gpsuite.methods.robustness.explain.effects import OneSidedRanges, one_sided_ranges
from gpsuite.methods.robustness.explain.lime import lime_weights
from gpsuite.methods.robustness.explain.line_search import Lines
from gpsuite.methods.robustness.explain.softmax_lines import softmax_lines
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.seeds import stream

EXACT = 1e-10  # tolerance of the effects that are held against the gradient
CLEAR = 10.0  # a difference from the gradient counts if it is so many times its own uncertainty


@dataclass(frozen=True, eq=False)
class _Explained:
    """A test point, and the class probability that is followed.

    Attributes:
        problem: its training and test rows.
        point: number of the test row.
        lines: the probability along every input.
        probability: inputs [S, D] -> class probability [S].
        predicted: the predicted class' name.
    """

    problem: Problem
    point: int
    lines: Lines
    probability: Callable[[FloatArray], FloatArray]
    predicted: str


def run_point(task: Task[PointTask], shared: SharedWork) -> Outcome:
    """Explain one point of two classes by the second's probability; arrays as `_ranges_of`."""
    clock, point = Budget(seconds=task.budget_seconds), task.params.point
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    posterior, points = trained.fit.require_converged(), problem.X_test[point][None]
    lines = binary_lines(posterior, points, problem.numbers)
    predicted = label_name(problem, bool(posterior.probability(points)[0] > HALF))
    return _ranges_of(
        _Explained(problem, point, lines, posterior.probability, predicted), task, clock, shared
    )


def run_classes_point(task: Task[ClassesPointTask], shared: SharedWork) -> Outcome:
    """Explain one point of several classes by the predicted class' probability; arrays as `_ranges_of`."""
    clock, point = Budget(seconds=task.budget_seconds), task.params.point
    try:
        found = trained_classes(task.require_dataset(), task.params.model, shared, task.budget_seconds)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    problem, posterior = found.problem, found.posterior
    points = problem.X_test[point][None]
    own = int(np.argmax(posterior.probabilities(points)[0]))
    lines = softmax_lines(posterior, points, problem.numbers, own)

    def probability(X: FloatArray) -> FloatArray:
        return np.asarray(posterior.probabilities(X)[:, own])

    explained = _Explained(problem, point, lines, probability, problem.label_names[own])
    outcome = _ranges_of(explained, task, clock, shared)
    return replace(outcome, metrics={**outcome.metrics, "probabilities_proved": lines.proof.proved})


def _ranges_of(explained: _Explained, task: Task[Any], clock: Budget, shared: SharedWork) -> Outcome:
    """Bound the class probability as every input moves alone.

    Arrays: moved, how far each of the K inputs that are numbers moves down and up in its own units [K, 2]; ranges, of
    the class probability on the way: lowest proved, lowest attained, highest attained, highest proved [K, 2, 4];
    delta, delta_low, delta_high; LIME's slopes per scaled unit, [K] each; where there are categories, switches: the
    change of the probability from the point's level to each, [S].
    """
    params: PointTask = task.params
    problem, data = explained.problem, load(task.require_dataset())
    rows, inputs = data.X, problem.numbers
    x, row = problem.X_test[params.point], int(problem.test_rows[params.point])
    low, high = own_domain(rows, params.domain)
    domain = (
        np.minimum(x, x + (low - rows[row]) / problem.scale),
        np.maximum(x, x + (high - rows[row]) / problem.scale),
    )
    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    found = one_sided_ranges(
        explained.lines, x[None], inputs, params.radius, domain, params.tolerance, budget
    )
    lime = lime_weights(explained.probability, x, stream(params.model.draw_seed, "lime", row))
    probability, label = float(explained.probability(x[None])[0]), problem.y_test[params.point]
    delta = found.delta[0]
    strongest = int(np.argmax(np.abs(delta)))
    still_open = int(np.count_nonzero(~found.closed))
    metrics: dict[str, float | int | str | bool | None] = {
        "row": row,
        "label": problem.label_names[max(int(label), 0)],  # of two classes the first is -1
        "predicted": explained.predicted,
        "probability": probability,
        "strongest": problem.input_names[inputs[strongest]],
        "strongest_effect": float(delta[strongest]),
        "boxes": found.boxes,
        "open_intervals": still_open,
    }
    moved = (found.ends[0] - x[inputs, None]) * problem.scale[inputs, None]
    arrays = {"moved": moved, **_range_arrays(found), "lime": lime[inputs]}
    if data.categories:
        arrays["switches"] = explained.probability(switched(problem, data, x)) - probability
    status, reason = (BUDGET, f"{still_open} intervals are open") if still_open else (DONE, "")
    headline = f"p {probability:.3f}, strongest {metrics['strongest']} {delta[strongest]:+.3f}"
    return Outcome(metrics, status, reason, arrays, headline)


def _range_arrays(found: OneSidedRanges) -> dict[str, FloatArray]:
    ends = (found.lowest_proved, found.lowest, found.highest, found.highest_proved)
    low, high = found.delta_range
    ranges = np.stack(ends, axis=-1)[0]
    return {"ranges": ranges, "delta": found.delta[0], "delta_low": low[0], "delta_high": high[0]}


def run_gradient(task: Task[GradientTask], shared: SharedWork) -> Outcome:
    """Return how fast |Delta / (2 gamma) - d pi / d x_i| falls with gamma: the smallest log-log slope over inputs.

    Inputs whose difference at some radius is not well above what is known of the effect are left out.
    """
    params = task.params
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    posterior, x = trained.fit.require_converged(), problem.X_test[params.point]
    points, inputs = x[None], problem.numbers
    lines, gradient = (
        binary_lines(posterior, points, inputs),
        posterior.probability_with_gradient(points)[1][:, inputs],
    )
    everywhere, errors, seen = (-np.inf, np.inf), [], np.ones(len(inputs), dtype=bool)
    for radius in params.radii:
        budget = Budget(boxes=params.boxes, observer=shared.observer)
        found = one_sided_ranges(lines, points, inputs, radius, everywhere, EXACT, budget)
        low, high = found.delta_range
        errors.append(np.abs(found.delta / (2.0 * radius) - gradient)[0])
        seen &= errors[-1] > CLEAR * (high - low)[0] / (2.0 * radius)
    falls = np.array(errors)
    logs = np.log(falls[:, seen])
    centred = np.log(params.radii) - np.mean(np.log(params.radii))
    slopes = centred @ (logs - logs.mean(axis=0)) / (centred @ centred)
    smallest = float(slopes.min()) if len(slopes) else None
    metrics = {"smallest_slope": smallest, "inputs_seen": int(seen.sum())}
    return Outcome(metrics, arrays={"errors": falls}, headline=f"{len(slopes)} slopes, least {smallest}")
