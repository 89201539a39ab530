"""Balls of the kernel's norm: their boundary, their powers, and the band of a region within them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from gpsuite.methods.perturbation import bands
from gpsuite.methods.perturbation.bands import NormBall, _outward, norm_ball_band
from gpsuite.methods.perturbation.ellipsoid import PerturbedQuadratic
from gpsuite.methods.perturbation.quadratic import KernelLSSVM, KernelRidge, LinearLSSVM
from gpsuite.methods.perturbation.ranks import Perturbations
from gpsuite.methods.perturbation.rays import Members, sample_members, single_point_directions
from gpsuite.methods.perturbation.region import ConfidenceRegion
from tests.arrays import Array
from tests.methods.perturbation.geometry_problems import (
    data,
    gaussian,
    nonsmooth_region,
    quadratic_of,
    quadratic_region,
)

GRID = np.linspace(-2.4, 2.4, 25)


def many_rays(region: ConfidenceRegion, seed: int = 0) -> Array:
    K = region.objective.design
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(300, len(K))), single_point_directions(K)])


def test_ball_steps_end_on_the_sphere() -> None:
    region = quadratic_region(0, "kernel", n=10)
    ball = NormBall(region.objective.gram, 4.0)  # type: ignore[attr-defined]
    rays = many_rays(region)
    steps = ball.steps(region.estimate, rays)
    np.testing.assert_allclose(ball.norms(region.estimate + steps[:, None] * rays), 4.0, rtol=1e-10)
    assert np.all(ball.contains(region.estimate + 0.999 * steps[:, None] * rays))


def test_a_bias_alone_has_no_norm() -> None:
    K = quadratic_region(0, "kernel", n=5).objective.gram  # type: ignore[attr-defined]
    ball = NormBall(K, 2.0, free=1)
    rays = np.vstack([np.eye(6)[0], np.eye(6)[1]])
    assert np.isinf(ball.steps(np.zeros(6), rays)).tolist() == [True, False]


def test_an_estimate_outside_the_ball_is_refused() -> None:
    region = quadratic_region(0, "kernel", n=10)
    with pytest.raises(ValueError, match=r"exceeds the bound B=0\.01"):
        region.boundary(many_rays(region), NormBall(region.objective.gram, 0.01))  # type: ignore[attr-defined]


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan])
def test_a_bound_that_is_no_bound_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="bound must be positive and finite"):
        NormBall(np.eye(2), bound)


def test_with_the_ball_every_ray_is_bounded() -> None:
    """Also those along which the region itself never ends; and the ends are members of both sets."""
    for region in (
        quadratic_region(4, "kernel", n=10, m=40, q=4),
        nonsmooth_region(1, "svr"),
        nonsmooth_region(1, "lasso"),
    ):
        ball = NormBall(region.objective.gram, 5.0)  # type: ignore[attr-defined]
        rays = many_rays(region)
        assert region.boundary(rays).unbounded_share > 0.0
        boundary = region.boundary(rays, ball)
        assert boundary.unbounded_share == 0.0
        assert np.all(ball.contains(boundary.members))
        assert np.mean(region.contains(boundary.members)) > 0.99
        steps = ball.steps(region.estimate, rays)
        assert np.all(boundary.outside <= steps * (1.0 + 1e-9))


def test_the_power_function_is_zero_at_the_data_and_the_prior_far_away() -> None:
    x = np.linspace(-1.0, 1.0, 8)
    ball = NormBall(gaussian(x, x, 0.3), 1.0)
    powers = ball.powers(gaussian(np.append(x, 50.0), x, 0.3), np.ones(9))
    np.testing.assert_allclose(powers, np.append(np.zeros(8), 1.0), atol=1e-6)


def interpolants(region: ConfidenceRegion, x: Array, alphas: Array, bound: float, rng: np.random.Generator):
    """Return values on GRID of functions of norm B that equal f_alpha at x: f_alpha plus a part that vanishes there."""
    far = rng.uniform(-3.0, 3.0, size=(len(alphas), 6))
    values = []
    for alpha, z in zip(alphas, far, strict=True):
        # g = sum_k w_k k(., z_k) minus its interpolant at x has g(x) = 0 and a norm of its own
        w = rng.normal(size=len(z))
        cross, square = gaussian(x, z, 0.2), gaussian(z, z, 0.2)
        K = region.objective.design
        inner = np.linalg.solve(K, cross @ w)
        size = np.sqrt(w @ square @ w - (cross @ w) @ inner)
        part = gaussian(GRID, z, 0.2) @ w - gaussian(GRID, x, 0.2) @ inner
        left = np.sqrt(bound**2 - alpha @ K @ alpha)
        values.append(gaussian(GRID, x, 0.2) @ alpha + part * left / size)
    return np.array(values)


def members_envelope(
    members: Members, estimate: Array, features: Array, ball: NormBall, variances: Array
) -> tuple[Array, Array]:
    """The range of phi(x)'alpha +- P(x) sqrt(B^2 - |f_alpha|^2) over the members within the ball, lower and upper."""
    alphas = np.vstack([estimate[None], members.alphas])
    alphas = alphas[ball.contains(alphas)]
    reach = np.sqrt(ball.bound**2 - ball.norms(alphas) ** 2)[:, None] * ball.powers(features, variances)
    values = alphas @ features.T
    return (values - reach).min(axis=0), (values + reach).max(axis=0)


