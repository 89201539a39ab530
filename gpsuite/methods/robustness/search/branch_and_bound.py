"""Batched best-first branch and bound for the extremum of a score over a region.

Algorithm 1 of Blaas et al. (2020), with batches, inherited bounds, and an outer bound over both open and fathomed
boxes. It does not depend on Gaussian processes: any function with bounds over boxes can be searched.

Equation: Blaas et al. 2020, Algorithm 1
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.search.tree import GrowingTree, Pool, SearchTree

Attack = Callable[[FloatArray], FloatArray]
"""From a point [d] of the region to a better one [d] in the region."""

Candidates = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""From boxes lo, hi [B, d] to points [B, C, d] that promise an extremum and their scores [B, C]."""


class UnsoundBoundError(ArithmeticError):
    """Raised if a point attains more than the bound allows, with rounding: the bounding function is wrong."""


class ScoreBounds(Protocol):
    """Part of a bounding function's answer that a search uses. Arrays [B], `split_score` [B, d]."""

    @property
    def low(self) -> FloatArray: ...
    @property
    def high(self) -> FloatArray: ...
    @property
    def centre(self) -> FloatArray: ...
    @property
    def split_score(self) -> FloatArray: ...


class BoxBounding(Protocol):
    """Bounds a score over boxes of the free inputs, and maps the score to a probability, increasing."""

    def bounds(self, lo: FloatArray, hi: FloatArray) -> ScoreBounds:
        """Bound the score over boxes [B, d]. NaN counts as no bound."""
        ...

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound the score at points [B, d]. NaN counts as no bound."""
        ...

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return probabilities of score bounds, also of infinite ones, rounded outwards."""
        ...


@dataclass(frozen=True)
class Extremum:
    """Bounds on a maximum (sign 1) or minimum (sign -1) of the probability. Valid at any time.

    Attributes:
        sign: 1 for a maximum, -1 for a minimum.
        inner: value surely attained at `witness`: the inward end of the probability's interval there. Without a witness
            the trivial 0 (maximum) or 1 (minimum), or a value attained elsewhere (`informed`).
        outer: proved bound: no point of the region exceeds it (maximum) or falls below it (minimum).
        witness: [d] free inputs of the best point found, or None.
        status: "closed" (gap within the tolerance), "decided" (the threshold is decided), "exhausted" (the remaining
            boxes cannot be cut in floating point) or "budget".
        reason: reason of the end, in words.
        boxes: number of bounded boxes.
        seconds: wall-clock time.
        trace: [k, 4] boxes, seconds, inner, outer each time one of the last two changed.
        tree: all boxes with the bounds of the score.
        rounding: width of the probability's interval at `witness`.
        proved: whether `inner` and `outer` are proved. False if they use a cubature with a stated but unproved error.
    """

    sign: int
    inner: float
    outer: float
    witness: FloatArray | None
    status: str
    reason: str
    boxes: int
    seconds: float
    trace: FloatArray
    tree: SearchTree
    rounding: float
    proved: bool = True

    @property
    def gap(self) -> float:
        """Distance of `outer` from `inner`, >= 0."""
        return max(0.0, self.sign * (self.outer - self.inner))

    def informed(self, proved: float, attained: float = math.nan) -> Extremum:
        """Return the result improved by a bound and a value from elsewhere, if a budget ended the search.

        Trace and witness stay those of the search. Without a witness `inner` may come from elsewhere.

        Args:
            proved: no point of the region exceeds it (maximum) or falls below it (minimum). It counts if it is better.
            attained: value surely attained in the region, or NaN. It counts if the search has no witness.
        """
        if self.status != "budget":
            return self
        nearer, further = (np.fmin, np.fmax) if self.sign > 0 else (np.fmax, np.fmin)
        inner = self.inner if self.witness is not None else float(further(self.inner, attained))
        return replace(self, outer=float(nearer(self.outer, proved)), inner=inner)


