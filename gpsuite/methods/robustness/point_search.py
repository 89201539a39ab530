"""Certified ranges of class probabilities over regions around a point, and verdicts on its class.

`PointSearch` plans the searches. `_TwoClasses` runs those of the positive class' probability. `_SeveralClasses` runs
those of every class' probability and of margins. Two classes have one comparison, (1 + p_own - p_rival) / 2 = p_own.

Equation: Blaas et al. 2020, Eq. (2), Sec. 5, Definition 1, Definition 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from scipy.special import softmax

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.class_probability import BoundingFunction, clipped
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.level_bound.level_search import Root, level_search, root_model
from gpsuite.methods.robustness.level_bound.shifted import shifted_bound
from gpsuite.methods.robustness.multiclass.latent_margin import LatentMargin
from gpsuite.methods.robustness.multiclass.one_vs_rest_bound import OneVsRestBound
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import PaperSoftmaxBound
from gpsuite.methods.robustness.multiclass.robust_max_bound import RobustMaxBound
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends, Proof, SoftmaxBound
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.search.attacks import climb, gpfgs, local_search
from gpsuite.methods.robustness.search.branch_and_bound import Attack, BoxBounding, Extremum, branch_and_bound
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import (
    HALF,
    POSITIVE_CLASS,
    Centre,
    ClassRange,
    Comparison,
    PointClasses,
    PointProbability,
    Verdict,
    class_range,
    judge,
)
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.models.given.given import OneVsRestPosterior
from gpsuite.registry import Registry

LEAST_MARGIN = 1e-6  # margin that counts for a search that proved some margin of a class
JUST_ABOVE = float(np.nextafter(HALF, 1.0))
RESOLUTION = 1e-6  # if only the class is requested, a search ends at ties this close
BATCH = 16


SeveralClasses = MultiClassPosterior | OneVsRestPosterior


class ClassBound(Protocol):
    """Bounds for every class around a point. See `SoftmaxBound`, `PaperSoftmaxBound` and `RobustMaxBound`."""

    def class_bounds(self, lo: FloatArray, hi: FloatArray, own: int) -> Ends:
        """Bound the probability of a class over boxes [B, d]."""

    def margin_bounds(self, lo: FloatArray, hi: FloatArray, own: int, rival: int) -> Ends:
        """Bound p_own - p_rival over boxes [B, d]."""

    def at(self, points: FloatArray) -> Any:
        """Return the state at points [B, d] for `class_of` and `margin_of`. `proved` tells whether they give bounds."""

    def class_of(self, local: Any, own: int) -> tuple[FloatArray, FloatArray]:
        """Bound the probability of a class at points from `at`, [B] each."""

    def margin_of(self, local: Any, own: int, rival: int) -> tuple[FloatArray, FloatArray]:
        """Bound p_own - p_rival at points from `at`, [B] each."""


def _rkhs_taylor(posterior: SeveralClasses, x0: FloatArray, free: IntArray) -> ClassBound:
    """Return the bound of the posterior's likelihood, the softmax or the robust maximum, or of one against the rest."""
    if isinstance(posterior, OneVsRestPosterior):
        return OneVsRestBound(posterior, x0, free)
    if isinstance(posterior, RobustMaxPosterior):
        return RobustMaxBound(posterior, x0, free)
    return SoftmaxBound(posterior, x0, free)


BoundBuilder = Callable[[Any, FloatArray, IntArray], Any]
"""From (posterior, centre, free inputs) to a `BoundingFunction` of two classes, a `ClassBound` of several."""

TWO_CLASS_BOUNDS: Registry[BoundBuilder] = Registry("bound")
TWO_CLASS_BOUNDS.register("rkhs_taylor")(shifted_bound)
TWO_CLASS_BOUNDS.register("paper")(partial(paper_bound, variant="quick"))
TWO_CLASS_BOUNDS.register("paper_slow")(partial(paper_bound, variant="slow"))
SEVERAL_CLASS_BOUNDS: Registry[BoundBuilder] = Registry("bound")
SEVERAL_CLASS_BOUNDS.register("rkhs_taylor")(_rkhs_taylor)
SEVERAL_CLASS_BOUNDS.register("paper")(PaperSoftmaxBound)


