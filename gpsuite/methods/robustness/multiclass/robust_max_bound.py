"""Bounds of robust-max class probabilities over boxes.

S_c = E prod_{j != c} Phi((f_c - m_j) / sqrt(r_j)) rises with the class' own mean and falls with the others. So at
variances r0 its extremes are in two corners of the means. The bound |u phi(u)| <= (2 pi e)^-1/2 holds for a factor and
for the class' own density (the product rises in f_c). So |dS_c / d log r_j| <= (8 pi e)^-1/2 for every class.

Equation: Matthews 2017, Notes Sec. 1
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.class_probability import LatentRanges, checked_boxes, latent_ranges
from gpsuite.methods.robustness.level_bound.level_bound import expand
from gpsuite.methods.robustness.level_bound.posterior_slice import (
    StackedFunctions,
    compute_products,
    restricted_slice,
    stacked_functions,
)
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends
from gpsuite.methods.robustness.operators import restriction
from gpsuite.models.classification.multiclass_posterior import QUADRATURE, RobustMaxPosterior
from gpsuite.models.classification.robust_max import largest_probabilities

SLOPE = float(1.0 / np.sqrt(8.0 * np.pi * np.e))
"""Largest |dS / d log r| of one variance."""
_FLOOR = 1e-3

_KEPT: WeakKeyDictionary[RobustMaxPosterior, StackedFunctions] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class ClassIntervals:
    """Bounds of every class probability at B points, [B, C] each."""

    low: FloatArray
    high: FloatArray
    proved: bool = True


class RobustMaxBound:
    """Bounds for every class of a robust-max posterior whose inputs outside `free` are fixed at x0.

    Args:
        posterior: classifier of C classes.
        x0: point that fixes the other inputs, [D].
        free: indices of the free inputs, [d].

    Raises:
        ValueError: if the point or the indices do not fit.
    """

    name = "robust_max"
    version = 1

    def __init__(self, posterior: RobustMaxPosterior, x0: FloatArray, free: IntArray) -> None:
        functions = _functions(posterior)
        one = posterior.function(0)
        kept = restriction(one, x0, free)
        self.form = functions.stack(restricted_slice(one, kept, functions.products[0]), kept.unit)
        self.posterior, self.dims = posterior, kept.dims

    def class_bounds(self, lo: FloatArray, hi: FloatArray, own: int) -> Ends:
        """Bound the probability of a class over boxes [B, d]."""
        ranges, score = self._over(lo, hi)
        low, high = self._class_range(ranges, own)
        return Ends(low, high, 0.5 * (low + high), score)

    def margin_bounds(self, lo: FloatArray, hi: FloatArray, own: int, rival: int) -> Ends:
        """Bound p_own - p_rival over boxes [B, d], by the bounds of both."""
        ranges, score = self._over(lo, hi)
        mine, theirs = self._class_range(ranges, own), self._class_range(ranges, rival)
        low, high = mine[0] - theirs[1], mine[1] - theirs[0]
        return Ends(low, high, 0.5 * (low + high), score)

    def at(self, points: FloatArray) -> ClassIntervals:
        """Return bounds of every class probability at points [B, d] of the free inputs."""
        ranges = latent_ranges(self.form, points)
        found = [self._class_range(ranges, own) for own in range(self.posterior.n_classes)]
        low, high = (np.stack([each[side] for each in found], axis=1) for side in (0, 1))
        return ClassIntervals(low, high)

    def class_of(self, local: ClassIntervals, own: int) -> tuple[FloatArray, FloatArray]:
        """Bound the probability of a class at points from `at`, [B] each."""
        return local.low[:, own], local.high[:, own]

    def margin_of(self, local: ClassIntervals, own: int, rival: int) -> tuple[FloatArray, FloatArray]:
        """Bound p_own - p_rival at points from `at`, [B] each."""
        low = local.low[:, own] - local.high[:, rival]
        return low, local.high[:, own] - local.low[:, rival]

    def _over(self, lo: FloatArray, hi: FloatArray) -> tuple[LatentRanges, FloatArray]:
        """Return the ranges of all functions over boxes, [C, B], and scores for the cut."""
        low, high = checked_boxes(lo, hi, len(self.dims))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            centre = 0.5 * low + 0.5 * high
            radius = self.form.radius(low, high, centre)
            found = expand(self.form, centre).over(radius)
            mean, variance = found.mean, found.variance
            values = (mean.low, mean.high, variance.low, variance.high, mean.model.constant, variance.model.constant)
            ranges = LatentRanges(*(each.reshape(self.posterior.n_classes, -1) for each in values))
            slopes = np.abs(mean.model.linear).reshape(self.posterior.n_classes, *radius.shape).sum(axis=0)
        return ranges, radius * np.where(np.isfinite(slopes), slopes + _FLOOR, 1.0)

    def _class_range(self, ranges: LatentRanges, own: int) -> tuple[FloatArray, FloatArray]:
        """Bound the probability of a class, [B] each, by ranges [C, B]. Unknown ranges give trivial bounds."""
        ends = (ranges.mean_low, ranges.mean_high, ranges.variance_low, ranges.variance_high)
        known = np.all([np.isfinite(each).all(axis=0) for each in ends], axis=0)
        known &= (ranges.mean_low <= ranges.mean_high).all(axis=0) & (ranges.variance_low > 0.0).all(axis=0)
        known &= (ranges.variance_low <= ranges.variance_high).all(axis=0)
        low, high = np.zeros(len(known)), np.ones(len(known))
        if not known.any():
            return low, high
        m_low, m_high, r_low, r_high = (each.T[known] for each in ends)
        middle = np.sqrt(r_low) * np.sqrt(r_high)
        apart = np.maximum(np.log(r_high / middle), np.log(middle / r_low)) * (1.0 + 1e-12) + 1e-15
        room = SLOPE * apart.sum(axis=1) + QUADRATURE
        best, worst = m_low.copy(), m_high.copy()
        best[:, own], worst[:, own] = m_high[:, own], m_low[:, own]
        least = largest_probabilities(worst, middle)[:, own] - room
        most = largest_probabilities(best, middle)[:, own] + room
        C, epsilon = self.posterior.n_classes, self.posterior.epsilon
        other, gain = epsilon / (C - 1), 1.0 - epsilon - epsilon / (C - 1)
        low[known] = np.clip(other + gain * np.clip(least, 0.0, 1.0) - 1e-15, 0.0, 1.0)
        high[known] = np.clip(other + gain * np.clip(most, 0.0, 1.0) + 1e-15, 0.0, 1.0)
        return low, high


def _functions(posterior: RobustMaxPosterior) -> StackedFunctions:
    """Return the terms of the bounds that do not depend on the point. They are computed once for a posterior."""
    known = _KEPT.get(posterior)
    if known is None:
        each = [posterior.function(c) for c in range(posterior.n_classes)]
        products = [compute_products(one) for one in each]
        known = _KEPT[posterior] = stacked_functions(posterior.alpha, products)
    return known