def branch_and_bound(
    bounding: BoxBounding,
    region: Region,
    tolerance: float,
    budget: Budget,
    sign: int = 1,
    incumbent: FloatArray | None = None,
    attack: Attack | None = None,
    batch: int = 64,
    decide: float | None = None,
    candidates: Candidates | None = None,
) -> Extremum:
    """Search the maximum (`sign=1`) or minimum (`sign=-1`) of the probability over the region.

    Args:
        bounding: bounds over boxes of the free inputs [B, d].
        region: inputs over which the claim holds, such as `robustness.linf_ball`.
        tolerance: largest gap between attained and proved probability, >= 0.
        budget: seconds and boxes. At its end the best valid bounds are returned.
        sign: 1 for the maximum, -1 for the minimum.
        incumbent: [m, d] points to try first. Those outside the region are left out.
        attack: local search from a point, used at the start and when a box's centre beats the incumbent.
        batch: boxes bounded at once, at least 2.
        decide: probability. Stop as soon as it is known on which side of it the extremum is. Equality counts as below.
            Boxes that cannot cross it are dropped. `tolerance` only ends a tie.
        candidates: function of points to try in every box in addition to its centre (Blaas et al. 2020, App. D), such
            as `PaperBound.candidates`.

    Raises:
        ValueError: if tolerance, sign or batch is out of range.
        UnsoundBoundError: if a point of the region attains more than the bounds allow.
    """
    if not tolerance >= 0 or sign not in (-1, 1) or batch < 2:
        raise ValueError("tolerance >= 0, sign = 1 or -1 and batch >= 2 are needed")
    search = Search(bounding, region, tolerance, budget, sign, attack, batch, decide, candidates)
    return search.run(incumbent)