Posterior = GPCPosterior | SeveralClasses
Search = Callable[[float, Budget], Extremum]
"""Of a tolerance and a budget."""


@dataclass(frozen=True)
class Quantity:
    """Quantity of a search: a class probability, or (1 + p_own - p_rival) / 2. The latter is above 1/2 if `own` wins.

    Attributes:
        bound: bound of the posterior.
        own: the class.
        rival: the other class, or None for the class probability itself.
        proof: whether all requested bounds are proved.
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
        """Return lower and upper bounds [B] at points from the bound's `at`."""
        self.proof.note(local.proved)
        if self.rival is None:
            return self.bound.class_of(local, self.own)
        low, high = self.bound.margin_of(local, self.own, self.rival)
        return _half(low) - 1e-16, _half(high) + 1e-16

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds clipped to [0, 1]. NaN gives 0 and 1."""
        return clipped(low, high)


def _half(margin: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * margin)


@dataclass(frozen=True)
class Question:
    """Goal of a search.

    Attributes:
        quantity: quantity to search, a `BoxBounding`.
        sign: 1 for its maximum, -1 for its minimum.
        comparison: the only thing that the search has to decide. None for the extremum itself.
    """

    quantity: Any
    sign: int
    comparison: Comparison | None = None

    @property
    def decide(self) -> float | None:
        """The threshold that ends the search, if any."""
        return None if self.comparison is None else self.comparison.threshold


class Surroundings(Protocol):
    """State of the searches around a point.

    Attributes:
        bound: bound of the quantities.
        centre: the class probabilities at the point.
    """

    @property
    def bound(self) -> Any: ...
    @property
    def centre(self) -> Centre: ...

    def followed(self, own: int) -> int:
        """Return the class to search for the probability of `own`."""

    def probability(self, own: int) -> BoxBounding:
        """Return the bound of the probability of a class.

        Raises:
            ValueError: for a class that is not followed.
        """

    def compared(self, comparison: Comparison) -> BoxBounding:
        """Return the bound of a comparison's quantity."""

    def searches(self, region: Region, questions: Sequence[Question], budget: Budget) -> list[Search]:
        """Return one search per question. The searches share common parts."""

    def joint(self, region: Region, budget: Budget) -> Extremum | None:
        """Return a proof that the point's class is most probable in the whole region, if one search finds it."""


class _TwoClasses:
    def __init__(self, posterior: GPCPosterior, point: FloatArray, free: IntArray, bound: str | BoundBuilder) -> None:
        self.posterior = posterior
        self.bound: BoundingFunction = _builder(bound, TWO_CLASS_BOUNDS)(posterior, point, free)
        self.centre: Centre = point_probability(self.bound, point[free])

    def followed(self, own: int) -> int:
        return POSITIVE_CLASS

    def probability(self, own: int) -> BoxBounding:
        if own != POSITIVE_CLASS:
            raise ValueError("of two classes the positive one is searched")
        return self.bound

    def compared(self, comparison: Comparison) -> BoxBounding:
        return self.bound

    def searches(self, region: Region, questions: Sequence[Question], budget: Budget) -> list[Search]:
        root = None
        if len(questions) > 1 and isinstance(self.bound, LevelBound) and not budget.exhausted:
            root = root_model(self.bound, region)
        return [partial(self._search, region, question, root) for question in questions]

    def joint(self, region: Region, budget: Budget) -> Extremum | None:
        return None  # the only comparison proves as much

    def _search(
        self, region: Region, question: Question, root: Root | None, tolerance: float, budget: Budget
    ) -> Extremum:
        sign, decide = question.sign, question.decide
        attack = local_search(self.posterior, region, sign)
        if isinstance(self.bound, LevelBound):
            return level_search(self.bound, region, tolerance, budget, sign, decide, root=root, attack=attack)
        incumbent = None if budget.exhausted else gpfgs(self.posterior, region)[None, region.free]
        return branch_and_bound(self.bound, region, tolerance, budget, sign, incumbent, attack, decide=decide)


