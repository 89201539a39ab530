"""Certified range of the class probability over a region, and what it says about a point's class.

Equation: Blaas et al. 2020, Eq. (2), Eq. (3), Eq. (4), Definition 1, Definition 2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpsuite.budget import Budget
from gpsuite.errors import unknown_name
from gpsuite.methods.robustness.box_bounds import BoundingFunction
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound, level_bound
from gpsuite.methods.robustness.level_bound.level_search import BATCH as LEVEL_BATCH
from gpsuite.methods.robustness.level_bound.level_search import Root, level_search, root_model
from gpsuite.methods.robustness.paper_bound.bound import paper_bound
from gpsuite.methods.robustness.search.attacks import gpfgs, local_search
from gpsuite.methods.robustness.search.branch_and_bound import Extremum, branch_and_bound
from gpsuite.methods.robustness.search.regions import FloatArray, IntArray, Region
from gpsuite.models.classification.posterior import GPCPosterior

BoundBuilder = Callable[[GPCPosterior, FloatArray, IntArray], BoundingFunction]

HALF = 0.5
RESOLUTION = 1e-6  # when only the class is asked for, a search ends at ties this close


@dataclass(frozen=True)
class Verdict:
    """Whether all points of a region have the class of its centre.

    Attributes:
        status: "safe" (proved), "unsafe" (with the counterexample) or "unknown".
        reason: why, in words.
        counterexample: [D] a point of the region in the other class, or None.
    """

    status: str
    reason: str
    counterexample: FloatArray | None = None


@dataclass(frozen=True)
class PointProbability:
    """The class probability at one point: `low` <= p <= `high` surely; `value` is the computed one.

    The class is positive where p > 1/2, so p = 1/2 itself is negative. By the link's symmetry that is the sign of the
    latent mean: a mean that is zero exactly (all weights zero) or surely not positive proves the negative class.
    """

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """Direction of the search towards the other class: -1 from the positive class, 1 from the negative one."""
        return -1 if self.value > HALF else 1

    @property
    def tied(self) -> bool:
        """Whether rounding leaves the class open."""
        return not (self.low > HALF or self.high <= HALF)


@dataclass(frozen=True)
class ProbabilityRange:
    """The range of the class probability over a region.

    Attributes:
        centre: the class probability there.
        minimum: the search below.
        maximum: the search above.
        verdict: on the centre's class.

    Equation: Blaas et al. 2020, Eq. (2), Definition 1
    """

    centre: PointProbability
    minimum: Extremum
    maximum: Extremum
    verdict: Verdict

    @property
    def probability(self) -> float:
        """The computed class probability at the centre."""
        return self.centre.value

    @property
    def seconds(self) -> float:
        """Wall-clock time of both searches."""
        return self.minimum.seconds + self.maximum.seconds

    @property
    def boxes(self) -> int:
        """Boxes bounded by both searches."""
        return self.minimum.boxes + self.maximum.boxes

    @property
    def gap(self) -> float:
        """The larger of the two distances between attained and proved probability."""
        return max(self.minimum.gap, self.maximum.gap)

    @property
    def status(self) -> str:
        """The searches' status: closed if both are, else that of one that is not."""
        return next(
            (each.status for each in (self.minimum, self.maximum) if each.status != "closed"), "closed"
        )

    @property
    def spread(self) -> tuple[float, float]:
        """Attained and proved pi_max - pi_min (Sec. 6.2 of Blaas et al. 2020)."""
        attained = self.maximum.inner - self.minimum.inner
        return max(0.0, attained), self.maximum.outer - self.minimum.outer

    @property
    def deviation(self) -> tuple[float, float]:
        """Attained and proved max |Pi(x) - Pi(centre)| (their Definition 1)."""
        low, high = self.centre.low, self.centre.high
        attained = max(self.maximum.inner - high, low - self.minimum.inner, 0.0)
        return attained, max(self.maximum.outer - low, high - self.minimum.outer)


