from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from gpsuite.methods.perturbation.bands import ellipsoid_band, members_band, pointwise_band
from gpsuite.methods.perturbation.ellipsoid import PerturbedQuadratic
from gpsuite.methods.perturbation.nonsmooth import EpsilonSVR
from gpsuite.methods.perturbation.quadratic import KernelRidge, LinearLSSVM, SparseKernelRidge
from gpsuite.methods.perturbation.ranks import Perturbations
from gpsuite.methods.perturbation.rays import (
    bisected_boundary,
    isotropic_directions,
    kernel_directions,
    sample_members,
    touching_directions,
)
from gpsuite.methods.perturbation.region import ConfidenceRegion, ModelClass, confidence_region
from tests.arrays import Array
from tests.methods.perturbation.geometry_problems import (
    GROUPS,
    data,
    gaussian,
    nonsmooth_region,
    quadratic_of,
    quadratic_region,
)


@given(st.integers(0, 10_000), st.sampled_from(sorted(GROUPS)), st.sampled_from(["sparse", "linear"]))
@settings(max_examples=25)
def test_outer_bands_contain_all_sampled_members(seed: int, group: str, kind: str) -> None:
    region = quadratic_region(seed, kind, group)
    ellipsoid = region.ellipsoid()
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, len(region.estimate)))
    rays = np.concatenate(
        [
            isotropic_directions(60, np.linalg.inv(ellipsoid.triangle), rng),
            touching_directions(ellipsoid.triangle, rows),
        ]
    )
    members = sample_members(region.boundary(rays), region.contains, "region", rng, inner=1)
    inner = members_band(members, region.estimate, rows)
    pointwise = pointwise_band(quadratic_of(region), region.q, rows)
    whole = ellipsoid_band(ellipsoid, rows)
    for band in (pointwise, whole):
        assert np.all((band.lower <= inner.lower) & (inner.upper <= band.upper))
    assert np.all((whole.lower <= pointwise.lower + 1e-8) & (pointwise.upper <= whole.upper + 1e-8))


def test_the_pointwise_band_of_one_perturbation_is_attained() -> None:
    """With m = 2 the region is one ellipse: the members' extremes meet the band."""
    region = quadratic_region(5, "linear", m=2, q=1)
    angles = np.linspace(0.0, 2.0 * np.pi, 4000)
    boundary = region.boundary(np.column_stack([np.cos(angles), np.sin(angles)]))
    rows = np.array([[1.0, 0.0], [0.3, -1.0]])
    values = boundary.members @ rows.T
    band = pointwise_band(quadratic_of(region), 1, rows)
    np.testing.assert_allclose(values.max(axis=0), band.upper, rtol=1e-5)
    np.testing.assert_allclose(values.min(axis=0), band.lower, rtol=1e-5)


def test_touching_directions_are_where_the_ellipsoid_is_widest() -> None:
    ellipsoid = quadratic_region(2).ellipsoid()
    rows = np.random.default_rng(0).normal(size=(5, 4))
    rays = touching_directions(ellipsoid.triangle, rows)
    np.testing.assert_allclose(np.linalg.norm(rays @ ellipsoid.triangle.T, axis=1), 1.0)
    np.testing.assert_array_equal(rays[5:], -rays[:5])
    reach = np.sqrt(ellipsoid.radius) * np.einsum("jp,jp->j", rows, rays[:5])
    np.testing.assert_allclose(reach, ellipsoid.half_widths(rows), rtol=1e-8)


def test_full_kernels_have_infinite_bands_even_when_singular() -> None:
    region = quadratic_region(4, "kernel", n=10, m=40, q=4)
    band = pointwise_band(quadratic_of(region), 4, region.objective.design[:3])
    assert band.lower.tolist() == [-np.inf] * 3
    assert band.upper.tolist() == [np.inf] * 3
    x, y, _ = data(0, 20)
    source = quadratic_region(0, "kernel")
    quadratic = PerturbedQuadratic.of(KernelRidge(gaussian(x, x, 2.0), 0.05), y, source.perturbations)
    assert np.all(np.isinf(pointwise_band(quadratic, 2, quadratic.design).upper))


def test_sampled_members_are_confirmed_and_named() -> None:
    for kind in ("svr", "lasso"):
        region = nonsmooth_region(1, kind)
        rng = np.random.default_rng(0)
        rays = kernel_directions(100, region.objective.design, "values", rng)
        boundary = region.boundary(rays)
        members = sample_members(boundary, region.contains, "values", rng, inner=2)
        assert members.sampler == "rays, values directions, bisection ends"
        assert (members.rays, members.unbounded_share) == (100, boundary.unbounded_share)
        ended = np.count_nonzero(~boundary.unbounded)
        assert len(members.alphas) + members.refused == 3 * ended
        assert np.all(region.contains(members.alphas))
        band = members_band(members, region.estimate, region.objective.design)
        values = members.alphas @ region.objective.design.T
        assert np.all((values >= band.lower) & (values <= band.upper))
        assert band.sampler == members.sampler