class _SeveralClasses:
    def __init__(self, posterior: SeveralClasses, point: FloatArray, free: IntArray, bound: str | BoundBuilder) -> None:
        self.posterior = posterior
        self.bound: ClassBound = _builder(bound, SEVERAL_CLASS_BOUNDS)(posterior, point, free)
        self.latent: LatentMargin | None = None  # used if the trapezoidal rule takes too many nodes
        self.centre: Centre = self._point_classes(point[free])

    def followed(self, own: int) -> int:
        return own

    def probability(self, own: int) -> BoxBounding:
        return Quantity(self.bound, own)

    def compared(self, comparison: Comparison) -> BoxBounding:
        return Quantity(self.bound, comparison.own, comparison.rival)

    def searches(self, region: Region, questions: Sequence[Question], budget: Budget) -> list[Search]:
        """Return searches that begin with the points that all attacks reach.

        To decide a comparison, the bound of the whole region comes first. If it decides, no attack is needed.
        """
        whole = None
        if any(question.comparison is not None for question in questions) and not budget.exhausted:
            whole = [each[None] for each in region.root_box()]
        attacks = [self._attack(region, question, whole) for question in questions]
        starts = _reached(region, [attack for attack in attacks if attack is not None])
        return [
            partial(self._search, region, question, attack, starts)
            for question, attack in zip(questions, attacks, strict=True)
        ]

    def joint(self, region: Region, budget: Budget) -> Extremum | None:
        """Search for a proof by only the latent functions, if the trapezoidal rule takes too many nodes.

        An attack comes first: a bound of many inputs takes a second, and an input without a margin makes it useless.
        """
        if self.latent is None or budget.exhausted:
            return None
        if (self.latent.evaluate(self.latent.attacks(region))[1] < HALF).any():
            return None
        found = branch_and_bound(self.latent, region, RESOLUTION, budget, -1, batch=BATCH, decide=HALF)
        if not found.outer > HALF:
            return None
        # the margins are only known to be positive
        trace = np.array([[found.boxes, found.seconds, 1.0, JUST_ABOVE]])
        return replace(found, inner=1.0, outer=JUST_ABOVE, witness=None, rounding=0.0, trace=trace)

    def _attack(self, region: Region, question: Question, whole: list[FloatArray] | None) -> Attack | None:
        quantity, comparison = question.quantity, question.comparison
        if comparison is not None and (whole is None or not comparison.crossed(float(quantity.bounds(*whole).low[0]))):
            return None
        return _settled(plug_in_attack(self.posterior, region, quantity, question.sign))

    def _search(
        self,
        region: Region,
        question: Question,
        attack: Attack | None,
        starts: FloatArray,
        tolerance: float,
        budget: Budget,
    ) -> Extremum:
        quantity, sign, decide = question.quantity, question.sign, question.decide
        found = branch_and_bound(quantity, region, tolerance, budget, sign, starts, attack, batch=BATCH, decide=decide)
        return replace(found, proved=quantity.proof.proved)

    def _point_classes(self, point: FloatArray) -> PointClasses:
        known = self.bound.at(point[None])
        ends = [self.bound.class_of(known, own) for own in range(self.posterior.n_classes)]
        low, high = (np.array([end[side][0] for end in ends]) for side in (0, 1))
        values = 0.5 * (low + high)
        own = int(np.argmax(values))
        margins = np.array(
            [
                1.0 if rival == own else float(Quantity(self.bound, own, rival).at(known)[0][0])
                for rival in range(len(values))
            ]
        )
        class_proved = proved = known.proved
        if isinstance(self.bound, SoftmaxBound) and not known.moments.by_rule:
            self.latent = LatentMargin(self.bound.differences, own)
            class_proved = bool(self.latent.evaluate(point[None])[0][0] > HALF)
            margins = np.maximum(margins, JUST_ABOVE) if class_proved else margins
        return PointClasses(values, low, high, proved, margins, class_proved)


