"""Coefficients that are off by their stated rounding: the models must still enclose the exact moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound import level_bound as module
from gpsuite.methods.robustness.level_bound.cubic import Cubic
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.level_bound.squared_exponential import expand_squared_exponential
from tests.methods.robustness.level_bound.level_models import value
from tests.methods.robustness.made_up_posteriors import Exact, random_posterior

SLACK = 1e-3


def moved(rng: np.random.Generator, polynomial: Cubic, factorials: bool) -> Cubic:
    """Return the polynomial with <h, e_m>, or pairs of basis values, off by `SLACK` each."""

    def off(shape: tuple[int, ...]) -> FloatArray:
        return SLACK * rng.choice([-1.0, 1.0], shape)

    # The coefficient of x^m is a_m / sqrt(m!): an entry of the square moves by half of it at least.
    share = np.sqrt(0.5) if factorials else 1.0
    square = off(polynomial.quadratic.shape) * 0.5 * share
    return replace(
        polynomial,
        constant=polynomial.constant + off(polynomial.constant.shape),
        linear=polynomial.linear + off(polynomial.linear.shape),
        quadratic=polynomial.quadratic + 0.5 * (square + square.transpose(0, 2, 1)),
    )


@pytest.mark.parametrize("half", [1e-3, 0.05, 0.5, 1.5])
@pytest.mark.parametrize("inputs", [1, 2, 5])
def test_models_allow_for_the_rounding_of_their_coefficients(inputs: int, half: float) -> None:
    rng = np.random.default_rng([inputs, int(1e3 * half)])
    posterior = random_posterior(rng, "squared_exponential", "probit", 10, inputs)
    free = np.arange(inputs)
    bound = level_bound(posterior, posterior.X[0], free)
    form = replace(bound.form, mean_error=SLACK, gram_error=SLACK)
    exact, scale = Exact(posterior, posterior.X[0], free), posterior.lengthscales
    centre = posterior.X[:6] + 0.3 * scale * rng.standard_normal((6, inputs))
    expansion = expand_squared_exponential(form, centre)
    expansion = replace(expansion, A=moved(rng, expansion.A, True), P=moved(rng, expansion.P, False))
    radius = half * rng.random((6, inputs))
    found = expansion.over(radius)
    for b in range(6):
        x = radius[b] * rng.uniform(-1.0, 1.0, (200, inputs))
        x[0] = 0.0
        mean, variance = exact(centre[b] + scale * x)
        for moment, model in ((mean, found.mean), (variance, found.variance)):
            inside = value(model.model, x, b)
            assert (moment <= inside + model.above[b]).all()
            assert (moment >= inside - model.below[b]).all()
            assert (model.low[b] <= moment).all()
            assert (moment <= model.high[b]).all()
        # Without the slack the centre itself would be outside.
        clean = replace(expansion, form=replace(form, mean_error=0.0)).over(radius * 0.0)
        off = abs(mean[0] - clean.mean.model.constant[b])
        assert off > clean.mean.above[b] + clean.mean.below[b]


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_ranges_that_rounding_turned_inside_out_bound_nothing(link: str, sign: int) -> None:
    posterior = random_posterior(np.random.default_rng(3), "matern52", link, 8, 2)
    bound = level_bound(posterior, posterior.X[0], np.arange(2))
    half = 0.1 * posterior.lengthscales
    centre, latent = bound.latent_model(posterior.X[:2] - half, posterior.X[:2] + half)
    high = latent.variance.high
    turned = replace(latent, variance=replace(latent.variance, low=high * np.array([1.0, 1.01])))
    found = bound.bound(centre, turned, sign, np.array(0.4)).outer
    assert np.isfinite(found).tolist() == [True, False]


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_rounding_of_the_combined_model_is_allowed_for(sign: int, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = random_posterior(np.random.default_rng(4), "squared_exponential", "probit", 10, 2)
    bound = level_bound(posterior, posterior.X[0], np.arange(2))
    half = 0.01 * posterior.lengthscales
    centre, latent = bound.latent_model(posterior.X[:3] - half, posterior.X[:3] + half)
    at = bound.level.score.value(sign * latent.mean.model.constant, latent.variance.model.constant)
    found = []
    for share in (0.0, 1e-6):
        monkeypatch.setattr(module, "_ROUNDING", share)
        found.append(bound.bound(centre, latent, sign, at).outer)
    paid = 1e-6 * np.abs(latent.mean.model.constant) / np.sqrt(1.0 + latent.variance.high)
    assert np.all(found[1] - found[0] >= 0.9 * paid)
    assert np.all(paid > 0.0)
