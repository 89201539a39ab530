"""Certified ranges of class probabilities of several classes over regions around a point, and verdicts on its class.

Equation: Blaas et al. 2020, Sec. 5, Definition 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import softmax

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.errors import unknown_name
from gpsuite.methods.robustness.class_probability import BoundingFunction, clipped
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound, level_bound
from gpsuite.methods.robustness.level_bound.level_search import Root, level_search, root_model
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import PaperSoftmaxBound
from gpsuite.methods.robustness.multiclass.robust_max_bound import RobustMaxBound
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends, Proof, SoftmaxBound
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.search.attacks import climb, gpfgs, local_search
from gpsuite.methods.robustness.search.branch_and_bound import Attack, Extremum, branch_and_bound
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import (
    HALF,
    POSITIVE,
    ClassRange,
    PointClasses,
    PointProbability,
    Verdict,
    class_range,
    judge,
)
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.registry import Registry

RESOLUTION = 1e-6  # when only the class is asked for, a search ends at ties this close
BATCH = 16


class ClassBound(Protocol):
    """Bounds for every class around a point; see `SoftmaxBound`, `PaperSoftmaxBound` and `RobustMaxBound`."""

    def class_bounds(self, lo: FloatArray, hi: FloatArray, own: int) -> Ends:
        """Bound the probability of a class over boxes [B, d]."""

    def margin_bounds(self, lo: FloatArray, hi: FloatArray, own: int, rival: int) -> Ends:
        """Bound p_own - p_rival over boxes [B, d]."""

    def at(self, points: FloatArray) -> Any:
        """Return what is known at points [B, d], with `proved`: whether those are bounds."""

    def class_of(self, local: Any, own: int) -> tuple[FloatArray, FloatArray]:
        """Bound the probability of a class at points that are known, [B] each."""

    def margin_of(self, local: Any, own: int, rival: int) -> tuple[FloatArray, FloatArray]:
        """Bound p_own - p_rival at points that are known, [B] each."""


def _rkhs_taylor(posterior: MultiClassPosterior, x0: FloatArray, free: IntArray) -> ClassBound:
    """Return the bound of the posterior's likelihood, the softmax or the robust maximum."""
    if isinstance(posterior, RobustMaxPosterior):
        return RobustMaxBound(posterior, x0, free)
    return SoftmaxBound(posterior, x0, free)


BOUNDS: Registry[Callable[[MultiClassPosterior, FloatArray, IntArray], ClassBound]] = Registry("bound")
BOUNDS.register("rkhs_taylor")(_rkhs_taylor)
BOUNDS.register("paper")(PaperSoftmaxBound)


