"""Proof of the most probable class by a margin of only the latent functions, without an expectation of a softmax.

Let d = f_own - f_j ~ N(m, V), V > 0, and D_ab = Var(f_a - f_b). Given d = t the others r_k = f_k - (f_own + f_j) / 2
are Gaussian. Their means are a_k + b_k t with b_k V = (D_kj - D_k,own) / 2. Their covariance does not depend on t. So

    p_own - p_j = integral over t > 0 of 2 sinh(t / 2) E_e[n(t) / (c + S(t)) - n(-t) / (c + S(-t))] dt,

with n the density of d, c = 2 cosh(t / 2), S(t) = sum_k exp(a_k + b_k t + e_k). Let B = max(0, max_k b_k). Then c and
S(t) are at most exp(2 B t) times c and S(-t), and n(t) = exp(2 m t / V) n(-t). So the difference is positive where
m > B V:

    m_own - m_j > max(0, max_k (D_kj - D_k,own) / 2).

The same holds for V = 0 with m > 0. The smallest slack over all j and k is one function of the input. The models of the
differences bound it over boxes.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.class_probability import checked_boxes, clipped
from gpsuite.methods.robustness.level_bound.cubic import Cubic, cubic_maximum
from gpsuite.methods.robustness.multiclass.latent_differences import (
    DifferenceModels,
    DifferenceRanges,
    LatentDifferences,
    class_pairs,
)
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends
from gpsuite.methods.robustness.search.regions import Region

_ROUNDING = 1e-12
_FLOOR = 1e-3
LARGE = 1 << 20  # entries of degree 3 of all differences around one point


class LatentMargin:
    """The slack of a class against all others, as a score in (0, 1): above 1/2 the class is surely most probable.

    A score below 1/2 decides nothing. Boxes are bounded by one cubic for every rival and every other class.

    Args:
        differences: differences of the latent functions around a point.
        own: the class.
    """

    def __init__(self, differences: LatentDifferences, own: int) -> None:
        self.differences, self.own = differences, own
        self.weights = _combinations(differences.n_classes, own)
        error = differences.rounding
        self._error = np.abs(self.weights[0]) @ error.mean_error + np.abs(self.weights[1]) @ error.variance_error

    def bounds(self, lo: FloatArray, hi: FloatArray) -> Ends:
        """Bound the score over boxes lo[b] <= x_free <= hi[b], [B, d], in the units of X.

        If the models of degree 3 are large, those of degree 2 come first. They often suffice. Of a box without a proof
        only the differences get degree 3 whose slack is not proved yet.
        """
        low, high = checked_boxes(lo, hi, len(self.differences.form.dims))
        pairs, d = len(self.weights[0][0]), low.shape[1]
        large = pairs * d**3 > LARGE
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            models, ranges = self.differences.over(low, high, large)
            least, centre, split = self._sharpened(models, self._slacks(ranges)[0], np.arange(pairs))
            for box in np.flatnonzero(~(least > 0.0).all(axis=0)) if large else ():  # a model of one box takes 100 MB
                one = slice(box, box + 1)
                used = self._pairs_of(np.flatnonzero(~(least[:, box] > 0.0)))
                exact = self.differences.models(low[one], high[one], used)
                least[:, one], centre[one], split[one] = self._sharpened(exact, least[:, one], used)
        slack = _score(least.min(axis=0))
        return Ends(slack, np.ones(len(lo)), _score(centre), np.where(np.isfinite(split), split, 0.0))

    def _pairs_of(self, slacks: IntArray) -> IntArray:
        """Return the places of the differences that some slacks are made of."""
        return np.flatnonzero((np.abs(self.weights[0][slacks]) + np.abs(self.weights[1][slacks])).any(axis=0))

    def _sharpened(
        self, models: DifferenceModels, least: FloatArray, used: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return bounds [K, B] at least as good as given ones, the least slack at the centres [B], and scores [B, d].

        The models are of the used differences. The scores are for the cut.
        """
        B, least = np.arange(models.n_boxes), least.copy()
        near = np.flatnonzero(~(least > 0.0).all(axis=1))  # others need no model
        slope, value = np.zeros((len(least), *models.radius.shape)), least.copy()
        if len(near):
            total, room = self._combined(models, near, used)
            found = cubic_maximum(total.scaled(-1.0), np.tile(models.radius, (len(near), 1))).bound
            least[near] = np.fmax(least[near], -(found + room).reshape(len(near), -1))
            slope[near] = np.abs(total.linear).reshape(len(near), *models.radius.shape)
            value[near] = total.constant.reshape(len(near), -1)
        worst = np.argmin(np.where(np.isnan(least), -np.inf, least), axis=0)
        split = models.radius * (slope[worst, B] + 0.5 * models.variance_slopes + _FLOOR)
        return least, value.min(axis=0), split

    def attacks(self, region: Region) -> FloatArray:
        """Return points [K, d] of a region, for every slack where its slope at the middle leads down."""
        low, high = (end[None] for end in region.root_box())
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            models, _ = self.differences.over(low, high, cheap=True)
            slacks, pairs = (np.arange(count) for count in self.weights[0].shape)
            slopes = self._combined(models, slacks, pairs)[0].linear
        return region.project(np.where(slopes > 0.0, low, high))

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound the score at points [B, d] from both sides."""
        low, high = self._slacks(self.differences.at(points))
        return _score(low.min(axis=0)), _score(high.min(axis=0))

    def _slacks(self, ranges: DifferenceRanges) -> tuple[FloatArray, FloatArray]:
        """Bound every slack by only the ranges of the differences, [K, B] each."""
        i, j = np.array(class_pairs(self.differences.n_classes)).T
        spread = ((ranges.root[:, :, None] - ranges.root[:, None]) ** 2).sum(axis=3)
        sides = (ranges.mean_low, ranges.mean_high), (spread + ranges.change_low, spread + ranges.change_high)
        low = high = np.zeros((len(self.weights[0]), len(spread)))
        for weight, (least, most) in zip(self.weights, sides, strict=True):
            least, most = least[:, i, j].T, most[:, i, j].T
            up, down = np.maximum(weight, 0.0), np.maximum(-weight, 0.0)
            rounding = _ROUNDING * (1.0 + np.abs(weight) @ np.maximum(np.abs(least), np.abs(most)))
            low = low + up @ least - down @ most - rounding
            high = high + up @ most - down @ least + rounding
        return low, high

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores, NaN as 0 and 1."""
        return clipped(low, high)

    def _combined(self, models: DifferenceModels, near: IntArray, used: IntArray) -> tuple[Cubic, FloatArray]:
        """Return some slacks [K] of used differences as cubics over boxes, and their largest errors below [K B]."""
        B, parts, cubics, room = models.n_boxes, [], [], 0.0
        for weights, moment in zip(self.weights, (models.mean, models.variance), strict=True):
            weight, model = weights[np.ix_(near, used)], moment.model
            parts.append([_summed(weight, each, B) for each in (model.constant, model.linear, model.quadratic)])
            if model.cubic is not None:
                cubics.append(_summed(weight, model.cubic, B))
            below, above = (each.reshape(-1, B) for each in (moment.below, moment.above))
            room = room + np.maximum(weight, 0.0) @ below + np.maximum(-weight, 0.0) @ above
            room = room + _ROUNDING * (1.0 + np.abs(weight) @ np.abs(model.constant).reshape(-1, B))
        constant, linear, quadratic = (first + second for first, second in zip(*parts, strict=True))
        total = Cubic(constant, linear, quadratic, sum(cubics[1:], cubics[0]) if cubics else None)
        return total, np.asarray(room + self._error[near, None]).ravel()


