"""The checker's boxes: rebuilt from the cuts they cover the region, and what a ball leaves of them loses no point."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gpsuite.certificates.certificate import StoredRegion
from gpsuite.certificates.checker import _contains, node_bounds, shrink_to_ball
from gpsuite.certificates.form import MalformedError, rebuild_boxes
from gpsuite.certificates.plain_bound import PlainBound
from gpsuite.certificates.plain_kernel import UNIT
from gpsuite.methods.robustness.search.regions import l1_ball, l2_ball
from tests.methods.robustness.certified_point import certified


def test_rebuilding_follows_the_cuts() -> None:
    region = StoredRegion(np.zeros(2), np.arange(2), -np.ones(2), np.ones(2), "box", np.inf)
    lo, hi = rebuild_boxes(
        region, np.array([-1, 0, 0, 2, 2]), np.array([-1, 0, 0, 1, 1]), np.array([0, 0.5, 0.5, 0, 0])
    )
    np.testing.assert_array_equal(lo[1:], [[-1, -1], [0.5, -1], [0.5, -1], [0.5, 0]])  # type: ignore[arg-type]
    np.testing.assert_array_equal(hi[1:], [[0.5, 1], [1, 1], [1, 0], [1, 1]])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parent", "dim", "words"),
    [
        ([-1, 0, 0, 0, 0], [-1, 0, 0, 1, 1], "cut twice"),
        ([-1, 0, 0, 4, 4], [-1, 0, 0, 1, 1], "before it exists"),
        ([-1, 0, 0, 3, 3], [-1, 0, 0, 1, 1], "before it exists"),  # its own parent
        ([-1, 0, 0, -1, -1], [-1, 0, 0, 1, 1], "before it exists"),
        ([-1, 0, 0, 1, 1], [-1, 0, 0, 2, 2], "not free"),
        ([-1, 0, 0, 1, 1], [-1, 0, 0, -1, -1], "not free"),
        ([0, 0, 0, 1, 1], [-1, 0, 0, 1, 1], "no root"),
        ([-1, 0, 0, 1], [-1, 0, 0, 1], "half a pair"),
        ([-1, 0, 0, 1, 1], [-1, 0, 0, 1, 0], "siblings"),
    ],
)
def test_rebuilding_refuses_what_is_no_tree(parent: list[int], dim: list[int], words: str) -> None:
    region = StoredRegion(np.zeros(2), np.arange(2), -np.ones(2), np.ones(2), "box", np.inf)
    with pytest.raises(MalformedError, match=words):
        rebuild_boxes(region, np.array(parent), np.array(dim), np.zeros(len(parent)))


def test_the_checkers_contraction_loses_no_point() -> None:
    rng = np.random.default_rng(0)
    for build in (l1_ball, l2_ball):
        ball = build(rng.normal(size=3), 0.8)
        stored = StoredRegion(ball.centre, ball.free, ball.lower, ball.upper, ball.norm, ball.radius)
        points = ball.project(ball.start + rng.normal(size=(300, 3)))
        half = rng.uniform(0, 0.6, (300, 1, 3)) * rng.random((300, 2, 3))
        lo, hi = points - half[:, 0], points + half[:, 1]
        low, high, meets = shrink_to_ball(stored, lo, hi)
        assert meets.all() and (low <= points).all() and (points <= high).all()
        assert (lo <= low).all() and (high <= hi).all() and (high - low < hi - lo).any()
        outwards = points > ball.start  # boxes that touch the ball in one corner, a point of the rim
        low, high, meets = shrink_to_ball(stored, np.where(outwards, points, lo), np.where(outwards, hi, points))
        assert meets.all() and (low <= high).all()
        assert not shrink_to_ball(stored, ball.start[None] + 0.79, ball.start[None] + 0.9)[2][0]


def test_the_checkers_contraction_is_that_of_the_ball() -> None:
    """A box beside the point leaves radius - gap (L1), sqrt(radius^2 - gap^2) (L2) of the other input."""
    for norm, left in (("l1", 0.2), ("l2", 0.4)):
        stored = StoredRegion(np.zeros(2), np.arange(2), -np.ones(2), np.ones(2), norm, 0.5)
        low, high, _ = shrink_to_ball(stored, np.array([[0.3, -1.0]]), np.array([[0.4, 1.0]]))
        np.testing.assert_allclose([low[0], high[0]], [[0.3, -left], [0.4, left]], rtol=1e-14)


def test_a_box_is_outside_a_ball_only_beyond_the_rounding_of_its_distance() -> None:
    """With 784 inputs a sum is off by some hundred roundings an input: boxes less far out than that are kept."""
    d, slack = 784, 64 * 784 * UNIT
    stored = StoredRegion(np.zeros(d), np.arange(d), -np.ones(d), np.ones(d), "l2", 1.0)
    for beyond, met in ((0.0, True), (0.5 * slack, True), (4.0 * slack, False)):
        lo = np.full((1, d), np.sqrt((1.0 + beyond) / d))
        assert shrink_to_ball(stored, lo, lo + 0.1)[2][0] == met


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_box_outside_the_ball_restricts_nothing(sign: int) -> None:
    certificate = certified(norm="l2", radius=0.25)[3]
    region = certificate.region
    plain = PlainBound(certificate.model.binary, region.centre, region.free)
    lo = np.array([region.upper - 0.01, region.lower])
    found = node_bounds(plain, region, sign, lo, np.tile(region.upper, (2, 1)), np.zeros(2))[0]
    assert found[0] == -sign * np.inf and np.isfinite(found[1])


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_balls_extent_is_covered_to_the_last_bit(norm: str) -> None:
    rng = np.random.default_rng(2)
    for centre, radius in zip(rng.normal(size=(200, 1)), rng.uniform(0.1, 1.0, 200), strict=True):
        stored = StoredRegion(centre, np.arange(1), centre - 2.0, centre + 2.0, norm, float(radius))
        low, high, _ = shrink_to_ball(stored, stored.lower[None], stored.upper[None])
        middle, reach = Fraction(float(centre[0])), Fraction(float(radius))
        assert Fraction(float(low[0, 0])) <= middle - reach
        assert Fraction(float(high[0, 0])) >= middle + reach


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_witness_beyond_the_rim_by_a_bit_is_outside(norm: str) -> None:
    stored = StoredRegion(np.zeros(2), np.arange(2), -np.ones(2), np.ones(2), norm, 0.5)
    assert _contains(stored, np.array([0.5, 0.0]))
    assert not _contains(stored, np.array([0.5, 1e-9]))