@pytest.mark.parametrize("bound", [2.5, 6.0])
def test_envelopes_contain_the_interpolants_of_that_norm(bound: float) -> None:
    region = quadratic_region(4, "kernel", n=12, m=20, q=10)
    x, _, rng = data(4, 12)
    ball = NormBall(region.objective.gram, bound)  # type: ignore[attr-defined]
    boundary = region.boundary(many_rays(region), ball)
    members = sample_members(boundary, region.contains, "mixed", rng, inner=1)
    members = Members(members.alphas[ball.contains(members.alphas)], members.sampler, members.rays, 0.0, 0)
    rows, variances = gaussian(GRID, x, 0.2), np.ones(len(GRID))
    values = interpolants(region, x, members.alphas, bound, rng)
    inner = members_envelope(members, region.estimate, rows, ball, variances)
    outer = norm_ball_band(quadratic_of(region), region.q, rows, ball, variances)
    assert outer.target == "true function"
    for low, high in (inner, (outer.lower, outer.upper)):
        assert np.all((values >= low) & (values <= high))
    # the envelope of members is attained by members, so the outer band contains it
    assert np.all((inner[0] >= outer.lower) & (inner[1] <= outer.upper))
    assert np.all(np.abs(outer.upper) <= bound)


def test_the_outer_band_knows_the_data() -> None:
    """At the data it is narrower than the ball's +-B; far from them it is the ball's own."""
    region = quadratic_region(4, "kernel", n=12, m=100, q=50)
    x, _, _ = data(4, 12)
    at = np.append(x, 40.0)
    ball = NormBall(region.objective.gram, 4.0)  # type: ignore[attr-defined]
    band = norm_ball_band(quadratic_of(region), 50, gaussian(at, x, 0.2), ball, np.ones(13))
    assert np.mean((band.upper - band.lower)[:-1]) < 0.9 * 8.0
    assert band.upper[-1] == pytest.approx(4.0, rel=0.02)


def test_a_numerically_singular_gram_matrix_keeps_its_band() -> None:
    x, y, rng = data(0, 30)
    K = gaussian(x, x, 1.0)
    assert np.linalg.cond(K) > 1e15
    source = quadratic_region(0, "kernel", n=30, m=40, q=20)
    region = ConfidenceRegion(KernelRidge(K, 0.05), y, source.perturbations, 20)
    ball = NormBall(K, 3.0)
    rows = gaussian(GRID, x, 1.0)
    band = norm_ball_band(quadratic_of(region), 20, rows, ball, np.ones(len(GRID)))
    boundary = region.boundary(rng.normal(size=(200, ball.basis.shape[1])) @ ball.basis.T, ball)
    values = boundary.members @ rows.T
    assert np.all(np.isfinite(band.lower) & (values >= band.lower) & (values <= band.upper))


