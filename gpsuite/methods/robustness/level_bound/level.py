"""Bound of the class probability from models of mean and variance: the level function.

The probability exceeds a level where mean - k(Sigma) > 0. Here k is the mean that has the level at variance Sigma. With
a line k_1 Sigma in place of k, only G = max(mean - k_1 Sigma) over the box is needed. The two cubic models are added
before they are maximised, so no product of ranges appears. For every k_1 the score is at most the largest score of
(G + k_1 v, v) over v in [Sigma_L, Sigma_U]. The slope k_1 is the slope of k at the wanted level (Dinkelbach's
fractional programming, with the incumbent's level).

If k is concave, a chord over a part of [Sigma_L, Sigma_U] is above k outside that part. So bounding each part by its
own chord loses little, though G is a maximum over the whole box.

Equation: derived, level function
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import logit, ndtri

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.robustness.class_probability import ProbabilityScore, ProbitScore, Score, score_of
from gpsuite.methods.robustness.rounding import QUADRATURE, SHORT_SUM
from gpsuite.models.classification.links import Link

_CELLS = 24
_FARTHEST = 40.0  # Phi(-40) is zero in float64
_RAREST = 1e-9
_SHAPE = 0.125 * np.pi  # the logistic is like a probit whose argument has variance 8/pi


class Level(Protocol):
    """Shape of the level sets of a score in (mean, variance)."""

    @property
    def score(self) -> Score:
        """Score that represents the class probability."""

    def threshold(self, probability: float) -> float:
        """Return the score of a class probability, clipped to where a level set is of use."""

    def slope(self, threshold: FloatArray, low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        """Return k_1 for boxes with variances in [low, high], [B]. Thresholds are [B] or one for all."""

    def is_concave(self, threshold: FloatArray) -> BoolArray:
        """Return whether the level's mean is a concave function of the variance."""

    def edges(self, low: FloatArray, high: FloatArray, cells: int) -> FloatArray:
        """Return the ends of `cells` parts of [low, high], [B, cells + 1]. All parts' chords lose about the same."""

    def bound(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the largest score of mean <= G + slope variance, variance in [low, high], rounded up, [B]."""

    def derivatives(
        self, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return derivatives of an increasing function of the score: by mean, variance, mixed, variance twice."""

    def signed(self, high: FloatArray, sign: int) -> FloatArray:
        """Return `sign` times the score's bound, from an upper bound for (sign mean, variance)."""


@dataclass(frozen=True)
class ProbitLevel:
    """t = mean / sqrt(1 + variance). Its level sets are mean = T sqrt(1 + variance)."""

    score: ProbitScore

    def threshold(self, probability: float) -> float:
        """Return t."""
        squeeze = self.score.squeeze
        share = np.clip((probability - squeeze) / (1.0 - 2.0 * squeeze), 0.0, 1.0)
        return float(np.clip(ndtri(share), -_FARTHEST, _FARTHEST))

    def slope(self, threshold: FloatArray, low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the slope of T sqrt(1 + v): its chord if T >= 0, otherwise its tangent at the centre."""
        chord = 1.0 / (np.sqrt(1.0 + low) + np.sqrt(1.0 + high))
        return np.asarray(threshold * np.where(threshold >= 0.0, chord, 0.5 / np.sqrt(1.0 + centre)))

    def is_concave(self, threshold: FloatArray) -> BoolArray:
        """Return whether T >= 0."""
        return np.asarray(threshold >= 0.0)

    def edges(self, low: FloatArray, high: FloatArray, cells: int) -> FloatArray:
        """Return edges equally far apart in sqrt(1 + v)."""
        return root_edges(low, high, cells, 1.0)

    def bound(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return max of (G + k_1 v) / sqrt(1 + v): at an end, or inside where k_1 < 0 and G < k_1."""
        ends = (self.score.value(G + slope * v, v) for v in (low, high))
        size = np.abs(G) + np.abs(slope) * (1.0 + high)
        curved = (slope < 0.0) & (slope > G)
        turn = (G - slope) / np.where(curved, slope, -1.0)
        inside = curved & (turn > 1.0 + low) & (turn < 1.0 + high)
        peak = -2.0 * np.sqrt(np.where(inside, (G - slope) * slope, 0.0))
        most = np.where(inside, peak, np.maximum(*ends))
        return np.asarray(most + SHORT_SUM * size / np.sqrt(1.0 + low))

    def derivatives(
        self, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the derivatives of t."""
        return _probit_derivatives(mean, variance, 1.0)

    def signed(self, high: FloatArray, sign: int) -> FloatArray:
        """Return the bound itself: t is odd in the mean."""
        return high


@dataclass(frozen=True)
class ProbabilityLevel:
    """The class probability itself, for any smooth link that is concave on f > 0."""

    score: ProbabilityScore

    def threshold(self, probability: float) -> float:
        """Return the probability."""
        return probability

    def slope(self, threshold: FloatArray, low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the slope of the mean m(v) with E sigma = threshold: its chord above one half, otherwise its tangent.

        m starts from that of a probit of the same shape and takes two Newton steps. Any slope is sound.
        """
        link, level = self.score.link, np.clip(threshold, _RAREST, 1.0 - _RAREST)
        v = np.stack([low, high, 0.5 * (low + high)])
        m = logit(level) * np.sqrt(1.0 + _SHAPE * v)
        for _ in range(2):
            by_mean, by_variance = link.probability_gradient(m, v)
            step = (link.probability(m, v) - level) / np.maximum(by_mean, 1e-12)
            m = m - np.clip(step, -1.0 - np.abs(m), 1.0 + np.abs(m))
        tangent = -by_variance[2] / np.maximum(by_mean[2], 1e-12)
        width = high - low
        chord = np.where(width > 0.0, (m[1] - m[0]) / np.where(width > 0.0, width, 1.0), tangent)
        return np.where(level > 0.5, chord, tangent)

    def is_concave(self, threshold: FloatArray) -> BoolArray:
        """Return whether the probability is above one half. True only if that is proved."""
        return np.asarray(threshold > 0.5)

    def edges(self, low: FloatArray, high: FloatArray, cells: int) -> FloatArray:
        """Return edges equally far apart in the scale of a probit of the same shape."""
        return root_edges(low, high, cells, _SHAPE)

    def bound(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return max E sigma along the line from a grid of variances.

        Between neighbours at distance h the function exceeds them by at most h^2/8 (B2 k_1^2 + B3 |k_1| + B4/4). This
        follows from the heat equation d/dv = (1/2) d^2/dm^2.
        """
        link, step = self.score.link, (high - low) / _CELLS
        v = low[:, None] + step[:, None] * np.arange(_CELLS + 1)
        v[:, -1] = high
        line = G[:, None] + slope[:, None] * v
        known = np.isfinite(line)
        p = np.where(known, link.probability(np.where(known, line, 0.0), np.where(known, v, 0.0)), 1.0)
        curvature = link.B2 * slope**2 + link.B3 * np.abs(slope) + 0.25 * link.B4
        slack = QUADRATURE + SHORT_SUM * (1.0 + np.abs(G) + (1.0 + np.abs(slope)) * (1.0 + high))
        between = 0.125 * step**2 * curvature * (1.0 + SHORT_SUM)
        return np.asarray(np.minimum(p.max(axis=1) + between + slack, 1.0))

    def derivatives(
        self, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the derivatives for a probit of the same shape. These suffice for climbing."""
        return _probit_derivatives(mean, variance, _SHAPE)

    def signed(self, high: FloatArray, sign: int) -> FloatArray:
        """Return p, or -(1 - p) for the minimum, rounded up."""
        if sign > 0:
            return high
        # The difference is exact from one half on.
        return np.where(high >= 0.5, high - 1.0, np.nextafter(high - 1.0, np.inf))


def level_of(link: Link) -> Level:
    score = score_of(link)
    return ProbitLevel(score) if isinstance(score, ProbitScore) else ProbabilityLevel(ProbabilityScore(link))


def root_edges(low: FloatArray, high: FloatArray, cells: int, rate: float) -> FloatArray:
    """Return the ends of `cells` parts of [low, high], equally far apart in sqrt(1 + rate v), [B, cells + 1]."""
    share = np.linspace(0.0, 1.0, cells + 1)
    bottom, top = (np.sqrt(1.0 + rate * end)[:, None] for end in (low, high))
    edges = ((bottom + share * (top - bottom)) ** 2 - 1.0) / rate
    # The ends are exact, and rounding puts no edge outside.
    edges = np.clip(edges, low[:, None], high[:, None])
    edges[:, 0], edges[:, -1] = low, high
    return np.asarray(edges)


def _probit_derivatives(
    mean: FloatArray, variance: FloatArray, rate: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return derivatives of mean / sqrt(1 + rate variance)."""
    width = 1.0 + rate * variance
    first = 1.0 / np.sqrt(width)
    return (
        first,
        -0.5 * rate * mean * first / width,
        -0.5 * rate * first / width,
        0.75 * rate**2 * mean * first / width**2,
    )
