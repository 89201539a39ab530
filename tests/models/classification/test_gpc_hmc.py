from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from gpsuite.models.classification import hmc
from gpsuite.models.classification.approximation import BinaryProblem, KernelSystem
from gpsuite.models.classification.hmc import HMCLatents, LatentHMCSettings, _summary, sample_latents
from gpsuite.models.classification.laplace import laplace
from gpsuite.models.classification.links import LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.sampling.hamiltonian import split_r_hat
from tests.arrays import Array
from tests.models.gpc_problems import fitted_posterior

# last draw at the first input, mean and standard deviation of the first draws from seed 0
DRAWN = (0.938804845724672, -0.9028218991569202, 1.1934872325511214)
SHORT = LatentHMCSettings(chains=4, burn_in=100, draws=400)
XNEW = np.random.default_rng(3).standard_normal((6, 2))


@cache
def sampled(link: Link) -> HMCLatents:
    posterior, y = fitted_posterior("ep", link=link)
    return sample_latents(posterior, y, XNEW, np.random.default_rng(0), SHORT)


@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=lambda link: link.name)
def test_ep_agrees_with_hmc(link: Link) -> None:
    gold = sampled(link)  # type: ignore[arg-type]
    assert gold.converged
    assert 0.6 < gold.acceptance < 0.97
    posterior, _ = fitted_posterior("ep", link=link)
    mean, variance = posterior.latent(XNEW)
    np.testing.assert_allclose(mean, gold.mean, atol=0.12)
    np.testing.assert_allclose(variance, gold.variance, rtol=0.15)
    # Laplace is known to underestimate the mean's size; it is close, and not closer than EP
    rough, _ = fitted_posterior("laplace", link=link)
    np.testing.assert_allclose(rough.latent(XNEW)[0], gold.mean, atol=0.8)
    assert np.abs(rough.latent(XNEW)[0] - gold.mean).mean() > np.abs(mean - gold.mean).mean()


def test_one_point_matches_quadrature() -> None:
    X, y, variance = np.zeros((1, 1)), np.ones(1), 9.0
    posterior = laplace(BinaryProblem(X, y, ModelSpec(), PROBIT), Hyperparameters(variance)).require_converged()
    assert KernelSystem(X, ModelSpec(), Hyperparameters(variance)).K[0, 0] == variance
    gold = sample_latents(posterior, y, X, np.random.default_rng(1), SHORT)
    f = np.linspace(-25.0, 25.0, 20_001)
    weight = np.exp(-0.5 * f * f / variance) * PROBIT.sigma(f)
    mean = (weight @ f) / weight.sum()
    spread = (weight @ (f - mean) ** 2) / weight.sum()
    assert gold.mean[0] == pytest.approx(mean, abs=0.15)
    assert gold.variance[0] == pytest.approx(spread, rel=0.12)
    # the coordinates come from Laplace, whose mean is far off here: the target must not depend on them
    assert abs(posterior.latent(X)[0][0] - mean) > 0.5


def test_draws_have_the_moments() -> None:
    gold = sampled(PROBIT)
    draws = gold.draws(np.random.default_rng(0))
    assert draws.shape == (SHORT.chains * SHORT.draws, len(XNEW))
    np.testing.assert_allclose(draws.mean(axis=0), gold.mean, atol=0.12)
    np.testing.assert_allclose(draws.var(axis=0), gold.variance, rtol=0.15)


def test_same_seed_same_draws_and_few_are_not_converged() -> None:
    posterior, y = fitted_posterior("ep")
    few = LatentHMCSettings(chains=2, burn_in=2, draws=6)
    found = sample_latents(posterior, y, XNEW, np.random.default_rng(0), few)
    assert not found.converged
    # of another process: a second run here would cost three more compilations
    drawn = (found.means[-1, 0], found.means.mean(), found.means.std())
    np.testing.assert_allclose(drawn, DRAWN, rtol=1e-6)


def test_other_links_are_refused() -> None:
    posterior, y = fitted_posterior("ep")
    object.__setattr__(posterior, "link", SQUEEZED_PROBIT)
    with pytest.raises(ValueError, match="probit or logistic is needed"):
        sample_latents(posterior, y, XNEW, np.random.default_rng(0), SHORT)


@pytest.mark.parametrize(
    ("largest", "smallest", "converged"), [(1.0, 1.0, True), (0.9999, 1.0, False), (1.0, 1.0001, False)]
)
def test_converged_is_both_limits_met(largest: float, smallest: float, converged: bool) -> None:
    """At the limits themselves; the moments are those of the mixture over draws, the worst input counts."""
    rng = np.random.default_rng(4)
    means, cross = rng.normal(size=(50, 3, 2)), 0.3 * rng.normal(size=(5, 2))
    means[:, 1, 1] += 1.0
    factor = stable_cholesky(np.eye(5))

    def summary(settings: LatentHMCSettings) -> HMCLatents:
        return _summary(means, 2.0, cross, np.array([[0.5, 1.0]]), factor, settings)

    first = summary(SHORT)
    found = summary(replace(SHORT, largest_r_hat=largest * first.r_hat, smallest_ess=smallest * first.ess))
    assert found.converged == converged
    conditional = 2.0 - np.sum(cross**2, axis=0)
    np.testing.assert_allclose(found.conditional_variance, conditional)
    np.testing.assert_allclose(found.mean, means.reshape(-1, 2).mean(axis=0))
    np.testing.assert_allclose(found.variance, means.reshape(-1, 2).var(axis=0) + conditional)
    np.testing.assert_array_equal(found.means, means.reshape(150, 2))
    assert (found.acceptance, found.jitter) == (0.75, 0.0)
    # Brooks and Gelman (1998), six half chains of 25: not rooted, so stricter than the limit's source
    ratio = split_r_hat(means[:, :, 1]) ** 2
    assert found.r_hat == pytest.approx(7.0 / 6.0 * ratio - 24.0 / 150.0, rel=1e-6)
    assert found.r_hat > ratio > split_r_hat(means[:, :, 0]) ** 2
    assert found.ess < 150


def test_draws_that_are_not_finite_have_not_converged() -> None:
    means = np.zeros((8, 2, 1))
    means[3] = np.inf
    with np.errstate(all="ignore"):
        found = _summary(
            means,
            1.0,
            np.zeros((2, 1)),
            np.ones((1, 1)),
            stable_cholesky(np.eye(2)),
            replace(SHORT, smallest_ess=-np.inf),
        )
    assert not found.converged


def test_the_defaults_are_those_of_the_published_runs_with_the_limits_of_vehtari_et_al() -> None:
    assert LatentHMCSettings() == LatentHMCSettings(4, 500, 2000, 0.8, largest_r_hat=1.01, smallest_ess=4 * 100.0)


@pytest.mark.parametrize("burn_in", [10, 11])
def test_both_adaptations_together_are_the_burn_in(burn_in: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def chain(kernel: object, start: Array, draws: int, seed: object, trace: object) -> tuple[Array, Array]:
        taken.append(draws)
        return np.zeros((draws, 2, 3)), np.full(draws, 0.1)

    monkeypatch.setattr(hmc, "_chain", chain)
    settings = LatentHMCSettings(chains=2, burn_in=burn_in, draws=7)
    hmc._run_chains(lambda z: z, 3, np.array([0, 0], np.int32), settings)
    assert taken == [5, burn_in - 5, 7]
