from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpsuite.errors import UserError
from gpsuite.methods.robustness.search.regions import Region, box, interval_box, l1_ball, l2_ball, linf_ball
from tests.arrays import Array

BALLS = {"l1": l1_ball, "l2": l2_ball}
SEEDS = st.integers(0, 10_000)


def random_ball(norm: str, rng: np.random.Generator) -> Region:
    inputs = int(rng.integers(1, 6))
    free = np.sort(rng.choice(inputs, size=int(rng.integers(1, inputs + 1)), replace=False))
    centre = rng.uniform(0, 1, inputs)
    domain = (0.0, 1.0) if rng.random() < 0.5 else None
    return BALLS[norm](centre, 10.0 ** rng.uniform(-6, 0.5), [int(i) for i in free], domain)


def size(region: Region, points: Array) -> Array:
    steps = (points - region.start).astype(np.longdouble)
    return np.abs(steps).sum(-1) if region.norm == "l1" else np.sqrt((steps**2).sum(-1))


def test_a_box_with_zero_radii_fixes_inputs() -> None:
    region = box([0.5, 0.2, 0.9], [0.1, 0.0, 0.3], domain=(0, 1))
    assert region.free.tolist() == [0, 2]
    np.testing.assert_allclose(region.lower, [0.4, 0.6])
    assert region.upper[1] == 1.0
    np.testing.assert_array_equal(region.embed(np.array([[0.45, 0.7]])), [[0.45, 0.2, 0.7]])


def test_a_point_is_a_region() -> None:
    region = box([0.5, 0.2], 0.0)
    assert region.free.tolist() == [0]
    assert region.contains(region.start[None])[0]
    assert not region.contains(region.start[None] + 1e-12)[0]


def test_a_one_sided_interval_is_clamped() -> None:
    region = interval_box([0.1, 0.5], [-0.4, 0.5], [0.1, 0.5], domain=(0, 1))
    assert (region.lower[0], region.upper[0]) == (0.0, 0.1)


def test_chosen_free_inputs_are_sorted() -> None:
    assert linf_ball([0, 0, 0], 1, free=[2, 0]).free.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: box([0.5], -0.1), "radius"),
        (lambda: box([0.5, 0.5], [0.1, np.nan]), "radius"),
        (lambda: box([0.5, 0.5], [0.1, 0.1, 0.1]), "shape"),
        (lambda: l2_ball([0.5], -1.0), "radius=-1"),
        (lambda: l1_ball([0.5], np.inf), "radius=inf"),
        (lambda: linf_ball([0.5], 0.1, free=[1]), "free inputs"),
        (lambda: linf_ball([0.5, 0.1], 0.1, free=[0, 0]), "free inputs"),
        (lambda: linf_ball([0.5], 0.1, free=[]), "free inputs"),
        (lambda: linf_ball([1.5], 0.1, domain=(0, 1)), "outside its domain"),
        (lambda: linf_ball([np.nan], 0.1), "finite"),
        (lambda: interval_box([0.5], [0.6], [0.7]), "between"),
        (lambda: interval_box([0.5, 0.5], [0.0, 0.6], [1.0, 0.7]), "between"),
        (lambda: interval_box([0.5], [-np.inf], [0.7]), "finite"),
    ],
)
def test_mistakes_are_named(build, words: str) -> None:
    with pytest.raises(UserError, match=words):
        build()


