"""Projected L-BFGS with pairs and a learnt diagonal that a search of a similar loss can reuse. No TensorFlow.

The inverse Hessian's first guess is gamma D. D is learnt from the pairs: steps and gradient changes get the same spread
in every variable.

A search that ends before convergence magnifies rounding. The last bits of a likelihood of 66 hyperparameters move its
end by up to 1 after 100 evaluations. A `Grid` removes these bits, so every machine ends at the same point.

Equation: Nocedal & Wright 2006, Algorithm 7.4
Equation: derived, diagonal from secant pairs
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.budget import Budget
from gpsuite.models.search import BudgetEndedError, Minimum, Objective, RecordedLoss, StartNotFiniteError, StepRules

HISTORY = 100
# Least number of pairs to learn a diagonal.
LEARN_FROM = 20
# Iterations between two diagonals.
LEARN_EVERY = 25
# The diagonal stays within this factor of its first guess, above and below, up to a common factor.
LARGEST_FACTOR = 100.0
_OFFSET = 0.01  # added to ratios of mean 1: variables that have hardly moved stay near their first guess
_LEAST_CURVATURE = 1e-10  # share of |s||y|: pairs with less curvature are not kept
_DECREASE, _CURVATURE = 1e-4, 0.9  # constants of the weak Wolfe conditions
_FIRST_LENGTH = 0.1  # length of the first step in units of sqrt(D), as long as there is no pair
_TRIALS = 15
_STATIONARY = 1e-8


@dataclass(frozen=True)
class Evaluation:
    point: FloatArray
    loss: float
    gradient: FloatArray


@dataclass(frozen=True)
class Grid:
    """Grid of a search's points and slopes: far coarser than rounding, far finer than the steps.

    Attributes:
        spacing: spacing of the points in every variable, a power of two.
        bits: number of bits of a gradient, counted from its largest entry.
    """

    spacing: float = 2.0**-16
    bits: int = 12

    def point(self, x: FloatArray) -> FloatArray:
        nearest: FloatArray = self.spacing * np.round(x / self.spacing)
        return nearest

    def gradient(self, gradient: FloatArray) -> FloatArray:
        """Return a finite gradient [K] rounded to `bits` bits of its largest entry."""
        largest = math.frexp(float(np.abs(gradient).max()))[1]
        unit = 2.0 ** max(largest - self.bits, -1022)  # a smaller unit would divide by 0
        rounded: FloatArray = unit * np.round(gradient / unit)
        return rounded


def evaluated(objective: Objective, point: FloatArray, grid: Grid | None = None) -> Evaluation | None:
    """Return loss and gradient at a point, rounded to the grid if given, or None if they are not finite."""
    loss, gradient = objective(point)
    if not (math.isfinite(loss) and bool(np.isfinite(gradient).all())):
        return None
    return Evaluation(point, loss, gradient if grid is None else grid.gradient(gradient))


class InverseHessian:
    """Pairs of steps s and gradient changes y, and the diagonal D [K] of the first guess gamma D.

    D affects only the first guess, so pairs stay valid when it changes.

    Args:
        diagonal: D until enough pairs are known.
    """

    def __init__(self, diagonal: FloatArray) -> None:
        self.diagonal = diagonal
        self._pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=HISTORY)

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, step: FloatArray, change: FloatArray) -> None:
        """Keep a pair, unless the curvature along it is not clearly positive."""
        curvature = float(step @ change)
        if curvature > _LEAST_CURVATURE * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._pairs.append((step, change, curvature))

    def forget(self) -> None:
        self._pairs.clear()

    def learn(self, guess: FloatArray) -> None:
        """Set D from the pairs: `guess` times the clipped ratio of steps to gradient changes.

        With weights 1/s'y, a = sum s^2/D0 and b = sum y^2 D0, each over its mean, and r = sqrt((a + 0.01)/(b + 0.01)):
        D = D0 clip(r / its geometric mean, 1/100, 100).

        Args:
            guess: D0 [K], positive. With few pairs D is D0.
        """
        self.diagonal = guess
        if len(self) < LEARN_FROM:
            return
        a, b = np.zeros_like(guess), np.zeros_like(guess)
        for step, change, curvature in self._pairs:
            a += step**2 / curvature
            b += change**2 / curvature
        a, b = a / guess, b * guess
        log_ratio = 0.5 * (np.log(a / a.mean() + _OFFSET) - np.log(b / b.mean() + _OFFSET))
        limit = math.log(LARGEST_FACTOR)
        self.diagonal = guess * np.exp(np.clip(log_ratio - log_ratio.mean(), -limit, limit))

    def product(self, vector: FloatArray) -> FloatArray:
        """Return the inverse Hessian times a vector [K], by the two-loop recursion."""
        q, shares = vector.copy(), []
        for step, change, curvature in reversed(self._pairs):
            share = float(step @ q) / curvature
            q -= share * change
            shares.append(share)
        q *= self.diagonal
        if self._pairs:
            _, change, curvature = self._pairs[-1]
            q *= curvature / float(change @ (self.diagonal * change))
        for (step, change, curvature), share in zip(self._pairs, reversed(shares), strict=True):
            q += (share - float(change @ q) / curvature) * step
        return q


def descend(
    objective: Objective,
    start: Evaluation,
    box: Bounds,
    inverse: InverseHessian,
    guess: Callable[[FloatArray], FloatArray],
    grid: Grid | None = None,
) -> Iterator[Evaluation]:
    """Yield every accepted point, each lower than the one before. End at a stationary point or without a decrease.

    If no step decreases the loss, the pairs are dropped, once. An exception of the objective ends the search. The last
    yielded point is the result.

    Args:
        objective: loss and gradient. They are not finite where the loss is not defined. This shortens the step.
        inverse: inverse Hessian from earlier searches, or a new one. This search adds to it.
        guess: function of a point that returns D0 of `InverseHessian.learn`.
        grid: grid of the points, or None. The start and the box's limits must be on it.
    """
    at, dropped, iteration = start, False, 0
    while True:
        free = _free(at, box)
        if np.abs(at.gradient[free]).max(initial=0.0) <= _STATIONARY:
            return
        if iteration % LEARN_EVERY == 0:
            inverse.learn(guess(at.point))
        found = _step(objective, at, box, inverse, free, grid)
        if found is None:
            if dropped or not len(inverse):
                return
            inverse.forget()
            dropped, iteration = True, 0
            continue
        inverse.add(found.point - at.point, found.gradient - at.gradient)
        at, iteration = found, iteration + 1
        yield at


def minimise_on_grid(objective: Objective, start: FloatArray, budget: Budget) -> Minimum:
    """Minimise without limits until nothing lower is found or the budget ends.

    The end is the same on every machine, unless a number is within rounding of the middle between two grid values.
    """
    grid, D, nowhere = Grid(), np.ones_like(start), np.full_like(start, np.inf)
    search = RecordedLoss(objective, budget, StepRules(undefined="wall"))
    try:
        first = evaluated(search.evaluate, grid.point(start), grid)
        assert first is not None, "a recorded loss is finite everywhere but at the start"
        for at in descend(search.evaluate, first, Bounds(-nowhere, nowhere), InverseHessian(D), lambda _: D, grid):
            search.count_iteration(at.point)
    except BudgetEndedError as ended:
        return search.minimum("budget", str(ended))
    except StartNotFiniteError:
        return search.minimum("diverged", f"not defined at the start: {search.failures[0]}")
    return search.minimum("done", "converged")


def _free(at: Evaluation, box: Bounds) -> BoolArray:
    """Return which variables may move: not those at a limit with a step out of the box."""
    below, above = at.point <= box.lb, at.point >= box.ub
    return np.asarray(~((below & (at.gradient > 0.0)) | (above & (at.gradient < 0.0))))


def _step(
    objective: Objective, at: Evaluation, box: Bounds, inverse: InverseHessian, free: BoolArray, grid: Grid | None
) -> Evaluation | None:
    """Return the end of a line search, or None if there is no descent."""
    direction = -inverse.product(free * at.gradient) * free
    if not (np.isfinite(direction).all() and float(direction @ at.gradient) < 0.0):
        return None
    first = 1.0
    if not len(inverse):
        first = min(1.0, _FIRST_LENGTH / math.sqrt(float(np.sum(direction**2 / inverse.diagonal))))
    return _line_search(objective, at, box, direction, first, grid)


def _line_search(
    objective: Objective, at: Evaluation, box: Bounds, direction: FloatArray, first: float, grid: Grid | None
) -> Evaluation | None:
    """Return a point of the clipped line that meets the weak Wolfe conditions, or the last one low enough, or None."""
    low, high, length = 0.0, math.inf, first
    enough: Evaluation | None = None
    for _ in range(_TRIALS):
        point = np.clip(at.point + length * direction, box.lb, box.ub)
        if grid is not None:
            point = grid.point(point)
            if np.array_equal(point, at.point):
                return enough
        trial = evaluated(objective, point, grid)
        fall = math.inf
        if trial is not None:
            moved = trial.point - at.point
            fall = float(at.gradient @ moved)
        if trial is None or not (fall < 0.0 and trial.loss <= at.loss + _DECREASE * fall):
            high = length
        else:
            enough = trial
            if float(trial.gradient @ moved) >= _CURVATURE * fall:
                return trial
            low = length
        between = 0.25 if trial is None else 0.5
        length = 2.0 * low if math.isinf(high) else low + between * (high - low)
    return enough
