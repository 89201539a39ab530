"""A search for sparse GPs over nested subsets of the rows, then over all of them: ends lower than the published one.

Few rows, each counted several times, have nearly the Hessian of all rows at a fraction of the cost, so the searches
share their quasi-Newton pairs. What a subset's loss is says nothing: only losses on all rows are compared and returned.

Equation: derived, staged search for sparse GPs
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.optimize import Bounds

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.problem import Search
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.projected_lbfgs import Evaluation, InverseHessian, descend, evaluated
from gpsuite.models.search import NO_ROOM, Minimum, Objective, Status
from gpsuite.seeds import stream

# One row in so many, and how many iterations on them.
STAGES = ((16, 100), (4, 200))
# A stage with fewer rows is left out: they are too unlike all rows.
LEAST_ROWS = 2000
# Of the budget: what the stages before the last may take.
COARSE_SHARE = 0.5
# The search has converged if so many iterations on all rows gain less than this share of its whole fall.
WINDOW, LEAST_GAIN = 25, 1e-4
# (l_j^2 capped at this) is the first guess of the inverse Hessian's diagonal for an inducing input's coordinate j.
_LARGEST_SCALE = 25.0


@dataclass(frozen=True)
class StagedSearch(Search):
    """Where the search starts and within which limits; its variables are the logarithms and Z.

    An evaluation on some of the rows counts as that share of one.
    """

    parametrisation: str = "log"


class _NoRoomError(Exception):
    """The budget has no room for another evaluation."""


class _Meter:
    """Counts evaluations in those of all rows; while rows are left out, one evaluation of all rows is kept back."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.spent = 0.0
        self.failures: list[str] = []
        self.lowest: Evaluation | None = None  # on all rows
        self._longest = 0.0

    @property
    def fault(self) -> str:
        """How many evaluations failed and why, or an empty string."""
        return f"{len(self.failures)} evaluations failed: {self.failures[0]}" if self.failures else ""

    def counted(self, objective: Objective, share: float) -> Objective:
        """Return the objective, counted; it is infinite where it fails, and raises where the budget has no room."""

        def evaluate(x: FloatArray) -> tuple[float, FloatArray]:
            if self.spent:
                self._require_room(share)
            begin, loss, gradient = time.monotonic(), math.inf, np.zeros_like(x)
            try:
                loss, gradient = objective(x)
            except NotPositiveDefiniteError as error:
                self.failures.append(str(error))
            if share == 1.0:
                self._longest = max(self._longest, time.monotonic() - begin)
            before, self.spent = self.spent, self.spent + share
            whole = math.floor(self.spent + 1e-9) - math.floor(before + 1e-9)
            usable = share == 1.0 and math.isfinite(loss) and bool(np.isfinite(gradient).all())
            if usable and (self.lowest is None or loss < self.lowest.loss):
                self.lowest = Evaluation(x.copy(), loss, gradient)
            self.budget.spend(evaluations=whole, best=loss if usable else math.inf)
            return loss, gradient

        return evaluate

    def _require_room(self, share: float) -> None:
        budget, needed = self.budget, share if share == 1.0 else 1.0 + share
        part = budget.share * budget.runs - (budget.run - 1)  # of this search's own limits
        if share < 1.0 and part >= COARSE_SHARE:
            raise _NoRoomError
        if budget.evaluations is not None and self.spent + needed > budget.evaluations + 1e-9:
            raise _NoRoomError(f"{budget.evaluations} evaluations used up")
        if budget.exhausted or not budget.has_room(needed * self._longest):
            raise _NoRoomError(budget.reason or NO_ROOM)


def nested_subsets(n: int) -> Iterator[tuple[IntArray, int]]:
    """Yield the rows of every stage but the last and how many iterations it has; each holds the rows before it.

    Args:
        n: number of rows.
    """
    order = stream(0, "staged search").permutation(n)
    for divisor, iterations in STAGES:
        if n // divisor >= LEAST_ROWS:
            yield np.sort(order[: n // divisor]), iterations


def minimise_in_stages(
    objective: Objective,
    on_rows: Callable[[IntArray], Objective],
    n: int,
    n_theta: int,
    begin: FloatArray,
    search: StagedSearch,
) -> Minimum:
    """Minimise from stage to stage; the end is the lowest point on all rows, the start included.

    Args:
        objective: loss and gradient on all rows, of x = (ln variance, ln lengthscales, ln noise variance, Z) [K].
        on_rows: rows -> the loss on them, each counted n over their number times.
        n: number of rows.
        n_theta: how many logarithms come first.
        begin: first x, inside the box.
        search: limits.
    """
    inputs = len(begin) - n_theta
    limits = np.array(search.limits(n_theta - 1) + [(-math.inf, math.inf)] * inputs)
    box, meter = Bounds(limits[:, 0], limits[:, 1]), _Meter(search.budget)
    whole = meter.counted(objective, 1.0)
    start = evaluated(whole, np.clip(begin, box.lb, box.ub))
    if start is None:
        reason = meter.fault or "the objective or its gradient is not finite"
        return Minimum(begin, math.inf, "diverged", f"not defined at the start: {reason}", 1, 0)

    def guess(x: FloatArray) -> FloatArray:
        scales = np.minimum(np.exp(2.0 * x[1 : n_theta - 1]), _LARGEST_SCALE)
        return np.concatenate([np.ones(n_theta), np.resize(scales, inputs)])

    inverse, point, iterations = InverseHessian(guess(start.point)), start.point, 0
    for rows, most in nested_subsets(n):
        part = meter.counted(on_rows(rows), len(rows) / n)
        try:
            first = evaluated(part, point)
            for at in islice(descend(part, first, box, inverse, guess), most) if first is not None else ():
                point, iterations = at.point, iterations + 1
        except _NoRoomError:
            break
    reason = ""
    try:
        coarse = None if point is start.point else evaluated(whole, point)
        best = start if coarse is None or coarse.loss > start.loss else coarse
        losses = [best.loss]
        for at in descend(whole, best, box, inverse, guess):
            iterations += 1
            losses.append(at.loss)
            if _has_converged(losses, start):
                break
    except _NoRoomError as ended:
        reason = str(ended)
    best = meter.lowest or start  # a line search that the budget ended may have seen the lowest
    status: Status = "budget" if reason else "done"
    return Minimum(
        best.point, best.loss, status, "; ".join(filter(None, [meter.fault, reason])),
        math.ceil(meter.spent - 1e-9), iterations, failures=tuple(meter.failures),
    )  # fmt: skip


def _has_converged(losses: list[float], start: Evaluation) -> bool:
    """Return whether the last iterations on all rows gained next to nothing of the fall since the start."""
    if len(losses) <= WINDOW:
        return False
    return losses[-1 - WINDOW] - losses[-1] < LEAST_GAIN * (start.loss - losses[-1])