@dataclass(frozen=True)
class Quantity:
    """What a search is about: a class probability, or (1 + p_own - p_rival) / 2, which is above 1/2 where own wins.

    Attributes:
        bound: of the posterior.
        own: the class.
        rival: the other one, or None for the class probability itself.
        proof: of all that was asked for.
    """

    bound: ClassBound
    own: int
    rival: int | None = None
    proof: Proof = field(default_factory=Proof, compare=False)

    def bounds(self, lo: FloatArray, hi: FloatArray) -> Ends:
        """Bound the quantity over boxes lo[b] <= x_free <= hi[b], [B, d]."""
        if self.rival is None:
            ends = self.bound.class_bounds(lo, hi, self.own)
            self.proof.note(ends.proved)
            return ends
        ends = self.bound.margin_bounds(lo, hi, self.own, self.rival)
        self.proof.note(ends.proved)
        low, high, centre = (_half(each) for each in (ends.low, ends.high, ends.centre))
        return Ends(low - 1e-16, high + 1e-16, centre, ends.split_score, ends.proved)

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] at points [B, d]."""
        return self.at(self.bound.at(points))

    def at(self, local: Any) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] at points that are known."""
        self.proof.note(local.proved)
        if self.rival is None:
            return self.bound.class_of(local, self.own)
        low, high = self.bound.margin_of(local, self.own, self.rival)
        return _half(low) - 1e-16, _half(high) + 1e-16

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds clipped to [0, 1]; NaN gives 0 and 1."""
        return clipped(low, high)


def _half(margin: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * margin)


class MultiClassSearch:
    """Searches over regions around one point: its bound and its own class are found once.

    Args:
        posterior: of C classes.
        centre: the point, [D].
        free: indices of the inputs that may move, [d].
        bound: "rkhs_taylor", or "paper" (three classes, squared exponential).

    Attributes:
        bound: of every class.
        centre: the class probabilities at the point.

    Raises:
        ValueError: if the point or the inputs do not fit the classifier.
    """

    def __init__(
        self, posterior: MultiClassPosterior, centre: FloatArray, free: IntArray, bound: str = "rkhs_taylor"
    ) -> None:
        self.posterior, self.point, self.free = posterior, np.asarray(centre, dtype=np.float64), free
        self.bound: ClassBound = BOUNDS.get(bound)(posterior, self.point, free)
        self.centre = self._point_classes()

    def proves(self, found: Iterable[Extremum]) -> bool:
        """Return whether the point's class and what searches found are proved, by cubatures whose error is."""
        return self.centre.proved and all(each.proved for each in found)

    def range(self, own: int, region: Region, tolerance: float, budget: Budget) -> ClassRange:
        """Bound the smallest and the largest probability of a class over a region from both sides.

        Args:
            own: the class.
            region: around the point.
            tolerance: largest gap between attained and proved probability.
            budget: for both searches; the minimum gets half of the boxes and seconds, the maximum what is left.

        Raises:
            ValueError: if tolerance is out of range, or the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        first = budget.part(2)
        quantity = Quantity(self.bound, own)
        attacks = [self._attack(region, quantity, sign) for sign in (-1, 1)]
        starts = _reached(region, attacks)
        minimum = self._search(quantity, region, -1, tolerance, first, None, attacks[0], starts)
        budget.spend(boxes=minimum.boxes)
        maximum = self._search(quantity, region, 1, tolerance, budget, None, attacks[1], starts)
        return class_range(own, self.centre, minimum, maximum, region)

    def extremum(self, own: int, region: Region, sign: int, tolerance: float, budget: Budget) -> Extremum:
        """Bound the largest (`sign=1`) or smallest (`sign=-1`) probability of a class over a region.

        Raises:
            ValueError: if sign or tolerance is out of range, or the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        quantity = Quantity(self.bound, own)
        attack = self._attack(region, quantity, sign)
        return self._search(quantity, region, sign, tolerance, budget, None, attack, _reached(region, [attack]))

    def decide(self, region: Region, budget: Budget) -> tuple[Verdict, dict[int, Extremum]]:
        """Decide whether the whole region has the point's class, by one search of the margin for every other class.

        The rival that is nearest at the point comes first; a counterexample ends it. All searches begin with the
        bounds of the whole region, and those that these leave open with the points that attacks reach.

        Returns:
            the verdict, and what was found of the margin for every rival that was searched, in the order of classes.

        Raises:
            ValueError: if the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        self._require_own(region)
        contests = self.centre.contests
        if self.centre.undecided:
            return Verdict("unknown", self.centre.undecided), {}
        found: dict[int, Extremum] = {}
        nearest = sorted(contests, key=lambda each: -self.centre.values[each.rival])
        quantities = [Quantity(self.bound, contest.own, contest.rival) for contest in nearest]
        attacks: list[Attack | None] = [None] * len(nearest)
        starts = region.start[None][:0]
        if not budget.exhausted:
            whole = [each[None] for each in region.root_box()]
            attacks = [
                self._attack(region, quantity, -1) if contest.crossed(float(quantity.bounds(*whole).low[0])) else None
                for contest, quantity in zip(nearest, quantities, strict=True)
            ]
            starts = _reached(region, [attack for attack in attacks if attack is not None])
        for contest, quantity, attack in zip(nearest, quantities, attacks, strict=True):
            extremum = self._search(quantity, region, -1, RESOLUTION, budget, HALF, attack, starts)
            found[contest.rival] = extremum
            if extremum.witness is not None and contest.crossed(extremum.inner):
                reason = f"class {contest.rival} is ahead by {1.0 - 2.0 * extremum.inner:.6g}"
                witness = region.embed(extremum.witness)
                return Verdict("unsafe", reason, witness), dict(sorted(found.items()))
        extrema = {contest.rival: found[contest.rival] for contest in contests}
        return judge(self.centre, list(extrema.values()), region), extrema

    def _search(
        self,
        quantity: Quantity,
        region: Region,
        sign: int,
        tolerance: float,
        budget: Budget,
        decide: float | None,
        attack: Attack | None,
        starts: FloatArray,
    ) -> Extremum:
        found = branch_and_bound(quantity, region, tolerance, budget, sign, starts, attack, batch=BATCH, decide=decide)
        return replace(found, proved=quantity.proof.proved)

    def _require_own(self, region: Region) -> None:
        if not (np.array_equal(region.centre, self.point) and np.array_equal(region.free, self.free)):
            raise ValueError("the region is around another point, or has other free inputs")

    def _attack(self, region: Region, quantity: Quantity, sign: int) -> Attack:
        self._require_own(region)
        return _settled(plug_in_attack(self.posterior, region, quantity, sign))

    def _point_classes(self) -> PointClasses:
        known = self.bound.at(self.point[self.free][None])
        ends = [self.bound.class_of(known, own) for own in range(self.posterior.n_classes)]
        low, high = (np.array([end[side][0] for end in ends]) for side in (0, 1))
        values = 0.5 * (low + high)
        own = int(np.argmax(values))
        lead = [
            1.0 if rival == own else float(Quantity(self.bound, own, rival).at(known)[0][0])
            for rival in range(len(values))
        ]
        return PointClasses(values, low, high, known.proved, np.array(lead))


def _settled(attack: Attack) -> Attack:
    """Return the attack, which stays where it has led to before."""
    ends: set[bytes] = set()

    def run(start: FloatArray) -> FloatArray:
        end = start if start.tobytes() in ends else attack(start)
        ends.add(end.tobytes())
        return end

    return run


def _reached(region: Region, attacks: Sequence[Attack]) -> FloatArray:
    """Return the points [K, d] that attacks from the centre reach."""
    return np.array([attack(region.start) for attack in attacks]).reshape(-1, len(region.free))


def margin_attack(
    search: MultiClassSearch, region: Region, starts: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Search points at which other classes come near or win, by local search from several starts for every rival.

    The starts are the centre and uniform points of the box, projected to the region.

    Returns:
        the best point of every rival [C - 1, d], upper bounds of the margin p_own - p_rival there, and the rivals.
    """
    own, bound = search.centre.own, search.bound
    random = rng.uniform(region.lower, region.upper, size=(max(0, starts - 1), len(region.free)))
    first = region.project(np.vstack([region.start[None], random]))
    rivals = [rival for rival in range(search.posterior.n_classes) if rival != own]
    points, margins = [], []
    for rival in rivals:
        attack = plug_in_attack(search.posterior, region, Quantity(bound, own, rival), -1)
        found = np.vstack([first, np.array([attack(start) for start in first])])
        high = bound.margin_of(bound.at(found), own, rival)[1]
        best = int(np.argmin(high))
        points.append(found[best])
        margins.append(high[best])
    return np.array(points), np.array(margins), np.array(rivals, dtype=np.int64)


