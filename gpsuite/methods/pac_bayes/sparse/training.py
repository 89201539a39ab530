"""A search for sparse GPs over nested subsets of the rows, then over all rows. It ends lower than the paper's search.

A few rows, each counted several times, have nearly the Hessian of all rows at a fraction of the time. So the searches
share their quasi-Newton pairs. A subset's loss has no meaning: only losses on all rows are compared and returned.

Equation: derived, staged search for sparse GPs
Equation: Reeb et al. 2018, Sec. 3
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
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search, TrainedGP
from gpsuite.methods.pac_bayes.sparse.algebra import checked_inducing
from gpsuite.methods.pac_bayes.sparse.objective import Form, SparseGPObjective, SparseLikelihoodObjective
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.projected_lbfgs import Evaluation, InverseHessian, descend, evaluated
from gpsuite.models.search import NO_ROOM, Minimum, Status
from gpsuite.models.search import Objective as VectorObjective
from gpsuite.seeds import stream

# Stages: one row in this many, and the number of iterations on these rows.
STAGES = ((16, 100), (4, 200))
# A stage with fewer rows is left out: they represent all rows badly.
LEAST_ROWS = 2000
# Largest share of the budget for the stages before the last.
COARSE_SHARE = 0.5
# The search has converged if this many iterations on all rows gain less than this share of its whole decrease.
WINDOW, LEAST_GAIN = 25, 1e-4
# l_j^2, limited to this, is the first guess of the inverse Hessian's diagonal for an inducing input's coordinate j.
_LARGEST_SCALE = 25.0
# function of theta [T + 1] and Z [M, D] that returns its value and gradients in both
Objective = Callable[[FloatArray, FloatArray], tuple[float, FloatArray, FloatArray]]


@dataclass(frozen=True)
class StagedSearch(Search):
    """Start and limits of the search. Its variables are the logarithms and Z.

    An evaluation on a share of the rows counts as this share of an evaluation.
    """

    parametrisation: str = "log"


class _NoRoomError(Exception):
    """The budget has no room for another evaluation."""


class _Meter:
    """Counts evaluations in units of all rows. While rows are left out, one evaluation of all rows is reserved."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.spent = 0.0
        self.failures: list[str] = []
        self.lowest: Evaluation | None = None  # on all rows
        self._longest = 0.0

    @property
    def fault(self) -> str:
        """Number of evaluations that failed and why, or an empty string."""
        return f"{len(self.failures)} evaluations failed: {self.failures[0]}" if self.failures else ""

    def counted(self, objective: VectorObjective, share: float) -> VectorObjective:
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
        part = budget.share * budget.runs - (budget.run - 1)  # within this search's own limits
        if share < 1.0 and part >= COARSE_SHARE:
            raise _NoRoomError
        if budget.evaluations is not None and self.spent + needed > budget.evaluations + 1e-9:
            raise _NoRoomError(f"{budget.evaluations} evaluations used up")
        if budget.exhausted or not budget.has_room(needed * self._longest):
            raise _NoRoomError(budget.reason or NO_ROOM)


