from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpsuite.methods.perturbation import ellipsoid
from gpsuite.methods.perturbation.bands import pointwise_band
from gpsuite.methods.perturbation.ellipsoid import PerturbedQuadratic, outer_radii
from gpsuite.methods.perturbation.quadratic import KernelRidge, SparseKernelRidge
from gpsuite.methods.perturbation.ranks import Perturbations
from gpsuite.methods.perturbation.rays import (
    _quadratic_steps,
    _reach,
    bisected_boundary,
    exact_boundary,
    kernel_directions,
    single_point_directions,
)
from gpsuite.methods.perturbation.region import ConfidenceRegion
from tests.arrays import Array
from tests.methods.perturbation.geometry_problems import (
    GROUPS,
    decisive,
    gaussian,
    nonsmooth_region,
    quadratic_of,
    quadratic_region,
)

KINDS = ["sparse", "linear", "kernel"]


def directions_of(region: ConfidenceRegion, count: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, len(region.estimate)))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_exact_ends_agree_with_bisection_on_membership(kind: str, group: str) -> None:
    region = quadratic_region(1, kind, group)
    rays = directions_of(region, 60)
    exact = region.boundary(rays)
    searched = bisected_boundary(region.contains, region.estimate, rays)
    assert (exact.method, searched.method) == ("exact", "bisection")
    assert exact.unbounded.tolist() == searched.unbounded.tolist()
    ended = ~exact.unbounded
    assert np.any(ended)
    np.testing.assert_allclose(exact.inside[ended], searched.inside[ended], rtol=1e-8)
    assert np.all(exact.inside[ended] < exact.outside[ended])
    assert np.all(searched.inside[ended] <= searched.outside[ended])
    assert searched.returning == 0.0


@given(st.integers(0, 10_000), st.sampled_from(sorted(GROUPS)), st.sampled_from(KINDS))
@settings(max_examples=40)
def test_quadratic_regions_are_star_shaped(seed: int, group: str, kind: str) -> None:
    """Members along rays are exactly the steps up to the boundary: none missing inside, none beyond."""
    region = quadratic_region(seed, kind, group)
    assume(bool(region.contains(region.estimate[None])[0]))
    rays = directions_of(region, 20, seed)
    boundary = region.boundary(rays)
    ends = np.where(boundary.unbounded, 1e3, boundary.inside)
    for share in (0.01, 0.3, 0.7, 0.999):
        alphas = region.estimate + share * ends[:, None] * rays
        assert np.all(region.contains(alphas) | ~decisive(region, alphas))
    for factor in (1.001, 2.0, 50.0):
        beyond = (region.estimate + factor * boundary.outside[:, None] * rays)[~boundary.unbounded]
        assert not np.any(region.contains(beyond) & decisive(region, beyond))


def test_full_kernels_are_unbounded_along_single_points() -> None:
    region = quadratic_region(4, "kernel", n=10, m=40, q=4)
    rays = single_point_directions(region.objective.design)
    boundary = region.boundary(rays)
    assert boundary.unbounded_share == 1.0
    assert boundary.members.shape == (0, 10)
    assert np.all(region.contains(region.estimate + 1e4 * rays))
    low = ConfidenceRegion(region.objective, region.y, region.perturbations, 39).boundary(rays)
    assert low.unbounded_share < 1.0


def test_the_tie_breaking_permutation_decides_for_identities() -> None:
    """Two identities above the reference make q = 2 hold everywhere; below it they never count."""
    region = quadratic_region(0, "linear", m=4)
    signs = np.array(region.perturbations.signs)
    signs[:2] = 1.0
    rays = directions_of(region, 5)
    for priority, shares in (([0, 1, 2, 3], 1.0), ([2, 0, 1, 3], 0.0)):
        drawn = Perturbations("signs", signs, None, np.array(priority))
        fixed = ConfidenceRegion(region.objective, region.y, drawn, 2)
        boundary = fixed.boundary(rays)
        assert boundary.unbounded_share == shares
        searched = bisected_boundary(fixed.contains, fixed.estimate, rays)
        assert searched.unbounded_share == shares
        assert np.all(boundary.inside == np.where(shares, np.inf, -np.inf))
        assert np.all(searched.inside[~searched.unbounded] == -np.inf)


