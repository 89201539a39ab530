"""The bound of a posterior's class probability over boxes of its free inputs.

Equation: derived, level function
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.class_probability import (
    BoxBounds,
    LatentRanges,
    checked_boxes,
    ranges_of,
    score_at,
    trivial_where_invalid,
)
from gpsuite.methods.robustness.level_bound.composite import expand_composite
from gpsuite.methods.robustness.level_bound.cubic import CubicMaximum, Expansion, LatentModel, cubic_maximum
from gpsuite.methods.robustness.level_bound.level import Level, level_of
from gpsuite.methods.robustness.level_bound.matern import expand_matern
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice, posterior_slice
from gpsuite.methods.robustness.level_bound.squared_exponential import expand_squared_exponential
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.composite import CompositeKernel

_EXPANSIONS: dict[str, Callable[[PosteriorSlice, FloatArray], Expansion]] = {
    "squared_exponential": expand_squared_exponential,
    "matern32": expand_matern,
    "matern52": expand_matern,
}
# If the models' remainders exceed this share of the relaxation's gap, the box is cut along its widest side.
_COARSE = 0.3
_CELLS = 4
_FLOOR = 1e-3
_CACHED = 1 << 18  # numbers of one array of degree-3 coefficients (2 MB). Larger ones wait for memory
_ROUNDING = 1e-12  # rounding of the combined model, relative to its terms


def expand(form: PosteriorSlice, centre: FloatArray) -> Expansion:
    """Return the expansion of mean and variance at centres [B, d] in units of X."""
    if isinstance(form.kernel, CompositeKernel):
        return expand_composite(form, centre)
    return _EXPANSIONS[form.kernel](form, centre)


@dataclass(frozen=True)
class LevelBounds:
    """Bounds of the score towards one class over B boxes.

    Attributes:
        outer: sign times the bound of the score, an upper bound for both signs, [B]. Infinite if nothing is known.
        point: maximum of the relaxation, in units of X, [B, d].
        share: part of the relaxation's gap from each input, [B, d].
        remainder: the models' remainders, in units of the latent function, [B].
    """

    outer: FloatArray
    point: FloatArray
    share: FloatArray
    remainder: FloatArray


@dataclass(frozen=True)
class LevelBound:
    """Local models of a posterior over its free inputs, and bounds of its class probability from them.

    Attributes:
        form: the posterior over the free inputs.
        level: level function of the class probability.
        name: name of the bound.
        version: version of the formulas.
    """

    form: PosteriorSlice
    level: Level
    name: str = "rkhs_taylor"
    version: int = 3

    @property
    def dims(self) -> IntArray:
        """Indices of the free inputs, [d]."""
        return self.form.dims

    def expand(self, centre: FloatArray) -> Expansion:
        """Return the expansion at centres [B, d] in units of X."""
        return expand(self.form, centre)

    def latent_model(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, LatentModel]:
        """Return the centres [B, d] and the models of mean and variance over boxes.

        Args:
            lo: lower ends in units of X, [B, d]. May equal the upper ends.
            hi: upper ends, [B, d].
        """
        low, high = checked_boxes(lo, hi, len(self.dims))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            centre = 0.5 * low + 0.5 * high
            return centre, self.expand(centre).over(self.form.radius(low, high, centre))

    def bound(self, centre: FloatArray, latent: LatentModel, sign: int, threshold: FloatArray) -> LevelBounds:
        """Bound the score over boxes.

        Args:
            centre: centres of the boxes in units of X, [B, d].
            latent: models of mean and variance over them.
            sign: 1 for an upper bound, -1 for a lower one.
            threshold: score of (sign mean, variance) at which the bound should be sharp, [B] or one for all. Every
                choice is sound.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            low, high = latent.variance.low, latent.variance.high
            threshold = np.broadcast_to(threshold, low.shape)
            score, found, remainder = self._along(latent, sign, threshold, low, high)
            # If one chord was not enough, use chords over parts of a wide range of variances.
            rows = np.flatnonzero((score > threshold) & self.level.is_concave(threshold) & np.isfinite(high))
            if len(rows):
                edges = self.level.edges(low[rows], high[rows], _CELLS)
                parts = np.repeat(rows, _CELLS)
                lower, upper = edges[:, :-1].ravel(), edges[:, 1:].ravel()
                refined = [
                    self._along(latent.take(parts[at]), sign, threshold[parts[at]], lower[at], upper[at])[0]
                    for at in self._blocks(len(parts))
                ]
                score[rows] = np.fmin(score[rows], np.concatenate(refined).reshape(-1, _CELLS).max(axis=1))
            top = latent.mean.high if sign > 0 else -latent.mean.low
            # A bound that is NaN counts as no bound.
            sound = np.isfinite(top) & np.isfinite(high) & (low <= high) & ~np.isnan(score)
            outer = np.where(sound, self.level.signed(score, sign), np.inf)
            return LevelBounds(outer, centre + self.form.lengthscales * found.point, found.share, remainder)

    def bound_boxes(
        self, lo: FloatArray, hi: FloatArray, sign: int, threshold: FloatArray
    ) -> tuple[LevelBounds, FloatArray]:
        """Bound the score over boxes, a few at a time if they have many inputs.

        Args:
            lo: lower ends in units of X, [B, d].
            hi: upper ends, [B, d].
            sign: as of `bound`.
            threshold: one for all boxes.

        Returns:
            the bounds, and the half-widths in lengthscales, [B, d].
        """
        found, radii = [], []
        for at in self._blocks(len(lo)):
            centre, latent = self.latent_model(lo[at], hi[at])
            found.append(self.bound(centre, latent, sign, threshold))
            radii.append(latent.radius)
        if len(found) == 1:
            return found[0], radii[0]
        names = [field.name for field in fields(LevelBounds)]
        joined = (np.concatenate([getattr(each, name) for each in found]) for name in names)
        return LevelBounds(*joined), np.concatenate(radii)

    def _blocks(self, count: int) -> Iterator[slice]:
        """Yield the boxes, as many at a time as the cache holds."""
        size = max(1, _CACHED // max(1, len(self.dims) ** 3))
        return (slice(start, start + size) for start in range(0, count, size))

    def _along(
        self, latent: LatentModel, sign: int, threshold: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, CubicMaximum, FloatArray]:
        """Bound the score of (sign mean, variance) for variances in [low, high], by one line.

        Returns:
            the bound [B], NaN if it is unknown, the relaxation, and the models' remainders, [B].
        """
        mean, variance = latent.mean, latent.variance
        above, top = (mean.above, mean.high) if sign > 0 else (mean.below, -mean.low)
        slope = self.level.slope(threshold, low, high, np.clip(variance.model.constant, low, high))
        combined = mean.model.combined(float(sign), variance.model, -slope)
        found = cubic_maximum(combined, latent.radius)
        remainder = above + np.where(slope >= 0.0, slope * variance.below, -slope * variance.above)
        apart = top - slope * np.where(slope >= 0.0, low, high)
        size = np.abs(mean.model.constant) + np.abs(slope) * (1.0 + variance.high)
        G = np.fmin(found.bound + remainder, apart) + _ROUNDING * size
        score = np.fmin(self.level.bound(G, slope, low, high), self._corner(top, low, high))
        return score, found, remainder

    def bounds(self, lo: FloatArray, hi: FloatArray) -> BoxBounds:
        """Bound the score over boxes lo[b] <= x_free <= hi[b] from both sides, sharp at the score of each centre.

        Args:
            lo: lower ends in units of X, [B, d]. May equal the upper ends.
            hi: upper ends, [B, d].

        Raises:
            ValueError: if the shapes do not fit or lo > hi somewhere.
        """
        centre, latent = self.latent_model(lo, hi)
        mean, variance = latent.mean, latent.variance
        with np.errstate(over="ignore", invalid="ignore"):
            middle = np.clip(variance.model.constant, variance.low, variance.high)
            scores = [self.level.score.value(sign * mean.model.constant, middle) for sign in (-1, 1)]
        below, above = (self.bound(centre, latent, sign, score) for sign, score in zip((-1, 1), scores, strict=True))
        return trivial_where_invalid(
            BoxBounds(
                mean.low,
                mean.high,
                variance.low,
                variance.high,
                -below.outer,
                above.outer,
                scores[1],
                split_scores(above, latent.radius),
            )
        )

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d] in units of X. NaN if not computable."""
        return score_at(self.form, self.level.score, points)

    def evaluate_centres(self, latent: LatentModel) -> tuple[FloatArray, FloatArray]:
        """Return the values of `evaluate` at the centres of the models, [B] each, without another product."""
        s = self.form.variance
        moments = latent.mean.model.constant / s, latent.variance.model.constant / s
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self.level.score.separate(ranges_of(self.form, *moments))

    def to_probability(self, score: FloatArray) -> FloatArray:
        return self.level.score.to_probability(score)

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return class probabilities of score bounds, rounded outwards. NaN gives 0 and 1."""
        return self.level.score.outward_probability(low, high)

    def with_slice_norm(self) -> LevelBound:
        """Return the bound with the norm of the restricted mean: tighter, for n^2 exponentials."""
        return replace(self, form=self.form.with_slice_norm())

    def _corner(self, top: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the largest score of means up to `top` and variances in [low, high], regardless of their relation."""
        return self.level.score.separate(LatentRanges(top, top, low, high, top, low))[1]


def level_bound(posterior: GPCPosterior, x0: FloatArray, free: IntArray) -> LevelBound:
    """Build the bound of a posterior with the inputs outside `free` fixed at x0.

    If every input is free, the bound does not depend on x0.

    Args:
        posterior: binary classifier, N data, D inputs.
        x0: point that fixes the other inputs, [D].
        free: indices of the free inputs, [d].

    Raises:
        ValueError: if x0 or the indices do not fit.
    """
    return LevelBound(posterior_slice(posterior, x0, free), level_of(posterior.link))


def split_scores(found: LevelBounds, radius: FloatArray) -> FloatArray:
    """Return a score for cutting each input: its width, weighted by its share if the relaxation is loose."""
    total = found.share.sum(axis=1, keepdims=True)
    share = found.share / np.where(total > 0.0, total, 1.0)
    coarse = (found.remainder > _COARSE * total[:, 0])[:, None]
    return np.where(coarse, radius, radius * np.sqrt(share + _FLOOR))
