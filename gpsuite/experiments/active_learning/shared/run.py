"""Running one repetition of one pipeline, and measuring every model on the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.budget import Budget
from gpsuite.data.loading import load
from gpsuite.experiments.active_learning.shared.engine_data import engine_repetition
from gpsuite.experiments.active_learning.shared.generated_data import (
    GpData,
    ToyData,
    gp_repetition,
    toy_repetition,
)
from gpsuite.experiments.active_learning.shared.repetition_data import Repetition
from gpsuite.experiments.active_learning.shared.tasks import RepetitionTask
from gpsuite.experiments.base import BUDGET, DONE, INFEASIBLE, Outcome, SharedWork, Task, finite_or_none
from gpsuite.methods.active_learning.acquisition import entropy
from gpsuite.methods.active_learning.explore import explore
from gpsuite.methods.active_learning.metrics import rmse, safety_precision
from gpsuite.methods.active_learning.pipelines import Pipeline
from gpsuite.methods.active_learning.planner import Step
from gpsuite.methods.active_learning.problem import Judgement, Monitor, Oracle, Pool, Problem
from gpsuite.methods.active_learning.safety import safe_set
from gpsuite.models.multi_output.observations import Observations

SAFE, UNSAFE = (
    "safe",
    "unsafe",
)  # test rows, judged separately: the published errors are those of the safe ones


MODELS = {"main": "outputs", "safety": "safety"}


Rows = dict[str, list[float]]


Arrays = dict[str, npt.NDArray[Any]]


def run_repetition(task: Task[RepetitionTask], shared: SharedWork) -> Outcome:
    """Explore with one pipeline; return one value per model of every measure, and the last ones as metrics."""
    params = task.params
    repetition, pipeline = read_repetition(task), params.read_pipeline()
    explorer = explore(
        problem_of(repetition, params.delta),
        pipeline,
        oracle_of(repetition),
        np.random.default_rng(params.sampler_seed),
        params.iterations,
        params.inference.settings,
        params.when_nothing_is_safe,
    )
    budget = Budget(seconds=task.budget_seconds, evaluations=params.iterations, observer=shared.observer)
    rows: Rows = defaultdict(list)
    arrays: Arrays = {}
    steps: list[Step] = []
    for step in explorer:
        steps.append(step)
        for name, value in measure(step, repetition, params.delta).items():
            rows[name].append(value)
        if step.index + 1 == params.state_iteration:
            arrays |= state_of(step, steps, repetition, pipeline, params.delta)
            arrays |= _safety_state(explorer.planner.safety_moments())
            if params.joint:
                arrays["state_joint_entropy"] = explorer.planner.joint_entropies(repetition.test.X)
        budget.spend(evaluations=1)
        if task.budget_seconds is not None and budget.exhausted:
            break
    arrays |= {name: np.array(values) for name, values in rows.items()}
    complete = len(steps) == params.iterations
    status = DONE if complete else INFEASIBLE if explorer.status == INFEASIBLE else BUDGET
    reasons = {DONE: "", INFEASIBLE: explorer.reason, BUDGET: budget.reason}
    return _outcome(arrays, steps, status, reasons[status])


def read_repetition(task: Task[RepetitionTask]) -> Repetition:
    """Return the repetition's data; the same for every pipeline with the same kind of queries."""
    data, queries = task.params.data, task.params.pipeline.queries
    if isinstance(data, ToyData):
        return toy_repetition(data, queries)
    if isinstance(data, GpData):
        return gp_repetition(data, queries)
    return engine_repetition(load(task.require_dataset()), data, queries)


