"""Chains and their diagnostics, step by step as the docstrings say, without the batching."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.hamiltonian import (
    HMCSettings,
    Points,
    chain_diagnostics,
    effective_sample_size,
    identified_quantities,
    sample_hmc,
    split_r_hat,
    transition,
)
from gpsuite.models.sampling.posterior import HyperPosterior, Target, finite_prior_draws
from tests.arrays import Array
from tests.models.half_space_target import HalfSpace
from tests.models.linear_gaussian_target import LinearGaussianModel, linear_data

MODEL, DATA = LinearGaussianModel(), linear_data(0, 12)
TARGET = Target(MODEL, MODEL.likelihood(DATA))


def _chains(n: int, chains: int, rho: float, seed: int) -> Array:
    noise = np.random.default_rng(seed).standard_normal((n, chains))
    x = np.zeros_like(noise)
    for t in range(n):
        x[t] = rho * x[t - 1] + noise[t]
    return x + 0.1 * np.arange(chains)


def _split(x: Array) -> list[Array]:
    half = len(x) // 2
    return [part for chain in x.T for part in (chain[:half], chain[len(chain) - half :])]


def _variances(parts: list[Array]) -> tuple[float, float]:
    """W and var+ of Gelman et al. (section 11.4)."""
    n = len(parts[0])
    within = float(np.mean([np.sum((part - np.mean(part)) ** 2) / (n - 1) for part in parts]))
    between = n * float(np.var([np.mean(part) for part in parts], ddof=1))
    return within, (n - 1) / n * within + between / n


@pytest.mark.parametrize("n", [4, 5, 9, 40, 201])
@pytest.mark.parametrize(("chains", "rho"), [(1, 0.5), (3, 0.9), (4, -0.6)])
def test_diagnostics_are_their_definitions(n: int, chains: int, rho: float) -> None:
    """R-hat of Gelman et al.; the effective size by Geyer's initial monotone sequence, lag by lag."""
    x = _chains(n, chains, rho, seed=n)
    parts = _split(x)
    length, (within, total) = len(parts[0]), _variances(parts)
    assert split_r_hat(x) == pytest.approx(np.sqrt(total / within), rel=1e-12)
    correlations = [1.0]
    for lag in range(1, length):
        products = [np.sum((p[lag:] - p.mean()) * (p[: length - lag] - p.mean())) / length for p in parts]
        correlations.append(1.0 - (within - np.mean(products)) / total)
    time, smallest = -1.0, np.inf
    for k in range(length // 2):
        pair = correlations[2 * k] + correlations[2 * k + 1]
        if pair < 0.0:
            break
        smallest = min(smallest, pair)
        time += 2.0 * smallest
    draws = length * len(parts)
    expected = draws / max(time, 1.0 / np.log10(draws))
    assert effective_sample_size(x) == pytest.approx(expected, rel=1e-9)


def test_chains_that_stand_still_have_no_effective_draws() -> None:
    assert effective_sample_size(np.ones((10, 3))) == 0.0


def test_four_draws_a_chain_are_enough_for_diagnostics() -> None:
    draws = np.random.default_rng(0).standard_normal((4, 3, 2))
    found = chain_diagnostics(draws)
    assert found["r_hat"] == max(split_r_hat(draws[..., k]) for k in range(2))
    assert found["ess"] == min(effective_sample_size(draws[..., k]) for k in range(2))
    assert np.isnan(chain_diagnostics(draws[:3])["ess"])


def test_chains_are_the_transitions_one_after_another() -> None:
    """Draws, steps, acceptance and diagnostics of `sample_hmc` from a loop as its docstring describes it."""
    settings = HMCSettings(
        chains=3, burn_in=8, samples=5, thinning=2, leapfrog=4, step=0.2, adaptation=6, adaptation_rate=0.3
    )
    assert settings.transitions == 8 + 1 + 4 * 3
    found = sample_hmc(MODEL, TARGET.likelihood, np.random.default_rng(11), settings)
    rng = np.random.default_rng(11)
    points, step = Points.at(TARGET, finite_prior_draws(TARGET, rng, 3)), np.full(3, 0.2)
    draws, acceptance = [], []
    for number in range(1, settings.transitions + 1):
        moved = transition(TARGET, points, step, 4, rng)
        points = moved.points
        if number <= 6:
            step = np.where(moved.acceptance > 0.75, step * 1.3, step / 1.3)
        if number > 8:
            acceptance.append(moved.acceptance.mean())
            if (number - 9) % 3 == 0:
                draws.append(points.u)
    np.testing.assert_allclose(found.u, np.concatenate(draws), rtol=1e-9)
    assert found.diagnostics["acceptance"] == pytest.approx(np.mean(acceptance))
    assert found.diagnostics["step_size"] == pytest.approx(step.mean())
    assert found.diagnostics["gradients"] == 3 * (1 + 4 * 21)
    values = np.stack([identified_quantities(MODEL, TARGET.likelihood, u) for u in draws])
    expected = chain_diagnostics(values)
    assert found.diagnostics["r_hat"] == pytest.approx(expected["r_hat"], rel=1e-6)
    assert found.diagnostics["ess"] == pytest.approx(expected["ess"], rel=1e-6)


def test_a_trajectory_is_leapfrog_steps_and_one_metropolis_step() -> None:
    """Each chain alone, by Neal's equations (2.28) to (2.30), from the same random numbers."""
    start = Points.at(TARGET, np.random.default_rng(1).standard_normal((5, 4)))
    step = np.array([0.05, 0.1, 0.2, 0.3, 0.4])
    moved = transition(TARGET, start, step, 3, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    momenta, uniform = rng.standard_normal((5, 4)), rng.random(5)
    for chain in range(5):
        q, p = start.u[chain].copy(), momenta[chain].copy()
        before = start.log_density[chain] - 0.5 * p @ p
        for _ in range(3):
            p = p + 0.5 * step[chain] * TARGET(q[None])[1][0]
            q = q + step[chain] * p
            p = p + 0.5 * step[chain] * TARGET(q[None])[1][0]
        ratio = np.exp(TARGET(q[None])[0][0] - 0.5 * p @ p - before)
        assert moved.acceptance[chain] == pytest.approx(min(1.0, ratio), rel=1e-9)
        assert moved.accepted[chain] == (1.0 - uniform[chain] < ratio)
        expected = q if moved.accepted[chain] else start.u[chain]
        np.testing.assert_allclose(moved.points.u[chain], expected, rtol=1e-12)
    assert 0 < np.count_nonzero(moved.accepted) < 5


def test_identified_quantities_are_in_their_order() -> None:
    model = LinearCoregionalization(3, 2)
    rng = np.random.default_rng(3)
    observations = Observations(rng.uniform(size=(7, 1)), rng.integers(0, 3, 7), rng.standard_normal(7))
    u, likelihood = model.draw_prior(rng, 4), model.likelihood(observations)
    found = identified_quantities(model, likelihood, u)
    for row, one in zip(found, u, strict=True):
        C = model.prior_covariance(one[None])[0]
        correlations = [C[p, q] / np.sqrt(C[p, p] * C[q, q]) for p, q in ((1, 0), (2, 0), (2, 1))]
        expected = [likelihood.value(one[None])[0], *np.log(model.noise(one[None])[0]), *np.log(np.diag(C))]
        np.testing.assert_allclose(row, [*expected, *correlations], rtol=1e-10)


class PartlyUndefined(HalfSpace):
    """A finite value everywhere whose gradient has one component that is not finite, where u_0 > 0."""

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        gradient = np.zeros_like(u)
        gradient[u[:, 0] > 0.0, 1] = np.inf
        return np.zeros(len(u)), gradient


def test_one_undefined_slope_is_a_rejection() -> None:
    value, gradient = Target(MODEL, PartlyUndefined(0.0))(np.array([[1.0, 1, 0, 0], [-1.0, 1, 0, 0]]))
    assert value[0] == -np.inf
    assert gradient.tolist() == [[0.0] * 4, [1.0, -1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("field", "value"),
    [("chains", 0), ("leapfrog", 0), ("thinning", -1), ("step", 0.0), ("step", -1.0), ("samples", 0)],
)
def test_settings_of_no_use_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match="at least 1, step positive"):
        HMCSettings(**{field: value})  # type: ignore[arg-type]
    HMCSettings(chains=1, samples=1, leapfrog=1, thinning=0, burn_in=0, adaptation=0)


def test_weights_are_a_distribution_to_a_billionth() -> None:
    HyperPosterior(np.zeros((2, 1)), np.array([0.0, 1.0 + 5e-10]))
    for weights in ([0.5, 0.5 + 3e-9], [0.5, 0.5 - 3e-9], [-1e-12, 1.0 + 1e-12]):
        with pytest.raises(ValueError, match="sum to 1"):
            HyperPosterior(np.zeros((2, 1)), np.array(weights))
    with pytest.raises(ValueError, match="must be"):
        HyperPosterior(np.zeros(2), np.array([0.5, 0.5]))


def test_the_defaults_are_the_papers_sampler() -> None:
    """2,380 transitions, 23,800 gradients a chain; step .01, adapted by tenths to an acceptance of .75 in 90 steps."""
    settings = HMCSettings()
    assert settings.leapfrog * settings.transitions == 23_800
    assert (settings.step, settings.adaptation, settings.burn_in) == (0.01, 90, 300)
    assert (settings.adaptation_rate, settings.target_acceptance) == (0.1, 0.75)
    assert (settings.samples, settings.thinning) == (100, 20)
