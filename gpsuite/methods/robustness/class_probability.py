"""Bounds of the class probability from bounds of the latent mean and variance, exact where monotone.

Let the link be symmetric and concave on f > 0. Then the class probability rises with the mean. It rises with the
variance exactly where the mean is negative. So its extremes over a rectangle of (mean, variance) are in the corners.

Equation: Blaas et al. 2020, Lemma 3
Equation: derived, class probability from mean and variance
Equation: derived, rounding of the expansion
Equation: Blaas et al. 2020, Eq. (7), Eq. (8)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.rounding import PROBABILITY, QUADRATURE, SHORT_SUM, UNDERFLOW, above, below
from gpsuite.models.classification.links import Link, SqueezedProbit


@dataclass(frozen=True)
class LatentRanges:
    """Bounds of the latent mean and variance, and the values at the box's centre inside them, [B] each."""

    mean_low: FloatArray
    mean_high: FloatArray
    variance_low: FloatArray
    variance_high: FloatArray
    mean: FloatArray
    variance: FloatArray


class Score(Protocol):
    """A monotone function of the class probability."""

    def separate(self, ranges: LatentRanges) -> tuple[FloatArray, FloatArray]:
        """Return bounds of the score over rectangles of (mean, variance)."""

    def value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the score."""

    def to_probability(self, score: FloatArray) -> FloatArray:
        """Return the class probability of a score."""

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return class probabilities of score bounds, rounded outwards. NaN gives 0 and 1."""


@dataclass(frozen=True)
class ProbitScore:
    """t = mean / sqrt(1 + variance), class probability squeeze + (1 - 2 squeeze) Phi(t).

    Attributes:
        squeeze: 0 for the probit, 1e-3 for GPflow's `Bernoulli` likelihood.
    """

    squeeze: float = 0.0

    def value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return t."""
        return np.asarray(mean / np.sqrt(1.0 + variance))

    def separate(self, ranges: LatentRanges) -> tuple[FloatArray, FloatArray]:
        """Return bounds of t at the corners (Blaas et al. 2020, Lemma 3)."""
        low, high = _extreme_variances(ranges)
        t_low, t_high = self.value(ranges.mean_low, low), self.value(ranges.mean_high, high)
        return below(t_low, 0.0), above(t_high, 0.0)

    def to_probability(self, score: FloatArray) -> FloatArray:
        """Return squeeze + (1 - 2 squeeze) Phi(t)."""
        return np.asarray(self.squeeze + (1.0 - 2.0 * self.squeeze) * ndtr(score))

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of bounds of t. Each is off by a relative 1e-12 at most, and 1/2 at 0 exactly."""
        p_low = self.to_probability(low) * (1.0 - PROBABILITY) - UNDERFLOW
        p_high = self.to_probability(high) * (1.0 + PROBABILITY) + UNDERFLOW
        p_low = np.where(low >= 0.0, np.maximum(p_low, 0.5), p_low)
        p_high = np.where(high <= 0.0, np.minimum(p_high, 0.5), p_high)
        return clipped(p_low, p_high)


@dataclass(frozen=True)
class ProbabilityScore:
    """The class probability itself, for any smooth link, from its Gaussian expectations.

    Attributes:
        link: source of the expectation, its derivatives and the largest derivatives of sigma.
    """

    link: Link

    def value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return E sigma(f)."""
        return self.link.probability(mean, variance)

    def separate(self, ranges: LatentRanges) -> tuple[FloatArray, FloatArray]:
        """Return bounds of the class probability at the corners, moved outwards by the quadrature's error.

        The sign of the mean decides on which side of one half they are, regardless of the quadrature's error.
        """
        low, high = _extreme_variances(ranges)
        finite = np.isfinite(ranges.mean_low) & np.isfinite(ranges.mean_high) & np.isfinite(ranges.variance_high)
        p_low, p_high = np.zeros(finite.shape), np.ones(finite.shape)
        p_low[finite] = self.value(ranges.mean_low[finite], low[finite]) - QUADRATURE
        p_high[finite] = self.value(ranges.mean_high[finite], high[finite]) + QUADRATURE
        p_low = np.where(ranges.mean_low >= 0.0, np.maximum(p_low, 0.5), p_low)
        p_high = np.where(ranges.mean_high <= 0.0, np.minimum(p_high, 0.5), p_high)
        return np.clip(p_low, 0.0, 1.0), np.clip(p_high, 0.0, 1.0)

    def to_probability(self, score: FloatArray) -> FloatArray:
        """Return the score, clipped to [0, 1]."""
        return np.clip(score, 0.0, 1.0)

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds, clipped. They include the quadrature's error."""
        return clipped(np.array(low), np.array(high))


def score_of(link: Link) -> Score:
    """Return the score that certification uses for a link."""
    if link.name == "probit":
        return ProbitScore()
    if isinstance(link, SqueezedProbit):
        return ProbitScore(link.squeeze)
    return ProbabilityScore(link)


