"""The level bound of f + offset + noise: a constant mean function, and white noise in the kernel.

Only the models of mean and variance are shifted, before they are used. The rounding of the shift is added to their
errors.

Equation: derived, level function
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.class_probability import LatentRanges, latent_ranges, ranges_of
from gpsuite.methods.robustness.level_bound.cubic import Expansion, LatentModel, MomentModel
from gpsuite.methods.robustness.level_bound.level import level_of
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound, level_bound
from gpsuite.methods.robustness.level_bound.posterior_slice import posterior_slice
from gpsuite.methods.robustness.rounding import SHORT_SUM
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.given.given import ShiftedPosterior


def shifted_bound(posterior: GPCPosterior, x0: FloatArray, free: IntArray) -> LevelBound:
    """Return `level_bound` of a posterior that may have a constant mean and white noise."""
    if not isinstance(posterior, ShiftedPosterior):
        return level_bound(posterior, x0, free)
    form = posterior_slice(posterior, x0, free)
    return ShiftedBound(form, level_of(posterior.link), offset=posterior.offset, spread=posterior.spread)


@dataclass(frozen=True)
class ShiftedBound(LevelBound):
    """A level bound with `offset` added to the mean and `spread` to the variance."""

    offset: float = 0.0
    spread: float = 0.0

    def expand(self, centre: FloatArray) -> Expansion:
        return _ShiftedExpansion(super().expand(centre), self.offset, self.spread)

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self.level.score.separate(self._moved(latent_ranges(self.form, points)))

    def evaluate_centres(self, latent: LatentModel) -> tuple[FloatArray, FloatArray]:
        s = self.form.variance
        mean, variance = latent.mean.model.constant - self.offset, latent.variance.model.constant - self.spread
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self.level.score.separate(self._moved(ranges_of(self.form, mean / s, variance / s)))

    def _moved(self, ranges: LatentRanges) -> LatentRanges:
        mean_low, mean_high = _ends(ranges.mean_low, ranges.mean_high, self.offset)
        variance_low, variance_high = _ends(ranges.variance_low, ranges.variance_high, self.spread)
        return LatentRanges(
            mean_low,
            mean_high,
            np.maximum(variance_low, 0.0),
            variance_high,
            ranges.mean + self.offset,
            ranges.variance + self.spread,
        )


@dataclass(frozen=True)
class _ShiftedExpansion:
    own: Expansion
    offset: float
    spread: float

    @property
    def centre(self) -> FloatArray:
        return self.own.centre

    @property
    def mean(self) -> FloatArray:
        return self.own.mean + self.offset

    @property
    def variance(self) -> FloatArray:
        return self.own.variance + self.spread

    def taylor(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        return self.own.taylor()

    def over(self, radius: FloatArray, cheap: bool = False) -> LatentModel:
        found = self.own.over(radius, cheap)
        mean, variance = _shifted(found.mean, self.offset), _shifted(found.variance, self.spread)
        return LatentModel(found.radius, mean, variance)


def _shifted(moment: MomentModel, shift: float) -> MomentModel:
    constant = moment.model.constant
    rounding = SHORT_SUM * (np.abs(constant) + abs(shift))
    model = replace(moment.model, constant=constant + shift)
    low, high = _ends(moment.low, moment.high, shift)
    return MomentModel(model, moment.below + rounding, moment.above + rounding, low, high)


def _ends(low: FloatArray, high: FloatArray, shift: float) -> tuple[FloatArray, FloatArray]:
    """Return both ends with the shift added, moved outwards by the rounding of this and of the earlier subtraction."""
    if shift == 0.0:
        return low, high
    size = 2.0 * abs(shift)
    return low + shift - SHORT_SUM * (np.abs(low) + size), high + shift + SHORT_SUM * (np.abs(high) + size)
