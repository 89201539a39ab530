"""A plain bound of the margin of a class in the latent functions. It shares no code with the search.

Let d = f_own - f_j and D_ab = Var(f_a - f_b). The slope of f_k - (f_own + f_j) / 2 in d, given d, is
(D_kj - D_k,own) / (2 D_own,j). So E softmax_own > E softmax_j where m_own - m_j > max(0, max_k (D_kj - D_k,own) / 2).
The margin is the least of m_own - m_j and m_own - m_j - (D_kj - D_k,own) / 2 over all j and k. If it is positive, the
class is the most probable one.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.certificates.plain_kernel import cubic_maximum
from gpsuite.certificates.plain_moments import Expansion, Moment
from gpsuite.certificates.plain_softmax_bound import OUTWARD, BlockedBound, ClassExpansions

Term = tuple[float, Moment]
"""A factor, and what it is a factor of."""


class MarginPlainBound(BlockedBound):
    """Bounds the latent margin of a class over boxes of the free inputs.

    Args:
        expansions: expansions of the stored model.
        own: the class.
    """

    limits = (-np.inf, np.inf)

    def __init__(self, expansions: ClassExpansions, own: int) -> None:
        super().__init__(expansions)
        self.own = own

    def claimed(self, score: float) -> tuple[float, float]:
        return score, score

    def _best(self, lo: FloatArray, hi: FloatArray, sign: int) -> tuple[FloatArray, FloatArray]:
        """Bound the least of all differences. If the ranges are already positive, no more is needed."""
        expansions, s = self.expansions, self.expansions.s
        around = expansions.first.surroundings(lo, hi)
        C = expansions.model.functions
        known = {(i, j): expansions.expander(i, j).expand_in(around) for j in range(C) for i in range(j)}
        found, share = np.full(len(lo), np.inf), np.zeros(lo.shape)
        for terms in self._differences(known):
            bound, part = s * _by_ranges(terms, sign), np.zeros(lo.shape)
            near = np.flatnonzero(~(bound > 0.0))
            if sign < 0 and len(near):
                radius = next(iter(known.values())).radius
                along, part[near] = _along([(w, moment.take(near)) for w, moment in terms], radius[near])
                bound[near] = np.where(np.isnan(bound[near]), np.nan, np.fmax(bound[near], s * along))
            share = np.where((bound < found)[:, None], part, share)
            found = np.minimum(found, bound)  # NaN stays
        return np.where(np.isnan(found), sign * np.inf, found), share

    def _differences(self, known: dict[tuple[int, int], Expansion]) -> Iterator[list[Term]]:
        """Yield the differences that must be positive, for every rival and every other class."""
        own, C = self.own, self.expansions.model.functions
        for rival in (j for j in range(C) if j != own):
            pair = (min(own, rival), max(own, rival))
            mean = (1.0 if own < rival else -1.0, known[pair].mean)
            yield [mean]
            for other in (k for k in range(C) if k not in (own, rival)):
                theirs = known[min(other, rival), max(other, rival)].variance
                mine = known[min(other, own), max(other, own)].variance
                yield [mean, (-0.5, theirs), (0.5, mine)]


def _by_ranges(terms: list[Term], sign: int) -> FloatArray:
    """Bound a sum of moments by their ranges, from above for sign 1, below for -1, [B]. NaN if they overflow."""
    total, size = np.zeros((2, len(terms[0][1].low)))
    for w, moment in terms:
        total = total + w * (moment.high if (w > 0.0) == (sign > 0) else moment.low)
        size = size + np.maximum(np.abs(moment.low), np.abs(moment.high))
        total = np.where(moment.low <= moment.high, total, np.nan)
    total = total + sign * OUTWARD * (1.0 + size)
    return np.where(sign * total > -np.inf, total, np.nan)  # an infinite margin is an overflow and no proof


def _along(terms: list[Term], r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound a sum of moments from below as one cubic over the boxes of half-widths r, [B], and its shares [B, d]."""
    first = terms[0][1]
    constant, linear, square = (np.zeros_like(each) for each in (first.constant, first.linear, first.square))
    cubic, remainder, size = None, np.zeros(len(r)), np.zeros(len(r))
    for w, moment in terms:
        constant, linear = constant - w * moment.constant, linear - w * moment.linear
        square = square - w * moment.square
        if moment.cubic is not None:
            cubic = (0.0 if cubic is None else cubic) - w * moment.cubic
        remainder += np.abs(w) * (moment.below if w > 0.0 else moment.above)
        size += np.abs(moment.constant) + np.abs(moment.linear * r).sum(axis=1)
    if cubic is not None:
        cubic = cubic * r[:, :, None, None] * r[:, None, :, None] * r[:, None, None, :]
    most, share = cubic_maximum(constant, linear * r, square * r[:, :, None] * r[:, None, :], cubic)
    least = -(most + remainder + OUTWARD * (1.0 + size))
    return np.where(least < np.inf, least, np.nan), share + np.abs(linear * r)
