"""Bounds of softmax class probabilities, and of differences of two, over boxes of the free inputs.

Take a reference (m0, S0) near the box. At S0 every class probability is monotone in the differences of the means. It
moves by its gradient in them plus at most (spread)^2 / (12 sqrt 3). Then the covariance moves from S0 to its value. The
gradient's combination of all means is one cubic over the box. The work grows with the square of the number of classes,
not exponentially.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.class_probability import checked_boxes
from gpsuite.methods.robustness.level_bound.cubic import cubic_maximum
from gpsuite.methods.robustness.multiclass.latent_differences import (
    CURVATURE,
    CovarianceChange,
    DifferenceModels,
    DifferenceRanges,
    covariance_change,
    latent_differences,
)
from gpsuite.methods.robustness.multiclass.softmax_enclosure import enclosed_moments
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, SoftmaxMoments, softmax_moments

_ROUNDING = 1e-12
_FLOOR = 1e-3
_KEPT_POINTS = 4


@dataclass(frozen=True)
class Ends:
    """Bounds over B boxes, the value at a reference inside, and scores for the cut, [B] and [B, d].

    `proved` is False if they depend on a cubature with a stated but unproved error.
    """

    low: FloatArray
    high: FloatArray
    centre: FloatArray
    split_score: FloatArray
    proved: bool = True


@dataclass
class Proof:
    """Record of whether all noted bounds are proved."""

    proved: bool = True

    def note(self, proved: bool) -> None:
        self.proved &= proved


@dataclass(frozen=True, eq=False)
class LocalModel:
    """Bounds over B boxes, for every class and pair of classes.

    Attributes:
        models: models of all latent differences.
        ranges: ranges of the differences.
        moments: moments of the softmax at the reference.
        known: earlier requested bounds of class probabilities (c,) and margins (c, j).
        changes: changes with the covariance of the earlier requested classes.
    """

    models: DifferenceModels
    ranges: DifferenceRanges
    moments: SoftmaxMoments
    known: dict[tuple[int, ...], Ends] = field(default_factory=dict)
    changes: dict[int, CovarianceChange] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PointModel:
    """Values at B points, for every class and pair of classes: ranges by rounding, and the softmax there.

    `changes` is as in `LocalModel`.
    """

    ranges: DifferenceRanges
    moments: SoftmaxMoments
    changes: dict[int, CovarianceChange] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """Whether the cubature's error is a bound."""
        return self.moments.proved


