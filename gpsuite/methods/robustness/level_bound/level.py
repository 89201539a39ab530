"""From models of mean and variance to a bound of the class probability: the level function.

The probability exceeds a level where sign mu - k(Sigma) > 0, k the mean that has the level at variance Sigma. With a
line k_1 Sigma in place of k, only G = max(sign mu - k_1 Sigma) over the box is needed: the two cubic models are added
before they are maximised, so no product of ranges appears. For every k_1 the score is at most
max over [Sigma_L, Sigma_U] of that of (G + k_1 Sigma, Sigma); the slope is that of k at the level looked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import logit, ndtr, ndtri

from gpsuite.methods.robustness.box_bounds import FloatArray
from gpsuite.methods.robustness.rounding import PROBABILITY, QUADRATURE, SHORT_SUM
from gpsuite.models.links import Link, SqueezedProbit

_CELLS = 24
_FARTHEST = 40.0  # Phi(-40) is zero in float64


class Level(Protocol):
    """A monotone stand-in of the class probability and what its level sets look like in (mean, variance)."""

    def value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the score, increasing in the mean, odd in it (probit) or p (other links)."""

    def inward(
        self, mean: FloatArray, variance: FloatArray, mean_error: FloatArray, variance_error: FloatArray
    ) -> FloatArray:
        """Return scores that are surely attained when the moments carry these errors."""

    def threshold(self, probability: float) -> float:
        """Return the score of a probability, rounded down; infinite at or above the largest."""

    def slope(self, threshold: float, low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        """Return k_1 for boxes with variances in [low, high], [B]."""

    def bound(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the largest score of mean <= G + slope variance, variance in [low, high], rounded up; [B]."""

    def corner(self, mean: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the largest score of means up to `mean` and variances in [low, high], rounded up; [B]."""

    def derivatives(
        self, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return derivatives of an increasing function of the score: by mean, variance, mixed, variance twice."""

    def probability(self, score: FloatArray) -> FloatArray:
        """Return the class probability of scores."""

    def outward_probability(self, score: FloatArray) -> FloatArray:
        """Return upper bounds of the class probability of scores; 1 for NaN."""

    def reflected(self, score: FloatArray) -> FloatArray:
        """Return the score of the other class: that of the mean with the other sign."""


@dataclass(frozen=True)
class ProbitLevel:
    """t = mean / sqrt(1 + variance); class probability squeeze + (1 - 2 squeeze) Phi(t).

    Attributes:
        squeeze: 0 for the probit, GPflow's 1e-3 for its `Bernoulli` likelihood.
    """

    squeeze: float = 0.0

    def value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return t."""
        return np.asarray(mean / np.sqrt(1.0 + variance))

    def inward(
        self, mean: FloatArray, variance: FloatArray, mean_error: FloatArray, variance_error: FloatArray
    ) -> FloatArray:
        """Return t at the least favourable corner of the errors."""
        low = mean - mean_error
        far = np.where(low > 0.0, variance + variance_error, np.maximum(0.0, variance - variance_error))
        t = self.value(low, far)
        return t - SHORT_SUM * np.abs(t)

    def threshold(self, probability: float) -> float:
        """Return t of a probability minus 1e-12."""
        share = (probability - self.squeeze) / (1.0 - 2.0 * self.squeeze)
        if share >= 1.0:
            return np.inf
        return float(ndtri(max(share, 0.0))) - 1e-12

    def slope(self, threshold: float, low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the slope of T sqrt(1 + v): its chord if T >= 0, its tangent at the centre else."""
        threshold = float(np.clip(threshold, -_FARTHEST, _FARTHEST))
        if threshold >= 0.0:
            return np.asarray(threshold / (np.sqrt(1.0 + low) + np.sqrt(1.0 + high)))
        return np.asarray(0.5 * threshold / np.sqrt(1.0 + centre))

    def bound(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return max of (G + k_1 v) / sqrt(1 + v): at an end, or inside where k_1 < 0 and G < k_1."""
        ends = np.maximum(self.value(G + slope * low, low), self.value(G + slope * high, high))
        size = np.abs(G) + np.abs(slope) * (1.0 + high)
        curved = (slope < 0.0) & (G < slope)
        share = (G - slope) / np.where(curved, slope, -1.0)
        inside = curved & (share > 1.0 + low) & (share < 1.0 + high)
        peak = -2.0 * np.sqrt(np.where(inside, (G - slope) * slope, 0.0))
        return np.where(inside, peak, ends) + SHORT_SUM * size / np.sqrt(1.0 + low)

    def corner(self, mean: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return t at the variance that favours it (Blaas et al. 2020, Lemma 3)."""
        t = self.value(mean, np.where(mean >= 0.0, low, high))
        return t + SHORT_SUM * np.abs(t)

    def derivatives(
        self, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return those of t."""
        width = 1.0 + variance
        first = 1.0 / np.sqrt(width)
        return first, -0.5 * mean * first / width, -0.5 * first / width, 0.75 * mean * first / width**2

    def probability(self, score: FloatArray) -> FloatArray:
        """Return squeeze + (1 - 2 squeeze) Phi(t)."""
        return np.asarray(self.squeeze + (1.0 - 2.0 * self.squeeze) * ndtr(score))

    def outward_probability(self, score: FloatArray) -> FloatArray:
        """Return the probability with a relative 1e-13 added."""
        p = np.clip(self.probability(score) * (1.0 + PROBABILITY), 0.0, 1.0)
        return np.where(np.isnan(p), 1.0, p)

    def reflected(self, score: FloatArray) -> FloatArray:
        """Return -t."""
        return -score


@dataclass(frozen=True)
class ProbabilityLevel:
    """The class probability itself, for any smooth link that is concave on f > 0.

    Attributes:
        link: gives the expectation, its derivatives and the largest derivatives of sigma.
    """

    link: Link

    def value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return E sigma(f)."""
        return self.link.probability(mean, variance)

    def inward(
        self, mean: FloatArray, variance: FloatArray, mean_error: FloatArray, variance_error: FloatArray
    ) -> FloatArray:
        """Return the probability at the least favourable corner of the errors, minus the quadrature's error."""
        low = mean - mean_error
        far = np.where(low > 0.0, variance + variance_error, np.maximum(0.0, variance - variance_error))
        return np.clip(self.value(low, far) - QUADRATURE, 0.0, 1.0)

    def threshold(self, probability: float) -> float:
        """Return the probability minus 1e-12."""
        return np.inf if probability >= 1.0 else probability - 1e-12

    def slope(self, threshold: float, low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the slope of the mean m(v) with E sigma = threshold: its chord above one half, else its tangent.

        m starts from that of a probit of the same shape and takes one Newton step; any slope is sound.
        """
        p = float(np.clip(threshold, 1e-9, 1.0 - 1e-9))
        # The three variances at once: both ends, and the middle for the tangent.
        v = np.stack([low, high, 0.5 * (low + high)])
        m = logit(p) * np.sqrt(1.0 + 0.125 * np.pi * v)
        for _ in range(2):
            by_mean, by_variance = self.link.probability_gradient(m, v)
            m = m - np.clip((self.value(m, v) - p) / np.maximum(by_mean, 1e-12), -1.0 - np.abs(m), 1.0 + np.abs(m))
        width = high - low
        if p > 0.5:
            return np.where(width > 0.0, (m[1] - m[0]) / np.where(width > 0.0, width, 1.0), 0.0)
        by_mean, by_variance = self.link.probability_gradient(m[2], v[2])
        return -by_variance / np.maximum(by_mean, 1e-12)

    def bound(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return max E sigma along the line from a grid of variances.

        Between neighbours h apart the function exceeds them by h^2/8 (B2 k_1^2 + B3 |k_1| + B4/4) at most, by the heat
        equation d/dv = (1/2) d^2/dm^2.
        """
        step = (high - low) / _CELLS
        v = low[:, None] + step[:, None] * np.arange(_CELLS + 1)
        v[:, -1] = high
        p = self.value(G[:, None] + slope[:, None] * v, v).max(axis=1)
        curvature = self.link.B2 * slope**2 + self.link.B3 * np.abs(slope) + 0.25 * self.link.B4
        rounding = SHORT_SUM * (1.0 + np.abs(G) + np.abs(slope) * high + high)
        return np.minimum(p + 0.125 * step**2 * curvature * (1.0 + SHORT_SUM) + QUADRATURE + rounding, 1.0)

    def corner(self, mean: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the probability at the variance that favours it, plus the quadrature's error."""
        known = np.isfinite(mean) & np.isfinite(high)
        best = np.where(mean >= 0.0, low, high)
        p = self.value(np.where(known, mean, 0.0), np.where(known, best, 0.0)) + QUADRATURE
        return np.where(known, np.minimum(p, 1.0), 1.0)

    def derivatives(
        self, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return those of t with the link's slope at the origin; enough to climb."""
        width = 1.0 + 0.125 * np.pi * variance
        first = 1.0 / np.sqrt(width)
        c = 0.125 * np.pi
        return (
            first,
            -0.5 * c * mean * first / width,
            -0.5 * c * first / width,
            0.75 * c * c * mean * first / width**2,
        )

    def probability(self, score: FloatArray) -> FloatArray:
        """Return the score, clipped to [0, 1]."""
        return np.clip(score, 0.0, 1.0)

    def outward_probability(self, score: FloatArray) -> FloatArray:
        """Return the score, clipped; the quadrature's error is in it already."""
        return np.where(np.isnan(score), 1.0, np.clip(score, 0.0, 1.0))

    def reflected(self, score: FloatArray) -> FloatArray:
        """Return 1 - p."""
        return 1.0 - score


def level_of(link: Link) -> Level:
    """Return the level function of a link."""
    if link.name == "probit":
        return ProbitLevel()
    if isinstance(link, SqueezedProbit):
        return ProbitLevel(link.squeeze)
    return ProbabilityLevel(link)