def _combinations(n_classes: int, own: int) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the means and variances of all pairs in every slack, [K, F] each.

    Every rival j has one, m_own - m_j. Every other class k adds one, (m_own - m_j) - (D_kj - D_k,own) / 2.
    """
    place: dict[tuple[int, int], int] = {pair: rank for rank, pair in enumerate(class_pairs(n_classes))}
    means, variances = [], []
    for rival in (each for each in range(n_classes) if each != own):
        for other in (None, *(each for each in range(n_classes) if each not in (own, rival))):
            mean, variance = np.zeros((2, len(place)))
            mean[place[min(own, rival), max(own, rival)]] = 1.0 if own < rival else -1.0
            if other is not None:
                variance[place[min(other, rival), max(other, rival)]] = -0.5
                variance[place[min(other, own), max(other, own)]] = 0.5
            means.append(mean)
            variances.append(variance)
    return np.array(means), np.array(variances)


def _summed(weight: FloatArray, tensor: FloatArray, boxes: int) -> FloatArray:
    """Return the weighted sums [K B, ...] of a tensor [F B, ...] over its F functions."""
    parts = tensor.reshape(-1, boxes, *tensor.shape[1:])
    return np.asarray(np.tensordot(weight, parts, axes=1)).reshape(-1, *tensor.shape[1:])


def _score(slack: FloatArray) -> FloatArray:
    """Return an increasing function of the slack in [0, 1]. It is above 1/2 where the slack is positive."""
    return np.where(np.isnan(slack), 0.0, 0.5 + 0.5 * slack / (1.0 + np.abs(slack)))
