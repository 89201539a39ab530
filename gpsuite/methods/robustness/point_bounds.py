"""Rigorous bounds of the class probability at single points: what a witness attains, and which class a point has.

The stored floats are certified, so the error is that of dot products and exponentials; a bound over a box of no width
would be as tight, but takes the derivatives' products too.

Equation: derived, rounding of the expansion
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.class_probability import LatentRanges, Score
from gpsuite.methods.robustness.rounding import SHORT_SUM


class PointForm(Protocol):
    """What evaluation asks of a posterior over its free inputs; see `OperatorForm` and `PosteriorSlice`."""

    @property
    def variance(self) -> float: ...  # noqa: D102
    @property
    def floor(self) -> float | FloatArray: ...  # noqa: D102
    @property
    def ceiling(self) -> float | FloatArray: ...  # noqa: D102
    @property
    def mean_error(self) -> float | FloatArray: ...  # noqa: D102
    @property
    def gram_error(self) -> float | FloatArray: ...  # noqa: D102

    def moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance [B] per unit s at points [B, d], up to these errors."""


def score_at(form: PointForm, score: Score, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of the score at points, [B] each; NaN where they could not be computed.

    Args:
        form: the posterior over the free inputs.
        score: what stands for the class probability.
        points: [B, d], in units of X.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return score.separate(latent_ranges(form, points))


def latent_ranges(form: PointForm, points: FloatArray) -> LatentRanges:
    """Return bounds of latent mean and variance at points [B, d]; a variance below zero counts as zero."""
    return ranges_of(form, *form.moments(points))


def ranges_of(form: PointForm, mean: FloatArray, variance: FloatArray) -> LatentRanges:
    """Return the bounds that computed moments [B] per unit s stand for."""
    s = form.variance
    error = form.mean_error + SHORT_SUM * np.abs(mean)
    low = np.maximum(mean - error, form.floor)
    high = np.minimum(mean + error, form.ceiling)
    wide = form.gram_error + SHORT_SUM * (1.0 + np.abs(variance))
    least = np.maximum(variance - wide, 0.0)
    most = np.maximum(variance + wide, 0.0)
    return LatentRanges(s * low, s * high, s * least, s * most, s * mean, s * np.maximum(variance, 0.0))
