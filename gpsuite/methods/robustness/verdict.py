"""Certified range of the class probability over a region, and what it says about a point's class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.budget import Budget
from gpsuite.errors import unknown_name
from gpsuite.methods.robustness.attacks import gpfgs, local_search
from gpsuite.methods.robustness.box_bounds import BoundingFunction
from gpsuite.methods.robustness.branch_and_bound import Extremum, branch_and_bound
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.regions import FloatArray, IntArray, Region
from gpsuite.methods.robustness.rkhs_taylor import rkhs_taylor
from gpsuite.models.gpc import GPCPosterior

BoundBuilder = Callable[[GPCPosterior, FloatArray, IntArray], BoundingFunction]

HALF = 0.5
RESOLUTION = 1e-6  # when only the class is asked for, a search ends at ties this close
MANY_INPUTS = 5  # up to here the second-order expansion pays (fewer boxes against wider features)


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
class ProbabilityRange:
    """The range of the class probability over a region.

    Attributes:
        probability: at the centre.
        minimum: the search below.
        maximum: the search above.
        verdict: on the centre's class.
    """

    probability: float
    minimum: Extremum
    maximum: Extremum
    verdict: Verdict

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
        return self.maximum.inner - self.minimum.inner, self.maximum.outer - self.minimum.outer

    @property
    def deviation(self) -> tuple[float, float]:
        """Attained and proved max |Pi(x) - Pi(centre)| (their Definition 1)."""
        p = self.probability
        attained = max(self.maximum.inner - p, p - self.minimum.inner)
        return attained, max(self.maximum.outer - p, p - self.minimum.outer)


def probability_range(
    posterior: GPCPosterior,
    region: Region,
    tolerance: float,
    budget: Budget,
    bound: str | BoundBuilder = "rkhs_taylor",
    batch: int = 64,
) -> ProbabilityRange:
    """Bound the smallest and the largest class probability over the region from both sides.

    An attack comes first (GPFGS, then a local search), then branch and bound.

    Args:
        posterior: the classifier.
        region: where.
        tolerance: largest gap between attained and proved probability.
        budget: for both searches; the minimum gets half of the boxes and seconds, the maximum what is left.
        bound: name in `bound_names()`, or a function building the bound for (posterior, centre, free inputs).
        batch: boxes bounded at once.

    Raises:
        UserError: for an unknown bound.
        ValueError: if tolerance or batch is out of range, or the region does not fit the classifier.
        UnsoundBoundError: if a point attains more than the bounds allow.
    """
    bounding = build_bound(bound, posterior, region)
    probability = _probability(posterior, region)
    first = Budget(
        seconds=None if budget.seconds is None else (budget.seconds - budget.elapsed) / 2,
        boxes=None if budget.boxes is None else (budget.boxes - budget.spent_boxes) // 2,
    )
    minimum = _search(posterior, bounding, region, tolerance, first, -1, batch, None)
    budget.spend(boxes=minimum.boxes)
    maximum = _search(posterior, bounding, region, tolerance, budget, 1, batch, None)
    towards = minimum if probability > HALF else maximum
    return ProbabilityRange(probability, minimum, maximum, judge(probability, towards, region))


def certify_class(
    posterior: GPCPosterior,
    region: Region,
    budget: Budget,
    bound: str | BoundBuilder = "rkhs_taylor",
    batch: int = 64,
) -> tuple[Verdict, Extremum]:
    """Decide only whether the whole region has its centre's class; cheaper than the range.

    One search towards the other class, ended by the first counterexample or when no box reaches one half.

    Raises:
        UserError: for an unknown bound.
        ValueError: if the region does not fit the classifier.
        UnsoundBoundError: if a point attains more than the bounds allow.
    """
    bounding = build_bound(bound, posterior, region)
    probability = _probability(posterior, region)
    sign = -1 if probability > HALF else 1
    extremum = _search(posterior, bounding, region, RESOLUTION, budget, sign, batch, HALF)
    return judge(probability, extremum, region), extremum


def probability_extremum(
    posterior: GPCPosterior,
    region: Region,
    sign: int,
    tolerance: float,
    budget: Budget,
    bound: str | BoundBuilder = "rkhs_taylor",
    batch: int = 64,
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
    batch: int,
    decide: float | None,
) -> Extremum:
    incumbent = None if budget.exhausted else gpfgs(posterior, region)[None, region.free]
    attack = local_search(posterior, region, sign)
    return branch_and_bound(bounding, region, tolerance, budget, sign, incumbent, attack, batch, decide)


def _probability(posterior: GPCPosterior, region: Region) -> float:
    return float(posterior.probability(region.centre[None])[0])


def judge(probability: float, extremum: Extremum, region: Region) -> Verdict:
    """Judge by the search towards the class that the centre is not in; exactly one half counts as negative.

    Args:
        probability: at the centre.
        extremum: the minimum if the centre is in the positive class, else the maximum.
        region: where it was searched.
    """
    if not np.isfinite(probability):
        return Verdict("unknown", "the class probability at the point is not finite")
    if extremum.sign * (extremum.outer - HALF) < 0:
        return Verdict("safe", f"no class probability beyond {extremum.outer:.6g}")
    crossed = extremum.inner <= HALF if extremum.sign < 0 else extremum.inner > HALF
    if crossed and extremum.witness is not None:
        point = region.embed(extremum.witness)
        return Verdict("unsafe", f"class probability {extremum.inner:.6g} at the counterexample", point)
    return Verdict(
        "unknown", f"attained {extremum.inner:.6g}, proved {extremum.outer:.6g}: {extremum.reason}"
    )


def _rkhs_taylor(posterior: GPCPosterior, centre: FloatArray, free: IntArray) -> BoundingFunction:
    second_order = posterior.kernel == "squared_exponential" and len(free) <= MANY_INPUTS
    return rkhs_taylor(posterior, centre, free, degree=2 if second_order else 1)


def _paper_quick(posterior: GPCPosterior, centre: FloatArray, free: IntArray) -> BoundingFunction:
    return paper_bound(posterior, centre, free, variant="quick")


def _paper_slow(posterior: GPCPosterior, centre: FloatArray, free: IntArray) -> BoundingFunction:
    return paper_bound(posterior, centre, free, variant="slow")


_BOUNDS: dict[str, BoundBuilder] = {
    "rkhs_taylor": _rkhs_taylor,
    "paper": _paper_quick,
    "paper_slow": _paper_slow,
}