def problem_of(repetition: Repetition, delta: float) -> Problem:
    """Return what the pipeline may see: pool, starting values, limit, and where it is judged."""
    row, p = np.nonzero(repetition.start_outputs)
    start = repetition.start
    targets = published_targets(repetition)
    monitors = {
        name: Monitor(repetition.test.X[rows], targets[rows])
        for name, rows in ((SAFE, repetition.test_safe), (UNSAFE, ~repetition.test_safe))
        if rows.any()
    }
    return Problem(
        pool=Pool(repetition.pool.X, repetition.available),
        outputs=Observations(start.X[row], p.astype(np.int64), start.Y[row, p]),
        safety=Observations(start.X, np.zeros(len(start.X), dtype=np.int64), start.z),
        limit=repetition.limit,
        delta=delta,
        monitors=monitors,
    )


def published_targets(repetition: Repetition) -> FloatArray:
    """Return what the paper holds predictions at the test rows against."""
    return cast("FloatArray", repetition.test.F) if repetition.targets == "true" else repetition.test.Y


def oracle_of(repetition: Repetition) -> Oracle:
    """Return the measuring function: a row's values as they stand in the pool."""
    pool = repetition.pool

    def measured(row: int, p: int | None) -> tuple[float | FloatArray, float]:
        y = pool.Y[row].copy() if p is None else float(pool.Y[row, p])
        return y, float(pool.z[row])

    return measured


def measure(step: Step, repetition: Repetition, delta: float) -> dict[str, float]:
    """Return the measures of one model and of its query."""
    found: dict[str, float] = {
        "n_sum": step.n_sum,
        "row": step.row,
        "p": -1 if step.p is None else step.p,
        "z": step.z,
        "entropy": step.entropy,
        "n_available": step.n_available,
        "safe_noisy": float(repetition.limit.holds(repetition.pool.z[step.row])),
    }
    if repetition.pool.h is not None:
        found["safe_true"] = float(repetition.limit.holds(repetition.pool.h[step.row]))
    if step.probabilities is not None:
        found["probability_safe"] = step.probability_safe
        found |= _precisions(safe_set(step.probabilities, delta), repetition)
    found |= _errors(step.monitors, repetition)
    for model, diagnostics in step.diagnostics.items():
        found |= {f"{MODELS[model]}_{name}": value for name, value in diagnostics.items()}
    return found


def _precisions(marked: BoolArray, repetition: Repetition) -> dict[str, float]:
    pool, limit = repetition.pool, repetition.limit
    found = {
        "marked_safe": float(marked.mean()),
        "precision_noisy": safety_precision(marked, limit.holds(pool.z)),
    }
    if pool.h is not None:
        found["precision_true"] = safety_precision(marked, limit.holds(pool.h))
    return found


def _errors(monitors: Mapping[str, Judgement], repetition: Repetition) -> dict[str, float]:
    """Return errors on safe test rows, by published, true and noisy targets, per output, and on all rows."""
    safe, test = repetition.test_safe, repetition.test
    mean = on_all_rows(monitors, safe, "mean")
    targets = published_targets(repetition)
    found = {
        "rmse": rmse(mean[safe], targets[safe]),
        "rmse_all": rmse(mean, targets),
        "rmse_noisy": rmse(mean[safe], test.Y[safe]),
        "log_density": _log_density(monitors, SAFE),
    }
    weights = {SAFE: float(safe.mean()), UNSAFE: float((~safe).mean())}
    parts = [weights[name] * _log_density(monitors, name) for name in monitors]
    found["log_density_all"] = float(np.sum(parts))
    if test.F is not None:
        found["rmse_true"] = rmse(mean[safe], test.F[safe])
    for p in range(repetition.n_outputs):
        found[f"rmse_output_{p + 1}"] = rmse(mean[safe][:, [p]], targets[safe][:, [p]])
    return found


def on_all_rows(monitors: Mapping[str, Judgement], safe: BoolArray, what: str) -> FloatArray:
    """Return `mean` or `variance` at all test rows [n, P], put together from the safe and the unsafe ones."""
    first: FloatArray = getattr(monitors[SAFE], what)
    joined = np.empty((len(safe), first.shape[1]))
    for name, rows in ((SAFE, safe), (UNSAFE, ~safe)):
        if name in monitors:
            joined[rows] = getattr(monitors[name], what)
    return joined