class Search:
    """One run. `signed` scores and probabilities are multiplied by `sign`: every search is for a maximum."""

    def __init__(
        self,
        bounding: BoxBounding,
        region: Region,
        tolerance: float,
        budget: Budget,
        sign: int,
        attack: Attack | None,
        batch: int,
        decide: float | None,
        candidates: Candidates | None,
    ) -> None:
        self.bounding, self.region, self.tolerance = bounding, region, tolerance
        self.budget, self.sign, self.attack, self.batch = budget, sign, attack, batch
        self.decide = decide
        self.candidates = candidates
        self.started, self.boxes, self.bounding_seconds = budget.elapsed, 0, 0.0
        self.tree, self.pool = GrowingTree(), Pool(len(region.free))
        self.closed = -np.inf  # largest signed score bound among the dropped boxes
        self.witness: FloatArray | None = None
        self.score = -np.inf  # signed score surely attained by the witness
        self.inner, self.rounding = 0.0 if sign > 0 else -1.0, 0.0
        self.trace: list[tuple[float, float, float, float]] = []

    def run(self, incumbent: FloatArray | None) -> Extremum:
        """Search until the answer is decided or the budget ends. `incumbent` holds points [m, d] to try first."""
        root = self.region.lower[None], self.region.upper[None]
        none = np.array([-1])
        if self.budget.exhausted:
            self.tree.append(none, none, np.zeros(1), np.array([np.inf]), none * 0, np.zeros(1, dtype=bool))
            self.closed = np.inf
            return self._result("budget", self.budget.reason)
        self._begin(self.region.start[None] if incumbent is None else np.vstack([self.region.start, incumbent]))
        self._add(*root, none, none, np.zeros(1))
        while True:
            self._note()
            ended = self._ended()
            if ended is not None:
                return self._result(*ended)
            self._branch(self._allowed() // 2)

    def _begin(self, points: FloatArray) -> None:
        """Find a first incumbent."""
        self._offer(points)
        self._improve()

    def _ended(self) -> tuple[str, str] | None:
        if self.decide is not None and self._crosses(self.inner):
            return "decided", "an attained value reaches the threshold"
        if not len(self.pool) or self._fathomed(np.array([self.pool.best]))[0]:
            return self._covered()
        if self.budget.exhausted:
            return "budget", self.budget.reason
        if self._allowed() < 2:
            return "budget", f"{self.budget.boxes} boxes used up"
        return None

    def _covered(self) -> tuple[str, str]:
        """Return status and reason if no box is worth cutting any more."""
        outer = self._outer()
        if self.decide is not None and not self._crosses(outer):
            return "decided", "no box reaches the threshold"
        if outer <= self.inner + self.tolerance:
            return "closed", "attained value and bound agree within the tolerance"
        if outer <= self.inner + self._resolution():
            return "exhausted", f"values are known to {self.rounding:.2g} only, by rounding"
        return "exhausted", "the remaining boxes cannot be cut in floating point"

    def _allowed(self) -> int:
        """Return how many boxes the next batch may have, from the boxes and seconds that are left."""
        allowed = self.batch
        if self.budget.boxes is not None:
            allowed = min(allowed, self.budget.boxes - self.budget.spent_boxes)
        if self.budget.seconds is not None and self.boxes:
            left = (self.budget.seconds - self.budget.elapsed) * self.boxes / max(self.bounding_seconds, 1e-9)
            allowed = min(allowed, max(2, int(min(left, 1e9))))
        return allowed

    def _branch(self, count: int) -> None:
        slots = self.pool.pop(count)
        dim, cut = self.pool.dim[slots], self.pool.cut[slots]
        lo, hi = (np.repeat(ends[slots], 2, axis=0) for ends in (self.pool.lo, self.pool.hi))
        pair = np.arange(len(slots))
        hi[2 * pair, dim] = cut
        lo[2 * pair + 1, dim] = cut
        parent = np.repeat(self.pool.node[slots], 2)
        self._add(lo, hi, parent, np.repeat(dim, 2), np.repeat(cut, 2))

    def _add(self, lo: FloatArray, hi: FloatArray, parent: IntArray, dim: IntArray, cut: FloatArray) -> None:
        """Bound new boxes, note them as nodes and keep those that may beat the incumbent."""
        node = np.arange(self.tree.size, self.tree.size + len(lo))
        inherited, origin = np.full(len(lo), np.inf), node
        if parent[0] >= 0:
            inherited, origin = self.tree.bound(parent), self.tree.proved(parent)
        small, large, meets = self.region.contract(lo, hi)
        bound, proved = np.full(len(lo), -np.inf), node.copy()
        score = np.zeros(lo.shape)
        if meets.any():
            own, score[meets] = self._bounds(small[meets], large[meets])
            bound[meets] = np.minimum(own, inherited[meets])
            proved[meets] = np.where(own <= inherited[meets], node[meets], origin[meets])
        self.tree.append(parent, dim, cut, bound, proved, ~meets)
        axis, middle, divisible = choose_cuts(small, large, score)
        keep = meets & divisible & ~self._fathomed(bound)
        dropped = bound[meets & ~keep]
        self.closed = max(self.closed, float(dropped.max(initial=-np.inf)))
        self.pool.push(bound[keep], node[keep], lo[keep], hi[keep], axis[keep], middle[keep])

    def _bounds(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return signed outer bounds [B] (infinite for NaN) and split scores. Try centres and candidates."""
        before = self.budget.elapsed
        answer = self.bounding.bounds(lo, hi)
        points, scores = 0.5 * lo + 0.5 * hi, answer.centre
        if self.candidates is not None:
            more, their_scores = self.candidates(lo, hi)
            points = np.vstack([points, more.reshape(-1, lo.shape[1])])
            scores = np.concatenate([scores, their_scores.ravel()])
        self.bounding_seconds += self.budget.elapsed - before
        self.boxes += len(lo)
        self.budget.spend(boxes=len(lo))
        outer = answer.high if self.sign > 0 else -answer.low
        scores = self.sign * scores
        better = np.flatnonzero(scores > self.score)  # false for NaN
        better = better[self.region.contains(points[better])] if len(better) else better
        if len(better) and self._offer(points[better[np.argmax(scores[better])]][None]):
            self._improve()
        return np.where(np.isnan(outer), np.inf, outer), answer.split_score

    def _offer(self, points: FloatArray) -> bool:
        """Take the best of `points` [m, d] as incumbent if it surely attains more. Return whether the gain is large."""
        points = np.clip(points, self.region.lower, self.region.upper)
        points = points[self.region.contains(points)]
        return bool(len(points)) and self._take(points, *self.bounding.evaluate(points))

    def _take(self, points: FloatArray, low: FloatArray, high: FloatArray) -> bool:
        """Take the best of points of the region, with bounds of their scores, as `_offer` does."""
        attained = low if self.sign > 0 else -high
        best = int(np.argmax(np.where(np.isnan(attained), -np.inf, attained)))
        if not attained[best] > self.score:
            return False
        before = self.inner
        self.score, self.witness = float(attained[best]), points[best].copy()
        p_low, p_high = self.bounding.outward_probability(low[best : best + 1], high[best : best + 1])
        self.inner = float(p_low[0] if self.sign > 0 else -p_high[0])
        self.rounding = float(p_high[0] - p_low[0])
        return self.inner > before + 0.1 * self.tolerance

    def _improve(self) -> None:
        if self.decide is not None and self._crosses(self.inner):
            return
        if self.attack is not None and self.witness is not None and not self.budget.exhausted:
            reached = self.attack(self.witness)
            if not np.array_equal(reached, self.witness):
                self._offer(reached[None])

    def _fathomed(self, bound: FloatArray) -> BoolArray:
        """Return which boxes cannot change the answer."""
        probability = self._outer_probability(bound)
        within: BoolArray = probability <= self.inner + max(self.tolerance, self._resolution())
        if self.decide is not None:
            within = within | ~self._crosses(probability)
        return within

    def _resolution(self) -> float:
        """Return the gap that no cut can close, since point and box are known only up to rounding.

        It is 0 for a decision as long as the witness may still be on the other side of the threshold.
        """
        open_decision = self.decide is not None and not self._crosses(self.inner + self.rounding)
        return 0.0 if open_decision else 2.0 * self.rounding

    def _crosses(self, signed: Any) -> Any:
        """Return which signed probabilities are beyond the threshold: a maximum exceeds it, a minimum reaches it."""
        assert self.decide is not None
        return signed > self.decide if self.sign > 0 else signed >= -self.decide

    def _outer_probability(self, signed: FloatArray) -> FloatArray:
        low, high = self.bounding.outward_probability(self.sign * signed, self.sign * signed)
        return high if self.sign > 0 else -low

    def _outer(self) -> float:
        return float(self._outer_probability(np.array([max(self.closed, self.pool.best)]))[0])

    def _note(self) -> None:
        inner, outer = self.sign * self.inner, self.sign * self._outer()
        if not self.trace or self.trace[-1][2:] != (inner, outer):
            self.trace.append((float(self.boxes), self.budget.elapsed - self.started, inner, outer))

    def _result(self, status: str, reason: str) -> Extremum:
        outer = self._outer()
        if self.inner > outer:
            raise UnsoundBoundError(
                f"attained {self.sign * self.inner:.17g} at {self.witness}, bound {self.sign * outer:.17g}"
            )
        return Extremum(
            sign=self.sign,
            inner=self.sign * self.inner,
            outer=self.sign * outer,
            witness=self.witness,
            status=status,
            reason=reason,
            boxes=self.boxes,
            seconds=self.budget.elapsed - self.started,
            trace=np.array(self.trace).reshape(-1, 4),
            tree=self.tree.finish(self.sign),
            rounding=self.rounding,
        )


def choose_cuts(lo: FloatArray, hi: FloatArray, split_score: FloatArray) -> tuple[IntArray, FloatArray, BoolArray]:
    """Return for boxes [B, d] the input to cut, the midpoint, and whether any cut is possible.

    An input can be cut if its midpoint is a float strictly inside. Of these the one with the largest score is taken. If
    no score is positive and finite, the widest one is taken.
    """
    middle = 0.5 * lo + 0.5 * hi
    inside = (middle > lo) & (middle < hi)
    score = np.where(np.isfinite(split_score) & inside, split_score, 0.0)
    width = np.where(inside, hi - lo, -1.0)
    silent = score.max(axis=1, keepdims=True) <= 0
    axis = np.argmax(np.where(silent, width, np.where(inside, score, -1.0)), axis=1)
    rows = np.arange(len(lo))
    return axis, middle[rows, axis], inside[rows, axis]
