"""Maximum marginal likelihood by L-BFGS-B within a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, minimize

from gpsuite.budget import Budget
from gpsuite.models.compiled import Objective, assign, compiled_loss, flatten, variables_of
from gpsuite.models.linalg import Array
from gpsuite.models.parameters import RegressionModel, hyperparameters_of

MAX_ITERATIONS = 15_000
"""L-BFGS-B's own limit, scipy's default; a run that meets it is reported as limited by budget."""

STALLED_GRADIENT = 1e-4
"""A line search that finds no decrease has converged if the gradient is below this share of max(1, |loss|).

Rounding in the loss, about 1e-12 of it for usual condition numbers, hides slopes of its square root's order.
"""

HyperparameterBounds = Mapping[str, tuple[float, float]]
"""Hyperparameter name (variance, lengthscales, noise_variance) -> smallest and largest value."""


@dataclass(frozen=True)
class TrainingReport:
    """How a training ended; the model holds the best parameters found.

    Attributes:
        status: done (converged), budget (stopped early) or diverged (no usable optimum).
        reason: why it ended, in words.
        evaluations: evaluations of loss and gradient.
        iterations: accepted L-BFGS-B steps.
        loss: negative log marginal likelihood (for SGPR its upper bound) of the parameters kept, in nats.
        message: what scipy said, or an empty string if it was interrupted.
    """

    status: Literal["done", "budget", "diverged"]
    reason: str
    evaluations: int
    iterations: int
    loss: float
    message: str


def maximise_likelihood(
    model: RegressionModel, budget: Budget, bounds: HyperparameterBounds | None = None
) -> TrainingReport:
    """Train a model from its present parameters by L-BFGS-B with scipy's default tolerances.

    The search runs over GPflow's unconstrained parameters. The start is always evaluated, even without any
    budget. A step to a non-finite loss is rejected and shortened. The best parameters met are kept.

    Args:
        model: GPR, SGPR or GPRFITC; changed in place.
        budget: each evaluation of loss and gradient is counted; ends the search when exhausted.
        bounds: box in natural units; the start is moved into it. Missing names are free.

    Raises:
        TypeError: for models this package does not build.
        ValueError: if a bound is unknown or empty, a parameter has a prior, or none is trainable.
    """
    variables = variables_of(model, trainable=True)
    box = unconstrained_box(model, bounds or {})
    start = flatten(variables)
    if box is not None:
        start = np.clip(start, box.lb, box.ub)
        assign(variables, start)
    search = _Search(compiled_loss(model).bind(model), budget)
    report = _run(search, start, box, f"the loss at the start is not finite: {hyperparameters_of(model)}")
    if search.best is not None:
        assign(variables, search.best.point)
    return report


def unconstrained_box(model: RegressionModel, bounds: HyperparameterBounds) -> Bounds | None:
    """Return the limits of the flat trainable parameters [K], or None without bounds.

    Raises:
        ValueError: if a name is unknown, an interval is empty, or the parameter can take no value in it.
    """
    known = {
        "variance": model.kernel.variance,
        "lengthscales": model.kernel.lengthscales,
        "noise_variance": model.likelihood.variance,
    }
    limits: dict[int, tuple[float, float]] = {}
    for name, (low, high) in bounds.items():
        if name not in known:
            raise ValueError(f"bounds: unknown hyperparameter '{name}'; known: {', '.join(known)}")
        if not low <= high:
            raise ValueError(f"bounds: {name} has an empty interval [{low}, {high}]")
        limits[id(known[name])] = _transformed_interval(name, known[name].transform, low, high)
    if not limits:
        return None
    rows = [
        np.tile(limits.get(id(parameter), (-np.inf, np.inf)), (int(np.prod(parameter.shape)), 1))
        for parameter in model.trainable_parameters
    ]
    lower, upper = np.concatenate(rows).T
    return Bounds(lower, upper)


def _transformed_interval(name: str, transform: Any, low: float, high: float) -> tuple[float, float]:
    """Map an interval through the increasing inverse transform; a limit out of its domain does not bind."""
    lower, upper = (float(transform.inverse(np.float64(limit))) for limit in (low, high))
    if high < np.inf and not np.isfinite(upper):
        raise ValueError(f"bounds: {name} cannot take any value in [{low}, {high}]")
    return lower if np.isfinite(lower) else -np.inf, upper if np.isfinite(upper) else np.inf


class _BudgetEndedError(Exception):
    """Leaves scipy's loop when the budget is exhausted."""