def probability_range(
    posterior: GPCPosterior,
    region: Region,
    tolerance: float,
    budget: Budget,
    bound: str | BoundBuilder = "rkhs_taylor",
    batch: int | None = None,
) -> ProbabilityRange:
    """Bound the smallest and the largest class probability over the region from both sides.

    An attack comes first (GPFGS, then a local search), then branch and bound.

    Args:
        posterior: latent posterior of the trained classifier.
        region: inputs over which the claim holds, `robustness.linf_ball` and the like.
        tolerance: largest gap between attained and proved probability.
        budget: for both searches; the minimum gets half of the boxes and seconds, the maximum what is left.
        bound: name in `bound_names()`, or a function building the bound for (posterior, centre, free inputs).
        batch: boxes bounded at once; what suits the bound by default.

    Raises:
        UserError: for an unknown bound.
        ValueError: if tolerance or batch is out of range, or the region does not fit the classifier.
        UnsoundBoundError: if a point attains more than the bounds allow.
    """
    bounding = build_bound(bound, posterior, region)
    centre = point_probability(bounding, region.start)
    first = Budget(
        seconds=None if budget.seconds is None else (budget.seconds - budget.elapsed) / 2,
        boxes=None if budget.boxes is None else (budget.boxes - budget.spent_boxes) // 2,
    )
    root = root_model(bounding, region) if isinstance(bounding, LevelBound) and not budget.exhausted else None
    minimum = _search(posterior, bounding, region, tolerance, first, -1, batch, None, root)
    budget.spend(boxes=minimum.boxes)
    maximum = _search(posterior, bounding, region, tolerance, budget, 1, batch, None, root)
    towards = minimum if centre.sign < 0 else maximum
    return ProbabilityRange(centre, minimum, maximum, judge(centre, towards, region))


def certify_class(
    posterior: GPCPosterior,
    region: Region,
    budget: Budget,
    bound: str | BoundBuilder = "rkhs_taylor",
    batch: int | None = None,
) -> tuple[Verdict, Extremum]:
    """Decide only whether the whole region has its centre's class; cheaper than the range.

    One search towards the other class, ended by the first counterexample or when no box reaches one half.

    Raises:
        UserError: for an unknown bound.
        ValueError: if the region does not fit the classifier.
        UnsoundBoundError: if a point attains more than the bounds allow.

    Equation: Blaas et al. 2020, Definition 2
    """
    bounding = build_bound(bound, posterior, region)
    centre = point_probability(bounding, region.start)
    extremum = _search(posterior, bounding, region, RESOLUTION, budget, centre.sign, batch, HALF)
    return judge(centre, extremum, region), extremum


def probability_extremum(
    posterior: GPCPosterior,
    region: Region,
    sign: int,
    tolerance: float,
    budget: Budget,
    bound: str | BoundBuilder = "rkhs_taylor",
    batch: int | None = None,
) -> Extremum:
    """Bound the largest (`sign=1`) or smallest (`sign=-1`) class probability over the region; attack first.

    Raises:
        UserError: for an unknown bound.
        ValueError: if sign, tolerance or batch is out of range, or the region does not fit the classifier.
        UnsoundBoundError: if a point attains more than the bounds allow.
    """
    bounding = build_bound(bound, posterior, region)
    return _search(posterior, bounding, region, tolerance, budget, sign, batch, None)


def bound_names() -> list[str]:
    """Return the names that `bound=` takes."""
    return sorted(_BOUNDS)


def build_bound(bound: str | BoundBuilder, posterior: GPCPosterior, region: Region) -> BoundingFunction:
    """Build the bounding function for a region.

    Raises:
        UserError: for an unknown name.
    """
    if isinstance(bound, str):
        if bound not in _BOUNDS:
            raise unknown_name("bound", bound, _BOUNDS)
        bound = _BOUNDS[bound]
    return bound(posterior, region.centre, region.free)