def test_other_weightings_find_the_last_of_several_ends() -> None:
    """Without star shape the region may end and come back: the largest step in it counts."""
    region = quadratic_region(7, "sparse", n=12, m=20, q=12)
    objective = SparseKernelRidge(region.objective.cross, region.objective.centres_gram, 0.01, "identity")  # type: ignore[attr-defined]
    plain = ConfidenceRegion(objective, region.y, region.perturbations, 12)
    rays = directions_of(plain, 400)
    exact = plain.boundary(rays)
    searched = bisected_boundary(plain.contains, plain.estimate, rays)
    agree = searched.unbounded == exact.unbounded
    assert np.mean(agree) > 0.95
    # the grid may step over an end and a return that the exact method sees
    assert np.all(searched.inside[agree] <= exact.outside[agree])
    ended = agree & ~exact.unbounded
    assert np.any(ended)
    alphas = plain.estimate + exact.inside[ended, None] * (1.0 - 1e-6) * rays[ended]
    assert np.all(plain.contains(alphas))
    far = plain.estimate + exact.outside[ended, None] * (1.0 + 1e-6) * rays[ended]
    assert not np.any(plain.contains(far))


def one_coefficient(signs: list[list[float]]) -> PerturbedQuadratic:
    """Return Z_0 = (2 d)^2 from design (-1, 0, 1) and residuals (2, -2, 0)."""
    return PerturbedQuadratic(
        np.array([[2.0]]),
        np.ones((1, 3)),
        np.array([[-1.0], [0.0], [1.0]]),
        np.zeros(1),
        np.array([2.0, -2.0, 0.0]),
        Perturbations("signs", np.array(signs), None, None),
    )


def test_an_inequality_that_holds_again_counts_again() -> None:
    """The first sign flipped, Z_1 = (4 d + 4)^2: along -1 it is below Z_0 between the steps 2/3 and 2 only."""
    quadratic = one_coefficient([[-1.0, 1.0, 1.0]])
    rays = np.array([[-1.0]] * 4 + [[1.0]])
    limits = np.array([np.inf, 3.0, 1.5, 0.5, np.inf])
    boundary = exact_boundary(quadratic, 1, rays, limits)
    np.testing.assert_allclose(boundary.inside, [np.inf, 3.0, 2.0 / 3.0, 0.5, np.inf], rtol=1e-9)


def test_a_residual_of_zero_is_not_an_identity() -> None:
    """The third sign flipped, the estimate's gradient stays and Z_1 = 0 everywhere: nothing else is a member."""
    quadratic = one_coefficient([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0]])
    assert quadratic.unmoved.tolist() == [False, True]
    assert exact_boundary(quadratic, 2, np.array([[1.0]])).outside.tolist() == [0.0]


def test_a_return_of_the_region_is_found() -> None:
    """Membership made to end at 1 and hold again in [3, 5]."""

    def contains(alphas: Array) -> Array:
        t = alphas[:, 0]
        return np.asarray((t <= 1.0) | ((t >= 3.0) & (t <= 5.0)))

    boundary = bisected_boundary(contains, np.zeros(1), np.array([[1.0], [-1.0]]))
    assert boundary.unbounded.tolist() == [False, True]
    assert boundary.inside[0] == pytest.approx(5.0)
    assert boundary.outside[0] == pytest.approx(5.0)
    assert boundary.inside[0] <= 5.0 <= boundary.outside[0]
    assert boundary.returning == 0.5
    assert boundary.unbounded_share == 0.5


@pytest.mark.parametrize("kind", ["svr", "lasso"])
def test_bisected_ends_bracket_a_change_of_membership(kind: str) -> None:
    region = nonsmooth_region(1, kind)
    rays = kernel_directions(50, region.objective.design, "coefficients", np.random.default_rng(0))
    boundary = region.boundary(rays)
    assert boundary.method == "bisection"
    ended = ~boundary.unbounded
    assert np.mean(ended) > 0.8
    inside = region.estimate + boundary.inside[ended, None] * rays[ended]
    outside = region.estimate + boundary.outside[ended, None] * rays[ended]
    assert np.all(region.contains(inside))
    assert not np.any(region.contains(outside))
    np.testing.assert_allclose(boundary.inside[ended], boundary.outside[ended], rtol=1e-8)
    assert len(boundary.members) == np.count_nonzero(ended)


@pytest.mark.parametrize("bad", [[[0.0, 0.0]], [[np.nan, 1.0]], [1.0, 2.0]])
def test_bad_directions_are_refused(bad: list[Any]) -> None:
    quadratic = quadratic_of(quadratic_region(0, "linear"))
    with pytest.raises(ValueError, match="direction"):
        exact_boundary(quadratic, 2, bad)