def _log_density(monitors: Mapping[str, Judgement], name: str) -> float:
    values = monitors[name].log_density
    return float("nan") if values is None else float(values.mean())


def state_of(
    step: Step, steps: list[Step], repetition: Repetition, pipeline: Pipeline, delta: float
) -> Arrays:
    """Return the models at the test grid, the data they know, and the query they ask for."""
    variance = on_all_rows(step.monitors, repetition.test_safe, "variance")
    row, p = np.nonzero(repetition.start_outputs)
    before = steps[:-1]
    single = [each for each in before if each.p is not None]
    state: Arrays = {
        "x": repetition.test.X,
        "mean": on_all_rows(step.monitors, repetition.test_safe, "mean"),
        "variance": variance,
        "entropy": entropy(variance),
        "measured_x": np.vstack([repetition.start.X[row], *(each.x[None] for each in single)]),
        "measured_p": np.concatenate([p, [int(cast("int", each.p)) for each in single]]).astype(np.int64),
        "measured_y": np.concatenate([repetition.start.Y[row, p], [float(each.y) for each in single]]),
        "measured_safety_x": np.vstack([repetition.start.X, *(each.x[None] for each in before)]),
        "measured_z": np.concatenate([repetition.start.z, [each.z for each in before]]),
        "query_x": step.x,
        "query_p": np.array(-1 if step.p is None else step.p),
    }
    if step.probabilities is not None:
        state["probability_safe"] = step.probabilities
    if pipeline.acquisition == "entropy" and pipeline.queries == "partial":
        allowed = _safe_pairs(step, steps, repetition, delta)
        if allowed.any():  # else it is the safest one
            largest = state["entropy"][allowed].max()
            state["query_at_maximum"] = np.isclose(
                state["entropy"][step.row, step.p], largest, rtol=0.0, atol=1e-9
            )
    return {f"state_{name}": value for name, value in state.items()}


def _safety_state(moments: tuple[FloatArray, FloatArray] | None) -> Arrays:
    return {} if moments is None else {"state_h_mean": moments[0], "state_h_variance": moments[1]}


def _safe_pairs(step: Step, steps: list[Step], repetition: Repetition, delta: float) -> BoolArray:
    """Return which (row, output) pairs were left and safe when the query was chosen, [n, P]."""
    left = repetition.available.copy()
    for each in steps[:-1]:
        left[each.row, each.p] = False
    if step.probabilities is not None:
        left &= safe_set(step.probabilities, delta)[:, None]
    return left


def _outcome(arrays: Arrays, steps: list[Step], status: str, reason: str) -> Outcome:
    """Return the record: arrays, and as metrics the last model's measures, shares of safe queries and seconds."""
    if not steps:
        return Outcome({}, status, reason, arrays, "nothing was queried")
    metrics: dict[str, float | int | str | bool | None] = {"models": len(steps), "n_sum": steps[-1].n_sum}
    for name in ("rmse", "rmse_all", "log_density", "precision_noisy", "precision_true"):
        if name in arrays:
            metrics[name] = finite_or_none(arrays[name][-1])
    for name in ("safe_noisy", "safe_true"):
        if name in arrays:
            metrics[f"{name}_share"] = float(arrays[name].mean())
    if "state_query_at_maximum" in arrays:
        metrics["query_at_maximum"] = bool(arrays["state_query_at_maximum"])
    for part, label in (("main", "outputs"), ("safety", "safety"), ("predict", "predict")):
        metrics[f"seconds_{label}"] = sum(float(step.seconds.get(part, 0.0)) for step in steps)
    headline = f"RMSE {float(arrays['rmse'][-1]):.3f} at {steps[-1].n_sum}"
    return Outcome(metrics, status, reason, arrays, headline)