def _search(
    posterior: GPCPosterior,
    bounding: BoundingFunction,
    region: Region,
    tolerance: float,
    budget: Budget,
    sign: int,
    batch: int | None,
    decide: float | None,
    root: Root | None = None,
) -> Extremum:
    attack = local_search(posterior, region, sign)
    if isinstance(bounding, LevelBound):
        size = batch or LEVEL_BATCH
        return level_search(bounding, region, tolerance, budget, sign, decide, size, root, attack)
    incumbent = None if budget.exhausted else gpfgs(posterior, region)[None, region.free]
    return branch_and_bound(bounding, region, tolerance, budget, sign, incumbent, attack, batch or 64, decide)


def point_probability(bounding: BoundingFunction, point: FloatArray) -> PointProbability:
    """Return the class probability at one point [d] of the free inputs, by the route that also judges witnesses."""
    low, high = bounding.evaluate(point[None])
    p_low, p_high = bounding.outward_probability(low, high)
    value = bounding.to_probability(0.5 * low + 0.5 * high)
    return PointProbability(float(value[0]), float(p_low[0]), float(p_high[0]))


def attained(bounding: BoundingFunction, points: FloatArray, sign: int) -> FloatArray:
    """Return what a search for the maximum (`sign=1`) or minimum (`sign=-1`) surely attains at points [B, d], [B]."""
    low, high = bounding.outward_probability(*bounding.evaluate(points))
    return low if sign > 0 else high


def crossed(sign: int, probability: float | FloatArray) -> Any:
    """Tell whether a probability lies on the other side of one half; exactly one half is the negative class.

    Args:
        sign: -1 if the point is in the positive class, 1 if in the negative one.
        probability: to be sure, the end of its interval that is nearer to the point's own class.
    """
    return probability <= HALF if sign < 0 else probability > HALF


def judge(centre: PointProbability, extremum: Extremum, region: Region) -> Verdict:
    """Judge by the search towards the class that the centre is not in; exactly one half counts as negative.

    What intervals do not settle is unknown: a verdict never depends on how a tie is rounded.

    Args:
        centre: the class probability there.
        extremum: the minimum if the centre is in the positive class, else the maximum.
        region: where it was searched.
    """
    if not np.isfinite(centre.value):
        return Verdict("unknown", "the class probability at the point is not finite")
    if centre.tied:
        half = f"one half lies in [{centre.low:.17g}, {centre.high:.17g}]"
        return Verdict("unknown", f"tie within rounding: {half}, all that is known of the point itself")
    if not crossed(extremum.sign, extremum.outer):
        return Verdict("safe", f"no class probability beyond {extremum.outer:.6g}")
    if extremum.witness is not None and crossed(extremum.sign, extremum.inner):
        point = region.embed(extremum.witness)
        return Verdict("unsafe", f"class probability {extremum.inner:.6g} at the counterexample", point)
    if extremum.witness is not None and crossed(
        extremum.sign, extremum.inner + extremum.sign * extremum.rounding
    ):
        known = f"known to {extremum.rounding:.2g} only"
        return Verdict(
            "unknown", f"tie within rounding: class probability {extremum.inner:.17g} attained, {known}"
        )
    return Verdict(
        "unknown", f"attained {extremum.inner:.6g}, proved {extremum.outer:.6g}: {extremum.reason}"
    )


def _paper_quick(posterior: GPCPosterior, centre: FloatArray, free: IntArray) -> BoundingFunction:
    return paper_bound(posterior, centre, free, variant="quick")


def _paper_slow(posterior: GPCPosterior, centre: FloatArray, free: IntArray) -> BoundingFunction:
    return paper_bound(posterior, centre, free, variant="slow")


_BOUNDS: dict[str, BoundBuilder] = {
    "rkhs_taylor": level_bound,
    "paper": _paper_quick,
    "paper_slow": _paper_slow,
}
