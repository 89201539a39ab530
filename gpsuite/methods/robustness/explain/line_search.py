"""Extremes of a class probability over many intervals at once: branch and bound, all open pieces in one batch.

Every interval keeps its own attained value, its own threshold and its own list of pieces; what they share is the
product that expands the posterior around all their centres.

Equation: Blaas et al. 2020, Algorithm 1
Equation: derived, search with the level bound
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.search.branch_and_bound import UnsoundBoundError

ENTRIES = 1 << 19  # numbers per array that a batch holds for the data (4 MB)
ROUNDS = 2


@dataclass(frozen=True)
class PieceBounds:
    """Bounds of a signed score over pieces of lines; arrays [B].

    Attributes:
        outer: no point of the piece has a larger signed score; infinite where nothing is known.
        point: where the relaxation is largest.
    """

    outer: FloatArray
    point: FloatArray


class Pieces(Protocol):
    """Pieces of lines that are expanded already."""

    @property
    def sharpens(self) -> bool:
        """Whether bounds are sharper for a target nearer to the extremum."""

    def centre_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of the score at the centres, [B] each; NaN if not computable."""

    def bound(self, sign: int, target: FloatArray) -> PieceBounds:
        """Bound the signed score, sharp at signed probabilities [B]."""


class Lines(Protocol):
    """A probability along L lines, monotone in a score."""

    @property
    def width(self) -> int:
        """Numbers held per piece and array."""

    def pieces(self, lines: IntArray, low: FloatArray, high: FloatArray) -> Pieces:
        """Expand pieces [low, high] of lines, [B] each."""

    def evaluate(self, lines: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B] of lines."""

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return probabilities of score bounds, rounded outwards."""


@dataclass(frozen=True)
class LineExtrema:
    """Extremes over S intervals, valid at any time; arrays [S].

    Attributes:
        sign: 1 for maxima, -1 for minima.
        inner: surely attained at `witness`.
        outer: proved.
        witness: place on the line.
        closed: whether attained and proved value agree within the tolerance.
        boxes: pieces bounded for all intervals.
    """

    sign: int
    inner: FloatArray
    outer: FloatArray
    witness: FloatArray
    closed: BoolArray
    boxes: int

    @property
    def gap(self) -> FloatArray:
        """Distance of the proved from the attained values, >= 0."""
        return np.maximum(0.0, self.sign * (self.outer - self.inner))


def line_extrema(
    lines: Lines,
    which: IntArray,
    low: FloatArray,
    high: FloatArray,
    sign: int,
    tolerance: float,
    budget: Budget,
) -> LineExtrema:
    """Search the maxima (`sign=1`) or minima (-1) of the probability over intervals of lines.

    Args:
        lines: what is bounded.
        which: the line of each interval, [S].
        low: lower ends, [S]; may equal the upper ones.
        high: upper ends, [S].
        sign: 1 or -1.
        tolerance: largest gap between attained and proved probability.
        budget: seconds and boxes; when it ends the best valid bounds are returned.

    Raises:
        ValueError: if an interval is empty or not finite, or sign or tolerance is out of range.
        UnsoundBoundError: if a point attains more than the bounds allow.
    """
    finite = np.isfinite(low) & np.isfinite(high)
    if not (finite.all() and (low <= high).all() and tolerance >= 0 and sign in (-1, 1)):
        raise ValueError("finite intervals low <= high, tolerance >= 0 and sign = 1 or -1 are needed")
    return _LineSearch(lines, which, low, high, sign, tolerance, budget).run()