def plug_in_attack(posterior: MultiClassPosterior, region: Region, quantity: Quantity, sign: int) -> Attack:
    """Return a local search with the softmax of the latent means in place of its expectation: exact gradients, cheap.

    What it finds is evaluated before it counts.
    """
    own, rival = quantity.own, quantity.rival

    def objective(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = region.embed(points)
        mean, gradient = posterior.mean_with_gradient(x)
        slope = gradient[:, :, region.free]
        if rival is not None:
            margin, steepest = mean[:, own] - mean[:, rival], slope[:, own] - slope[:, rival]
            return np.asarray(sign * margin), np.asarray(sign * steepest)
        others = np.delete(mean, own, axis=1)
        weights = softmax(others, axis=1)
        top = np.log(np.exp(others - others.max(axis=1, keepdims=True)).sum(axis=1)) + others.max(axis=1)
        moved = np.einsum("bj,bjd->bd", weights, np.delete(slope, own, axis=1))
        return np.asarray(sign * (mean[:, own] - top)), np.asarray(sign * (slope[:, own] - moved))

    return climb(objective, region)


BoundBuilder = Callable[[GPCPosterior, FloatArray, IntArray], BoundingFunction]


class PointSearch:
    """Searches over regions around one point: its bound and its own class are found once, for all radii and ends.

    Args:
        posterior: the classifier.
        centre: the point, [D].
        free: indices of the inputs that may move, [d].
        bound: name in `bound_names()`, or a function building the bound for (posterior, centre, free inputs).

    Attributes:
        bounding: the bound.
        centre: the class probability at the point.

    Raises:
        UserError: for an unknown bound.
        ValueError: if the point or the inputs do not fit the classifier.
    """

    def __init__(
        self, posterior: GPCPosterior, centre: FloatArray, free: IntArray, bound: str | BoundBuilder = "rkhs_taylor"
    ) -> None:
        self.posterior, self.point, self.free = posterior, np.asarray(centre, dtype=np.float64), free
        self.bounding = _builder(bound)(posterior, self.point, free)
        self.centre = point_probability(self.bounding, self.point[free])

    def range(self, region: Region, tolerance: float, budget: Budget) -> ClassRange:
        """Bound the smallest and the largest class probability over a region from both sides.

        Args:
            region: around the point.
            tolerance: largest gap between attained and proved probability.
            budget: for both searches; the minimum gets half of the boxes and seconds, the maximum what is left.

        Raises:
            ValueError: if tolerance is out of range, or the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        first = budget.part(2)
        root = None
        if isinstance(self.bounding, LevelBound) and not budget.exhausted:
            root = root_model(self.bounding, region)
        minimum = self._search(region, tolerance, first, -1, None, root)
        budget.spend(boxes=minimum.boxes)
        maximum = self._search(region, tolerance, budget, 1, None, root)
        return class_range(POSITIVE, self.centre, minimum, maximum, region)

    def extremum(self, region: Region, sign: int, tolerance: float, budget: Budget) -> Extremum:
        """Bound the largest (`sign=1`) or smallest (`sign=-1`) class probability over a region.

        Raises:
            ValueError: if sign or tolerance is out of range, or the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        return self._search(region, tolerance, budget, sign, None)

    def decide(self, region: Region, budget: Budget) -> tuple[Verdict, Extremum]:
        """Decide only whether the whole region has the point's class; cheaper than the range.

        One search towards the other class, ended by the first counterexample or when no box reaches the threshold.

        Raises:
            ValueError: if the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        contest = self.centre.contest
        extremum = self._search(region, RESOLUTION, budget, contest.sign, contest.threshold)
        return judge(self.centre, (extremum,), region), extremum

    def attained(self, points: FloatArray, sign: int) -> FloatArray:
        """Return what a search for the maximum (`sign=1`) or minimum (-1) surely attains at points [B, d], [B]."""
        low, high = self.bounding.outward_probability(*self.bounding.evaluate(points))
        return low if sign > 0 else high

    def _search(
        self,
        region: Region,
        tolerance: float,
        budget: Budget,
        sign: int,
        decide: float | None,
        root: Root | None = None,
    ) -> Extremum:
        if not (np.array_equal(region.centre, self.point) and np.array_equal(region.free, self.free)):
            raise ValueError("the region is around another point, or has other free inputs")
        attack = local_search(self.posterior, region, sign)
        if isinstance(self.bounding, LevelBound):
            return level_search(self.bounding, region, tolerance, budget, sign, decide, root=root, attack=attack)
        incumbent = None if budget.exhausted else gpfgs(self.posterior, region)[None, region.free]
        return branch_and_bound(self.bounding, region, tolerance, budget, sign, incumbent, attack, decide=decide)


def probability_range(
    posterior: GPCPosterior, region: Region, tolerance: float, budget: Budget, bound: str | BoundBuilder = "rkhs_taylor"
) -> ClassRange:
    """Return `PointSearch.range` around the region's centre, for a single region."""
    return PointSearch(posterior, region.centre, region.free, bound).range(region, tolerance, budget)


def certify_class(
    posterior: GPCPosterior, region: Region, budget: Budget, bound: str | BoundBuilder = "rkhs_taylor"
) -> tuple[Verdict, Extremum]:
    """Return `PointSearch.decide` around the region's centre, for a single region."""
    return PointSearch(posterior, region.centre, region.free, bound).decide(region, budget)


def probability_extremum(
    posterior: GPCPosterior,
    region: Region,
    sign: int,
    tolerance: float,
    budget: Budget,
    bound: str | BoundBuilder = "rkhs_taylor",
) -> Extremum:
    """Return `PointSearch.extremum` around the region's centre, for a single region."""
    search = PointSearch(posterior, region.centre, region.free, bound)
    return search.extremum(region, sign, tolerance, budget)


def bound_names() -> list[str]:
    """Return the names that `bound=` takes."""
    return sorted(_BOUNDS)


def build_bound(bound: str | BoundBuilder, posterior: GPCPosterior, region: Region) -> BoundingFunction:
    """Build the bounding function for a region.

    Raises:
        UserError: for an unknown name.
    """
    return _builder(bound)(posterior, region.centre, region.free)


def _builder(bound: str | BoundBuilder) -> BoundBuilder:
    if not isinstance(bound, str):
        return bound
    if bound not in _BOUNDS:
        raise unknown_name("bound", bound, _BOUNDS)
    return _BOUNDS[bound]


def point_probability(bounding: BoundingFunction, point: FloatArray) -> PointProbability:
    """Return the class probability at one point [d] of the free inputs, by the route that also judges witnesses."""
    low, high = bounding.evaluate(point[None])
    p_low, p_high = bounding.outward_probability(low, high)
    value = bounding.to_probability(0.5 * low + 0.5 * high)
    return PointProbability(float(value[0]), float(p_low[0]), float(p_high[0]))


def _paper_quick(posterior: GPCPosterior, centre: FloatArray, free: IntArray) -> BoundingFunction:
    return paper_bound(posterior, centre, free, variant="quick")


def _paper_slow(posterior: GPCPosterior, centre: FloatArray, free: IntArray) -> BoundingFunction:
    return paper_bound(posterior, centre, free, variant="slow")


_BOUNDS: dict[str, BoundBuilder] = {"rkhs_taylor": level_bound, "paper": _paper_quick, "paper_slow": _paper_slow}
