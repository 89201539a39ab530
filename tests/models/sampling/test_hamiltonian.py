"""Hamiltonian moves leave a density invariant, chains find a known posterior, diagnostics tell good from bad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.models.sampling.hamiltonian import (
    HMCSettings,
    Points,
    chain_diagnostics,
    effective_sample_size,
    sample_hmc,
    split_r_hat,
    transition,
)
from gpsuite.models.sampling.posterior import HyperPosterior, NoFiniteStartError, Target, finite_prior_draws
from tests.arrays import Array
from tests.models.half_space_target import HalfSpace
from tests.models.linear_gaussian_target import LinearGaussianModel, linear_data
from tests.models.posterior_reference import (
    MAIN,
    check_against_reference,
    main_invariants,
    main_observations,
    quantities,
)

MODEL, DATA = LinearGaussianModel(), linear_data(0, 12)
TARGET = Target(MODEL, MODEL.likelihood(DATA))
STANDARD_ERRORS = 4.5  # of a mean over many draws: false alarms of about 1e-5 per number


def _exact_draws(rng: np.random.Generator, count: int) -> Array:
    mean, covariance = MODEL.posterior(DATA)
    return rng.multivariate_normal(mean, covariance, size=count, method="cholesky")


def _z_scores(draws: Array, expected: Array) -> Array:
    return (draws.mean(axis=0) - expected) / (draws.std(axis=0) / np.sqrt(len(draws)))


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("previous", [None, MODEL.likelihood(linear_data(1, 3))])
def test_the_gradient_of_a_target_is_that_of_its_value(beta: float, previous: Any) -> None:
    target = Target(MODEL, MODEL.likelihood(DATA), beta, previous)
    u, h = np.random.default_rng(0).standard_normal((3, 4)), 1e-5
    steps = h * np.eye(4)
    found = [(target(u + step)[0] - target(u - step)[0]) / (2.0 * h) for step in steps]
    np.testing.assert_allclose(target(u)[1], np.transpose(found), rtol=1e-6, atol=1e-6)


def test_a_target_between_two_posteriors_mixes_their_likelihoods() -> None:
    u, old = np.random.default_rng(0).standard_normal((5, 4)), MODEL.likelihood(linear_data(1, 3))
    ends = [Target(MODEL, TARGET.likelihood, beta, old)(u)[0] for beta in (0.0, 1.0)]
    np.testing.assert_allclose(Target(MODEL, TARGET.likelihood, 0.25, old)(u)[0], 0.75 * ends[0] + 0.25 * ends[1])
    np.testing.assert_array_equal(ends[1], TARGET(u)[0])


@pytest.mark.parametrize("outside", [-np.inf, np.inf, np.nan])
def test_a_target_turns_what_is_not_finite_into_a_rejection(outside: float) -> None:
    value, gradient = Target(MODEL, HalfSpace(0.0, outside))(np.array([[1.0, 0, 0, 0], [-1.0, 0, 0, 0]]))
    assert np.isfinite(value[0])
    assert value[1] == -np.inf
    assert gradient.tolist() == [[-1.0, 0, 0, 0], [0.0, 0, 0, 0]]


def test_leapfrog_conserves_energy_to_second_order() -> None:
    start = Points.at(TARGET, _exact_draws(np.random.default_rng(0), 400))
    losses = []
    for step, leapfrog in ((0.02, 10), (0.01, 20)):
        moved = transition(TARGET, start, np.full(400, step), leapfrog, np.random.default_rng(1))
        losses.append(float(np.mean(-np.log(moved.acceptance))))
    assert 3.0 < losses[0] / losses[1] < 5.0  # a quarter at half the step


def test_every_point_moves_by_its_own_step() -> None:
    start = Points.at(TARGET, _exact_draws(np.random.default_rng(0), 2))
    both = transition(TARGET, start, np.array([0.1, 1e-9]), 10, np.random.default_rng(1))
    assert np.abs(both.points.u - start.u).max(axis=1) == pytest.approx([0.5, 1e-8], abs=0.45)
    assert both.acceptance[1] == pytest.approx(1.0)
    same = transition(TARGET, start, np.array([0.1, 0.1]), 10, np.random.default_rng(1))
    np.testing.assert_array_equal(same.points.u[0], both.points.u[0])


def test_a_transition_leaves_the_posterior_invariant() -> None:
    """Half of the proposals are refused: without the refusals the spread would be wrong by many standard errors."""
    rng = np.random.default_rng(2)
    start = Points.at(TARGET, _exact_draws(rng, 20_000))
    moved = transition(TARGET, start, rng.uniform(0.15, 0.25, 20_000), 10, rng)
    assert 0.3 < moved.accepted.mean() < 0.8
    assert moved.accepted.mean() == pytest.approx(moved.acceptance.mean(), abs=0.02)
    mean, covariance = MODEL.posterior(DATA)
    u = moved.points.u
    assert np.abs(_z_scores(u, mean)).max() < STANDARD_ERRORS
    assert np.abs(_z_scores((u - mean) ** 2, np.diag(covariance))).max() < STANDARD_ERRORS
    value, gradient = TARGET(u)
    np.testing.assert_allclose(moved.points.log_density, value)
    np.testing.assert_allclose(moved.points.gradient, gradient)


@pytest.mark.parametrize("outside", [-np.inf, np.nan])
def test_trajectories_through_undefined_points_are_rejected_without_bias(outside: float) -> None:
    target, rng = Target(MODEL, HalfSpace(0.0, outside)), np.random.default_rng(3)
    u = rng.standard_normal((20_000, 4))
    u[:, 0] = np.abs(u[:, 0])
    moved = transition(target, Points.at(target, u), np.full(len(u), 0.15), 10, rng)
    assert 0.1 < np.mean(moved.acceptance == 0.0) < 0.6
    assert moved.points.u[:, 0].min() > 0.0
    assert abs(_z_scores(moved.points.u[:, 0], np.sqrt(2.0 / np.pi))) < STANDARD_ERRORS


def test_far_points_are_refused_quietly() -> None:
    start = Points.at(TARGET, _exact_draws(np.random.default_rng(0), 8))
    moved = transition(TARGET, start, np.full(8, 1e100), 10, np.random.default_rng(1))
    assert not moved.accepted.any()
    np.testing.assert_array_equal(moved.points.u, start.u)


def test_starts_are_finite_or_there_is_an_error() -> None:
    rng = np.random.default_rng(0)
    u = finite_prior_draws(Target(MODEL, HalfSpace(1.0)), rng, 50)
    assert u.shape == (50, 4)
    assert u[:, 0].min() > 1.0
    with pytest.raises(NoFiniteStartError):
        finite_prior_draws(Target(MODEL, HalfSpace(np.inf)), rng, 2)


def test_a_posterior_checks_its_weights() -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        HyperPosterior(np.zeros((2, 3)), np.array([0.5, 0.6]))
    with pytest.raises(ValueError, match="must be"):
        HyperPosterior(np.zeros((2, 3)), np.array([1.0]))
    with pytest.raises(ValueError, match="finite"):
        HyperPosterior(np.array([[np.nan]]), np.array([1.0]))
    assert len(HyperPosterior.equal(np.zeros((4, 3)), {})) == 4


def test_the_papers_settings_take_2380_transitions() -> None:
    assert HMCSettings().transitions == 2380
    assert HMCSettings(burn_in=100, samples=1).transitions == 101
    with pytest.raises(ValueError, match="burn_in"):
        HMCSettings(burn_in=50)
    with pytest.raises(ValueError, match="at least 1"):
        HMCSettings(samples=0)


def test_chains_find_the_exact_posterior() -> None:
    settings = HMCSettings(chains=32, burn_in=150, samples=30, thinning=5)
    found = sample_hmc(MODEL, TARGET.likelihood, np.random.default_rng(4), settings)
    assert found.u.shape == (960, 4)
    mean, covariance = MODEL.posterior(DATA)
    chains = found.u.reshape(30, 32, 4)
    assert np.abs(_z_scores(chains.mean(axis=0), mean)).max() < STANDARD_ERRORS
    assert np.abs(_z_scores(((chains - mean) ** 2).mean(axis=0), np.diag(covariance))).max() < STANDARD_ERRORS
    assert found.diagnostics["gradients"] == 32 * (1 + 10 * settings.transitions)
    assert 0.5 < found.diagnostics["acceptance"] < 0.95
    assert found.diagnostics["r_hat"] < 1.1  # halves of 15 draws
    assert 200.0 < found.diagnostics["ess"] <= 960.0 * np.log10(960.0)


def test_draws_are_spaced_by_the_thinning_and_follow_the_generator() -> None:
    def draw(thinning: int, samples: int) -> Array:
        settings = HMCSettings(burn_in=90, samples=samples, thinning=thinning)
        return sample_hmc(MODEL, TARGET.likelihood, np.random.default_rng(5), settings).u

    np.testing.assert_array_equal(draw(0, 10)[::3], draw(2, 4))


def test_without_adaptation_the_step_stays() -> None:
    settings = HMCSettings(burn_in=0, adaptation=0, samples=3, step=0.07)
    found = sample_hmc(MODEL, TARGET.likelihood, np.random.default_rng(0), settings)
    assert found.diagnostics["step_size"] == 0.07
    assert np.isnan(found.diagnostics["r_hat"])  # 3 draws


def _autoregressive(rho: float, n: int, chains: int, seed: int) -> Array:
    noise = np.random.default_rng(seed).standard_normal((n, chains))
    x = np.empty_like(noise)
    x[0] = noise[0]
    for t in range(1, n):
        x[t] = rho * x[t - 1] + np.sqrt(1.0 - rho**2) * noise[t]
    return x


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.5, 0.9])
def test_the_effective_size_of_an_autoregression_is_right(rho: float) -> None:
    x = _autoregressive(rho, 4000, 4, 6)
    expected = x.size * (1.0 - rho) / (1.0 + rho)
    assert effective_sample_size(x) == pytest.approx(expected, rel=0.2)
    assert split_r_hat(x) == pytest.approx(1.0, abs=0.01)


def test_the_effective_size_is_about_the_variance_of_the_mean() -> None:
    means = np.array([_autoregressive(0.7, 200, 1, seed).mean() for seed in range(300)])
    sizes = [effective_sample_size(_autoregressive(0.7, 200, 1, seed)) for seed in range(300)]
    assert np.mean(sizes) == pytest.approx(1.0 / means.var(), rel=0.25)


def test_chains_apart_and_drifting_chains_are_seen() -> None:
    x = _autoregressive(0.0, 100, 4, 7)
    apart, drifting = x + np.array([0.0, 0.0, 0.0, 3.0]), x[:, :1] + np.linspace(0.0, 4.0, 100)[:, None]
    for bad in (apart, drifting):
        assert split_r_hat(bad) > 1.3
        assert effective_sample_size(bad) < 15.0


def test_diagnostics_take_the_worst_and_see_stuck_chains() -> None:
    x = _autoregressive(0.0, 100, 4, 8)
    columns = np.stack([x, x + np.arange(4.0), np.ones_like(x)], axis=2)
    found = chain_diagnostics(columns)
    assert found == {"r_hat": split_r_hat(columns[..., 1]), "ess": effective_sample_size(columns[..., 1])}
    assert chain_diagnostics(columns[..., 2:]) == {"r_hat": np.inf, "ess": 0.0}
    assert split_r_hat(np.tile(np.arange(2.0), (10, 1))) == np.inf


@pytest.fixture(scope="module")
def reference_runs() -> dict[str, Array]:
    """Draws of 48 chains, quantity -> [draws, chains]."""
    settings = HMCSettings(chains=48, burn_in=120, samples=15, thinning=9)
    likelihood = MAIN.likelihood(main_observations())
    u = sample_hmc(MAIN, likelihood, np.random.default_rng(0), settings).u
    return {name: values.reshape(15, 48) for name, values in main_invariants(u).items()}


@pytest.mark.reference
@pytest.mark.parametrize(("name", "row"), quantities("mogp"))
def test_chains_find_the_reference_posterior(
    name: str, row: dict[str, float], reference_runs: dict[str, Array]
) -> None:
    draws = reference_runs[name]
    check_against_reference(draws.mean(axis=0), draws.std(axis=0), row)
