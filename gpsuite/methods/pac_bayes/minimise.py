"""L-BFGS-B under a budget: the best value seen is returned however the search ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.optimize import Bounds, minimize

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.posteriors import NotPositiveDefiniteError

Status = Literal["done", "budget", "diverged"]

# Relative reduction of the objective and projected gradient below which the search stops (the authors' code).
_TOLERANCE = 1e-8
NO_ROOM = "the seconds left have no room for another evaluation"
# The budget ends the search, not scipy's own limits.
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Minimum:
    """The best point that a search saw.

    Attributes:
        x: the point.
        value: the objective there; infinite if no evaluation succeeded.
        evaluations: objective evaluations spent.
        iterations: iterations of L-BFGS-B.
        message: L-BFGS-B's last word, or the limit that was reached.
        status: `done`, `budget` (a limit was reached first) or `diverged` (no finite value at the start).
        reason: what was unusual, or an empty string.
    """

    x: FloatArray
    value: float
    evaluations: int
    iterations: int
    message: str
    status: Status
    reason: str


class _BudgetSpentError(Exception):
    """Leaves scipy's loop when the budget is used up."""


@dataclass
class _Recorder:
    """The objective as scipy calls it; counts, keeps the best point and turns failures into a wall.

    A matrix that cannot be factorised, or a value that is not finite, becomes a finite value above all seen so far
    with zero gradient: the line search interpolates back. It can never become the best point.
    """

    objective: Callable[[FloatArray], tuple[float, FloatArray]]
    budget: Budget
    best: FloatArray
    best_value: float = math.inf
    highest: float = -math.inf
    evaluations: int = 0
    iterations: int = 0
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        if self.evaluations and self.budget.exhausted:
            raise _BudgetSpentError(self.budget.reason)
        if self.evaluations and not self.budget.has_room(self.longest):
            raise _BudgetSpentError(NO_ROOM)
        self.budget.spend(evaluations=1, best=self.best_value)
        self.evaluations += 1
        begin = time.monotonic()
        try:
            value, gradient = self.objective(x)
        except NotPositiveDefiniteError as error:
            return self._wall(x, str(error))
        finally:
            self.longest = max(self.longest, time.monotonic() - begin)
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return self._wall(x, "the objective or its gradient is not finite")
        self.highest = max(self.highest, value)
        if value < self.best_value:
            self.best_value, self.best = value, x.copy()
        return value, gradient

    def count_iteration(self, xk: FloatArray) -> None:
        self.iterations += 1

    def _wall(self, x: FloatArray, why: str) -> tuple[float, FloatArray]:
        self.failures.append(why)
        return max(self.highest, 0.0) + 1.0, np.zeros_like(x)


def minimise(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    bounds: Sequence[tuple[float, float]],
    budget: Budget,
) -> Minimum:
    """Minimise with L-BFGS-B until its tolerance 1e-8 or the budget is reached.

    At least one evaluation is made, also when the budget is used up from the start.

    Args:
        objective: returns value and gradient; may raise `NotPositiveDefiniteError`.
        start: first point; clipped to the bounds.
        bounds: lower and upper limit of every variable, may be infinite.
        budget: seconds and evaluations; spent here.
    """
    lower, upper = (np.array(side, dtype=np.float64) for side in zip(*bounds, strict=True))
    first = np.clip(start, lower, upper)
    recorder = _Recorder(objective, budget, first)
    status: Status = "done"
    abnormal = ""
    try:
        result = minimize(
            recorder,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(lower, upper),
            callback=recorder.count_iteration,
            options={"ftol": _TOLERANCE, "gtol": _TOLERANCE, "maxfun": _NO_LIMIT, "maxiter": _NO_LIMIT},
        )
        message = str(result.message)
        abnormal = "" if result.success else f"the line search ended early ({message.strip(': ')})"
    except _BudgetSpentError as spent:
        status, message = "budget", str(spent)
    if not math.isfinite(recorder.best_value):
        status = "diverged"
    notes = (
        [f"{len(recorder.failures)} evaluations failed: {recorder.failures[0]}"] if recorder.failures else []
    )
    notes += [note for note in (message if status == "budget" else "", abnormal) if note]
    return Minimum(
        recorder.best,
        recorder.best_value,
        recorder.evaluations,
        recorder.iterations,
        message,
        status,
        "; ".join(notes),
    )