class SoftmaxBound:
    """Bounds for every class of a posterior whose inputs outside `free` are fixed at x0.

    Args:
        posterior: classifier of C classes.
        x0: point that fixes the other inputs, [D].
        free: indices of the free inputs, [d].

    Attributes:
        name: name of the bound.
        version: version of the formulas.

    Raises:
        ValueError: if the point or the indices do not fit.
    """

    name = "softmax_differences"
    version = 1

    def __init__(self, posterior: MultiClassPosterior, x0: FloatArray, free: IntArray) -> None:
        self.posterior = posterior
        self.differences = latent_differences(posterior, x0, free)
        self.dims = self.differences.form.dims
        self.n_classes = posterior.n_classes
        self._root: tuple[tuple[bytes, bytes], LocalModel] | None = None
        self._points: dict[bytes, PointModel] = {}

    def over(self, lo: FloatArray, hi: FloatArray) -> LocalModel:
        """Return the local models over boxes lo[b] <= x_free <= hi[b], [B, d], in the units of X.

        The models of the last single box are kept: every search of a region begins with this box.
        """
        if len(lo) != 1:
            return self._over(lo, hi)
        key = (lo.tobytes(), hi.tobytes())
        if self._root is None or self._root[0] != key:
            self._root = key, self._over(lo, hi)
        return self._root[1]

    def _over(self, lo: FloatArray, hi: FloatArray) -> LocalModel:
        low, high = checked_boxes(lo, hi, len(self.dims))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            models, ranges = self.differences.over(low, high)
        return LocalModel(models, ranges, softmax_moments(ranges.mean, ranges.root, enclosed_moments))

    def at(self, points: FloatArray) -> PointModel:
        """Return ranges and softmax moments at points [B, d] of the free inputs.

        The last result is kept: the searches for all rivals begin with the same points.
        """
        key = points.tobytes()
        found = self._points.pop(key, None)
        if found is None:
            ranges = self.differences.at(points)
            found = PointModel(ranges, softmax_moments(ranges.mean, ranges.root, enclosed_moments))
        self._points[key] = found
        if len(self._points) > _KEPT_POINTS:
            del self._points[next(iter(self._points))]
        return found

    def class_bounds(self, lo: FloatArray, hi: FloatArray, own: int) -> Ends:
        """Bound the probability of a class over boxes [B, d]."""
        return self.class_ends(self.over(lo, hi), own)

    def margin_bounds(self, lo: FloatArray, hi: FloatArray, own: int, rival: int) -> Ends:
        """Bound p_own - p_rival over boxes [B, d]."""
        return self.margin_ends(self.over(lo, hi), own, rival)

    def class_ends(self, local: LocalModel, own: int) -> Ends:
        """Bound the probability of a class over the boxes."""
        if (own,) not in local.known:
            local.known[own,] = self._class_ends(local, own)
        return local.known[own,]

    def _class_ends(self, local: LocalModel, own: int) -> Ends:
        product = local.moments.product[:, own]
        # m_own - m_j rises by t: p rises by t E[p_own p_j]
        low, high, score = self._linear(local, own, np.maximum(product, 0.0), local.moments.mean[:, own], 1.0)
        least, most = _monotone(local, own)
        low, high = np.fmax(low, least), np.fmin(high, most)
        change = _change(local, own)
        return _closed(local, change.lowest(low), change.highest(high), local.moments.mean[:, own], score, 0.0)

    def margin_ends(self, local: LocalModel, own: int, rival: int) -> Ends:
        """Bound p_own - p_rival over the boxes."""
        if (own, rival) not in local.known:
            local.known[own, rival] = self._margin_ends(local, own, rival)
        return local.known[own, rival]

    def _margin_ends(self, local: LocalModel, own: int, rival: int) -> Ends:
        moments, C = local.moments, self.n_classes
        product, p = moments.product, moments.mean
        gradient = np.zeros((len(p), C))
        gradient[:, own], gradient[:, rival] = p[:, own], -p[:, rival]
        gradient += product[:, rival] - product[:, own]
        value = p[:, own] - p[:, rival]
        low, high, score = self._linear(local, own, -gradient, value, 2.0)
        mine, theirs = _change(local, own), _change(local, rival)
        low, high = low - mine.down - theirs.up, high + mine.up + theirs.down
        first, second = self.class_ends(local, own), self.class_ends(local, rival)
        low, high = np.fmax(low, first.low - second.high), np.fmin(high, first.high - second.low)
        return _closed(local, low, high, value, score, -1.0)

    def class_of(self, local: PointModel, own: int) -> tuple[FloatArray, FloatArray]:
        """Bound the probability of a class at points from `at`, [B] each."""
        ranges, moments = local.ranges, local.moments
        value = moments.mean[:, own]
        # |dp / dt| <= p (1 - p) spread
        room = moments.error + 0.25 * ranges.spread + _ROUNDING
        change = _change(local, own)
        low, high = change.lowest(value - room), change.highest(value + room)
        return np.where(ranges.valid, np.fmax(low, 0.0), 0.0), np.where(ranges.valid, np.fmin(high, 1.0), 1.0)

    def margin_of(self, local: PointModel, own: int, rival: int) -> tuple[FloatArray, FloatArray]:
        """Bound p_own - p_rival at points from `at`, [B] each."""
        ranges, moments = local.ranges, local.moments
        value = moments.mean[:, own] - moments.mean[:, rival]
        room = 2.0 * moments.error + 0.5 * ranges.spread + _ROUNDING
        mine, theirs = _change(local, own), _change(local, rival)
        low, high = value - room - mine.down - theirs.up, value + room + mine.up + theirs.down
        return np.where(ranges.valid, low, -1.0), np.where(ranges.valid, high, 1.0)

    def _linear(
        self, local: LocalModel, own: int, weights: FloatArray, value: FloatArray, functions: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bound value + weights (change of the differences) + curvature at the reference covariance.

        Args:
            local: models over the boxes.
            own: class that the differences are taken from.
            weights: derivatives by m_own - m_j, [B, C].
            value: value at the reference, [B].
            functions: number of class probabilities in the quantity, for errors and curvature.
        """
        ranges, moments = local.ranges, local.moments
        weights = weights.copy()
        weights[:, own] = 0.0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            radius = local.models.radius
            total, below, above = local.models.combined_means(own, weights)
            both = total.followed_by(total.scaled(-1.0))
            upper, lower = np.split(cubic_maximum(both, np.concatenate([radius, radius])).bound, 2)
            start = np.einsum("bj,bj->b", weights, ranges.offset[:, own])
            errors = functions * (moments.error + moments.tilt * ranges.spread)
            rounding = _ROUNDING * (1.0 + np.abs(total.constant) + np.abs(start))
            room = functions * CURVATURE * ranges.spread**2 + errors + rounding
            variance = local.models.variance_slopes
            score = radius * (np.abs(total.linear) + functions * CURVATURE * variance + _FLOOR)
            return (value - start - lower - below - room, value - start + upper + above + room, score)


def _change(local: LocalModel | PointModel, own: int) -> CovarianceChange:
    """Return the class' change with the covariance. It is kept because every rival requests it."""
    if own not in local.changes:
        local.changes[own] = covariance_change(local.ranges.change_low, local.ranges.change_high, own)
    return local.changes[own]


def _monotone(local: LocalModel, own: int) -> tuple[FloatArray, FloatArray]:
    """Bound the class probability at the reference covariance, which is monotone in the differences of the means.

    If the cubature is cheap, take its values in the two extreme corners. Otherwise apply Jensen's inequality at the
    largest rise and the largest fall. It holds for p' = p e^h / (p e^h + 1 - p), which is concave in p for h >= 0 and
    convex for h <= 0.
    """
    if local.moments.by_rule:
        return _corners(local.ranges, own)
    ranges, moments = local.ranges, local.moments
    others = [c for c in range(ranges.mean.shape[1]) if c != own]
    rise = (ranges.mean_high - ranges.offset)[:, own, others].max(axis=1)
    fall = (ranges.offset - ranges.mean_low)[:, own, others].max(axis=1)
    p, error = moments.mean[:, own], moments.error
    # increasing in p, so its error is the error of the ends
    low, high = _tilted(np.clip(p - error, 0.0, 1.0), -fall), _tilted(np.clip(p + error, 0.0, 1.0), rise)
    return np.where(ranges.valid, low - _ROUNDING, 0.0), np.where(ranges.valid, high + _ROUNDING, 1.0)


def _tilted(p: FloatArray, h: FloatArray) -> FloatArray:
    """Return p e^h / (p e^h + 1 - p)."""
    up = p * np.exp(np.clip(h, -700.0, 700.0))
    return np.asarray(up / (up + 1.0 - p))


def _corners(ranges: DifferenceRanges, own: int) -> tuple[FloatArray, FloatArray]:
    """Return the class probability at the reference covariance in the two extreme corners of the differences."""
    valid = ranges.valid
    ends = [-np.where(valid[:, None], each[:, own], 0.0) for each in (ranges.mean_low, ranges.mean_high)]
    for each in ends:
        each[:, own] = 0.0
    found = softmax_moments(np.vstack(ends), np.concatenate([ranges.root, ranges.root]), enclosed_moments)
    least, most = np.split(found.mean[:, own], 2)
    first, second = np.split(found.error, 2)
    return np.where(valid, least - first, 0.0), np.where(valid, most + second, 1.0)


def _closed(
    local: LocalModel, low: FloatArray, high: FloatArray, value: FloatArray, score: FloatArray, least: float
) -> Ends:
    """Return the bounds clipped to [least, 1]. Unknown bounds become trivial."""
    sound = local.ranges.valid & (low <= high)
    low, high = np.where(sound, np.fmax(low, least), least), np.where(sound, np.fmin(high, 1.0), 1.0)
    return Ends(low, high, value, np.where(np.isfinite(score), score, 0.0), local.moments.proved)
