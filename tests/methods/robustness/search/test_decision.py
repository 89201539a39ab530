"""Comparisons of classes and what is judged from them, two classes and more; a point's search over many regions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness import point_search
from gpsuite.methods.robustness.point_search import PointSearch, certify_class, probability_extremum, probability_range
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.methods.robustness.search.tree import SearchTree
from gpsuite.methods.robustness.verdict import (
    KEEP_NEGATIVE,
    KEEP_POSITIVE,
    Comparison,
    PointProbability,
    binary_comparison,
    judge,
)
from tests.models.gpc_problems import fitted_posterior

REGION = linf_ball([0.2, 0.1], 0.5)
NO_TREE = SearchTree(
    *(np.zeros(1, dtype=np.int64),) * 2,
    np.zeros(1),
    np.zeros(1),
    *(np.zeros(1, dtype=np.int64),) * 2,  # type: ignore[arg-type]
)


def extremum(sign: int, inner: float, outer: float) -> Extremum:
    witness = np.array([0.3, 0.2])
    trace = np.zeros((1, 4))
    return Extremum(sign, inner, outer, witness, "budget", "boxes used up", 1, 0.1, trace, NO_TREE, 0.0)


@dataclass(frozen=True)
class Third:
    """A point of class 1 of three: margins against classes 0 and 2."""

    undecided: str = ""
    comparisons: tuple[Comparison, ...] = (Comparison(1, 0, -1, 0.0, tie=True), Comparison(1, 2, -1, 0.0, tie=False))


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("tie", [False, True])
def test_a_comparison_is_lost_beyond_its_threshold_and_at_it_only_if_ties_are(sign: int, tie: bool) -> None:
    comparison = Comparison(0, 1, sign, 0.25, tie)
    values = 0.25 + sign * np.array([-1e-9, 0.0, 1e-9])
    assert comparison.crossed(values).tolist() == [False, tie, True]


def test_one_half_is_the_negative_class() -> None:
    assert (binary_comparison(-1), binary_comparison(1)) == (KEEP_POSITIVE, KEEP_NEGATIVE)
    for value, comparison in ((0.5 + 1e-12, KEEP_POSITIVE), (0.5, KEEP_NEGATIVE), (0.2, KEEP_NEGATIVE)):
        point = PointProbability(value, value, value)
        assert point.comparison == comparison and not point.undecided
        assert not comparison.crossed(value)
    assert (KEEP_POSITIVE.own, KEEP_POSITIVE.rival, KEEP_NEGATIVE.own) == (1, 0, 0)


def test_every_rival_must_be_held_off() -> None:
    safe, open_, lost = extremum(-1, 0.2, 0.1), extremum(-1, 0.2, -0.1), extremum(-1, -0.05, -0.1)
    for extrema, status in (
        ((safe, safe), "safe"),
        ((safe, open_), "unknown"),
        ((open_, safe), "unknown"),
        ((open_, lost), "unsafe"),
        ((lost, safe), "unsafe"),
    ):
        found = judge(Third(), extrema, REGION)
        assert found.status == status
        assert (found.counterexample is not None) == (status == "unsafe")
    # a margin of zero is lost to class 0 alone
    tied = extremum(-1, 0.0, 0.0)
    assert judge(Third(), (tied, safe), REGION).status == "unsafe"
    assert judge(Third(), (safe, tied), REGION).status == "safe"
    assert judge(Third("no class"), (safe, safe), REGION).reason == "no class"
    with pytest.raises(ValueError):
        judge(Third(), (safe,), REGION)


def test_a_points_bound_is_built_once_for_all_its_regions() -> None:
    posterior, built = fitted_posterior()[0], []
    build = point_search.TWO_CLASS_BOUNDS.get("rkhs_taylor")
    search = PointSearch(posterior, REGION.centre, REGION.free, lambda *given: built.append(1) or build(*given))
    for radius in (0.1, 0.5):
        region = linf_ball(REGION.centre, radius)
        found = search.range(region, 0.02, Budget(boxes=400))
        alone = probability_range(posterior, region, 0.02, Budget(boxes=400), build)
        assert (found.minimum.outer, found.maximum.outer) == (alone.minimum.outer, alone.maximum.outer)
        assert found.verdict.status == alone.verdict.status
        one = search.extremum(region, 1, 0.02, Budget(boxes=400))
        assert one.outer == probability_extremum(posterior, region, 1, 0.02, Budget(boxes=400), build).outer
        assert search.decide(region, Budget(boxes=400))[0].status == (
            certify_class(posterior, region, Budget(boxes=400), build)[0].status
        )
    assert len(built) == 1


def test_regions_around_another_point_are_refused() -> None:
    search = PointSearch(fitted_posterior()[0], REGION.centre, REGION.free)
    for region in (linf_ball([0.2, 0.11], 0.5), linf_ball(REGION.centre, 0.5, free=[1])):
        with pytest.raises(ValueError, match="another point"):
            search.extremum(region, 1, 0.02, Budget(boxes=10))
    assert search.extremum(replace(REGION), 1, 0.02, Budget(boxes=10)).boxes > 0
