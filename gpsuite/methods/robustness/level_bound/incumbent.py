"""The best point found so far, evaluated with its rounding error, and how it gets better."""

from __future__ import annotations

import numpy as np

from gpsuite.methods.robustness.box_bounds import FloatArray
from gpsuite.methods.robustness.level_bound.latent_model import Expansion
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.level_bound.newton import newton_points
from gpsuite.methods.robustness.regions import Region

LEAST_GAIN = 1e-9  # in the score: below it a further step is not worth an expansion


class Incumbent:
    """The point of the region with the largest attained score of (sign mean, variance).

    Attributes:
        score: attained surely: the evaluation's rounding is taken off; -inf before the first point.
        point: [d] in units of X, or None.
    """

    def __init__(self, bound: LevelBound, region: Region, sign: int) -> None:
        self.bound, self.region, self.sign = bound, region, sign
        self.score = -np.inf
        self.point: FloatArray | None = None

    def offer(self, points: FloatArray) -> bool:
        """Evaluate points [m, d] in units of X, moved into the region; tell whether one is better."""
        points = self.region.project(points[np.isfinite(points).all(axis=1)])
        points = points[self.region.contains(points)]
        if not len(points):
            return False
        form, level = self.bound.form, self.bound.level
        scaled = form.scale(points)
        mean, variance = form.moments(scaled)
        scores = level.inward(self.sign * mean, variance, *form.moment_errors(scaled))
        best = int(np.argmax(np.where(np.isnan(scores), -np.inf, scores)))
        if not scores[best] > self.score:
            return False
        self.score, self.point = float(scores[best]), points[best].copy()
        return True

    def offer_scaled(self, points: FloatArray) -> bool:
        """The same for scaled points."""
        form = self.bound.form
        return self.offer(form.origin + form.lengthscales * points)

    def improve(self, steps: int, expansion: Expansion | None = None) -> bool:
        """Take up to so many Newton steps; tell whether the score rose.

        Args:
            steps: expansions at most, with one evaluation each.
            expansion: at the incumbent, if there is one already.
        """
        form, before = self.bound.form, self.score
        low, high = form.scale(self.region.lower), form.scale(self.region.upper)
        for _ in range(steps):
            if self.point is None:
                break
            reached = self.score
            expansion = expansion or self.bound.expand_at(self.point[None])
            self.offer_scaled(newton_points(expansion, self.bound.level, self.sign, low, high))
            expansion = None
            if self.score <= reached + LEAST_GAIN * (1.0 + abs(reached)):
                break
        return self.score > before