def test_arrays_that_do_not_fit_are_refused() -> None:
    quadratic = quadratic_of(quadratic_region(0, "linear"))
    parts = {name: getattr(quadratic, name) for name in quadratic.__dataclass_fields__}
    with pytest.raises(ValueError, match="estimate must have shape"):
        PerturbedQuadratic(**{**parts, "estimate": np.zeros(3)})
    with pytest.raises(ValueError, match="response must be finite"):
        PerturbedQuadratic(**{**parts, "response": quadratic.response * np.nan})


@given(st.integers(0, 10_000))
@settings(max_examples=60)
def test_steps_are_where_the_inequality_ends_and_holds_again(seed: int) -> None:
    """{t >= 0: a t^2 + 2 b t + c <= 0} is [0, first] and [again, inf) for every sign of a and b."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 30))
    c = -rng.exponential(size=30) * rng.choice([0.01, 1.0], 30)
    a[:3], b[3:6], c[6:9] = 0.0, 0.0, 0.0
    first, again = _quadratic_steps(a, b, c, np.full(30, 1e-12))
    for t in (0.3, 1.0, 3.0, 20.0, 1e3):
        expected = a * t**2 + 2.0 * b * t + c <= 0.0
        decided = np.abs(a * t**2 + 2.0 * b * t + c) > 1e-9 * (1.0 + t**2)
        # a flat inequality that still rises is let go on for ever: outward
        flat = np.abs(a) <= 1e-12
        np.testing.assert_array_equal(((t <= first) | (t >= again))[decided & ~flat], expected[decided & ~flat])
        assert np.all((t <= first)[flat])
    assert np.all(first >= 0.0)


@given(st.integers(0, 10_000), st.integers(1, 6))
@settings(max_examples=60)
def test_the_reach_is_the_last_step_that_enough_sets_contain(seed: int, q: int) -> None:
    """Against all steps of a fine grid that holds every end: six sets [0, first] and [again, cap]."""
    rng = np.random.default_rng(seed)
    first = rng.integers(-1, 8, size=(6, 5)).astype(float)
    again = np.where(rng.random((6, 5)) < 0.5, np.maximum(first, 0.0) + rng.integers(1, 5, (6, 5)), np.inf)
    first[0, 0], again[0, 0] = -np.inf, np.inf
    cap = np.array([4.0, 6.0, 9.0, 12.0, 30.0])
    first, again = np.minimum(first, cap), np.where(again < cap, again, np.inf)
    grid = np.arange(-2.0, 31.0, 0.5)[:, None, None]
    held = ((grid <= first) | (grid >= again)).sum(axis=1) >= q
    expected = np.where(held & (grid[:, :, 0] <= cap), grid[:, :, 0], -np.inf).max(axis=0)
    found = _reach(first, again, cap, q)
    # below the smallest end every set that has one holds
    clear = expected > -2.0
    np.testing.assert_array_equal(found[clear], expected[clear])
    assert np.all(found <= cap)


def test_curvatures_within_the_tolerance_never_end_a_step() -> None:
    a = np.array([1.0, -1.0, 1.0 + 1e-9, -1.0 - 1e-9]) * 1e-12
    first, again = _quadratic_steps(a, np.ones(4), -np.ones(4), np.full(4, 1e-12))
    assert np.isinf(first).tolist() == [True, True, False, False]
    assert np.isinf(again).tolist() == [True, True, True, False]


def test_the_enclosures_are_as_narrow_as_stated() -> None:
    region = quadratic_region(1, "linear")
    exact = region.boundary(directions_of(region, 20))
    width = exact.outside / exact.inside - 1.0
    quadratic = quadratic_of(region)
    added = quadratic.perturbations.m * 1e-12 + 8.0 * 2.0**-52 * 2 * quadratic.condition
    assert np.all((width > 1.99e-10) & (width < 2.01e-10 + 2.0 * added))
    assert exact.returning == 0.0


def test_bisection_starts_at_a_millionth_of_a_millionth_of_its_cap() -> None:
    """A region that ends at 1e-10 of the largest step tried is found; one without any member has no end inside."""

    def contains(alphas: Array) -> Array:
        return np.asarray(alphas[:, 0] <= 2e-4)

    boundary = bisected_boundary(contains, np.zeros(1), np.array([[1.0], [2.0]]))
    np.testing.assert_allclose(boundary.inside, [2e-4, 1e-4], rtol=1e-9)
    assert np.all(boundary.outside >= [2e-4, 1e-4])
    np.testing.assert_allclose(boundary.outside, boundary.inside, rtol=1e-9)
    never = bisected_boundary(lambda alphas: np.zeros(len(alphas), dtype=bool), np.zeros(1), np.eye(1))
    assert never.inside.tolist() == [-np.inf]
    assert 0.0 <= never.outside[0] <= 1e-6
    only = bisected_boundary(lambda alphas: alphas[:, 0] == 0.0, np.zeros(1), np.eye(1))
    assert only.inside.tolist() == [0.0]
    assert only.members.tolist() == [[0.0]]


def test_limits_cap_the_bisection() -> None:
    """Members throughout: the limit itself is the end, from outside. Without a limit there is none."""
    limits = np.array([3.0, np.inf])
    boundary = bisected_boundary(
        lambda alphas: np.ones(len(alphas), dtype=bool), np.zeros(1), np.array([[1.0], [-1.0]]), limits
    )
    assert boundary.inside[0] < 3.0 < boundary.outside[0]
    np.testing.assert_allclose([boundary.inside[0], boundary.outside[0]], 3.0, rtol=2e-10)
    assert boundary.unbounded.tolist() == [False, True]


def test_blocks_of_perturbations_change_no_geometry(monkeypatch: pytest.MonkeyPatch) -> None:
    """19 perturbations in blocks of 6: radii, ends and bands as in one block; the last block has one."""
    region = quadratic_region(3, "sparse", "signed")
    quadratic, rows = quadratic_of(region), np.eye(4)
    rays = {"many": directions_of(region, 30), "few": directions_of(region, 2)}

    def geometry() -> list[Array]:
        band = pointwise_band(quadratic, 2, rows)
        ends = [exact_boundary(quadratic, 2, directions).inside for directions in rays.values()]
        return [outer_radii(quadratic), band.lower, band.upper, *ends]

    whole = geometry()
    monkeypatch.setattr(ellipsoid, "_CHUNK_NUMBERS", 6 * quadratic.response.size)
    for ours, expected in zip(geometry(), whole, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9)


def test_a_gradient_that_moves_in_one_part_only_has_moved() -> None:
    """The flipped point has no design and acts on one of two rows: Z_1 is not Z_0."""
    quadratic = PerturbedQuadratic(
        np.array([[1.0], [0.0]]),
        np.array([[1.0, 1.0], [1.0, 0.0]]),
        np.array([[1.0], [0.0]]),
        np.zeros(1),
        np.array([0.0, 1.0]),
        Perturbations("signs", np.array([[1.0, -1.0], [-1.0, 1.0]]), None, None),
    )
    assert quadratic.unmoved.tolist() == [False, False]


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_rounding_is_no_movement(size: float) -> None:
    """Data that act alike, permuted: what is left of the gradient's change is rounding, in any units."""
    quadratic = PerturbedQuadratic(
        np.ones((1, 1)),
        np.full((1, 4), 0.1 * size),
        np.full((4, 1), 0.1),
        np.zeros(1),
        np.array([0.1, 0.2, 0.7, 0.0]),
        Perturbations("permutations", None, np.array([[1, 2, 0, 3], [2, 0, 1, 3]]), None),
    )
    assert np.any(quadratic.shifts != 0.0)
    assert quadratic.unmoved.tolist() == [True, True]


