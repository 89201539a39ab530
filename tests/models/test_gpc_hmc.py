from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.gpc_fit import KernelSystem
from gpsuite.models.gpc_hmc import HMCLatents, HMCSettings, sample_latents
from gpsuite.models.laplace import laplace
from gpsuite.models.links import LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link
from tests.models.gpc_problems import fitted_posterior

SHORT = HMCSettings(chains=4, burn_in=100, draws=400)
XNEW = np.random.default_rng(3).standard_normal((6, 2))


@cache
def sampled(link: Link) -> HMCLatents:
    posterior, y = fitted_posterior("ep", link=link)
    return sample_latents(posterior, y, XNEW, np.random.default_rng(0), SHORT)


@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=lambda link: link.name)
def test_ep_agrees_with_hmc(link: Link) -> None:
    gold = sampled(link)
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


def test_one_point_against_quadrature() -> None:
    X, y, variance = np.zeros((1, 1)), np.ones(1), 9.0
    posterior = laplace(X, y, ModelSpec(), Hyperparameters(variance), PROBIT).require_converged()
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
    few = HMCSettings(chains=2, burn_in=5, draws=20)
    first, again = (sample_latents(posterior, y, XNEW, np.random.default_rng(0), few) for _ in range(2))
    assert not first.converged
    np.testing.assert_array_equal(first.means, again.means)


def test_other_links_are_refused() -> None:
    posterior, y = fitted_posterior("ep")
    object.__setattr__(posterior, "link", SQUEEZED_PROBIT)
    with pytest.raises(ValueError, match="probit or logistic is needed"):
        sample_latents(posterior, y, XNEW, np.random.default_rng(0), SHORT)
