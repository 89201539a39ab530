"""The outer ellipsoid against a semidefinite program, samples and exact rays, and what rounding leaves of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from gpsuite.methods.perturbation.bands import pointwise_band
from gpsuite.methods.perturbation.ellipsoid import (
    SLACK,
    Ellipsoid,
    PerturbedQuadratic,
    _log_balance,
    _smallest_dual,
    in_metric,
    largest,
    outer_ellipsoid,
    outer_radii,
)
from gpsuite.methods.perturbation.quadratic import KernelRidge, LinearLSSVM
from gpsuite.methods.perturbation.ranks import Perturbations
from gpsuite.methods.perturbation.rays import exact_boundary, isotropic_directions, sample_members
from gpsuite.methods.perturbation.region import ConfidenceRegion
from tests.arrays import Array
from tests.methods.perturbation.geometry_problems import GROUPS, gaussian, quadratic_of, quadratic_region
from tests.methods.perturbation.semidefinite_oracle import inequality, smallest_radius


def matrices(region: ConfidenceRegion) -> Array:
    """Return the matrices G_i [I, N, N]."""
    return np.stack([region.perturbations.apply(row) for row in np.eye(len(region.y))], axis=-1)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", ["sparse", "linear"])
def test_the_scalar_root_agrees_with_the_semidefinite_program(kind: str, group: str) -> None:
    region = quadratic_region(3, kind, group, m=12)
    quadratic = quadratic_of(region)
    objective = region.objective
    radii = outer_radii(quadratic)
    bounded = np.flatnonzero(np.isfinite(radii))
    assert len(bounded) >= 5
    for i in bounded:
        A, b, c = inequality(objective.P, objective.T, objective.design, region.y, matrices(region)[i])  # type: ignore[attr-defined]
        assert smallest_radius(A, b, c) == pytest.approx(radii[i], rel=1e-5)


@given(st.integers(0, 10_000), st.sampled_from(sorted(GROUPS)), st.sampled_from(["sparse", "linear"]))
@settings(max_examples=25)
def test_the_ellipsoid_contains_every_member(seed: int, group: str, kind: str) -> None:
    region = quadratic_region(seed, kind, group)
    quadratic = quadratic_of(region)
    ellipsoid = outer_ellipsoid(quadratic, region.q)
    rng = np.random.default_rng(seed)
    directions = isotropic_directions(100, np.linalg.inv(ellipsoid.triangle), rng)
    boundary = exact_boundary(quadratic, region.q, directions)
    members = sample_members(boundary, region.contains, "region", rng, inner=2)
    assert np.all(ellipsoid.contains(members.alphas))
    if np.isfinite(ellipsoid.radius):
        assert boundary.unbounded_share == 0.0
        assert not np.any(ellipsoid.contains(ellipsoid.centre + 1.001 * np.sqrt(ellipsoid.radius) * directions))


def test_each_radius_is_attained_on_its_own_boundary() -> None:
    """With q = m - 1 = 1 the region is one inequality: the farthest of many rays reaches gamma from below."""
    region = quadratic_region(5, "linear", m=2, q=1)
    quadratic = quadratic_of(region)
    ellipsoid = outer_ellipsoid(quadratic, 1)
    angles = np.linspace(0.0, 2.0 * np.pi, 4000)
    unit = np.column_stack([np.cos(angles), np.sin(angles)])
    steps = exact_boundary(quadratic, 1, unit @ np.linalg.inv(ellipsoid.triangle).T).inside
    assert np.max(steps) ** 2 == pytest.approx(ellipsoid.radius, rel=1e-5)
    assert np.max(steps) ** 2 <= ellipsoid.radius


def test_no_slope_means_the_curvature_decides() -> None:
    """One coefficient, A - B G Phi = 0: Z_1 is constant and gamma is -c/A, the case without a root."""
    signs = Perturbations("signs", np.array([[1.0, -1.0]]), None, None)
    quadratic = PerturbedQuadratic(
        np.array([[0.0]]), np.array([[1.0, 1.0]]), np.array([[1.0], [1.0]]), np.zeros(1), np.array([1.0, -1.0]), signs
    )
    # Z_0 = (2 d)^2 <= Z_1 = (0 d - 2)^2: |u|^2 = Z_0 is at most 4
    assert outer_radii(quadratic) == pytest.approx([4.0], rel=1e-10)


def test_full_kernels_have_no_bounded_ellipsoid() -> None:
    ellipsoid = outer_ellipsoid(quadratic_of(quadratic_region(0, "kernel")), 2)
    assert ellipsoid.radius == np.inf
    assert ellipsoid.half_widths(np.array([np.zeros(20), np.ones(20)])).tolist() == [0.0, np.inf]


def test_a_singular_gram_matrix_gives_infinity() -> None:
    x = np.linspace(0.0, 1.0, 30)
    region = quadratic_region(0, "kernel", n=30)
    smooth = KernelRidge(gaussian(x, x, 1.0), 0.05)
    quadratic = PerturbedQuadratic.of(smooth, region.y, region.perturbations)
    assert np.all(np.isinf(outer_radii(quadratic)))


def test_permutations_do_not_identify_a_constant() -> None:
    region = quadratic_region(0, "linear", "permutations")
    biased = LinearLSSVM(region.objective.inputs, 1.0)  # type: ignore[attr-defined]
    quadratic = PerturbedQuadratic.of(biased, region.y, region.perturbations)
    assert outer_ellipsoid(quadratic, 2).radius == np.inf


def test_identity_perturbations_have_an_infinite_radius() -> None:
    region = quadratic_region(0, "linear", m=4)
    signs = np.array(region.perturbations.signs)
    signs[1] = 1.0
    drawn = Perturbations("signs", signs, None, None)
    radii = outer_radii(PerturbedQuadratic.of(region.objective, region.y, drawn))  # type: ignore[arg-type]
    assert np.isinf(radii).tolist() == [False, True, False]


@pytest.mark.parametrize("q", [0, 20, -1])
def test_q_out_of_range_is_refused(q: int) -> None:
    with pytest.raises(ValueError, match="0 < q < m"):
        outer_ellipsoid(quadratic_of(quadratic_region(0)), q)


def test_the_radius_is_the_q_th_largest() -> None:
    quadratic = quadratic_of(quadratic_region(2))
    for q in (1, 5, 19):
        ellipsoid = outer_ellipsoid(quadratic, q)
        assert ellipsoid.radius == np.sort(ellipsoid.gammas)[::-1][q - 1] * (1.0 + SLACK)
    assert largest(np.array([1.0, np.inf, 3.0]), 2) == 3.0


@pytest.mark.parametrize("p", [1, 3])
def test_the_dual_is_minimised_over_mu(p: int) -> None:
    """[c + sum bh^2 / (Lambda - mu)] / mu over 0 < mu < Lambda_min by a bounded search."""
    rng = np.random.default_rng(p)
    lam = np.sort(rng.uniform(0.01, 1.0, size=(40, p)), axis=1)
    squares = rng.exponential(size=(40, p)) * 10.0 ** rng.uniform(-6.0, 6.0, size=(40, 1))
    constant = rng.exponential(size=40) * 10.0 ** rng.uniform(-6.0, 6.0, size=40)
    squares[:3], constant[3:6] = 0.0, 0.0
    squares[6], constant[6] = 0.0, 0.0
    found = _smallest_dual(lam, squares, constant)
    for ours, spectrum, square, const in zip(found, lam, squares, constant, strict=True):

        def dual(share: float, lam: Array = spectrum, sq: Array = square, c: float = const) -> float:
            mu = share * lam[0]
            return float(np.log((c + np.sum(sq / (lam - mu))) / mu))

        if const == 0.0 and not square.any():
            assert ours == 0.0
            continue
        best = minimize_scalar(dual, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
        assert np.log(ours) <= best.fun + 1e-9
        assert np.log(ours) >= best.fun - 1e-5


def test_the_eigenvalues_are_lowered_by_ties_and_rounding_as_stated() -> None:
    """The tolerance of ties for each of the m values, and eight roundings times p and the condition number."""
    for kind, p in (("linear", 2), ("sparse", 4)):
        quadratic = quadratic_of(quadratic_region(1, kind))
        scaled, lowered = in_metric(quadratic)
        ties = quadratic.perturbations.m * 1e-12
        assert lowered - ties == pytest.approx(8.0 * 2.0**-52 * p * quadratic.condition, rel=1e-3, abs=0.0)
        np.testing.assert_allclose(scaled.slope.T @ scaled.slope, np.eye(p), atol=1e-12)


def test_a_direction_that_no_perturbation_sees_is_unbounded() -> None:
    """The flipped point does not touch the second coefficient: A is singular, its second eigenvalue positive."""
    X = np.array([[1.0, 0.0], [1.1, 0.0], [0.0, 1.0], [0.0, 1.1]])
    objective = LinearLSSVM(X, 1.0, bias=False)
    for column, signs in ((1, [-1.0, 1.0, 1.0, 1.0]), (0, [1.0, 1.0, -1.0, 1.0])):
        drawn = Perturbations("signs", np.array([signs]), None, None)
        quadratic = PerturbedQuadratic.of(objective, np.array([1.0, 0.5, -1.0, 2.0]), drawn)
        assert outer_radii(quadratic).tolist() == [np.inf]
        band = pointwise_band(quadratic, 1, np.eye(2))
        assert np.isinf(band.upper[column])
        assert np.isinf(band.lower[column])


def test_the_balance_comes_with_its_derivative() -> None:
    rng = np.random.default_rng(9)
    lam = np.sort(rng.uniform(0.1, 1.0, size=(20, 3)), axis=1)
    square, const, theta = rng.exponential(size=(20, 3)), rng.exponential(size=20), rng.normal(size=20)
    above, below = (_log_balance(theta + step, lam, square, const)[0] for step in (1e-6, -1e-6))
    slope = _log_balance(theta, lam, square, const)[1]
    np.testing.assert_allclose(slope, (above - below) / 2e-6, rtol=1e-6)


def test_half_widths_are_rounded_outward() -> None:
    ellipsoid = Ellipsoid(np.zeros(1), np.eye(1), 4.0, np.array([4.0]), 1)
    assert ellipsoid.half_widths(np.ones((1, 1)))[0] > 2.0