def test_a_model_with_bias_keeps_its_members_in_the_band() -> None:
    x, y, rng = data(0, 10)
    K = gaussian(x, x, 0.2)
    source = quadratic_region(0, "kernel", n=10, m=20, q=10)
    region = ConfidenceRegion(KernelLSSVM(K, 2.0), y, source.perturbations, 10)
    ball = NormBall(K, 4.0, free=1)
    rows = np.column_stack([np.ones(len(GRID)), gaussian(GRID, x, 0.2)])
    quadratic = PerturbedQuadratic.of(region.objective, y, region.perturbations)  # type: ignore[arg-type]
    band = norm_ball_band(quadratic, 10, rows, ball, np.ones(len(GRID)))
    boundary = region.boundary(rng.normal(size=(300, 11)), ball)
    values = boundary.members @ rows.T
    assert np.all((values >= band.lower) & (values <= band.upper))
    assert np.all(np.isfinite(band.upper))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_ball_band_of_one_perturbation_is_nearly_the_exact_one(seed: int, bias: bool) -> None:
    """max f(x) over Z_0 <= Z_1 and |f|_H <= B, functions that vanish at the data included, by a convex solver."""
    x, y, _ = data(seed, 6)
    K = gaussian(x, x, 0.5)
    objective = KernelLSSVM(K, 2.0) if bias else KernelRidge(K, 0.05)
    signs = np.array([[1.0, -1.0, 1.0, -1.0, -1.0, 1.0]])
    region = ConfidenceRegion(objective, y, Perturbations("signs", signs, None, None), 1)
    ball = NormBall(K, 3.0, free=int(bias))
    at = np.array([x[2], 0.1, 0.9, 3.0])
    rows = np.column_stack([np.ones(4), gaussian(at, x, 0.5)]) if bias else gaussian(at, x, 0.5)
    band = norm_ball_band(quadratic_of(region), 1, rows, ball, np.ones(4))
    left = 1.0 - np.einsum("jk,kj->j", rows[:, int(bias) :], np.linalg.solve(K, rows[:, int(bias) :].T))
    power = np.sqrt(np.maximum(left, 0.0))  # zero at a datum, up to rounding

    def norm_left(z: Array) -> float:
        return float(9.0 - z[int(bias) : -1] @ K @ z[int(bias) : -1] - z[-1] ** 2)

    def gap(z: Array) -> float:
        Z = region.z_values(z[None, :-1])[0]
        return float(Z[1] - Z[0])

    for row, vanishing, low, high in zip(rows, power, band.lower, band.upper, strict=True):
        for sign, bound in ((1.0, high), (-1.0, -low)):
            target = sign * np.append(row, 0.0) + np.append(np.zeros(len(row)), vanishing)
            found = minimize(
                lambda z, target=target: -target @ z,
                np.append(region.estimate, 0.0),
                constraints=[{"type": "ineq", "fun": norm_left}, {"type": "ineq", "fun": gap}],
                method="SLSQP",
                options={"maxiter": 300, "ftol": 1e-10},
            )
            assert norm_left(found.x) > -1e-6
            assert gap(found.x) > -1e-6
            assert -found.fun <= bound + 1e-5
            assert bound <= -found.fun + 0.02 * (abs(found.fun) + 0.3)


def test_outward_is_above_by_the_slack_of_both_sizes() -> None:
    centre, height = np.array([1.0, -2.0, 3.0, 0.0]), np.array([2.0, 5.0, -1.0, np.inf])
    excess = _outward(centre, height)[:3] - (centre + height)[:3]
    np.testing.assert_allclose(excess, 1e-9 * np.array([3.0, 7.0, 4.0]), rtol=1e-6)
    assert _outward(centre, height)[3] == np.inf


