"""L-BFGS-B for any differentiable loss within a budget: counted, finite everywhere, best point kept. No TensorFlow.

Source: Byrd, Lu, Nocedal & Zhu 1995 (scipy's implementation).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, minimize

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.models.linalg import NotPositiveDefiniteError

# Function of a point [K] that returns loss and gradient [K]. If the loss is not defined, they are not finite, or it
# raises NotPositiveDefiniteError.
Objective: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
Status: TypeAlias = Literal["done", "budget", "diverged"]
# L-BFGS-B's limit, scipy's default. A run that reaches it is reported as limited by budget.
MAX_ITERATIONS = 15_000
# A line search that finds no decrease has converged if the gradient is below this share of max(1, |loss|). The loss has
# rounding of about 1e-12 of its size for usual condition numbers. This hides slopes of the order of its square root.
STALLED_GRADIENT = 1e-4
NO_ROOM = "the seconds left have no room for another evaluation"


@dataclass(frozen=True)
class StepRules:
    """Convergence of L-BFGS-B, and the value for points where the loss is not defined.

    Attributes:
        decrease: relative decrease of the loss in one step below which it has converged.
        slope: largest projected component of the gradient below which it has converged.
        undefined: `parabola` has the slope of the line's origin and its minimum at a quarter of the step, so the step
            is shortened by 4. `wall` is above all values so far, without slope. Neither is accepted as best.
    """

    decrease: float = 2.220446049250313e-9
    slope: float = 1e-5
    undefined: Literal["parabola", "wall"] = "parabola"


SCIPY_RULES = StepRules()
"""Scipy's default tolerances."""


@dataclass(frozen=True)
class Minimum:
    """The best point of a search, and how the search ended.

    Attributes:
        loss: loss at this point, such as a negative log marginal likelihood in nats. Infinite if it is not defined at
            the start. Then the search ended there.
        status: done (converged), budget (stopped early) or diverged (no usable optimum).
        message: scipy's message, or an empty string if the search was interrupted.
        stalled: whether its last line search found no decrease, converged or not.
        failures: reasons why the loss was not defined, one entry for each such evaluation.
    """

    point: FloatArray
    loss: float
    status: Status
    reason: str
    evaluations: int
    iterations: int
    message: str = ""
    stalled: bool = False
    failures: tuple[str, ...] = ()


class BudgetEndedError(Exception):
    """Raised to leave a search's loop when the budget is exhausted."""


class StartNotFiniteError(Exception):
    """Raised to leave a search's loop if the loss at the start is not finite."""


@dataclass(frozen=True)
class _Evaluation:
    point: FloatArray
    loss: float
    gradient: FloatArray


class RecordedLoss:
    """The objective for scipy: it counts evaluations, is finite everywhere and keeps the best point."""

    def __init__(self, objective: Objective, budget: Budget, rules: StepRules = SCIPY_RULES) -> None:
        self._objective = objective
        self._start: FloatArray = np.empty(0)
        self.budget = budget
        self.rules = rules
        self.best: _Evaluation | None = None
        self._origin: _Evaluation | None = None
        self._last: _Evaluation | None = None
        self._highest = -math.inf
        self.evaluations = self.iterations = 0
        self.failures: list[str] = []
        self._longest = 0.0

    def evaluate(self, point: FloatArray) -> tuple[float, FloatArray]:
        if self.evaluations and self.budget.exhausted:
            raise BudgetEndedError(self.budget.reason)
        # no evaluation begins that would end after the budget
        if self.evaluations and not self.budget.has_room(self._longest):
            raise BudgetEndedError(NO_ROOM)
        if not self.evaluations:
            self._start = point.copy()
        self.budget.spend(evaluations=1, best=self.best.loss if self.best is not None else math.inf)
        self.evaluations += 1
        begin = time.monotonic()
        try:
            with np.errstate(all="ignore"):  # values that are not finite are rejected below
                loss, gradient = self._objective(point)
        except NotPositiveDefiniteError as error:
            return self._reject(point, str(error))
        finally:
            self._longest = max(self._longest, time.monotonic() - begin)
        if not (np.isfinite(loss) and np.isfinite(gradient).all()):
            return self._reject(point, "the objective or its gradient is not finite")
        self._last = _Evaluation(point.copy(), loss, gradient)
        self._origin = self._origin or self._last
        self._highest = max(self._highest, loss)
        if self.best is None or loss < self.best.loss:
            self.best = self._last
        return loss, gradient

    def _reject(self, point: FloatArray, why: str) -> tuple[float, FloatArray]:
        """Return loss and gradient that make scipy's line search go back."""
        self.failures.append(why)
        if self._origin is None:
            raise StartNotFiniteError
        if self.rules.undefined == "wall":
            return max(self._highest, 0.0) + 1.0, np.zeros_like(point)
        # the parabola is above the origin here, so the point is never accepted
        step = point - self._origin.point
        fall = abs(float(self._origin.gradient @ step))
        return self._origin.loss + fall, 3.0 * fall / float(step @ step) * step

    def count_iteration(self, xk: FloatArray) -> None:
        """Count one accepted step. Its end `xk`, in the search's units, is the point evaluated last."""
        self.iterations += 1
        self._origin = self._last

    def minimum(self, status: Status, reason: str, message: str = "", stalled: bool = False) -> Minimum:
        """Return the best point so far with the end of the search."""
        point, loss = (self._start, math.inf) if self.best is None else (self.best.point, self.best.loss)
        return Minimum(
            point, loss, status, reason, self.evaluations, self.iterations, message, stalled, tuple(self.failures)
        )


