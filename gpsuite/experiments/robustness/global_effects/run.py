"""One draw: effects of every input at the test points, and LIME's slopes there."""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.global_effects.plan import GlobalEffectsTask
from gpsuite.experiments.robustness.shared.classifiers import Problem, model_metrics, task_classifier
from gpsuite.methods.robustness.explain.binary_lines import binary_lines
from gpsuite.methods.robustness.explain.effects import one_sided_ranges
from gpsuite.methods.robustness.explain.lime import lime_weights
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.seeds import stream


def run(task: Task[GlobalEffectsTask], shared: SharedWork) -> Outcome:
    """Return effects by gamma, point and input with their proved ranges, LIME's slopes, and the class direction.

    Arrays: delta, delta_low, delta_high [G, P, D]; lime [P, D]; direction [D].
    """
    clock, params = Budget(seconds=task.budget_seconds), task.params
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    posterior = trained.fit.require_converged()
    points, inputs = problem.X_test[: params.points], np.arange(problem.X.shape[1])
    lines = binary_lines(posterior, points, inputs)
    found = []
    for gamma in params.gammas:
        budget = clock.rest(boxes=params.boxes, observer=shared.observer)
        found.append(one_sided_ranges(lines, points, inputs, gamma, problem.domain, params.tolerance, budget))
    ends = [each.delta_range for each in found]
    seed = params.model.draw_seed
    lime = [
        lime_weights(posterior.probability, x, stream(seed, "lime", number))
        for number, x in enumerate(points)
    ]
    arrays = {
        "delta": np.array([each.delta for each in found]),
        "delta_low": np.array([low for low, _ in ends]),
        "delta_high": np.array([high for _, high in ends]),
        "lime": np.array(lime),
        "direction": class_direction(problem),
    }
    still_open = sum(int(np.count_nonzero(~each.closed)) for each in found)
    metrics = {
        **model_metrics(problem, trained),
        "boxes": sum(each.boxes for each in found),
        "open_intervals": still_open,
    }
    status, reason = (BUDGET, f"{still_open} intervals are open") if still_open else (DONE, "")
    largest = " ".join(f"{each:+.3f}" for each in arrays["delta"][-1].mean(axis=0)[:4])
    return Outcome(metrics, status, reason, arrays, f"mean effect at γ={params.gammas[-1]:g}: {largest}")


def class_direction(problem: Problem) -> FloatArray:
    """Return how the mean of the positive class' training rows differs from the negative one's, [D]."""
    positive = problem.y > 0
    return np.asarray(problem.X[positive].mean(axis=0) - problem.X[~positive].mean(axis=0))
