"""BFGS with a strong Wolfe line search by brackets and cubics (Fletcher 1987, Sec. 2.6), with loose tolerances.

The three-class classifiers of Blaas et al. 2020 are trained by ten iterations from the unit matrix. It is not rescaled
after the first step. Another search would end at another point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.search import Minimum, Objective

DECREASE, SLOPE = 0.01, 0.9  # constants of the strong Wolfe conditions
GROWTH = 3.0  # growth of a bracket, in units of its last step
INNER = (0.1, 0.5)  # least distances of a trial from a section's better and other end, as shares of the section
LONGEST_FIRST = 5.0
LINE_EVALUATIONS = 50
GRADIENT, CHANGE, ITERATIONS = 0.1, 1e-3, 10


@dataclass(frozen=True)
class _Trial:
    step: float
    loss: float
    slope: float
    gradient: FloatArray


def wolfe_bfgs(objective: Objective, start: FloatArray, iterations: int = ITERATIONS) -> Minimum:
    """Minimise a differentiable loss until its gradient or step is small, or the iterations end.

    Args:
        objective: function of a point [K] that returns loss and gradient [K].
        start: the first point, [K].
        iterations: largest number of line searches.
    """
    evaluations = 1
    x, (f, g) = start, objective(start)
    inverse, done = np.eye(len(x)), 0
    while done < iterations and np.max(np.abs(g)) >= GRADIENT:
        s = -inverse @ g
        first = min(1.0 / float(np.max(np.abs(g))), LONGEST_FIRST) if done == 0 else 1.0
        line = _Search(objective, x, s, _Trial(0.0, f, float(g @ s), g))
        end = line.run(first)
        evaluations, done = evaluations + line.used, done + 1
        if end.step == 0.0:
            return Minimum(x, f, "diverged", "the line search found no lower loss", evaluations, done)
        change, y = end.step * s, end.gradient - g
        x, f, g = x + change, end.loss, end.gradient
        if np.max(np.abs(change)) < CHANGE:
            break
        curvature = float(change @ y)
        if curvature >= math.sqrt(np.finfo(float).eps) * float(np.linalg.norm(change) * np.linalg.norm(y)):
            inverse = _updated(inverse, change, y, curvature)
    return Minimum(x, f, "done", "gradient, step or iterations at their end", evaluations, done)


def _updated(inverse: FloatArray, change: FloatArray, y: FloatArray, curvature: float) -> FloatArray:
    """Return the inverse Hessian after a step (Nocedal & Wright 2006, Eq. 6.17)."""
    left = np.eye(len(y)) - np.outer(change, y) / curvature
    return np.asarray(left @ inverse @ left.T + np.outer(change, change) / curvature)


class _Search:
    """A line search from x along s."""

    def __init__(self, objective: Objective, x: FloatArray, s: FloatArray, start: _Trial) -> None:
        self.objective, self.x, self.s, self.start = objective, x, s, start
        self.used = 0

    def at(self, step: float) -> _Trial:
        self.used += 1
        loss, gradient = self.objective(self.x + step * self.s)
        return _Trial(step, loss if np.isfinite(loss) else math.inf, float(gradient @ self.s), gradient)

    def high(self, trial: _Trial, low: _Trial) -> bool:
        limit = self.start.loss + DECREASE * trial.step * self.start.slope
        return not (trial.loss <= limit and trial.loss < low.loss)

    def flat(self, trial: _Trial) -> bool:
        return abs(trial.slope) <= -SLOPE * self.start.slope

    def run(self, first: float) -> _Trial:
        """Return a step that meets both conditions, or the best of the last bracket."""
        before, trial = self.start, self.at(first)
        while self.used < LINE_EVALUATIONS:
            if self.high(trial, before):
                return self.section(before, trial)
            if self.flat(trial):
                return trial
            if trial.slope >= 0.0:
                return self.section(trial, before)
            low = 2.0 * trial.step - before.step
            step = _cubic(before, trial, low, trial.step + GROWTH * (trial.step - before.step))
            before, trial = trial, self.at(step)
        return trial

    def section(self, low: _Trial, other: _Trial) -> _Trial:
        while self.used < LINE_EVALUATIONS:
            width = other.step - low.step
            ends = low.step + INNER[0] * width, other.step - INNER[1] * width
            trial = self.at(_cubic(low, other, *ends))
            if self.high(trial, low):
                other = trial
            elif self.flat(trial):
                return trial
            else:
                if width * trial.slope >= 0.0:
                    other = low
                low = trial
        return low


def _cubic(one: _Trial, two: _Trial, a: float, b: float) -> float:
    """Return the minimum between a and b (in any order) of the cubic through two trials."""
    width = two.step - one.step
    rise = two.loss - one.loss
    if not np.isfinite(rise):
        return 0.5 * (a + b)
    # in z = (step - one.step) / width: loss + c1 z + c2 z² + c3 z³
    c1 = one.slope * width
    c2, c3 = 3.0 * rise - (2.0 * c1 + two.slope * width), c1 + two.slope * width - 2.0 * rise
    places = [(end - one.step) / width for end in (a, b)]
    root = c2 * c2 - 3.0 * c1 * c3
    if root >= 0.0:
        inner = [(-c2 + sign * math.sqrt(root)) / (3.0 * c3) for sign in (1.0, -1.0)] if c3 else [-c1 / (2.0 * c2)]
        places += [z for z in inner if min(places[:2]) <= z <= max(places[:2])]
    return one.step + width * min(places, key=lambda z: c1 * z + c2 * z**2 + c3 * z**3)