def nested_subsets(n: int) -> Iterator[tuple[IntArray, int]]:
    """Yield rows and number of iterations of every stage but the last. Each stage contains the rows before it."""
    order = stream(0, "staged search").permutation(n)
    for divisor, iterations in STAGES:
        if n // divisor >= LEAST_ROWS:
            yield np.sort(order[: n // divisor]), iterations


def minimise_in_stages(
    objective: VectorObjective,
    on_rows: Callable[[IntArray], VectorObjective],
    n: int,
    n_theta: int,
    begin: FloatArray,
    search: StagedSearch,
) -> Minimum:
    """Minimise stage by stage. Return the lowest point on all rows, which may be the start.

    Args:
        objective: loss and gradient on all rows, of x = (ln variance, ln lengthscales, ln noise variance, Z) [K].
        on_rows: function of rows that returns the loss on them. Each row counts n over their number times.
        n_theta: number of logarithms, which come first.
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
    best = meter.lowest or start  # a line search that the budget ended may have found the lowest value
    status: Status = "budget" if reason else "done"
    reason = "; ".join(filter(None, [meter.fault, reason]))
    # shares of rows add up with rounding: slightly more than a whole evaluation counts as one
    spent, failures = math.ceil(meter.spent - 1e-9), tuple(meter.failures)
    return Minimum(best.point, best.loss, status, reason, spent, iterations, failures=failures)


def _has_converged(losses: list[float], start: Evaluation) -> bool:
    """Return whether the last iterations on all rows gained almost nothing of the decrease since the start."""
    if len(losses) <= WINDOW:
        return False
    return losses[-1 - WINDOW] - losses[-1] < LEAST_GAIN * (start.loss - losses[-1])


@dataclass(frozen=True)
class TrainedSparseGP:
    """Hyperparameters and inducing inputs found by minimising an objective.

    Attributes:
        Z: inducing inputs [M, D]. They add no penalty and are not rounded.
        alpha: kind of the trained posterior: 1 is FITC, 0 is VFE (DTC).
        jitter: largest multiple of sigma_f^2 that K_ZZ needed during the search, 0 if none.
    """

    gp: TrainedGP
    Z: FloatArray
    alpha: float
    jitter: float


def train_sparse_gp(problem: RiskProblem, Z: FloatArray, alpha: float, search: Search) -> TrainedSparseGP:
    """Minimise the bound of a sparse GP over hyperparameters and inducing inputs, then round those of the kernel.

    Variance and lengthscales stay in the box [e^-6, e^6] of the grid. Z is free. The paper's search is L-BFGS-B on all
    rows.

    Args:
        Z: inducing inputs to start from [M, D]. The paper takes k-means centres of X.
        alpha: 1 is FITC (the paper's), 0 is VFE (DTC).
        search: start and limits of the paper's search or of the staged search.

    Raises:
        ValueError: if shapes disagree, Z is not finite, alpha is out of range, or `search.start` has the wrong number
            of lengthscales.
        UserError: if the parametrisation is unknown.
    """
    bound = SparseGPObjective(problem, alpha, len(Z))

    def on_rows(rows: IntArray) -> Objective:
        return _without_parts(SparseGPObjective(problem, alpha, len(Z), rows=rows))

    first, inputs = search.first(problem.n_lengthscales), checked_inducing(Z, problem.X.shape[1])
    gp, found = _search(_without_parts(bound), on_rows, bound.n, first, inputs, search)
    return TrainedSparseGP(gp, found, alpha, bound.jitter)


def train_sparse_likelihood(
    X: FloatArray, y: FloatArray, Z: FloatArray, form: Form, ard: bool, search: Search
) -> TrainedSparseGP:
    """Minimise a baseline's objective over hyperparameters and inducing inputs, with the search of `train_sparse_gp`.

    The objective value of the result is in nats: the negative bound of VFE, or the negative approximate log marginal
    likelihood of FITC.

    Args:
        form: `vfe` (the result has alpha = 0) or `fitc` (alpha = 1).

    Raises:
        ValueError: if shapes disagree, values are not finite, or `search.start` has the wrong number of lengthscales.
        UserError: if the form or the parametrisation is unknown.
    """
    likelihood = SparseLikelihoodObjective(X, y, ard, form, len(Z))
    first, inputs = search.first(likelihood.n_lengthscales), checked_inducing(Z, np.shape(X)[1])

    def on_rows(rows: IntArray) -> Objective:
        return SparseLikelihoodObjective(X, y, ard, form, len(Z), rows).value_and_gradient

    gp, found = _search(likelihood.value_and_gradient, on_rows, likelihood.n, first, inputs, search)
    return TrainedSparseGP(gp, found, 1.0 if form == "fitc" else 0.0, likelihood.jitter)


def _without_parts(bound: SparseGPObjective) -> Objective:
    return lambda theta, Z: bound.value_and_gradient(theta, Z)[:3]


def _search(
    evaluate: Objective,
    on_rows: Callable[[IntArray], Objective],
    n: int,
    first: Hyperparameters,
    inputs: FloatArray,
    search: Search,
) -> tuple[TrainedGP, FloatArray]:
    variables, n_theta = search.variables, first.n_kernel + 1

    def in_variables(objective: Objective) -> VectorObjective:
        def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
            theta, slope = variables.to_log(u[:n_theta])
            value, d_theta, d_Z = objective(theta, u[n_theta:].reshape(inputs.shape))
            return value, np.concatenate([d_theta * slope, d_Z.ravel()])

        return value_and_gradient

    begin = np.concatenate([variables.from_log(first.to_log()), inputs.ravel()])
    if isinstance(search, StagedSearch):
        found = minimise_in_stages(
            in_variables(evaluate), lambda rows: in_variables(on_rows(rows)), n, n_theta, begin, search
        )
    else:
        limits = search.limits(first.n_kernel) + [(-math.inf, math.inf)] * inputs.size
        found = search.run(in_variables(evaluate), begin, limits)
    gp = TrainedGP.at(variables.to_log(found.point[:n_theta])[0], found)
    return gp, found.point[n_theta:].reshape(inputs.shape)