class _LineSearch:
    """One run; `signed` values are those times the sign, so that maxima are looked for."""

    def __init__(
        self,
        lines: Lines,
        which: IntArray,
        low: FloatArray,
        high: FloatArray,
        sign: int,
        tolerance: float,
        budget: Budget,
    ) -> None:
        self.lines, self.which, self.low, self.high = lines, which, low, high
        self.sign, self.tolerance, self.budget = float(sign), tolerance, budget
        count = len(which)
        self.score = np.full(count, -np.inf)  # signed score that the witness surely attains
        self.inner, self.rounding = np.full(count, min(0.0, self.sign)), np.zeros(count)
        self.witness = low.copy()
        self.closed = np.full(count, -np.inf)  # largest signed score bound among pieces that were dropped
        self.boxes = 0

    def run(self) -> LineExtrema:
        """Search until every interval is closed or the budget ends."""
        owner, low, high = np.arange(len(self.which)), self.low, self.high
        inherited = np.full(len(owner), np.inf)
        self._offer_ends()
        while len(owner):
            parts = [self._batch(owner[part], low[part], high[part], inherited[part])
                     for part in self._parts(len(owner))]  # fmt: skip
            owner, low, high, inherited = (np.concatenate(each) for each in zip(*parts, strict=True))
        low_end, high_end = self.lines.outward_probability(self.sign * self.closed, self.sign * self.closed)
        outer = high_end if self.sign > 0 else -low_end
        if (self.inner > outer).any():
            worst = int(np.argmax(self.inner - outer))
            raise UnsoundBoundError(
                f"attained {self.sign * self.inner[worst]:.17g} at {self.witness[worst]}, bound {outer[worst]:.17g}"
            )
        closed = outer <= self.inner + np.maximum(self.tolerance, 2.0 * self.rounding)
        return LineExtrema(
            int(self.sign), self.sign * self.inner, self.sign * outer, self.witness, closed, self.boxes
        )

    def _offer_ends(self) -> None:
        """Try both ends of every interval: the extremes of a monotone function."""
        for ends in (self.low, self.high):
            for part in self._parts(len(ends)):
                if self.budget.exhausted:
                    return
                rows = np.arange(len(ends))[part]
                with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                    self._take(rows, ends[part], *self.lines.evaluate(self.which[part], ends[part]))

    def _parts(self, count: int) -> Iterator[slice]:
        size = max(1, ENTRIES // self.lines.width)
        return (slice(start, start + size) for start in range(0, count, size))

    def _batch(
        self, owner: IntArray, low: FloatArray, high: FloatArray, inherited: FloatArray
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Bound pieces; return the halves of those that stay open, with the bounds they inherit."""
        spent = self.budget.boxes is not None and self.budget.spent_boxes + len(owner) > self.budget.boxes
        if spent or self.budget.exhausted:
            self._drop(owner, inherited)
            none = np.zeros(0)
            return owner[:0], none, none, none
        centre = 0.5 * low + 0.5 * high
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            pieces = self.lines.pieces(self.which[owner], low, high)
            self._take(owner, centre, *pieces.centre_scores())
            outer = inherited
            for _ in range(ROUNDS if pieces.sharpens else 1):
                found = pieces.bound(int(self.sign), self.inner[owner] + self.tolerance)
                outer = np.fmin(outer, found.outer)
                open_pieces = np.flatnonzero(~self._fathomed(owner, outer) & np.isfinite(found.point))
                if not len(open_pieces):
                    break
                mine = owner[open_pieces]
                points = np.clip(found.point[open_pieces], self.low[mine], self.high[mine])
                self._take(mine, points, *self.lines.evaluate(self.which[mine], points))
        self.boxes += len(owner)
        self.budget.spend(boxes=len(owner))
        left = ~self._fathomed(owner, outer) & (low < centre) & (centre < high)
        self._drop(owner[~left], outer[~left])
        owner, centre, outer = owner[left], centre[left], outer[left]
        return (
            np.repeat(owner, 2),
            np.stack([low[left], centre], axis=1).ravel(),
            np.stack([centre, high[left]], axis=1).ravel(),
            np.repeat(outer, 2),
        )

    def _take(self, owner: IntArray, points: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Let points [B] of the owners' intervals, with bounds of their scores, be witnesses where they are better."""
        attained = low if self.sign > 0 else -high
        attained = np.where(np.isnan(attained), -np.inf, attained)
        best = np.full(len(self.score), -np.inf)
        np.maximum.at(best, owner, attained)
        rows = np.flatnonzero((attained == best[owner]) & (attained > self.score[owner]))
        if not len(rows):
            return
        mine = owner[rows]
        p_low, p_high = self.lines.outward_probability(low[rows], high[rows])
        self.score[mine], self.witness[mine] = attained[rows], points[rows]
        self.inner[mine] = p_low if self.sign > 0 else -p_high
        self.rounding[mine] = p_high - p_low

    def _fathomed(self, owner: IntArray, outer: FloatArray) -> BoolArray:
        """Tell which pieces cannot change their interval's answer."""
        low, high = self.lines.outward_probability(self.sign * outer, self.sign * outer)
        probability = high if self.sign > 0 else -low
        slack = np.maximum(self.tolerance, 2.0 * self.rounding[owner])
        return np.asarray(probability <= self.inner[owner] + slack)

    def _drop(self, owner: IntArray, outer: FloatArray) -> None:
        np.maximum.at(self.closed, owner, np.where(np.isnan(outer), np.inf, outer))