@pytest.mark.parametrize("norm", BALLS)
@given(seed=SEEDS)
def test_projection_lands_in_the_ball_and_is_the_nearest_point(norm: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    region = random_ball(norm, rng)
    away = region.start + region.radius * rng.normal(scale=2, size=(8, len(region.free)))
    nearest = region.project(away)
    assert region.contains(nearest).all()
    assert (size(region, nearest) <= region.radius).all()
    # (z - p)'(q - p) <= 0 for every q of a convex set characterises the projection p of z
    others = region.project(region.start + region.radius * rng.normal(size=(50, len(region.free))))
    angle = np.einsum("bd,bkd->bk", away - nearest, others[None] - nearest[:, None])
    assert angle.max() <= 1e-6 * region.radius**2


@pytest.mark.parametrize("norm", BALLS)
@given(seed=SEEDS)
def test_contraction_loses_no_point_of_the_ball(norm: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    region = random_ball(norm, rng)
    d = len(region.free)
    points = region.project(region.start + region.radius * rng.normal(size=(40, d)))
    half = region.radius * rng.uniform(0, 0.7, size=(40, d)) * (rng.random((40, d)) < 0.8)
    shift = rng.uniform(-1, 1, size=(40, d)) * half
    lo = np.maximum(points + shift - half, region.lower)
    hi = np.minimum(points + shift + half, region.upper)
    lo, hi = np.minimum(lo, points), np.maximum(hi, points)
    small, large, meets = region.contract(lo, hi)
    assert meets.all()
    assert ((small <= points) & (points <= large)).all()
    assert ((small >= lo) & (large <= hi)).all()


@pytest.mark.parametrize("norm", BALLS)
def test_contraction_is_tight_and_drops_corners(norm: str) -> None:
    region = BALLS[norm]([0.0, 0.0], 1.0)
    lo, hi = np.array([[0.5, -1.0], [0.9, 0.9]]), np.array([[1.0, 1.0], [1.0, 1.0]])
    small, large, meets = region.contract(lo, hi)
    assert meets.tolist() == [True, False]
    reach = 0.5 if norm == "l1" else np.sqrt(0.75)
    np.testing.assert_allclose([small[0], large[0]], [[0.5, -reach], [1.0, reach]], rtol=1e-12)


def test_a_point_on_the_rim_is_inside_only_if_surely_so() -> None:
    region = l2_ball([0.0, 0.0], 1.0)
    assert not region.contains(np.array([[np.sqrt(0.5) + 1e-15, np.sqrt(0.5)]]))[0]
    assert region.contains(np.array([[0.6, 0.79999]]))[0]
    assert not region.contains(np.array([[np.nan, 0.0]]))[0]


def exact_power(region: Region, point: Array) -> Fraction:
    """Return |x - centre|_1 or |x - centre|_2^2 of floats without rounding."""
    power = 1 if region.norm == "l1" else 2
    steps = zip(point, region.start, strict=True)
    return sum((abs(Fraction(float(x)) - Fraction(float(c))) ** power for x, c in steps), Fraction(0))


@pytest.mark.parametrize("norm", BALLS)
@given(seed=SEEDS)
@settings(max_examples=50)
def test_rounding_neither_drops_a_point_of_the_ball_nor_adds_one(norm: str, seed: int) -> None:
    """The radius is the float just above, or just below, a point's exact distance from the centre."""
    rng = np.random.default_rng(seed)
    d, power = int(rng.integers(1, 12)), 1 if norm == "l1" else 2
    centre = rng.normal(size=d) * 10.0 ** rng.uniform(-3, 6)
    point = centre + rng.normal(size=d) * 10.0 ** rng.uniform(-6, 2)
    distance = float(np.linalg.norm(point - centre, power))
    radii = distance + np.arange(-40, 41) * np.spacing(distance)
    exact = exact_power(BALLS[norm](centre, distance), point)
    inside = [exact <= Fraction(float(r)) ** power for r in radii]
    just_in, just_out = radii[inside.index(True)], radii[inside.index(True) - 1]
    assert not BALLS[norm](centre, just_out).contains(point[None])[0]
    region = BALLS[norm](centre, just_in)
    assert np.all((region.lower <= point) & (point <= region.upper))
    for lo, hi in ((point, point), (np.minimum(point, centre), np.maximum(point, centre))):
        small, large, meets = region.contract(lo[None], hi[None])
        assert meets[0]
        assert np.all((small[0] <= point) & (point <= large[0]))
    # the box does not cut the ball, and is at most two roundings wider
    for j in range(d):
        low, high = (Fraction(float(end[j])) for end in (region.lower, region.upper))
        c, r = Fraction(float(centre[j])), Fraction(float(just_in))
        assert low <= c - r < c + r <= high
        assert high - (c + r) <= 2 * Fraction(float(np.spacing(abs(centre[j]) + just_in)))


@pytest.mark.parametrize("norm", BALLS)
def test_contraction_is_narrow_to_roundings(norm: str) -> None:
    """A box from the centre to beyond the rim ends at the rim; one a little further out does not meet the ball."""
    for d in (1, 3, 10):
        region = BALLS[norm](np.full(d, 0.25), 0.5)
        small, large = region.root_box()
        np.testing.assert_allclose(large, 0.75, rtol=1e-14)
        np.testing.assert_allclose(small, -0.25, rtol=1e-14)
        lo, hi = np.full((1, d), 0.25), np.full((1, d), 2.0)
        lo[0, 0] = 0.55
        _, ends, meets = region.contract(lo, hi)
        assert meets[0]
        left = 0.2 if norm == "l1" else 0.4
        np.testing.assert_allclose(ends[0, 1:], 0.25 + left, rtol=1e-12)
        np.testing.assert_allclose(ends[0, 0], 0.75, rtol=1e-12)
        beyond = np.full((1, d), 0.25) + (0.5 + 1e-12) * np.eye(d)[:1]
        assert not region.contract(beyond, beyond + 1.0)[2][0]


@pytest.mark.parametrize("far", [1.5, 30.0, 1e9])
def test_projections_have_their_closed_forms(far: float) -> None:
    """L2: along the ray. L1: soft thresholding at the level found by sorting (Duchi et al. 2008)."""
    rng = np.random.default_rng(7)
    centre, steps = rng.normal(size=6), rng.normal(size=(20, 6))
    for radius in (0.3, 1e-7):
        outside = far * radius * steps / np.abs(steps).max(axis=1, keepdims=True)
        found = l2_ball(centre, radius).project(centre + outside) - centre
        expected = radius * outside / np.linalg.norm(outside, axis=1)[:, None]
        np.testing.assert_allclose(found, expected, atol=1e-9 * radius + 1e-15)
        found = l1_ball(centre, radius).project(centre + outside) - centre
        for ours, step in zip(found, outside, strict=True):
            falling = np.sort(np.abs(step))[::-1]
            levels = (np.cumsum(falling) - radius) / np.arange(1, 7)
            level = levels[np.flatnonzero(falling > levels)[-1]]
            expected = np.sign(step) * np.maximum(np.abs(step) - level, 0.0)
            np.testing.assert_allclose(ours, expected, atol=max(1e-9, 1e-15 * far) * radius + 1e-15)


@pytest.mark.parametrize("norm", BALLS)
def test_points_of_the_ball_stay_where_they_are(norm: str) -> None:
    region = BALLS[norm]([0.5, 0.5, 0.2], 0.4, [0, 2], (0.0, 1.0))
    points = np.array([[0.5, 0.2], [0.6, 0.1], [0.3, 0.3], [0.89, 0.2]])
    np.testing.assert_array_equal(region.project(points), points)
    np.testing.assert_array_equal(region.project(np.array([[0.5, -3.0]])), [[0.5, 0.0]])


def test_a_ball_smaller_than_the_floats_about_its_centre_is_its_centre() -> None:
    for build in BALLS.values():
        region = build([1.0, 2.0], 1e-300)
        np.testing.assert_array_equal(region.project(np.array([[5.0, 7.0]])), [[1.0, 2.0]])
        point = build([1.0, 2.0], 0.0)
        assert (point.norm, point.radius) == ("box", np.inf)
        np.testing.assert_array_equal([point.lower, point.upper], [[1.0, 2.0], [1.0, 2.0]])


def test_the_ends_of_a_region_belong_to_it() -> None:
    region = interval_box([0.2, 0.5], [0.1, 0.5], [0.2, 0.9])
    assert region.free.tolist() == [0, 1]
    assert region.contains(np.array([[0.1, 0.5], [0.2, 0.9], [0.1, 0.95], [0.05, 0.6]])).tolist() == [
        True,
        True,
        False,
        False,
    ]
    lo, hi, meets = region.contract(region.lower[None], region.upper[None])
    np.testing.assert_array_equal([lo[0], hi[0]], [region.lower, region.upper])
    assert meets.tolist() == [True]
    assert interval_box([0.0, 1.0], [0.0, 0.0], [0.5, 1.0], domain=(0.0, 1.0)).free.tolist() == [0, 1]
    np.testing.assert_array_equal(region.embed(np.zeros((3, 2, 2))), np.zeros((3, 2, 2)))


@pytest.mark.parametrize("free", [[-1, 0], [0, 3]])
def test_inputs_that_do_not_exist_are_refused(free: list[int]) -> None:
    with pytest.raises(UserError, match="numbers from 0 to 2"):
        linf_ball([0.5, 0.1, 0.2], 0.1, free=free)


def test_one_radius_may_be_given_for_all_inputs() -> None:
    for radii in (0.1, [0.1], [0.1, 0.1, 0.1]):
        np.testing.assert_allclose(box([0.0, 1.0, 2.0], radii).upper, [0.1, 1.1, 2.1])
    for bad in (np.inf, [0.1, -0.1, 0.1]):
        with pytest.raises(UserError, match="finite and not negative"):
            box([0.0, 1.0, 2.0], bad)


@pytest.mark.parametrize("unit", [2.0**-540, 2.0**-700, 2.0**-1000, 2.0**512, 2.0**600])
def test_an_l2_ball_is_the_same_in_any_unit(unit: float) -> None:
    """Its squared radius underflows or overflows in most of these."""
    plain, scaled = (l2_ball(np.array([0.2, 0.1]) * each, 0.9 * each) for each in (1.0, unit))
    points = np.array([[1.0, 0.1], [0.2, 0.99], [0.9, 0.9], [-0.5, -0.4], [2.0, 0.1]])
    assert plain.contains(points).tolist() == scaled.contains(points * unit).tolist()
    assert np.array_equal(plain.project(points) * unit, scaled.project(points * unit))
    lo, hi = np.array([[0.9, -0.8], [0.2, 0.1], [0.9, 0.7]]), np.array([[1.1, 0.5], [0.4, 0.4], [1.1, 1.0]])
    expected, found = plain.contract(lo, hi), scaled.contract(lo * unit, hi * unit)
    assert np.array_equal(expected[0] * unit, found[0]) and np.array_equal(expected[1] * unit, found[1])
    assert expected[2].tolist() == found[2].tolist() == [True, True, False]


def test_what_a_ball_leaves_next_to_its_rim_is_not_rounded_inward() -> None:
    """L1, the other inputs' gaps taking all but 1e-9 of the radius: the reach in exact arithmetic is covered."""
    rng = np.random.default_rng(11)
    for _ in range(300):
        region = l1_ball(np.zeros(4), float(rng.uniform(0.5, 1.0)))
        gap = rng.dirichlet(np.ones(3)) * (region.radius - 1e-9 * rng.random())
        low, high, meets = region.contract(np.r_[-2.0, gap][None], np.r_[2.0, gap][None])
        reach = Fraction(region.radius) - sum(map(Fraction, gap.tolist()), Fraction(0))
        if reach >= 0:
            assert meets[0]
            assert Fraction(float(low[0, 0])) <= -reach and reach <= Fraction(float(high[0, 0]))
