"""Branch and bound with the level bound: a root that usually settles it, then best-first cuts.

Every bound is sharp at the score that would still matter, that of the attained probability plus the tolerance; the
score only rises, and a bound for one threshold stays valid for all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpsuite.budget import Budget
from gpsuite.methods.robustness.box_bounds import FloatArray, IntArray
from gpsuite.methods.robustness.branch_and_bound import Extremum, UnsoundBoundError, choose_cuts
from gpsuite.methods.robustness.level_bound.incumbent import Incumbent
from gpsuite.methods.robustness.level_bound.latent_model import Expansion
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound, ScoreBounds
from gpsuite.methods.robustness.regions import Region
from gpsuite.methods.robustness.search_tree import GrowingTree, Pool

BATCH = 16
ROUNDS = 3
ATTACK_STEPS = 3
POLISH_STEPS = 2
# A box whose models leave out more than this share of its surplus is cut where it is widest.
_COARSE = 0.3
_FLOOR = 1e-3

Root = tuple[Expansion, FloatArray]


def level_search(
    bound: LevelBound,
    region: Region,
    tolerance: float,
    budget: Budget,
    sign: int = 1,
    decide: float | None = None,
    batch: int = BATCH,
    root: Root | None = None,
) -> Extremum:
    """Search the maximum (`sign=1`) or minimum (`sign=-1`) of the probability over the region.

    Args:
        bound: of the posterior around the region's centre.
        region: where.
        tolerance: largest gap between attained and proved probability, >= 0.
        budget: seconds and boxes; when it ends the best valid bounds are returned.
        sign: 1 for the maximum, -1 for the minimum.
        decide: stop as soon as it is known on which side of this probability the extremum lies.
        batch: boxes bounded at once, at least 2.
        root: `root_expansion` of the region, if it is there already; both ends can share it.

    Raises:
        ValueError: if tolerance, sign or batch is out of range.
        UnsoundBoundError: if a point of the region attains more than the bounds allow.
    """
    if not tolerance >= 0 or sign not in (-1, 1) or batch < 2:
        raise ValueError("tolerance >= 0, sign = 1 or -1 and batch >= 2 are needed")
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        return _Search(bound, region, tolerance, budget, sign, decide, batch).run(root)


def root_expansion(bound: LevelBound, region: Region) -> Root:
    """Return the expansion at the centre of the box around the region, and its scaled half-widths."""
    lo, hi = region.root_box()
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return bound.expand(lo[None], hi[None])


class _Search:
    """One run. Inside, scores and probabilities are those of (sign mean, variance), so it is always a maximum."""

    def __init__(
        self,
        bound: LevelBound,
        region: Region,
        tolerance: float,
        budget: Budget,
        sign: int,
        decide: float | None,
        batch: int,
    ) -> None:
        self.bound, self.region, self.tolerance, self.budget = bound, region, tolerance, budget
        self.sign, self.batch, self.level = sign, batch, bound.level
        self.target = None if decide is None else decide if sign > 0 else 1.0 - decide
        self.started = budget.elapsed
        self.boxes, self.bounding_seconds = 0, 0.0
        self.closed = -np.inf
        self.tree, self.pool = GrowingTree(), Pool(len(region.free))
        self.incumbent = Incumbent(bound, region, sign)
        self.trace: list[tuple[float, float, float, float]] = []

    def run(self, root: Root | None) -> Extremum:
        if self.budget.exhausted:
            none = np.array([-1])
            self.tree.append(none, none, np.zeros(1), np.array([np.inf]), none * 0, np.zeros(1, dtype=bool))
            self.closed = np.inf
            return self._result("budget", self.budget.reason)
        self._root(root or root_expansion(self.bound, self.region))
        while True:
            self._note()
            ended = self._ended()
            if ended is not None:
                self._polish()
                return self._result(*ended)
            self._branch(self._allowed() // 2)

    def _root(self, root: Root) -> None:
        """Bound the root at rising thresholds until its relaxation has nothing better to offer."""
        expansion, radius = root
        form = self.bound.form
        self.incumbent.offer(np.vstack([self.region.start, form.origin + form.lengthscales * expansion.centre[0]]))
        latent = expansion.over(radius)
        best = np.inf
        for _ in range(ROUNDS):
            found = self.bound.bound(expansion.centre, latent, self.sign, self._threshold())
            best = min(best, float(found.high[0]))
            rose = self.incumbent.offer_scaled(found.point)
            if self._settled(best) or not rose:
                break
        if not self._settled(best):
            self.bound = replace(self.bound, form=form.with_slice_norm())
            self.incumbent.bound = self.bound
            self.incumbent.improve(ATTACK_STEPS)
            latent = replace(expansion, form=self.bound.form).over(radius)
            found = self.bound.bound(expansion.centre, latent, self.sign, self._threshold())
            best = min(best, float(found.high[0]))
        self.boxes += 1
        self.budget.spend(boxes=1)
        none = np.array([-1])
        lo, hi = self.region.lower[None], self.region.upper[None]
        self._keep(lo, hi, np.array([best]), none, none, np.zeros(1), found, radius)

    def _polish(self) -> None:
        """Raise the attained value once the bound is fixed; no step leads above the bound."""
        if self.target is None:
            self.incumbent.improve(POLISH_STEPS)

    def _ended(self) -> tuple[str, str] | None:
        inner = self._inner()
        if self.target is not None and inner >= self.target:
            return "decided", "an attained value reaches the threshold"
        if not len(self.pool) or self._settled(self.pool.best):
            return self._covered()
        if self.budget.exhausted:
            return "budget", self.budget.reason
        if self._allowed() < 2:
            return "budget", f"{self.budget.boxes} boxes used up"
        return None

    def _covered(self) -> tuple[str, str]:
        """Say what it means that no box is worth cutting any more."""
        outer = self._outer()
        if self.target is not None and outer < self.target:
            return "decided", "no box reaches the threshold"
        if outer <= self._inner() + self.tolerance:
            return "closed", "attained value and bound agree within the tolerance"
        return "exhausted", "the remaining boxes cannot be cut in floating point"

    def _allowed(self) -> int:
        """How many boxes the next batch may have, by the boxes and the seconds that are left."""
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
        self._add(lo, hi, np.repeat(self.pool.node[slots], 2), np.repeat(dim, 2), np.repeat(cut, 2))

    def _add(self, lo: FloatArray, hi: FloatArray, parent: IntArray, dim: IntArray, cut: FloatArray) -> None:
        """Bound new boxes, try the points of those still open, and keep them."""
        before = self.budget.elapsed
        small, large, meets = self.region.contract(lo, hi)
        expansion, radius = self.bound.expand(small, large)
        latent = expansion.over(radius)
        found = self.bound.bound(expansion.centre, latent, self.sign, self._threshold())
        self.boxes += len(lo)
        self.budget.spend(boxes=len(lo))
        high = np.where(meets, np.fmin(found.high, self.tree.bound(parent)), -np.inf)
        open_boxes = np.array([not self._settled(each) for each in high])
        if open_boxes.any() and self.incumbent.offer_scaled(found.point[open_boxes]):
            self.incumbent.improve(1)
        self._keep(lo, hi, high, parent, dim, cut, found, radius)
        self.bounding_seconds += self.budget.elapsed - before

    def _keep(
        self,
        lo: FloatArray,
        hi: FloatArray,
        high: FloatArray,
        parent: IntArray,
        dim: IntArray,
        cut: FloatArray,
        found: ScoreBounds,
        radius: FloatArray,
    ) -> None:
        """Note boxes as nodes; those that may beat the incumbent go to the pool."""
        node = np.arange(self.tree.size, self.tree.size + len(lo))
        proved = node
        if parent[0] >= 0:
            proved = np.where(found.high <= high, node, self.tree.proved(parent))
        empty = high == -np.inf
        self.tree.append(parent, dim, cut, high, proved, empty)
        surplus = self._surplus(found, radius)
        axis, middle, divisible = choose_cuts(lo, hi, surplus)
        keep = divisible & ~np.array([self._settled(each) for each in high])
        self.closed = max(self.closed, float(high[~keep].max(initial=-np.inf)))
        self.pool.push(high[keep], node[keep], lo[keep], hi[keep], axis[keep], middle[keep])

    def _surplus(self, found: ScoreBounds, radius: FloatArray) -> FloatArray:
        """Return the score of cutting each input: its width, weighted by its share where the relaxation is loose."""
        total = found.share.sum(axis=1, keepdims=True)
        share = found.share / np.where(total > 0.0, total, 1.0)
        coarse = (found.rest > _COARSE * total[:, 0])[:, None]
        return np.where(coarse, radius, radius * np.sqrt(share + _FLOOR))

    def _threshold(self) -> float:
        """Return the score up to which a box's bound closes it."""
        level = self.level.threshold(self._inner() + self.tolerance)
        return level if self.target is None else max(level, self.level.threshold(self.target))

    def _settled(self, high: float) -> bool:
        """Tell whether a box with this bound cannot change the answer."""
        p = float(self.level.outward_probability(np.array(high)))
        return p <= self._inner() + self.tolerance or (self.target is not None and p < self.target)

    def _inner(self) -> float:
        """Return the attained probability, rounded down."""
        if self.incumbent.point is None:
            return 0.0
        p = float(self.level.probability(np.array(self.incumbent.score)))
        return p * (1.0 - 1e-13)

    def _outer(self) -> float:
        return float(self.level.outward_probability(np.array(max(self.closed, self.pool.best))))

    def _signed(self, p: float) -> float:
        return p if self.sign > 0 else 1.0 - p

    def _note(self) -> None:
        inner, outer = self._signed(self._inner()), self._signed(self._outer())
        if not self.trace or self.trace[-1][2:] != (inner, outer):
            self.trace.append((float(self.boxes), self.budget.elapsed - self.started, inner, outer))

    def _result(self, status: str, reason: str) -> Extremum:
        inner, outer = self._inner(), self._outer()
        if inner > outer:
            raise UnsoundBoundError(f"attained {inner:.17g} at {self.incumbent.point}, bound {outer:.17g}")
        tree = self.tree.finish(1)
        if self.sign < 0:
            tree = replace(tree, bound=self.level.reflected(tree.bound))
        return Extremum(
            sign=self.sign,
            inner=self._signed(inner),
            outer=self._signed(outer),
            witness=self.incumbent.point,
            status=status,
            reason=reason,
            boxes=self.boxes,
            seconds=self.budget.elapsed - self.started,
            trace=np.array(self.trace).reshape(-1, 4),
            tree=tree,
        )
