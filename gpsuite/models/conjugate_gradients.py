"""Polak-Ribière conjugate gradients with a counted line search, as in the training of Blaas et al. 2020's code.

The step is extrapolated by cubic fits until the slope rises, then interpolated until both Wolfe-Powell conditions hold.
The length of a search is a number of evaluations, including the start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.linalg import NonFiniteMatrixError, NotPositiveDefiniteError
from gpsuite.models.search import Minimum, Objective

INTERVAL = 0.1  # an interpolated step keeps this share of the bracket from both ends
EXTRAPOLATION = 3.0  # largest multiple of the last step
EVALUATIONS = 20  # largest number per line search
RATIO = 10.0  # largest ratio of the slopes of two searches, by which the next first step is longer
SLOPE, DECREASE = 0.1, 0.05  # constants of the Wolfe-Powell conditions
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class _Point:
    """A point on the line: step, loss, slope along the line, gradient."""

    step: float
    loss: float
    slope: float
    gradient: FloatArray


def conjugate_gradients(objective: Objective, start: FloatArray, evaluations: int) -> Minimum:
    """Minimise a differentiable loss from a start within a number of evaluations.

    If the loss is not finite, or its matrix not positive definite, the extrapolated step is halved towards the last
    good one.

    Args:
        objective: function of a point [K] that returns loss and gradient [K].
        start: the first point, [K].
        evaluations: number of evaluations, including the start.
    """
    line = _Line(objective, evaluations)
    x, (f, g) = start, line.evaluate(start)
    if not np.isfinite(f):
        return Minimum(start, math.inf, "diverged", "not defined at the start", line.used, 0)
    s = -g
    slope, failed, iterations = float(-s @ s), False, 0
    step = 1.0 / (1.0 - slope)
    while line.used < evaluations:
        line.begin(x, f, g, s, slope)
        end = line.interpolated(line.extrapolated(step))
        if abs(end.slope) < -SLOPE * slope and end.loss < f + end.step * DECREASE * slope:
            iterations += 1
            x = x + end.step * s
            s = float((end.gradient @ end.gradient - g @ end.gradient) / (g @ g)) * s - end.gradient
            f, g, before = end.loss, end.gradient, slope
            slope = float(g @ s)
            if slope > 0.0:
                s = -g
                slope = float(-s @ s)
            step, failed = end.step * min(RATIO, before / (slope - _TINY)), False
            continue
        x, f, g = line.best
        if failed:
            return Minimum(x, f, "done", "no lower loss along the gradient", line.used, iterations)
        s, failed = -g, True
        slope = float(-s @ s)
        step = 1.0 / (1.0 - slope)
    return Minimum(x, f, "budget", f"{evaluations} evaluations used up", line.used, iterations)


@dataclass
class _Line:
    """Runs line searches in sequence, counts evaluations and keeps the best point of the current search."""

    objective: Objective
    evaluations: int
    used: int = 0
    left: int = 0
    best: tuple[FloatArray, float, FloatArray] = field(init=False)

    def evaluate(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return loss and gradient, NaN if they are not defined."""
        self.used += 1
        try:
            with np.errstate(all="ignore"):
                loss, gradient = self.objective(x)
        except (NonFiniteMatrixError, NotPositiveDefiniteError):
            return math.nan, np.full_like(x, math.nan)
        finite = np.isfinite(loss) and np.isfinite(gradient).all()
        return (loss, gradient) if finite else (math.nan, np.full_like(x, math.nan))

    def begin(self, x: FloatArray, loss: float, gradient: FloatArray, direction: FloatArray, slope: float) -> None:
        self.x, self.direction = x, direction
        self.start = _Point(0.0, loss, slope, gradient)
        self.left = min(EVALUATIONS, self.evaluations - self.used)
        self.best = x, loss, gradient

    def at(self, step: float) -> _Point:
        self.left -= 1
        x = self.x + step * self.direction
        loss, gradient = self.evaluate(x)
        if loss < self.best[1]:
            self.best = x, loss, gradient
        return _Point(step, loss, float(gradient @ self.direction), gradient)

    def too_high(self, point: _Point) -> bool:
        return point.loss > self.start.loss + point.step * DECREASE * self.start.slope

    def extrapolated(self, step: float) -> _Point:
        """Return the first point with a risen slope, or with a loss that has not fallen enough."""
        while True:
            point = self.start
            while self.left > 0:
                point = self.at(step)
                if np.isfinite(point.loss):
                    break
                step, point = 0.5 * step, self.start
            if point.slope > SLOPE * self.start.slope or self.too_high(point) or self.left == 0:
                return point
            # from the start again, not from the last two points, as in the code
            step = _extrapolation(self.start, point)

    def interpolated(self, third: _Point) -> _Point:
        """Return a point of the bracket that meets both conditions, or the last one tried."""
        second = fourth = self.start
        while (abs(third.slope) > -SLOPE * self.start.slope or self.too_high(third)) and self.left > 0:
            if third.slope > 0.0 or self.too_high(third):
                fourth = third
            else:
                second = third
            third = self.at(_interpolation(self.start.loss, second, fourth))
        return third


def _extrapolation(one: _Point, two: _Point) -> float:
    """Return the minimum of the cubic through two points beyond the second, within limits."""
    width = two.step - one.step
    A = 6.0 * (one.loss - two.loss) + 3.0 * (two.slope + one.slope) * width
    B = 3.0 * (two.loss - one.loss) - (2.0 * one.slope + two.slope) * width
    root, most = B * B - A * one.slope * width, two.step * EXTRAPOLATION
    divisor = B + math.sqrt(root) if root >= 0.0 else 0.0
    if divisor == 0.0:
        return most
    step = one.step - one.slope * width**2 / divisor
    if not 0.0 <= step <= most:
        return most
    return max(step, two.step + INTERVAL * width)


def _interpolation(start: float, two: _Point, four: _Point) -> float:
    """Return the minimum of the quadratic or cubic between two points, away from both."""
    width = four.step - two.step
    with np.errstate(all="ignore"):
        if four.loss > start:
            step = two.step - np.float64(0.5 * two.slope * width**2) / (four.loss - two.loss - two.slope * width)
        else:
            A = np.float64(6.0 * (two.loss - four.loss)) / width + 3.0 * (four.slope + two.slope)
            B = 3.0 * (four.loss - two.loss) - (2.0 * two.slope + four.slope) * width
            step = two.step + (np.sqrt(B * B - A * two.slope * width**2) - B) / A
    inner = float(step) if np.isfinite(step) else 0.5 * (two.step + four.step)
    return max(min(inner, four.step - INTERVAL * width), two.step + INTERVAL * width)
