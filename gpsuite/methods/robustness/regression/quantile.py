"""A predictive quantile as the level function sees it: q = mean + z sqrt(variance + noise).

q > T where mean - k(variance) > 0 with k(v) = T - z sqrt(v + noise), concave for z < 0 and convex for z > 0. Only
maxima are looked for: the minimum of q is minus the maximum of the quantile -z of the negated mean.

Equation: derived, level function
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.robustness.class_probability import LatentRanges
from gpsuite.methods.robustness.level_bound.level import root_edges
from gpsuite.methods.robustness.rounding import SHORT_SUM


@dataclass(frozen=True)
class QuantileScore:
    """The quantile itself, in units of the latent function; what `Score` calls a probability is the quantile too.

    Attributes:
        z: of the standard normal: 0 for the mean.
        noise: variance of the observation noise, above 0.
    """

    z: float
    noise: float

    def value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return mean + z sqrt(variance + noise)."""
        return np.asarray(mean + self.z * np.sqrt(variance + self.noise))

    def separate(self, ranges: LatentRanges) -> tuple[FloatArray, FloatArray]:
        """Return bounds at the corners, rounded outwards."""
        rising = self.z >= 0.0
        low = self.value(ranges.mean_low, ranges.variance_low if rising else ranges.variance_high)
        high = self.value(ranges.mean_high, ranges.variance_high if rising else ranges.variance_low)
        size = np.maximum(np.abs(ranges.mean_low), np.abs(ranges.mean_high))
        slack = SHORT_SUM * (size + abs(self.z) * np.sqrt(ranges.variance_high + self.noise))
        return low - slack, high + slack

    def to_probability(self, score: FloatArray) -> FloatArray:
        """Return the score."""
        return score

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds; NaN is no bound."""
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


@dataclass(frozen=True)
class QuantileLevel:
    """The level sets of a quantile in (mean, variance)."""

    score: QuantileScore

    def threshold(self, probability: float) -> float:
        """Return the quantile."""
        return probability

    def slope(
        self, threshold: FloatArray, low: FloatArray, high: FloatArray, centre: FloatArray
    ) -> FloatArray:
        """Return the slope of -z sqrt(v + noise): its chord if z < 0, its tangent at the centre else."""
        z, noise = self.score.z, self.score.noise
        tangent = 0.5 / np.sqrt(centre + noise)
        chord = 1.0 / (np.sqrt(low + noise) + np.sqrt(high + noise))
        return np.broadcast_to(-z * (chord if z < 0.0 else tangent), low.shape)

    def is_concave(self, threshold: FloatArray) -> BoolArray:
        """Tell that z < 0."""
        return np.full(np.shape(threshold), self.score.z < 0.0)

    def edges(self, low: FloatArray, high: FloatArray, cells: int) -> FloatArray:
        """Return edges equally far apart in sqrt(v + noise)."""
        return root_edges(low, high, cells, 1.0 / self.score.noise)

    def bound(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return max of G + k_1 v + z sqrt(v + noise): at an end, or inside where z > 0 and k_1 < 0."""
        z, noise = self.score.z, self.score.noise
        most = np.maximum(*(self.score.value(G + slope * v, v) for v in (low, high)))
        if z > 0.0:
            falling = slope < 0.0
            k = np.where(falling, slope, -1.0)
            turn = (0.5 * z / k) ** 2
            inside = falling & (turn > low + noise) & (turn < high + noise)
            most = np.where(inside, G - k * noise - 0.25 * z * z / k, most)
        size = np.abs(G) + np.abs(slope) * (high + noise) + abs(z) * np.sqrt(high + noise)
        return np.asarray(most + SHORT_SUM * size)

    def derivatives(
        self, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return those of the quantile: by mean, variance, mixed, variance twice."""
        width, flat = variance + self.score.noise, np.zeros_like(mean)
        first = 0.5 * self.score.z / np.sqrt(width)
        return flat + 1.0, first + flat, flat, -0.5 * first / width + flat

    def signed(self, high: FloatArray, sign: int) -> FloatArray:
        """Return the bound itself; only maxima are bounded.

        Raises:
            ValueError: for a minimum.
        """
        if sign < 0:
            raise ValueError("the minimum of a quantile is found as a maximum of the negated mean")
        return high
