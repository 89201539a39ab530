"""Local models of the latent mean and variance over boxes: cubics with one-sided rests, and ranges.

Equation: derived, level function
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.cubic import Cubic


@dataclass(frozen=True)
class MomentModel:
    """One moment over B boxes: model - below <= moment <= model + above, low <= moment <= high; [B] each.

    Attributes:
        model: cubic in the offset from the centre, in lengthscales.
        below: how far the moment may lie below the model, with rounding.
        above: how far above, with rounding.
        low: lower bound over the box.
        high: upper bound over the box.
    """

    model: Cubic
    below: FloatArray
    above: FloatArray
    low: FloatArray
    high: FloatArray

    def take(self, rows: IntArray) -> MomentModel:
        """Return the boxes of these rows, which may repeat."""
        ends = (each[rows] for each in (self.below, self.above, self.low, self.high))
        return MomentModel(self.model.take(rows), *ends)


@dataclass(frozen=True)
class LatentModel:
    """Mean and variance over B boxes.

    Attributes:
        radius: half-widths in lengthscales, rounded up, [B, d].
        mean: of the latent function.
        variance: of the latent function.
    """

    radius: FloatArray
    mean: MomentModel
    variance: MomentModel

    def take(self, rows: IntArray) -> LatentModel:
        """Return the boxes of these rows, which may repeat."""
        return LatentModel(self.radius[rows], self.mean.take(rows), self.variance.take(rows))


class Expansion(Protocol):
    """Derivatives of mean and variance at B centres, from which a model over any radius follows."""

    @property
    def centre(self) -> FloatArray:
        """Centres in units of X, [B, d]."""

    @property
    def mean(self) -> FloatArray:
        """The latent mean at the centres, [B]."""

    @property
    def variance(self) -> FloatArray:
        """The latent variance at the centres, [B]."""

    def taylor(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return gradient [B, d] and half Hessian [B, d, d] of the mean, then of the variance, by lengthscales."""

    def over(self, radius: FloatArray) -> LatentModel:
        """Return the models over |x - centre| <= radius in lengthscales, [B, d]."""