class PointSearch:
    """Searches over regions around one point. The point's bound and class are found once, for all regions and ends.

    Args:
        posterior: the classifier, of two or more classes.
        centre: the point, [D].
        free: indices of the inputs that may move, [d].
        bound: bound for two classes: a name in `bound_names()`, or a function that builds the bound from (posterior,
            centre, free inputs). For several classes: "rkhs_taylor", or "paper" (three classes, squared exponential).

    Attributes:
        bound: bound of the posterior around the point.
        centre: the class probabilities at the point.
        margin_proof: search in the last `decide` that proved the class by only the latent functions, or None. The
            bounds of its boxes are above 0 if the class is most probable.

    Raises:
        UserError: for an unknown bound.
        ValueError: if the point or the inputs do not fit the classifier.
    """

    def __init__(
        self, posterior: Posterior, centre: FloatArray, free: IntArray, bound: str | BoundBuilder = "rkhs_taylor"
    ) -> None:
        self.posterior: Any = posterior
        self.point, self.free = np.asarray(centre, dtype=np.float64), free
        self._around = _surroundings(posterior, self.point, free, bound)
        self.bound, self.centre = self._around.bound, self._around.centre
        self.margin_proof: Extremum | None = None

    def proves(self, found: Iterable[Extremum]) -> bool:
        """Return whether the point's class and the searches' results are proved, with proved errors of cubatures."""
        return self.centre.proved and all(each.proved for each in found)

    def proves_class(self, found: Iterable[Extremum]) -> bool:
        """Return whether the point's class and the results of searches of comparisons are proved."""
        return self.centre.class_proved and all(each.proved for each in found)

    def followed(self, own: int | None = None) -> int:
        """Return the class to search for a class' probability (default: the point's class): of two the positive one."""
        return self._around.followed(self.centre.own if own is None else own)

    def range(self, region: Region, tolerance: float, budget: Budget, own: int | None = None) -> ClassRange:
        """Bound the smallest and the largest probability of a class over a region from both sides.

        Args:
            region: around the point.
            tolerance: largest gap between attained and proved probability.
            budget: boxes and seconds for both searches. The minimum gets half of both, the maximum the remainder.
            own: the class, by default the one that `followed` returns.

        Raises:
            ValueError: if tolerance is out of range, or the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        first, own = budget.part(2), self.followed() if own is None else own
        below, above = self._searches(region, own, (-1, 1), budget)
        minimum = below(tolerance, first)
        budget.spend(boxes=minimum.boxes)
        return class_range(own, self.centre, minimum, above(tolerance, budget), region)

    def extremum(self, region: Region, sign: int, tolerance: float, budget: Budget, own: int | None = None) -> Extremum:
        """Bound the largest (`sign=1`) or smallest (`sign=-1`) probability of a class, as `range`.

        Raises:
            ValueError: if sign or tolerance is out of range, or the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        [search] = self._searches(region, self.followed() if own is None else own, (sign,), budget)
        return search(tolerance, budget)

    def decide(self, region: Region, budget: Budget, latent_only: bool = False) -> tuple[Verdict, dict[int, Extremum]]:
        """Decide only whether the whole region has the point's class. This takes less time than the range.

        There is one search per rival. The nearest rival at the point comes first. A search ends if no box reaches the
        threshold. The first counterexample ends all searches. With many classes, a search for a proof by only the
        latent functions comes first. It has half of the budget.

        Args:
            region: around the point.
            budget: boxes and seconds for all searches.
            latent_only: whether to report "unknown" if the latent functions of many classes do not prove the class. The
                margins take longer.

        Returns:
            the verdict, and the result for every searched rival, in the order of classes.

        Raises:
            ValueError: if the region is around another point.
            UnsoundBoundError: if a point attains more than the bounds allow.
        """
        self._require_own(region)
        comparisons = self.centre.comparisons
        if self.centre.undecided:
            return Verdict("unknown", self.centre.undecided), {}
        self.margin_proof = None
        first = budget.rest(boxes=budget.boxes) if latent_only else budget.part(2)
        joint = self._around.joint(region, first)
        budget.spend(boxes=first.spent_boxes)
        if joint is not None:
            tree = replace(joint.tree, bound=joint.tree.bound - HALF)
            self.margin_proof = replace(joint, inner=1.0, outer=LEAST_MARGIN, tree=tree)
            none = replace(joint, boxes=0, seconds=0.0)
            found = {each.rival: none if rank else joint for rank, each in enumerate(comparisons)}
            return judge(self.centre, list(found.values()), region), found
        if latent_only:
            return Verdict("unknown", first.reason or "the latent margins do not prove the class"), {}
        nearest = sorted(comparisons, key=lambda each: -self.centre.probability(each.rival)[0])
        questions = [Question(self._around.compared(comparison), comparison.sign, comparison) for comparison in nearest]
        searches = self._around.searches(region, questions, budget)
        found = {}
        for comparison, search in zip(nearest, searches, strict=True):
            extremum = found[comparison.rival] = search(RESOLUTION, budget)
            if len(comparisons) > 1 and extremum.witness is not None and comparison.crossed(extremum.inner):
                reason = f"class {comparison.rival} is ahead by {1.0 - 2.0 * extremum.inner:.6g}"
                witness = region.embed(extremum.witness)
                return Verdict("unsafe", reason, witness), dict(sorted(found.items()))
        extrema = {comparison.rival: found[comparison.rival] for comparison in comparisons}
        return judge(self.centre, list(extrema.values()), region), extrema

    def attained(self, points: FloatArray, sign: int) -> FloatArray:
        """Return the probabilities that a search of the followed class surely attains at given points.

        Args:
            points: free inputs, [B, d].
            sign: 1 for a search of the maximum, -1 for the minimum.

        Returns:
            probabilities [B].
        """
        quantity = self._around.probability(self.followed())
        low, high = quantity.outward_probability(*quantity.evaluate(points))
        return low if sign > 0 else high

    def _searches(self, region: Region, own: int, signs: Sequence[int], budget: Budget) -> list[Search]:
        self._require_own(region)
        quantity = self._around.probability(own)
        return self._around.searches(region, [Question(quantity, sign) for sign in signs], budget)

    def _require_own(self, region: Region) -> None:
        if not (np.array_equal(region.centre, self.point) and np.array_equal(region.free, self.free)):
            raise ValueError("the region is around another point, or has other free inputs")