class _StartNotFiniteError(Exception):
    """Leaves scipy's loop when there is no finite loss to start from."""


@dataclass(frozen=True)
class _Evaluation:
    point: Array
    loss: float
    gradient: Array


class _Search:
    """The objective as scipy sees it: counted, finite everywhere, remembering the best point."""

    def __init__(self, objective: Objective, budget: Budget) -> None:
        self._objective = objective
        self.budget = budget
        self.best: _Evaluation | None = None
        self._origin: _Evaluation | None = None
        self._last: _Evaluation | None = None
        self.evaluations = self.iterations = self.rejected = 0

    def evaluate(self, point: Array) -> tuple[float, Array]:
        """Return loss and gradient, or a rejection where they are not finite."""
        if self.evaluations and self.budget.exhausted:
            raise _BudgetEndedError
        self.budget.spend(evaluations=1, best=self.best.loss if self.best is not None else math.inf)
        self.evaluations += 1
        loss, gradient = self._objective(point)
        if not (np.isfinite(loss) and np.isfinite(gradient).all()):
            return self._reject(point)
        self._last = _Evaluation(point.copy(), loss, gradient)
        self._origin = self._origin or self._last
        if self.best is None or loss < self.best.loss:
            self.best = self._last
        return loss, gradient

    def _reject(self, point: Array) -> tuple[float, Array]:
        """Return loss and gradient of the parabola with the slope of the line's origin, minimal at a quarter.

        It lies above the origin here, so the point is never accepted, and interpolation shortens the step by 4.
        """
        if self._origin is None:
            raise _StartNotFiniteError
        self.rejected += 1
        step = point - self._origin.point
        fall = abs(float(self._origin.gradient @ step))
        return self._origin.loss + fall, 3.0 * fall / float(step @ step) * step

    def count_iteration(self, xk: Array) -> None:
        """Count one accepted step; `xk`, where it ended, is the point evaluated last."""
        self.iterations += 1
        self._origin = self._last

    def report(
        self, status: Literal["done", "budget", "diverged"], reason: str, message: str = ""
    ) -> TrainingReport:
        """Build the report of the search as it stands."""
        loss = self.best.loss if self.best is not None else float("nan")
        return TrainingReport(status, reason, self.evaluations, self.iterations, loss, message)


def _run(search: _Search, start: Array, box: Bounds | None, start_failure: str) -> TrainingReport:
    try:
        result = minimize(
            search.evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            callback=search.count_iteration,
            options={"maxiter": MAX_ITERATIONS, "maxfun": 20 * MAX_ITERATIONS},
        )
    except _BudgetEndedError:
        return search.report("budget", search.budget.reason)
    except _StartNotFiniteError:
        return search.report("diverged", start_failure)
    return _conclude(search, result, box)


def _conclude(search: _Search, result: OptimizeResult, box: Bounds | None) -> TrainingReport:
    message = str(result.message)
    if result.status == 0:
        return search.report("done", "converged", message)
    if result.status == 1:
        return search.report("budget", f"{search.iterations} iterations used up", message)
    assert search.best is not None, "scipy returns only after a finite start"
    slope = _projected_slope(search.best, box)
    if slope <= STALLED_GRADIENT * max(1.0, abs(search.best.loss)):
        return search.report("done", f"converged to working precision, largest slope {slope:.1e}", message)
    return search.report(
        "diverged", f"line search failed with slope {slope:.1e}, {search.rejected} non-finite steps", message
    )


def _projected_slope(best: _Evaluation, box: Bounds | None) -> float:
    """Return the largest component of the gradient that does not push out of the box."""
    gradient = best.gradient
    if box is not None:
        gradient = best.point - np.clip(best.point - gradient, box.lb, box.ub)
    return float(np.max(np.abs(gradient)))