def test_a_centre_on_the_sphere_is_still_inside() -> None:
    ball = NormBall(np.eye(2), 5.0)
    centre = np.array([3.0, 4.0])
    steps = ball.steps(centre, np.array([[3.0, 4.0], [-3.0, -4.0], [4.0, -3.0]]))
    assert steps.tolist() == [0.0, 2.0, 0.0]
    assert ball.contains(np.array([[3.0, 4.0], [3.0, 4.0001]])).tolist() == [True, False]


@pytest.mark.parametrize("size", [0.01, 100.0])
def test_ties_and_rounding_are_relative_to_the_largest_eigenvalue(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What eigenvalues are lowered by is in the units of F'F."""
    region = quadratic_region(4, "kernel", n=6, m=4, q=2)
    x, _, _ = data(4, 6)
    ball = NormBall(size * region.objective.gram, 4.0)  # type: ignore[attr-defined]
    quadratic, found = quadratic_of(region), []
    supports = bands._ball_supports
    monkeypatch.setattr(bands, "_ball_supports", lambda *given: found.append(given[-1]) or supports(*given))
    norm_ball_band(quadratic, 2, gaussian(GRID, x, 0.2), ball, np.ones(len(GRID)))
    slope = quadratic.in_basis(ball.basis).slope
    largest = np.linalg.eigvalsh(slope.T @ slope)[-1]
    np.testing.assert_allclose(found, (4 * 1e-12 + 2e-15 * slope.shape[1]) * largest, rtol=1e-12)


@pytest.mark.parametrize("factor", [1.0 + 1e-9, 2.0, 10.0])
@pytest.mark.parametrize("curvature", [3e-12, 5e-12, 1e-11])
def test_the_band_contains_the_members_that_hold_by_the_tolerance_of_ties(curvature: float, factor: float) -> None:
    objective = LinearLSSVM(np.array([[1.0], [np.sqrt(curvature / 2.0)]]), 1.0, bias=False)
    drawn = Perturbations("signs", np.array([[1.0, -1.0]]), None, None)
    region = ConfidenceRegion(objective, np.array([1.0, 1.0]), drawn, 1)
    low, high = 0.0, 1.0
    while region.contains(region.estimate[None] + high):
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        inside = region.contains(region.estimate[None] + middle)
        low, high = (middle, high) if inside else (low, middle)
    member = region.estimate + low
    ball = NormBall(np.eye(1), factor * float(abs(member[0])))
    band = norm_ball_band(quadratic_of(region), 1, np.eye(1), ball, np.ones(1))
    assert band.lower[0] < member[0] <= band.upper[0]


def test_powers_at_the_data_are_no_less_than_their_rounding() -> None:
    x = np.linspace(0.0, 1.0, 8)
    K = np.exp(-0.5 * ((x[:, None] - x) / 0.3) ** 2)
    eps = np.finfo(np.float64).eps
    assert (NormBall(K, 1.0).powers(K, np.ones(8)) >= np.sqrt(8.0 * eps * 8)).all()


def test_where_the_perturbations_say_nothing_the_band_is_the_ball_s_own_on_both_sides() -> None:
    region = quadratic_region(4, "kernel", n=12, m=20, q=10)
    nothing = Perturbations("signs", np.ones((19, 12)), None, None)
    x, _, _ = data(4, 12)
    at = np.append(np.linspace(-2.4, 2.4, 25), 40.0)
    ball, variances = NormBall(region.objective.gram, 2.5), np.linspace(1.0, 1.5, 26)  # type: ignore[attr-defined]
    quadratic = quadratic_of(ConfidenceRegion(region.objective, region.y, nothing, 10))
    band = norm_ball_band(quadratic, 10, gaussian(at, x, 0.2), ball, variances)
    np.testing.assert_array_equal(band.upper, 2.5 * np.sqrt(variances))
    np.testing.assert_array_equal(band.lower, -2.5 * np.sqrt(variances))