def _surroundings(posterior: Posterior, point: FloatArray, free: IntArray, bound: str | BoundBuilder) -> Surroundings:
    if isinstance(posterior, GPCPosterior):
        return _TwoClasses(posterior, point, free, bound)
    return _SeveralClasses(posterior, point, free, bound)


def _settled(attack: Attack) -> Attack:
    """Return the attack with a memory: a start that was an earlier end point is returned as it is."""
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
    search: PointSearch, region: Region, starts: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Search points where other classes come close or win. Each rival has a local search from several starts.

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


def plug_in_attack(posterior: SeveralClasses, region: Region, quantity: Quantity, sign: int) -> Attack:
    """Return a fast local search with exact gradients: it uses the softmax of the latent means, not its expectation.

    A point that it finds is evaluated before it counts.
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


def probability_range(
    posterior: Posterior, region: Region, tolerance: float, budget: Budget, bound: str | BoundBuilder = "rkhs_taylor"
) -> ClassRange:
    """Return `PointSearch.range` around the region's centre, for a single region."""
    return PointSearch(posterior, region.centre, region.free, bound).range(region, tolerance, budget)


def certify_class(
    posterior: Posterior, region: Region, budget: Budget, bound: str | BoundBuilder = "rkhs_taylor"
) -> tuple[Verdict, dict[int, Extremum]]:
    """Return `PointSearch.decide` around the region's centre, for a single region."""
    return PointSearch(posterior, region.centre, region.free, bound).decide(region, budget)


def probability_extremum(
    posterior: Posterior,
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
    return list(TWO_CLASS_BOUNDS)


def build_bound(bound: str | BoundBuilder, posterior: GPCPosterior, region: Region) -> BoundingFunction:
    """Build the bounding function for a region.

    Raises:
        UserError: for an unknown name.
    """
    built: BoundingFunction = _builder(bound, TWO_CLASS_BOUNDS)(posterior, region.centre, region.free)
    return built


def _builder(bound: str | BoundBuilder, named: Registry[BoundBuilder]) -> BoundBuilder:
    return named.get(bound) if isinstance(bound, str) else bound


def point_probability(bounding: BoundingFunction, point: FloatArray) -> PointProbability:
    """Return the class probability at one point [d] of the free inputs, computed as for witnesses."""
    low, high = bounding.evaluate(point[None])
    p_low, p_high = bounding.outward_probability(low, high)
    value = bounding.to_probability(0.5 * low + 0.5 * high)
    return PointProbability(float(value[0]), float(p_low[0]), float(p_high[0]))