def probability_bounds(
    link: Link, mean: tuple[FloatArray, FloatArray], variance: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return bounds of the class probability over rectangles of latent mean and variance: exact up to rounding.

    Args:
        link: symmetric link, concave on f > 0.
        mean: lower and upper bound of the mean, [B] each.
        variance: lower and upper bound of the variance, [B] each.
    """
    score = score_of(link)
    ranges = LatentRanges(*mean, *variance, mean[0], variance[0])
    return score.outward_probability(*score.separate(ranges))


def _extreme_variances(ranges: LatentRanges) -> tuple[FloatArray, FloatArray]:
    """Return the variances of the smallest and of the largest probability."""
    low = np.where(ranges.mean_low >= 0.0, ranges.variance_high, ranges.variance_low)
    high = np.where(ranges.mean_high >= 0.0, ranges.variance_low, ranges.variance_high)
    return low, high


def clipped(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds of probabilities clipped to [0, 1]. NaN gives 0 and 1."""
    lower = np.where(np.isnan(low), 0.0, np.clip(low, 0.0, 1.0))
    return lower, np.where(np.isnan(high), 1.0, np.clip(high, 0.0, 1.0))


# Rigorous bounds of the class probability at single points, for the value at a witness and the class of a point.
#
# The claims are about the stored floats: the error is only that of dot products and exponentials. A bound over a box of
# zero width is as tight, but also needs the derivatives' products.


class PointForm(Protocol):
    """Interface of a posterior over its free inputs that evaluation uses. See `OperatorForm` and `PosteriorSlice`."""

    @property
    def variance(self) -> float: ...
    @property
    def floor(self) -> float | FloatArray: ...
    @property
    def ceiling(self) -> float | FloatArray: ...
    @property
    def mean_error(self) -> float | FloatArray: ...
    @property
    def gram_error(self) -> float | FloatArray: ...

    def moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance [B] per unit s at points [B, d], up to these errors."""


def score_at(form: PointForm, score: Score, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of the score at points, [B] each. NaN if they could not be computed.

    Args:
        form: the posterior over the free inputs.
        score: score of the class probability.
        points: [B, d], in units of X.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return score.separate(latent_ranges(form, points))


def latent_ranges(form: PointForm, points: FloatArray) -> LatentRanges:
    """Return bounds of latent mean and variance at points [B, d]. A variance below zero counts as zero."""
    return ranges_of(form, *form.moments(points))


def ranges_of(form: PointForm, mean: FloatArray, variance: FloatArray) -> LatentRanges:
    """Return the bounds that follow from computed moments [B] per unit s."""
    s = form.variance
    error = form.mean_error + SHORT_SUM * np.abs(mean)
    low = np.maximum(mean - error, form.floor)
    high = np.minimum(mean + error, form.ceiling)
    wide = form.gram_error + SHORT_SUM * (1.0 + np.abs(variance))
    least = np.maximum(variance - wide, 0.0)
    most = np.maximum(variance + wide, 0.0)
    return LatentRanges(s * low, s * high, s * least, s * most, s * mean, s * np.maximum(variance, 0.0))


# Interface of every bound over boxes.


@dataclass(frozen=True)
class BoxBounds:
    """Bounds over B boxes. They hold at every point of a box. Arrays are [B] unless stated.

    Attributes:
        mean_low: lower bound of the latent mean.
        mean_high: upper bound of the latent mean.
        variance_low: lower bound of the latent variance, >= 0.
        variance_high: upper bound of the latent variance.
        low: lower bound of the score, which fixes the class probability (`BoundingFunction.to_probability`).
        high: upper bound of the score.
        centre: the score at the box's centre, up to rounding: a proposal, not a bound. NaN if it could not be
            computed.
        split_score: [B, d], part of the bound's width from each free input. Zero for zero width.
    """

    mean_low: FloatArray
    mean_high: FloatArray
    variance_low: FloatArray
    variance_high: FloatArray
    low: FloatArray
    high: FloatArray
    centre: FloatArray
    split_score: FloatArray


class BoundingFunction(Protocol):
    """Bounds the score over boxes of the free inputs. The other inputs are fixed."""

    @property
    def name(self) -> str:
        """Name of the bound, for certificates."""

    @property
    def version(self) -> int:
        """Version of the bound's formulas, for certificates."""

    @property
    def dims(self) -> IntArray:
        """Indices of the free inputs, [d]."""

    def bounds(self, lo: FloatArray, hi: FloatArray) -> BoxBounds:
        """Bound the score over the boxes lo[b] <= x_free <= hi[b]. `lo` and `hi` are [B, d] in the units of X."""

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d] in the units of X."""

    def to_probability(self, score: FloatArray) -> FloatArray:
        """Return the class probability of a score, increasing. See `outward_probability` for safe ends."""

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return class probabilities of score bounds, rounded outwards. NaN gives 0 and 1."""


def checked_boxes(lo: FloatArray, hi: FloatArray, n_free: int) -> tuple[FloatArray, FloatArray]:
    """Return lo and hi as float64 arrays [B, d].

    Raises:
        ValueError: if a shape is wrong or lo > hi somewhere. NaN is let through and gives trivial bounds.
    """
    low, high = np.asarray(lo, dtype=np.float64), np.asarray(hi, dtype=np.float64)
    if low.ndim != 2 or low.shape != high.shape or low.shape[1] != n_free:
        raise ValueError(f"boxes of shapes {low.shape} and {high.shape}; needed: [B, {n_free}] twice")
    if np.any(low > high):
        raise ValueError("a box has a lower end above its upper end")
    return low, high


def trivial_where_invalid(bounds: BoxBounds) -> BoxBounds:
    """Replace NaN, and intervals that rounding inverted, by trivial bounds."""
    mean_low, mean_high = _safe_interval(bounds.mean_low, bounds.mean_high, -np.inf)
    variance_low, variance_high = _safe_interval(bounds.variance_low, bounds.variance_high, 0.0)
    low, high = _safe_interval(bounds.low, bounds.high, -np.inf)
    return BoxBounds(
        mean_low,
        mean_high,
        np.maximum(variance_low, 0.0),
        variance_high,
        low,
        high,
        bounds.centre,
        np.where(np.isnan(bounds.split_score), 0.0, bounds.split_score),
    )


def _safe_interval(low: FloatArray, high: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
    valid = low <= high  # false for NaN
    return np.where(valid, low, least), np.where(valid, high, np.inf)
