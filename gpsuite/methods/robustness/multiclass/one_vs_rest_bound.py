"""Bounds of classifiers of two classes each, one class against the rest, over boxes.

The class is the one with the largest probability of its classifier. A margin p_own - p_rival is bounded by the
probabilities of both over the same box, less the largest error of the library's link. So the class is safe only if its
margin exceeds that error. Class probabilities are divided by their sum. The quotient rises with the class' own
probability and falls with the others.

Equation: derived, level function
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.shifted import shifted_bound
from gpsuite.methods.robustness.multiclass.robust_max_bound import ClassIntervals
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends
from gpsuite.models.given.given import OneVsRestPosterior

_ROUNDING = 1e-14


class OneVsRestBound:
    """Bounds for every class whose inputs outside `free` are fixed at x0. See `ClassBound`.

    Args:
        posterior: one-vs-rest posterior of C classifiers.
        x0: point that fixes the other inputs, [D].
        free: indices of the free inputs, [d].
    """

    name = "one_vs_rest"
    version = 1

    def __init__(self, posterior: OneVsRestPosterior, x0: FloatArray, free: IntArray) -> None:
        self.parts = [shifted_bound(part, x0, free) for part in posterior.parts]
        self.link_slack = 2.0 * posterior.link_error  # largest error of a margin by the library's probabilities

    def class_bounds(self, lo: FloatArray, hi: FloatArray, own: int) -> Ends:
        """Bound the probability of a class, divided by the sum of all, over boxes [B, d]."""
        each = [self._over(c, lo, hi) for c in range(len(self.parts))]
        least, most = (np.stack([one[side] for one in each], axis=1) for side in (0, 1))
        low, high = self._shares(least, most, own)
        return Ends(low, high, 0.5 * (low + high), np.sum([one[2] for one in each], axis=0))

    def margin_bounds(self, lo: FloatArray, hi: FloatArray, own: int, rival: int) -> Ends:
        """Bound p_own - p_rival, less the largest error of the library's link, over boxes [B, d]."""
        mine, theirs = self._over(own, lo, hi), self._over(rival, lo, hi)
        low, high = self._margin(mine[0], mine[1], theirs[0], theirs[1], own, rival)
        return Ends(low, high, 0.5 * (low + high), mine[2] + theirs[2])

    def at(self, points: FloatArray) -> ClassIntervals:
        """Return the probabilities of all classifiers at points [B, d], not yet divided by their sum."""
        found = [part.outward_probability(*part.evaluate(points)) for part in self.parts]
        low, high = (np.stack([each[side] for each in found], axis=1) for side in (0, 1))
        return ClassIntervals(low, high)

    def class_of(self, local: ClassIntervals, own: int) -> tuple[FloatArray, FloatArray]:
        """Bound the probability of a class, divided by the sum of all, at points from `at`, [B] each."""
        return self._shares(local.low, local.high, own)

    def margin_of(self, local: ClassIntervals, own: int, rival: int) -> tuple[FloatArray, FloatArray]:
        """Bound the margin of `margin_bounds` at points from `at`, [B] each."""
        low, high = local.low, local.high
        return self._margin(low[:, own], high[:, own], low[:, rival], high[:, rival], own, rival)

    def least_sum(self, lo: FloatArray, hi: FloatArray) -> float:
        """Return a lower bound of the sum of all probabilities over one box [d]."""
        return float(sum(self._over(c, lo[None], hi[None])[0][0] for c in range(len(self.parts))))

    def _over(self, c: int, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        found = self.parts[c].bounds(lo, hi)
        return *self.parts[c].outward_probability(found.low, found.high), found.split_score

    def _shares(self, low: FloatArray, high: FloatArray, own: int) -> tuple[FloatArray, FloatArray]:
        mine, theirs = low[:, own], np.delete(high, own, axis=1).sum(axis=1)
        most, least = high[:, own], np.delete(low, own, axis=1).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            down, up = mine / (mine + theirs) - _ROUNDING, most / (most + least) + _ROUNDING
        return np.where(np.isnan(down), 0.0, np.fmax(down, 0.0)), np.where(np.isnan(up), 1.0, np.fmin(up, 1.0))

    def _margin(
        self, low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray, own: int, rival: int
    ) -> tuple[FloatArray, FloatArray]:
        slack = self.link_slack if own != rival else 0.0
        return low - most - slack - _ROUNDING, high - least - slack + _ROUNDING
