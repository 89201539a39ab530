"""Search with the level bound, and its attack: Newton steps on a local quadratic model of the score.

Equation: derived, search with the level bound
Equation: Blaas et al. 2020, Algorithm 1
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.level_bound.cubic import Expansion, LatentModel
from gpsuite.methods.robustness.level_bound.level import Level
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound, LevelBounds, split_scores
from gpsuite.methods.robustness.search.branch_and_bound import Attack, Extremum, Search
from gpsuite.methods.robustness.search.regions import Region

SHARES = (1.0, 0.5, 0.25, 0.0625)
STEPS = 30


def newton_steps(
    expansion: Expansion, level: Level, sign: int, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, float]:
    """Return steps in lengthscales from the centre of an expansion towards its model's maximum.

    Args:
        expansion: expansion at one point, B = 1.
        level: level function. Its score of (sign mean, variance) is to rise.
        sign: 1 or -1.
        low: lower ends of the region from the centre, in lengthscales, [d].
        high: upper ends, [d].

    Returns:
        steps [S, d], and the rise of the score that the model predicts for the first step.
    """
    gradient, hessian = score_derivatives(expansion, level, sign)
    step = _ascend(gradient, hessian, low, high)
    gain = float(gradient @ step + step @ hessian @ step)
    return np.array(SHARES)[:, None] * step, gain


def score_derivatives(expansion: Expansion, level: Level, sign: int) -> tuple[FloatArray, FloatArray]:
    """Return gradient [d] and half Hessian [d, d] of an increasing function of the score at a single centre."""
    (mean_slope, mean_half), (variance_slope, variance_half) = (
        (slope[0], half[0]) for slope, half in expansion.taylor()
    )
    by_mean, by_variance, mixed, twice = (
        float(each[0]) for each in level.derivatives(sign * expansion.mean, expansion.variance)
    )
    mean_slope = sign * mean_slope
    gradient = by_mean * mean_slope + by_variance * variance_slope
    cross = np.outer(mean_slope, variance_slope)
    hessian = by_mean * sign * mean_half + by_variance * variance_half
    hessian += 0.5 * (mixed * (cross + cross.T) + twice * np.outer(variance_slope, variance_slope))
    return gradient, hessian


def _ascend(gradient: FloatArray, hessian: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Climb gradient'x + x'hessian x over low <= x <= high from 0 by accelerated projected gradients."""
    steepest = 2.0 * float(np.abs(hessian).sum(axis=1).max())
    if steepest == 0.0:
        return np.where(gradient > 0.0, high, np.where(gradient < 0.0, low, 0.0))
    x = ahead = np.zeros_like(gradient)
    momentum = 1.0
    for _ in range(STEPS):
        step: FloatArray = np.minimum(np.maximum(ahead + (gradient + 2.0 * (hessian @ ahead)) / steepest, low), high)
        if np.array_equal(step, x):
            break
        following = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum) ** 0.5)
        ahead, x = step + ((momentum - 1.0) / following) * (step - x), step
        momentum = following
    return x


# Branch and bound with the level bound: a root that usually decides, then best-first cuts.
#
# Every bound is sharp at the score of the attained probability plus the tolerance: a lower one would not matter. The
# attained value only rises. A bound for one threshold stays valid for all.


BATCH = 16
ROUNDS = 3
ATTACK_STEPS = 3
POLISH_STEPS = 2
LEAST_GAIN = 1e-7  # a step that promises a smaller rise of the score is not worth an evaluation
ACCURATE = 1e-6

Root = tuple[FloatArray, LatentModel]


def level_search(
    bound: LevelBound,
    region: Region,
    tolerance: float,
    budget: Budget,
    sign: int = 1,
    decide: float | None = None,
    batch: int = BATCH,
    root: Root | None = None,
    attack: Attack | None = None,
) -> Extremum:
    """Search the maximum (`sign=1`) or minimum (`sign=-1`) of the probability over the region.

    Args:
        bound: bound of the posterior around the region's centre.
        region: inputs over which the claim holds, such as `robustness.linf_ball`.
        tolerance: largest gap between attained and proved probability, >= 0.
        budget: seconds and boxes. At its end the best valid bounds are returned.
        sign: 1 for the maximum, -1 for the minimum.
        decide: probability. Stop as soon as it is known on which side of it the extremum is, as `branch_and_bound`.
        batch: boxes bounded at once, at least 2.
        root: `root_model` of the region, or None. Both ends can share it.
        attack: local search for a ball. There Newton steps in the surrounding box do not reach the best point.

    Raises:
        ValueError: if tolerance, sign or batch is out of range.
        UnsoundBoundError: if a point of the region attains more than the bounds allow.
    """
    if not tolerance >= 0 or sign not in (-1, 1) or batch < 2:
        raise ValueError("tolerance >= 0, sign = 1 or -1 and batch >= 2 are needed")
    search = _LevelSearch(bound, region, tolerance, budget, sign, decide, batch, attack)
    search.root = root
    return search.run(None)


