"""One timed search of robustness/runtime_mnist38."""

from __future__ import annotations

import time

import numpy as np

from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.runtime_mnist38.plan import RuntimeTask
from gpsuite.experiments.robustness.shared.classifiers import task_classifier
from gpsuite.experiments.robustness.shared.free_inputs import choose
from gpsuite.methods.robustness.level_bound.posterior_products import posterior_products
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.methods.robustness.verdict import probability_extremum
from gpsuite.models.classification.approximation import NotConvergedError

MEASURED = (
    "seconds include the bound's set-up and the incumbent search; the classifier's training is not in them"
)


def run_runtime(task: Task[RuntimeTask], shared: SharedWork) -> Outcome:
    """Bound the largest class probability of one point and measure it."""
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    params, posterior = task.params, trained.fit.require_converged()
    x = problem.X_test[params.point]
    chosen = choose(params.features, problem, trained.fit.posterior.lengthscales, x)
    region = linf_ball(x, params.gamma, chosen.inputs.tolist(), problem.domain)
    limits = [limit for limit in (params.seconds, task.budget_seconds) if limit is not None]
    posterior_products(posterior)  # computed once per classifier, like its training
    wall, cpu = time.perf_counter(), time.process_time()
    budget = Budget(min(limits, default=None), boxes=params.boxes, observer=shared.observer)
    found = probability_extremum(posterior, region, 1, params.tolerance, budget, params.bound)
    metrics: dict[str, float | int | str | bool | None] = {
        "chosen_by": chosen.by,
        "box_share": float(np.mean(region.upper - region.lower)),
        "inner": found.inner,
        "outer": found.outer,
        "gap": found.gap,
        "closed": found.status == "closed",
        "boxes": found.boxes,
        "search_seconds": time.perf_counter() - wall,
        "search_cpu_seconds": time.process_time() - cpu,
    }
    limited = found.status == "budget"
    headline = f"max {found.inner:.3f} to {found.outer:.3f}, {found.boxes} boxes"
    return Outcome(metrics, BUDGET if limited else DONE, found.reason if limited else "", {}, headline)