def test_points_in_a_gap_of_the_region_are_refused() -> None:
    def contains(alphas: Array) -> Array:
        t = alphas[:, 0]
        return np.asarray((t <= 1.0) | ((t >= 3.0) & (t <= 5.0)))

    boundary = bisected_boundary(contains, np.zeros(1), np.array([[1.0]]))
    members = sample_members(boundary, contains, "axis", np.random.default_rng(0), inner=100)
    assert np.all(contains(members.alphas))
    assert members.refused == 101 - len(members.alphas)
    assert 20 < members.refused < 60
    ends = sample_members(boundary, contains, "axis", np.random.default_rng(0))
    np.testing.assert_array_equal(ends.alphas, boundary.members)


def test_inner_points_are_uniform_in_volume() -> None:
    """In a ball of three coefficients the cube of the radius is uniform."""

    def contains(alphas: Array) -> Array:
        return np.asarray(np.linalg.norm(alphas, axis=1) <= 1.0)

    boundary = bisected_boundary(contains, np.zeros(3), np.eye(3))
    members = sample_members(boundary, contains, "axis", np.random.default_rng(0), inner=300)
    volumes = np.linalg.norm(members.alphas[3:], axis=1) ** 3
    assert kstest(volumes, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("metric", ["coefficients", "rkhs", "values"])
def test_kernel_directions_have_unit_length_in_their_metric(metric: str) -> None:
    x, _, rng = data(0, 8)
    K = gaussian(x, x, 0.3)
    rays = kernel_directions(50, K, metric, rng, free=1)  # type: ignore[arg-type]
    squares = {"coefficients": np.eye(8), "rkhs": K, "values": K @ K}[metric]
    length = rays[:, 0] ** 2 + np.einsum("jk,kl,jl->j", rays[:, 1:], squares, rays[:, 1:])
    np.testing.assert_allclose(length, 1.0, rtol=1e-9)


def test_a_region_from_arrays_has_a_finite_pointwise_band() -> None:
    x, y, rng = data(3, 30)
    centres = np.linspace(-2.0, 2.0, 5)

    def kernel(a: Array, b: Array) -> Array:
        return gaussian(a[:, 0], b[:, 0])

    region = confidence_region(
        x, y, ModelClass(partial(SparseKernelRidge, penalty=0.01), kernel, centres), q=10, m=100, rng=rng
    )
    grid = np.linspace(-2.0, 2.0, 9)
    band = region.band(grid)
    assert band.kind == "pointwise"
    assert np.all(np.isfinite(band.lower) & (band.lower < band.centre) & (band.centre < band.upper))
    rays = isotropic_directions(200, np.linalg.inv(region.ellipsoid().triangle), rng)
    members = sample_members(region.boundary(rays), region.contains, "region", rng)
    inner = region.band(grid, members)
    assert inner.kind == "members"
    assert np.all((band.lower <= inner.lower) & (inner.upper <= band.upper))


def test_objectives_that_are_not_quadratic_need_members() -> None:
    x, y, rng = data(3, 12)

    def kernel(a: Array, b: Array) -> Array:
        return gaussian(a[:, 0], b[:, 0], 0.3)

    build = partial(EpsilonSVR, C=10.0, epsilon=0.2)
    region = confidence_region(x, y, ModelClass(build, kernel), q=5, m=20, rng=rng)
    with pytest.raises(ValueError, match="EpsilonSVR is not quadratic"):
        region.band(x)
    with pytest.raises(ValueError, match="EpsilonSVR is not quadratic"):
        region.ellipsoid()
    with pytest.raises(ValueError, match="needs the map from inputs"):
        nonsmooth_region(0, "svr").band(x)


@pytest.mark.parametrize("curvature", [3e-12, 5e-12, 1e-11])
def test_outer_bands_contain_the_members_that_hold_by_the_tolerance_of_ties(curvature: float) -> None:
    """One coefficient; Z_1 - Z_0 curves by a few times the tolerance: far out, members hold Z_0 = Z_1 by it."""
    small = np.sqrt(curvature / 2.0)
    objective = LinearLSSVM(np.array([[1.0], [small]]), 1.0, bias=False)
    drawn = Perturbations("signs", np.array([[1.0, -1.0]]), None, None)
    region = ConfidenceRegion(objective, np.array([1.0, 1.0]), drawn, 1)
    low, high = 0.0, 1.0
    while region.contains(region.estimate[None] + high):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if region.contains(region.estimate[None] + middle) else (low, middle)
    member = region.estimate + low
    assert low > 1e5
    band = pointwise_band(quadratic_of(region), 1, np.eye(1))
    assert band.lower[0] < member[0] <= band.upper[0]
    assert region.ellipsoid().contains(member[None]).tolist() == [True]
    assert np.isfinite(band.upper[0])
