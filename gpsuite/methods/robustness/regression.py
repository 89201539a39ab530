"""A predictive quantile for the level function: q = mean + z sqrt(variance + noise).

q > T where mean - k(variance) > 0 with k(v) = T - z sqrt(v + noise), concave for z < 0 and convex for z > 0. All
searches are for maxima. The minimum of q is minus the maximum of the quantile -z of the negated mean.

Equation: derived, level function
Equation: derived, search with the level bound
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.class_probability import LatentRanges
from gpsuite.methods.robustness.level_bound.level import root_edges
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.level_bound.level_search import Root, level_search, root_model
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice, posterior_slice
from gpsuite.methods.robustness.rounding import SHORT_SUM
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.latent import LatentPosterior


@dataclass(frozen=True)
class QuantileScore:
    """The quantile itself, in units of the latent function. It also replaces the probability of `Score`.

    Attributes:
        z: quantile of the standard normal, 0 for the mean.
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
        return score

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds. NaN is no bound."""
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


@dataclass(frozen=True)
class QuantileLevel:
    """The level sets of a quantile in (mean, variance)."""

    score: QuantileScore

    def threshold(self, probability: float) -> float:
        return probability

    def slope(self, threshold: FloatArray, low: FloatArray, high: FloatArray, centre: FloatArray) -> FloatArray:
        """Return the slope of -z sqrt(v + noise): its chord if z < 0, otherwise its tangent at the centre."""
        z, noise = self.score.z, self.score.noise
        tangent = 0.5 / np.sqrt(centre + noise)
        chord = 1.0 / (np.sqrt(low + noise) + np.sqrt(high + noise))
        return np.broadcast_to(-z * (chord if z < 0.0 else tangent), low.shape)

    def is_concave(self, threshold: FloatArray) -> BoolArray:
        """Return whether z < 0."""
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
        """Return the derivatives of the quantile: by mean, variance, mixed, variance twice."""
        width, flat = variance + self.score.noise, np.zeros_like(mean)
        first = 0.5 * self.score.z / np.sqrt(width)
        return flat + 1.0, first + flat, flat, -0.5 * first / width + flat

    def signed(self, high: FloatArray, sign: int) -> FloatArray:
        """Return the bound itself. Only maxima are bounded.

        Raises:
            ValueError: for a minimum.
        """
        if sign < 0:
            raise ValueError("the minimum of a quantile is found as a maximum of the negated mean")
        return high


# Proved ranges of a regression's predictive mean and quantiles over a region of inputs.


MEAN = 0.5  # the median of a normal distribution is its mean


@dataclass(frozen=True)
class QuantileRange:
    """The range of one predictive quantile over a region, in the units of the model's targets.

    Attributes:
        level: level of the quantile, in (0, 1). `MEAN` for the predictive mean.
        centre: the quantile at the region's centre.
        lowest_proved: proved lower bound over the region. Minus infinity if nothing is known.
        lowest: smallest value surely attained. Infinity if there is none.
        highest: largest value surely attained. Minus infinity if there is none.
        highest_proved: proved upper bound over the region.
        lowest_point: [d] free inputs where `lowest` is attained, or None.
        highest_point: [d] free inputs where `highest` is attained, or None.
        status: "closed" if both ends are known up to the tolerance, otherwise the reason.
        boxes: number of boxes bounded by both searches.
        minimum: search of the smallest value, in the quantile's own sign.
        maximum: search of the largest value.
    """

    level: float
    centre: float
    lowest_proved: float
    lowest: float
    highest: float
    highest_proved: float
    lowest_point: FloatArray | None
    highest_point: FloatArray | None
    status: str
    boxes: int
    minimum: Extremum
    maximum: Extremum

    @property
    def largest_change(self) -> float:
        """Proved bound on the distance of the quantile from its value at the centre."""
        return max(self.highest_proved - self.centre, self.centre - self.lowest_proved)


def prediction_range(
    latent: LatentPosterior, noise: float, region: Region, levels: Sequence[float], tolerance: float, budget: Budget
) -> list[QuantileRange]:
    """Bound predictive quantiles mean + z sqrt(variance + noise) over a region from both sides.

    Args:
        latent: posterior of the latent function.
        noise: variance of the observation noise, above 0.
        region: a box around a point.
        levels: levels of the quantiles, each in (0, 1).
        tolerance: largest gap between attained and proved value, in units of the targets.
        budget: boxes and seconds for all searches. Each has an equal share of the remainder.

    Raises:
        ValueError: for a level outside (0, 1), noise that is not above 0, or a ball for a region.
        UnsoundBoundError: if a point attains more than the bounds allow.
    """
    if region.norm != "box" or not noise > 0.0 or not all(0.0 < level < 1.0 for level in levels):
        raise ValueError("a box, noise above 0 and levels between 0 and 1 are needed")
    form = posterior_slice(latent, region.centre, region.free)
    forms = {1: form, -1: negated(form)}
    roots: dict[int, Root | None] = {1: None, -1: None}
    found, left = [], 2 * len(levels)
    for level in levels:
        z = 0.0 if level == MEAN else float(ndtri(level))
        ends = {}
        for sign in (-1, 1):
            bound = LevelBound(forms[sign], QuantileLevel(QuantileScore(sign * z, noise)))
            if not budget.exhausted and roots[sign] is None:
                roots[sign] = root_model(bound, region)
            own = replace(budget.part(left), observer=budget.observer)
            ends[sign] = level_search(bound, region, tolerance, own, root=roots[sign])
            budget.spend(boxes=ends[sign].boxes)
            left -= 1
        mean, variance = form.moments(region.start[None])
        centre = QuantileScore(z, noise).value(form.variance * mean, form.variance * np.maximum(variance, 0.0))
        found.append(_joined(level, float(centre[0]), ends[-1], ends[1]))
    return found


def negated(form: PosteriorSlice) -> PosteriorSlice:
    """Return the slice of minus the latent function. Negation rounds nothing."""
    return replace(form, alpha=-form.alpha, floor=-form.ceiling, ceiling=-form.floor)


def _joined(level: float, centre: float, mirrored: Extremum, maximum: Extremum) -> QuantileRange:
    """Join the search of the negated function with that of the function itself."""
    tree = replace(mirrored.tree, bound=-mirrored.tree.bound)
    minimum = replace(mirrored, sign=-1, inner=-mirrored.inner, outer=-mirrored.outer, tree=tree)
    status = next((each.reason for each in (minimum, maximum) if each.status != "closed"), "closed")
    return QuantileRange(
        level=level,
        centre=centre,
        lowest_proved=minimum.outer,
        lowest=np.inf if minimum.witness is None else minimum.inner,
        highest=-np.inf if maximum.witness is None else maximum.inner,
        highest_proved=maximum.outer,
        lowest_point=minimum.witness,
        highest_point=maximum.witness,
        status=status,
        boxes=minimum.boxes + maximum.boxes,
        minimum=minimum,
        maximum=maximum,
    )
