"""Local models of all differences f_i - f_j of latent functions: each is the latent function of a binary classifier.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.cubic import Cubic
from gpsuite.methods.robustness.level_bound.latent_model import LatentModel
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound, level_bound
from gpsuite.methods.robustness.point_bounds import latent_ranges
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.softmax_expectation import centred_root

Pair = tuple[int, int]


@dataclass(frozen=True)
class DifferenceRanges:
    """What is known of all differences over B boxes or points, and a reference (m0, S0) inside.

    Attributes:
        mean: m0, a mean vector with the first component zero, [B, C].
        root: L of the reference covariance S0 = L L' of the centred latent values, [B, C, C - 1].
        mean_low: lower bounds of m_i - m_j, [B, C, C]; antisymmetric with `mean_high`.
        mean_high: upper bounds.
        change_low: lower bounds of D_ij - D0_ij, [B, C, C], symmetric.
        change_high: upper bounds.
    """

    mean: FloatArray
    root: FloatArray
    mean_low: FloatArray
    mean_high: FloatArray
    change_low: FloatArray
    change_high: FloatArray

    @cached_property
    def valid(self) -> BoolArray:
        """Whether all of it is finite and in order, [B]."""
        ends = (self.mean_low, self.mean_high, self.change_low, self.change_high)
        good: BoolArray = (self.mean_low <= self.mean_high).all(axis=(1, 2))
        good &= (self.change_low <= self.change_high).all(axis=(1, 2))
        for each in ends:
            good &= np.isfinite(each).all(axis=(1, 2))
        return good

    @cached_property
    def offset(self) -> FloatArray:
        """Reference differences m0_i - m0_j, [B, C, C]."""
        return np.asarray(self.mean[:, :, None] - self.mean[:, None, :])

    @cached_property
    def spread(self) -> FloatArray:
        """Bound of max_ij |(m_i - m_j) - (m0_i - m0_j)|, [B]."""
        distance = np.maximum(self.mean_high - self.offset, self.offset - self.mean_low)
        return np.asarray(distance.max(axis=(1, 2)))


class LatentDifferences:
    """All differences around a point of which some inputs are free.

    Args:
        posterior: of C classes.
        x0: the point that fixes the other inputs, [D].
        free: indices of the free inputs, [d].

    Attributes:
        pairs: (i, j) with i < j.
        bounds: of each pair's binary classifier.

    Raises:
        ValueError: if the point or the indices do not fit.
    """

    def __init__(self, posterior: MultiClassPosterior, x0: FloatArray, free: IntArray) -> None:
        C = posterior.n_classes
        self.n_classes = C
        self.pairs: tuple[Pair, ...] = tuple((i, j) for i in range(C) for j in range(i + 1, C))
        self.bounds: tuple[LevelBound, ...] = tuple(
            level_bound(posterior.difference(i, j), x0, free) for i, j in self.pairs
        )
        self.error = posterior.difference_error

    def over(self, lo: FloatArray, hi: FloatArray) -> tuple[dict[Pair, LatentModel], DifferenceRanges]:
        """Return the models of every difference over boxes [B, d], and their ranges."""
        models = {
            pair: bound.latent_model(lo, hi)[1] for pair, bound in zip(self.pairs, self.bounds, strict=True)
        }
        means = [each.mean for each in models.values()]
        variances = [each.variance for each in models.values()]
        middle = [np.clip(each.model.constant, each.low, each.high) for each in variances]
        return models, self._ranges(
            [each.model.constant for each in means],
            [(each.low, each.high) for each in means],
            middle,
            [(each.low, each.high) for each in variances],
        )

    def at(self, points: FloatArray) -> DifferenceRanges:
        """Return the ranges at points [B, d]: of rounding only."""
        found = [latent_ranges(bound.form, points) for bound in self.bounds]
        return self._ranges(
            [each.mean for each in found],
            [(each.mean_low, each.mean_high) for each in found],
            [np.clip(each.variance, each.variance_low, each.variance_high) for each in found],
            [(each.variance_low, each.variance_high) for each in found],
        )

    def _ranges(
        self,
        mean: list[FloatArray],
        means: list[tuple[FloatArray, FloatArray]],
        variance: list[FloatArray],
        variances: list[tuple[FloatArray, FloatArray]],
    ) -> DifferenceRanges:
        B, C = len(mean[0]), self.n_classes
        low, high, D, least, most = (np.zeros((B, C, C)) for _ in range(5))
        reference = np.zeros((B, C))
        for place, (i, j) in enumerate(self.pairs):
            if i == 0:
                reference[:, j] = -mean[place]
            low[:, i, j], high[:, i, j] = means[place]
            low[:, j, i], high[:, j, i] = -means[place][1], -means[place][0]
            D[:, i, j] = D[:, j, i] = variance[place]
            least[:, i, j] = least[:, j, i] = variances[place][0] - self.error
            most[:, i, j] = most[:, j, i] = variances[place][1] + self.error
        reference, D = (np.where(np.isfinite(each), each, 0.0) for each in (reference, D))
        root = centred_root(-0.5 * D)
        D0 = ((root[:, :, None] - root[:, None]) ** 2).sum(axis=3)
        pad = 1e-13 * (D0 + np.abs(most))
        for each in (least, most, pad):
            each[:, np.arange(C), np.arange(C)] = 0.0
        return DifferenceRanges(reference, root, low, high, least - D0 - pad, most - D0 + pad)


def combined_means(
    models: dict[Pair, LatentModel], own: int, weights: FloatArray
) -> tuple[Cubic, FloatArray, FloatArray]:
    """Return sum_j weights_j (m_own - m_j) over the boxes as a cubic, and how far it may lie below and above, [B].

    Args:
        models: of all pairs.
        own: the class that the others are compared with.
        weights: [B, C]; that of the class itself is not used.
    """
    total: Cubic | None = None
    below, above = np.zeros(len(weights)), np.zeros(len(weights))
    for (i, j), latent in models.items():
        if own not in (i, j):
            continue
        # the model is of f_i - f_j
        weight = weights[:, j] if own == i else -weights[:, i]
        mean = latent.mean
        total = (total or mean.model).combined(0.0 if total is None else 1.0, mean.model, weight)
        below += np.where(weight >= 0.0, weight * mean.below, -weight * mean.above)
        above += np.where(weight >= 0.0, weight * mean.above, -weight * mean.below)
    assert total is not None
    return total, below, above
