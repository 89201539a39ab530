"""A plain bound over boxes for checking certificates. It shares no code with the search and uses another expansion.

The score of a box is bounded through a level T. Let k(v) be the mean that has the level T at variance v. Where
mean - k(Sigma) <= 0, the score is at most T. k is replaced by a line. Then only one cubic has to be maximised
(`plain_kernel.cubic_maximum`). It combines those of mean and variance (`plain_moments`).

Equation: derived, level function, quadratic form over a box
"""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.certificates.plain_kernel import cubic_maximum
from gpsuite.certificates.plain_model import PlainLatent, PlainModel, Products, plain_slice
from gpsuite.certificates.plain_moments import Expander, Expansion
from gpsuite.certificates.plain_scores import OUTWARD, LinkScore, PlainScore

BLOCK = 1 << 19  # number of features held at once
PARTS = 4  # parts of a range of variances, if one line was not enough


class ScoreBound:
    """Bounds the score over boxes of the free inputs.

    Args:
        model: the stored latent function.
        score: score of the function.
        centre: [D] the point. Inputs that are not free are fixed there.
        free: [d] indices of the free inputs.
        products: the model's products, or None.

    Raises:
        ValueError: if the model is not one this bound knows, or its numbers are too large.
    """

    def __init__(
        self,
        model: PlainLatent,
        score: PlainScore,
        centre: FloatArray,
        free: npt.NDArray[np.int64],
        products: Products | None = None,
    ) -> None:
        self.score, self.s = score, model.variance
        self.slice = plain_slice(model, centre, free, products)
        self.expander = Expander(self.slice)
        self._last: tuple[bytes, Expansion] | None = None

    def scoring(self, score: PlainScore) -> ScoreBound:
        """Return the bound of another score of the same function. Both share the last expansion."""
        other = copy.copy(self)
        other.score = score
        return other

    @property
    def scale(self) -> FloatArray:
        return self.slice.scale

    @property
    def limits(self) -> tuple[float, float]:
        return self.score.limits

    def at(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d]. Infinite if nothing is known."""
        with np.errstate(all="ignore"):
            mean, variance, (mean_error, variance_error) = self.expander.at(points)
            low, high = self.s * (mean - mean_error), self.s * (mean + mean_error)
            most = self.s * np.maximum(variance + variance_error, 0)
            least = self.s * np.maximum(variance - variance_error, 0)
            bottom, top = self.score.between(low, high, least, most)
            bottom, top = bottom - OUTWARD * (1 + np.abs(bottom)), top + OUTWARD * (1 + np.abs(top))
            known = bottom <= top  # false for NaN
            return np.where(known, bottom, -np.inf), np.where(known, top, np.inf)

    def bound(
        self, lo: FloatArray, hi: FloatArray, sign: int, threshold: FloatArray, wanted: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds [B] of the score over boxes [B, d]: upper ones for sign 1, lower ones for -1.

        Args:
            lo: lower ends.
            hi: upper ends.
            sign: 1 for upper bounds, -1 for lower ones.
            threshold: score as the level of each bound, [B]. Every choice is sound.
            wanted: bounds that are good enough, [B]. They get no more work. By default none is.

        Returns:
                the bounds, sign * infinity if nothing is known, and each input's share of their looseness, [B, d].
        """
        found, share = np.empty(len(lo)), np.empty(lo.shape)
        enough = np.full(len(lo), -sign * np.inf) if wanted is None else wanted
        for part in self._parts(lo):
            with np.errstate(all="ignore"):  # overflow gives inf or NaN, which are no bounds
                expansion = self._expanded(lo[part], hi[part])
                found[part], share[part] = self._outer(expansion, sign, threshold[part], enough[part])
        return found, share

    def claimed(self, score: float) -> tuple[float, float]:
        return self.score.claimed(score)

    def score_of(self, claim: float) -> float:
        return self.score.score_of(claim)

    def _expanded(self, lo: FloatArray, hi: FloatArray) -> Expansion:
        """Return the expansion over boxes. The last one is kept: both claims often begin with the same box."""
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
        # over a wide range of variances one line is far below a concave level: use a line for each part
        concave = self.score.slope(threshold, sign, low, high, low) > 0
        rows = np.flatnonzero(concave & np.isfinite(high) & ~(sign * self.score.own(best, sign) <= sign * wanted))
        if len(rows):
            parts, level, ends = found.take(rows), threshold[rows], (low[rows], high[rows])
            roots = np.sqrt(1 + ends[0]), np.sqrt(1 + ends[1])
            inner = [(roots[0] + (roots[1] - roots[0]) * k / PARTS) ** 2 - 1 for k in range(1, PARTS)]
            edges = [ends[0], *(np.clip(edge, *ends) for edge in inner), ends[1]]
            several = [self._along(parts, sign, level, *pair)[0] for pair in pairwise(edges)]
            best[rows] = np.fmin(best[rows], np.max(several, axis=0))
        # NaN and inverted ranges give no bound
        top = found.mean.high if sign > 0 else -found.mean.low
        known = np.isfinite(top) & np.isfinite(high) & (low <= high) & np.isfinite(best)
        return np.where(known, self.score.own(best, sign), sign * np.inf), share

    def _along(
        self, found: Expansion, sign: int, threshold: FloatArray, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bound the score for variances in [low, high], by one line. NaN if nothing is known."""
        s, mean, variance = self.s, found.mean, found.variance
        top = s * mean.high if sign > 0 else -s * mean.low
        slope = self.score.slope(threshold, sign, low, high, s * variance.constant)
        r, cubic = found.radius, None
        linear = s * (sign * mean.linear - slope[:, None] * variance.linear)
        square = s * (sign * mean.square - slope[:, None, None] * variance.square)
        if mean.cubic is not None and variance.cubic is not None:
            cubic = s * (sign * mean.cubic - slope[:, None, None, None] * variance.cubic)
            cubic *= r[:, :, None, None] * r[:, None, :, None] * r[:, None, None, :]
        constant = s * (sign * mean.constant - slope * variance.constant)
        most, share = cubic_maximum(constant, linear * r, square * r[:, :, None] * r[:, None, :], cubic)
        remainder = mean.above if sign > 0 else mean.below
        remainder = s * (remainder + np.abs(slope) * np.where(slope >= 0, variance.below, variance.above))
        size = s * (np.abs(mean.constant) + np.abs(slope) * (1 + variance.high))
        G = np.minimum(most + remainder, top - slope * np.where(slope >= 0, low, high)) + OUTWARD * size
        corner = self.score.corner(top, low, high, sign)
        return np.minimum(self.score.on_line(G, slope, low, high, sign), corner), share


class PlainBound(ScoreBound):
    """Bounds the score of a classifier's probability: mu / sqrt(1 + Sigma) for the probit, otherwise the probability.

    Args:
        model: the stored classifier.
        centre: centre as in `ScoreBound`.
        free: free inputs as in `ScoreBound`.
        products: products as in `ScoreBound`.

    Raises:
        ValueError: if the model is not one this bound knows, or its numbers are too large.
    """

    def __init__(
        self, model: PlainModel, centre: FloatArray, free: npt.NDArray[np.int64], products: Products | None = None
    ) -> None:
        super().__init__(model, LinkScore(model.link, model.squeeze), centre, free, products)


def class_probability(model: PlainModel, score: float) -> tuple[float, float]:
    """Return the class probability of a score, rounded down and up."""
    return LinkScore(model.link, model.squeeze).claimed(score)
