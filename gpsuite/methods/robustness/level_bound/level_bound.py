"""The bound of a posterior's class probability over boxes of its free inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.methods.robustness.box_bounds import FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.concave_relaxation import cubic_maximum
from gpsuite.methods.robustness.level_bound.latent_model import Expansion, LatentModel
from gpsuite.methods.robustness.level_bound.level import Level, level_of
from gpsuite.methods.robustness.level_bound.matern import expand_matern
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice, posterior_slice
from gpsuite.methods.robustness.level_bound.squared_exponential import expand_squared_exponential
from gpsuite.methods.robustness.rounding import outward_radius
from gpsuite.models.gpc import GPCPosterior

_EXPANSIONS: dict[str, Callable[[PosteriorSlice, FloatArray], Expansion]] = {
    "squared_exponential": expand_squared_exponential,
    "matern32": expand_matern,
    "matern52": expand_matern,
}


@dataclass(frozen=True)
class ScoreBounds:
    """Upper bounds of the score towards one class over B boxes.

    Attributes:
        high: upper bound of the score of (sign mean, variance), [B]; infinite where nothing is known.
        point: where the relaxation is largest, scaled, [B, d]; NaN where it could not be computed.
        share: how much each input adds to the relaxation's gap, [B, d].
        rest: what the models leave out, in units of the latent function, [B].
    """

    high: FloatArray
    point: FloatArray
    share: FloatArray
    rest: FloatArray


@dataclass(frozen=True)
class LevelBound:
    """Local models of a posterior over its free inputs, and bounds of its class probability from them.

    Attributes:
        form: the posterior over the free inputs.
        level: what stands for the class probability.
        name: of the bound.
        version: of the formulas.
    """

    form: PosteriorSlice
    level: Level
    name: str = "rkhs_taylor"
    version: int = 2

    @property
    def dims(self) -> IntArray:
        """Indices of the free inputs, [d]."""
        return self.form.dims

    def expand(self, lo: FloatArray, hi: FloatArray) -> tuple[Expansion, FloatArray]:
        """Return the expansion at the middles of the boxes and the scaled half-widths, rounded up.

        Args:
            lo: lower ends in units of X, [B, d]; may equal the upper ends.
            hi: upper ends, [B, d].
        """
        low, high = self.form.scale(lo), self.form.scale(hi)
        centre = 0.5 * low + 0.5 * high
        return _EXPANSIONS[self.form.kernel](self.form, centre), outward_radius(low, high, centre)

    def expand_at(self, points: FloatArray) -> Expansion:
        """Return the expansion at points [B, d] in units of X."""
        return _EXPANSIONS[self.form.kernel](self.form, self.form.scale(points))

    def bound(self, centre: FloatArray, latent: LatentModel, sign: int, threshold: float) -> ScoreBounds:
        """Bound the score of (sign mean, variance) over boxes.

        Args:
            centre: scaled centres of the boxes, [B, d].
            latent: models of mean and variance over them.
            sign: 1 or -1.
            threshold: the score for which the bound should be sharp; any is sound.
        """
        mean, variance = latent.mean, latent.variance
        above, top = (mean.above, mean.high) if sign > 0 else (mean.below, -mean.low)
        middle = np.clip(variance.model.constant, variance.low, variance.high)
        slope = self.level.slope(threshold, variance.low, variance.high, middle)
        combined = mean.model.combined(float(sign), variance.model, -slope)
        found = cubic_maximum(combined, latent.radius)
        rest = above + np.where(slope >= 0.0, slope * variance.below, -slope * variance.above)
        apart = top - slope * np.where(slope >= 0.0, variance.low, variance.high)
        size = np.abs(mean.model.constant) + np.abs(slope) * (1.0 + variance.high)
        G = np.fmin(found.bound + rest, apart) + 1e-12 * size
        high = self.level.bound(G, slope, variance.low, variance.high)
        high = np.fmin(high, self.level.corner(top, variance.low, variance.high))
        # A bound that is not a number says nothing.
        sound = np.isfinite(top) & np.isfinite(variance.high) & (variance.low <= variance.high) & ~np.isnan(high)
        return ScoreBounds(np.where(sound, high, np.inf), centre + found.point, found.share, rest)


def level_bound(posterior: GPCPosterior, x0: FloatArray, free: IntArray) -> LevelBound:
    """Build the bound of a posterior with the inputs outside `free` fixed at x0.

    Args:
        posterior: binary classifier, N data, D inputs.
        x0: [D].
        free: indices of the free inputs, [d].
    """
    return LevelBound(posterior_slice(posterior, x0, free), level_of(posterior.link))
