"""L-BFGS-B over any differentiable loss within a budget: counted, finite everywhere, best point kept. No TensorFlow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, minimize

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""Point [K] -> loss and gradient [K]; not finite where the loss is not defined."""

MAX_ITERATIONS = 15_000
"""L-BFGS-B's own limit, scipy's default; a run that meets it is reported as limited by budget."""

STALLED_GRADIENT = 1e-4
"""A line search that finds no decrease has converged if the gradient is below this share of max(1, |loss|).

Rounding in the loss, about 1e-12 of it for usual condition numbers, hides slopes of its square root's order.
"""


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


class _BudgetEndedError(Exception):
    """Leaves scipy's loop when the budget is exhausted."""


class _StartNotFiniteError(Exception):
    """Leaves scipy's loop when there is no finite loss to start from."""


@dataclass(frozen=True)
class _Evaluation:
    point: FloatArray
    loss: float
    gradient: FloatArray


class Search:
    """The objective as scipy sees it: counted, finite everywhere, remembering the best point."""

    def __init__(self, objective: Objective, budget: Budget) -> None:
        self._objective = objective
        self.budget = budget
        self.best: _Evaluation | None = None
        self._origin: _Evaluation | None = None
        self._last: _Evaluation | None = None
        self.evaluations = self.iterations = self.rejected = 0
        self._longest = 0.0

    def evaluate(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Return loss and gradient, or a rejection where they are not finite."""
        if self.evaluations and (self.budget.exhausted or not self.budget.has_room(self._longest)):
            raise _BudgetEndedError
        self.budget.spend(evaluations=1, best=self.best.loss if self.best is not None else math.inf)
        self.evaluations += 1
        begin = time.monotonic()
        loss, gradient = self._objective(point)
        self._longest = max(self._longest, time.monotonic() - begin)
        if not (np.isfinite(loss) and np.isfinite(gradient).all()):
            return self._reject(point)
        self._last = _Evaluation(point.copy(), loss, gradient)
        self._origin = self._origin or self._last
        if self.best is None or loss < self.best.loss:
            self.best = self._last
        return loss, gradient

    def _reject(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Return loss and gradient of the parabola with the slope of the line's origin, minimal at a quarter.

        It lies above the origin here, so the point is never accepted, and interpolation shortens the step by 4.
        """
        if self._origin is None:
            raise _StartNotFiniteError
        self.rejected += 1
        step = point - self._origin.point
        fall = abs(float(self._origin.gradient @ step))
        return self._origin.loss + fall, 3.0 * fall / float(step @ step) * step

    def count_iteration(self, xk: FloatArray) -> None:
        """Count one accepted step; `xk`, where it ended, is the point evaluated last."""
        self.iterations += 1
        self._origin = self._last

    def report(
        self, status: Literal["done", "budget", "diverged"], reason: str, message: str = ""
    ) -> TrainingReport:
        """Build the report of the search as it stands."""
        loss = self.best.loss if self.best is not None else float("nan")
        return TrainingReport(status, reason, self.evaluations, self.iterations, loss, message)


def run_search(search: Search, start: FloatArray, box: Bounds | None, start_failure: str) -> TrainingReport:
    """Run L-BFGS-B with scipy's default tolerances; `search.best` holds the best point met.

    Args:
        search: the objective and its budget; the start is always evaluated.
        start: where it begins, shape [K], inside the box.
        box: limits, or None.
        start_failure: the reason to report if the loss at the start is not finite.
    """
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
        reason = search.budget.reason or "the seconds left have no room for another evaluation"
        return search.report("budget", reason)
    except _StartNotFiniteError:
        return search.report("diverged", start_failure)
    return _conclude(search, result, box)


def _conclude(search: Search, result: OptimizeResult, box: Bounds | None) -> TrainingReport:
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