def root_model(bound: LevelBound, region: Region) -> Root:
    """Return the centre of the box around the region and the models over it."""
    lo, hi = region.root_box()
    return bound.latent_model(lo[None], hi[None])


class _LevelSearch(Search):
    """One run. The tree, the pool and the incumbent are as in every `Search`."""

    def __init__(
        self,
        bound: LevelBound,
        region: Region,
        tolerance: float,
        budget: Budget,
        sign: int,
        decide: float | None,
        batch: int,
        attack: Attack | None,
    ) -> None:
        super().__init__(bound, region, tolerance, budget, sign, attack, batch, decide, None)
        self.bound = bound
        self.root: Root | None = None

    def _bounds(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return signed outer bounds [B] and split scores. Also try the maxima of the relaxations as points."""
        before = self.budget.elapsed
        found, radius = self._root(lo, hi) if not self.tree.size else self._batch(lo, hi)
        self.bounding_seconds += self.budget.elapsed - before
        self.boxes += len(lo)
        self.budget.spend(boxes=len(lo))
        return found.outer, split_scores(found, radius)

    def _root(self, lo: FloatArray, hi: FloatArray) -> tuple[LevelBounds, FloatArray]:
        """Bound the root at rising thresholds until its relaxation proposes no better point."""
        centre, latent = self.root or self.bound.latent_model(lo, hi)
        if self.region.contains(centre)[0]:
            self._take(centre, *self.bound.evaluate_centres(latent))
        points = self.region.start[None]
        if self.witness is None:
            self._offer(points)
        best = np.array([np.inf])
        for _ in range(ROUNDS):
            found = self.bound.bound(centre, latent, self.sign, self._threshold())
            best = np.minimum(best, found.outer)
            if not self._try(np.vstack([points, found.point])) or self._fathomed(best)[0]:
                break
            points = points[:0]
        if self._fathomed(best)[0]:
            return replace(found, outer=best), latent.radius
        tighter = self.bound.with_slice_norm()
        if tighter.form is not self.bound.form:
            self.bound = tighter
            latent = tighter.latent_model(lo, hi)[1]
        self._climb(ATTACK_STEPS)
        found = self.bound.bound(centre, latent, self.sign, self._threshold())
        return replace(found, outer=np.minimum(best, found.outer)), latent.radius

    def _batch(self, lo: FloatArray, hi: FloatArray) -> tuple[LevelBounds, FloatArray]:
        found, radius = self.bound.bound_boxes(lo, hi, self.sign, self._threshold())
        open_boxes = ~self._fathomed(found.outer)
        if open_boxes.any() and self._try(found.point[open_boxes]):
            self._climb(1)
        return found, radius

    def _threshold(self) -> FloatArray:
        """Return the score of (sign mean, variance) up to which a box's bound closes it."""
        target = self.inner + self.tolerance
        if self.decide is not None:
            target = max(target, self.sign * self.decide)
        return np.array(self.bound.level.threshold(target if self.sign > 0 else 1.0 + target))

    def _try(self, points: FloatArray) -> bool:
        """Offer points [m, d], moved into the region. Return whether the attained score rose."""
        before = self.score
        points = points[np.isfinite(points).all(axis=1)]
        if len(points):
            self._offer(self.region.project(points))
        return self.score > before

    def _begin(self, points: FloatArray) -> None:
        """Do nothing: the root's expansion gives the first incumbent."""

    def _improve(self) -> None:
        """Do nothing: an expansion takes as long as a box. `_batch` climbs if a better point was found."""

    def _climb(self, steps: int) -> None:
        """Take at most `steps` Newton steps from the incumbent. Each needs one expansion and one evaluation."""
        scale = self.bound.form.lengthscales
        if self.region.norm != "box":
            return super()._improve()
        for _ in range(steps):
            if self.witness is None or (self.decide is not None and self._crosses(self.inner)):
                return
            low, high = (self.region.lower - self.witness) / scale, (self.region.upper - self.witness) / scale
            with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
                expansion = self.bound.expand(self.witness[None])
                onward, promised = newton_steps(expansion, self.bound.level, self.sign, low, high)
            reached, least = self.score, LEAST_GAIN * (1.0 + abs(self.score))
            if not promised > least:
                return
            self._try(self.witness + scale * onward)
            gained = self.score - reached
            # If the prediction was accurate, the next step would gain little.
            if gained <= least or abs(promised - gained) <= ACCURATE * (1.0 + abs(reached)):
                return

    def _result(self, status: str, reason: str) -> Extremum:
        """Climb once more with the bound fixed, and return the result. No point exceeds the bound."""
        if self.decide is None and self.boxes:
            self._climb(POLISH_STEPS)
        return super()._result(status, reason)
