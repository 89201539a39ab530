"""A plain bound over boxes for checking certificates; shares no code with the search, and takes another expansion.

The score of a box is bounded through a level T: where mean - k(Sigma) <= 0, k(v) the mean that has the level T at
variance v, the score is at most T; k is replaced by a line, so that one cubic made of those of mean and variance
(`plain_moments`) is to be maximised (`plain_cubic`).

Equation: derived, level function, quadratic form over a box
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.special import logit, ndtr

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.certificates.plain_cubic import cubic_maximum
from gpsuite.methods.robustness.certificates.plain_link import (
    QUADRATURE,
    largest_on_line,
    logistic_moments,
    logistic_value,
)
from gpsuite.methods.robustness.certificates.plain_model import ModelProducts, PlainModel, plain_slice
from gpsuite.methods.robustness.certificates.plain_moments import Expander, Expansion

OUTWARD = 1e-12  # relative, of a score and a probability
SMALLEST = 1e-300  # below it the normal distribution function has no relative accuracy any more
BLOCK = 1 << 19  # features that are held at once
PARTS = 4  # of a range of variances, where one line was not enough
FARTHEST = 40.0  # the normal distribution function is 0 or 1 there
SHAPE = {"probit": 1.0, "logistic": np.pi / 8}  # the logistic is like a probit of an argument of this slope


class PlainBound:
    """Bounds the score over boxes of the free inputs; score: mu / sqrt(1 + Sigma) (probit), else the probability.

    Args:
        model: the stored classifier.
        centre: [D] the point; inputs that are not free stay there.
        free: [d] indices of the free inputs.
        products: the model's, if they are there.

    Raises:
        ValueError: if the model is not one this bound knows, or its numbers are too large.
    """

    def __init__(
        self,
        model: PlainModel,
        centre: FloatArray,
        free: npt.NDArray[np.int64],
        products: ModelProducts | None = None,
    ) -> None:
        self.model, self.s = model, model.variance
        self.slice = plain_slice(model, centre, free, products)
        self.expander = Expander(self.slice)
        self._last: tuple[bytes, Expansion] | None = None

    @property
    def scale(self) -> FloatArray:
        """Lengthscales of the free inputs, [d]."""
        return self.slice.scale

    def at(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d]; infinite where nothing is known."""
        with np.errstate(all="ignore"):
            mean, variance, (mean_error, variance_error) = self.expander.at(points)
            low, high = self.s * (mean - mean_error), self.s * (mean + mean_error)
            most = self.s * np.maximum(variance + variance_error, 0)
            least = self.s * np.maximum(variance - variance_error, 0)
            bottom = self._score(low, np.where(low >= 0, most, least)) - self._quadrature
            top = self._score(high, np.where(high >= 0, least, most)) + self._quadrature
            bottom, top = bottom - OUTWARD * (1 + np.abs(bottom)), top + OUTWARD * (1 + np.abs(top))
            known = bottom <= top  # false for NaN
            return np.where(known, bottom, -np.inf), np.where(known, top, np.inf)

    def bound(
        self,
        lo: FloatArray,
        hi: FloatArray,
        sign: int,
        threshold: FloatArray,
        wanted: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds [B] of the score over boxes [B, d]: upper ones for sign 1, lower ones for -1.

        Args:
            lo: lower ends.
            hi: upper ends.
            sign: which.
            threshold: the score at whose level each bound is taken, [B]; any is sound.
            wanted: bounds that are good enough, so that no more work is done for them, [B]; by default none is.

        Returns:
            the bounds, sign * infinity where nothing is known, and how much each input loosens them, [B, d].
        """
        found, share = np.empty(len(lo)), np.empty(lo.shape)
        enough = np.full(len(lo), -sign * np.inf) if wanted is None else wanted
        for part in self._parts(lo):
            with np.errstate(all="ignore"):  # overflow ends in inf or NaN, which say nothing
                expansion = self._expanded(lo[part], hi[part])
                found[part], share[part] = self._outer(expansion, sign, threshold[part], enough[part])
        return found, share

    def probability(self, score: float) -> tuple[float, float]:
        """Return the class probability of a score, rounded down and up."""
        return class_probability(self.model, score)

    def _expanded(self, lo: FloatArray, hi: FloatArray) -> Expansion:
        """Return the expansion over boxes; the last one is kept, as both claims often begin with the same box."""
        key = lo.tobytes() + hi.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self.expander.expand(lo, hi)
        return self._last[1]

    def _parts(self, lo: FloatArray) -> list[slice]:
        boxes = max(1, BLOCK // (len(self.slice.alpha) * (1 + lo.shape[1])))
        return [slice(start, start + boxes) for start in range(0, len(lo), boxes)]

    def _outer(
        self, found: Expansion, sign: int, threshold: FloatArray, wanted: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bound the score of (sign mean, variance) from above through a level, in the score's own sign."""
        low, high = self.s * found.variance.low, self.s * found.variance.high
        best, share = self._along(found, sign, threshold, low, high)
        # one line is far below a concave level over a wide range of variances: a line for each part of it
        concave = self._slope(threshold, sign, low, high, low) > 0
        rows = np.flatnonzero(concave & np.isfinite(high) & ~(sign * self._own(best, sign) <= sign * wanted))
        if len(rows):
            parts, level, ends = found.take(rows), threshold[rows], (low[rows], high[rows])
            roots = np.sqrt(1 + ends[0]), np.sqrt(1 + ends[1])
            inner = [(roots[0] + (roots[1] - roots[0]) * k / PARTS) ** 2 - 1 for k in range(1, PARTS)]
            edges = [ends[0], *(np.clip(edge, *ends) for edge in inner), ends[1]]
            several = [self._along(parts, sign, level, *pair)[0] for pair in pairwise(edges)]
            best[rows] = np.fmin(best[rows], np.max(several, axis=0))
        # NaN and what the arithmetic turned inside out give no bound
        top = found.mean.high if sign > 0 else -found.mean.low
        known = np.isfinite(top) & np.isfinite(high) & (low <= high) & np.isfinite(best)
        return np.where(known, self._own(best, sign), sign * np.inf), share

    def _own(self, best: FloatArray, sign: int) -> FloatArray:
        """Return the bound of the score that an upper bound for (sign mean, variance) gives, rounded outward."""
        outward = best + OUTWARD * (1 + np.abs(best))
        if sign > 0:
            return outward
        return 1.0 - outward - OUTWARD if self.model.link == "logistic" else -outward

    def _along(
        self, found: Expansion, sign: int, threshold: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bound the score where the variance lies in [low, high], by one line; NaN where nothing is known."""
        s, mean, variance = self.s, found.mean, found.variance
        top = s * mean.high if sign > 0 else -s * mean.low
        slope = self._slope(threshold, sign, low, high, s * variance.constant)
        r, cubic = found.radius, None
        linear = s * (sign * mean.linear - slope[:, None] * variance.linear)
        square = s * (sign * mean.square - slope[:, None, None] * variance.square)
        if mean.cubic is not None and variance.cubic is not None:
            cubic = s * (sign * mean.cubic - slope[:, None, None, None] * variance.cubic)
            cubic *= r[:, :, None, None] * r[:, None, :, None] * r[:, None, None, :]
        constant = s * (sign * mean.constant - slope * variance.constant)
        most, share = cubic_maximum(constant, linear * r, square * r[:, :, None] * r[:, None, :], cubic)
        rest = mean.above if sign > 0 else mean.below
        rest = s * (rest + np.abs(slope) * np.where(slope >= 0, variance.below, variance.above))
        size = s * (np.abs(mean.constant) + np.abs(slope) * (1 + variance.high))
        G = np.minimum(most + rest, top - slope * np.where(slope >= 0, low, high)) + OUTWARD * size
        corner = self._score(top, np.where(top >= 0, low, high)) + self._quadrature
        return np.minimum(self._on_line(G, slope, low, high), corner), share

    def _slope(
        self, threshold: FloatArray, sign: int, low: FloatArray, high: FloatArray, centre: FloatArray
    ) -> FloatArray:
        """Return the slope of the level T sqrt(1 + a v): its chord if T >= 0, its tangent at the centre else, [B]."""
        a = SHAPE[self.model.link]
        T = sign * threshold
        if self.model.link == "logistic":
            T = sign * logit(np.clip(threshold, 1e-9, 1 - 1e-9))
        T = np.where(np.isnan(T), 0.0, np.clip(T, -FARTHEST, FARTHEST))
        middle = np.nan_to_num(np.clip(centre, low, high), posinf=0.0)
        root = np.sqrt(1 + a * middle)
        slope = 0.5 * a * T / root
        if self.model.link == "logistic":  # its own slope there, not that of its stand-in
            _, by_mean, by_variance = logistic_moments(T * root, middle)
            slope = -by_variance / np.maximum(by_mean, SMALLEST)
        slope = np.where(T >= 0, slope * 2 * root / (np.sqrt(1 + a * low) + np.sqrt(1 + a * high)), slope)
        return np.where(np.isfinite(slope), slope, 0.0)

    @property
    def _quadrature(self) -> float:
        return QUADRATURE if self.model.link == "logistic" else 0.0

    def _score(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the score [B]."""
        if self.model.link == "logistic":
            finite = np.isfinite(mean) & np.isfinite(variance)
            value = logistic_value(np.where(finite, mean, 0.0), np.where(finite, variance, 0.0))
            return np.where(finite, value, np.nan)
        return np.asarray(mean / np.sqrt(1 + variance))

    def _on_line(self, G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the largest score of (G + slope v, v) over v in [low, high], [B]."""
        if self.model.link == "logistic":
            return largest_on_line(G, slope, low, high)
        ends = np.maximum(*((G + slope * v) / np.sqrt(1 + v) for v in (low, high)))
        # the derivative is zero at 1 + v = (G - slope)/slope, a maximum if slope < 0
        turn = (G - slope) / np.where(slope < 0, slope, -1)
        inside = (slope < 0) & (turn > 1 + low) & (turn < 1 + high)
        peak = -2 * np.sqrt(np.where(inside, (G - slope) * slope, 0))
        size = np.abs(G) + np.abs(slope) * (1 + high)
        return np.asarray(np.where(inside, peak, ends) + OUTWARD * size / np.sqrt(1 + low))


def class_probability(model: PlainModel, score: float) -> tuple[float, float]:
    """Return the class probability of a score, rounded down and up."""
    if model.link == "logistic":
        clipped = min(max(score, 0.0), 1.0)
        return clipped, clipped
    p = model.squeeze + (1 - 2 * model.squeeze) * float(ndtr(score))
    return p * (1 - OUTWARD), min(1.0, p * (1 + OUTWARD) + SMALLEST)