def test_members_before_the_first_step_are_found() -> None:
    """Neither the start nor any step of the grid is a member, but what lies between is: there is an end."""
    first = 2.0**-20
    found = bisected_boundary(
        lambda rows: (rows[:, 0] > 0.3 * first) & (rows[:, 0] < 0.7 * first), np.zeros(1), np.array([[1.0], [-1.0]])
    )
    assert found.inside[0] == pytest.approx(0.7 * first, rel=1e-6)
    assert found.inside[1] == -np.inf


@pytest.mark.parametrize("seed", range(40, 52))
def test_no_member_is_beyond_the_outer_end_of_an_ill_conditioned_region(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=10)
    objective = KernelRidge(gaussian(x, x, 0.85), 1.0, weighting="identity")
    region = ConfidenceRegion(objective, np.sin(2.0 * x), GROUPS["signs"].draw(10, 2, rng), 1)
    triangle = quadratic_of(region).triangle
    rays = np.linalg.lstsq(triangle, rng.normal(size=(len(triangle), 40)), rcond=None)[0].T
    boundary = region.boundary(rays)
    ended = np.flatnonzero(np.isfinite(boundary.outside))
    for factor in (1.0 + 1e-6, 1.001, 1.01, 1.1, 10.0):
        beyond = region.estimate + factor * boundary.outside[ended, None] * rays[ended]
        assert not region.contains(beyond).any()