def minimise(
    objective: Objective, start: FloatArray, budget: Budget, box: Bounds | None = None, rules: StepRules = SCIPY_RULES
) -> Minimum:
    """Run L-BFGS-B until it converges or the budget ends. The start is always evaluated."""
    search = RecordedLoss(objective, budget, rules)
    try:
        first = search.evaluate(start)
        unit = _unit(first[1], box)

        def scaled(u: FloatArray) -> tuple[float, FloatArray]:
            point = unit * u
            loss, gradient = first if np.array_equal(point, start) else search.evaluate(point)
            return loss, unit * gradient

        result = minimize(
            scaled,
            start / unit,
            jac=True,
            method="L-BFGS-B",
            bounds=None if box is None else Bounds(box.lb / unit, box.ub / unit),
            callback=search.count_iteration,
            options={
                "ftol": rules.decrease,
                # the limit is in the variables' own unit
                "gtol": unit * rules.slope,
                "maxiter": MAX_ITERATIONS,
                "maxfun": 20 * MAX_ITERATIONS,
            },
        )
    except BudgetEndedError as ended:
        return search.minimum("budget", str(ended))
    except StartNotFiniteError:
        return search.minimum("diverged", f"not defined at the start: {search.failures[0]}")
    return _conclude(search, result, box)


def _unit(gradient: FloatArray, box: Bounds | None) -> float:
    """Return the variables' unit in which the first step is no longer than 1. A power of two, which rounds nothing.

    L-BFGS-B itself shortens the first step -gradient to length 1, but not if every variable has two limits. Then a
    steep start sends it to the box's corner. The loss there may be only rounding (an evidence at variance 1e6). So the
    result would depend on the machine's last bits.
    """
    if box is None or not (np.isfinite(box.lb).all() and np.isfinite(box.ub).all()):
        return 1.0
    steepness = float(np.linalg.norm(gradient))
    return 2.0 ** -math.ceil(0.5 * math.log2(steepness)) if steepness > 1.0 else 1.0


def _conclude(search: RecordedLoss, result: OptimizeResult, box: Bounds | None) -> Minimum:
    message = str(result.message)
    if result.status == 0:
        return search.minimum("done", "converged", message)
    if result.status == 1:
        return search.minimum("budget", f"{search.iterations} iterations used up", message)
    assert search.best is not None, "scipy returns only after a finite start"
    slope = _projected_slope(search.best, box)
    if slope <= STALLED_GRADIENT * max(1.0, abs(search.best.loss)):
        reason = f"converged to working precision, largest slope {slope:.1e}"
        # the line search cannot distinguish the losses: this end is as good as scipy allows
        return search.minimum("done", reason, message, stalled=True)
    reason = f"line search failed with slope {slope:.1e}, {len(search.failures)} non-finite steps"
    return search.minimum("diverged", reason, message, stalled=True)


def _projected_slope(best: _Evaluation, box: Bounds | None) -> float:
    """Return the largest component of the gradient that does not push out of the box."""
    gradient = best.gradient
    if box is not None:
        gradient = best.point - np.clip(best.point - gradient, box.lb, box.ub)
    return float(np.max(np.abs(gradient)))
