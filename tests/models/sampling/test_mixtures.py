"""Moments and densities of mixtures, against draws' exact sums, single components and plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from gpsuite.models.sampling.posterior import (
    mixture_covariance,
    mixture_log_density,
    mixture_moments,
    normal_log_density,
)
from tests.arrays import Array


def components(seed: int, shape: tuple[int, ...] = (4, 3, 2)) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(shape[0]))
    return rng.normal(size=shape), rng.uniform(0.1, 2.0, shape), weights


@given(st.integers(0, 1000))
def test_moments_are_those_of_the_density(seed: int) -> None:
    mean, variance, weights = components(seed, (2, 1, 1))
    y = np.linspace(-25.0, 25.0, 5001)  # the trapezoidal rule is exact to rounding for densities this smooth
    values = mixture_log_density(y[:, None], mean, variance, np.zeros((2, 1)), weights)
    density = np.exp(values[:, 0]) * (y[1] - y[0])
    centre, spread = (each[0, 0] for each in mixture_moments(mean, variance, weights))
    assert density.sum() == pytest.approx(1.0, abs=1e-10)
    assert density @ y == pytest.approx(centre, abs=1e-10)
    assert density @ (y - centre) ** 2 == pytest.approx(spread, abs=1e-10)


def test_equal_components_are_one_component_and_a_zero_weight_is_no_component() -> None:
    mean, variance, _ = components(1)
    same = np.broadcast_to(mean[:1], mean.shape), np.broadcast_to(variance[:1], mean.shape)
    for found, expected in zip(mixture_moments(*same, np.full(4, 0.25)), (mean[0], variance[0]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    only = np.array([0.0, 1.0, 0.0, 0.0])
    for found, expected in zip(mixture_moments(mean, variance, only), (mean[1], variance[1]), strict=True):
        np.testing.assert_array_equal(found, expected)
    y, noise = np.zeros((3, 2)), np.full((4, 2), 0.5)
    found = mixture_log_density(y, mean, variance, noise, only)
    np.testing.assert_allclose(found, norm.logpdf(y, mean[1], np.sqrt(variance[1] + 0.5)), rtol=1e-12)


def test_variances_do_not_cancel_far_from_zero() -> None:
    mean = 1e8 + np.array([[0.0], [2.0]])
    assert mixture_moments(mean, np.zeros((2, 1)), np.array([0.5, 0.5]))[1][0] == 1.0


@given(st.integers(0, 1000))
def test_covariances_contain_the_variances_of_every_direction(seed: int) -> None:
    mean, _, weights = components(seed)
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 3, 2, 2))
    covariance = root @ root.swapaxes(2, 3)
    direction = rng.normal(size=2)
    centre, spread = mixture_covariance(mean, covariance, weights)
    along = np.einsum("snpq,p,q->sn", covariance, direction, direction)
    expected = mixture_moments(mean @ direction, along, weights)
    np.testing.assert_allclose(centre @ direction, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        np.einsum("npq,p,q->n", spread, direction, direction), expected[1], rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(spread, spread.swapaxes(1, 2), rtol=1e-14, atol=1e-15)


def test_the_noise_belongs_to_its_component_and_output() -> None:
    mean, variance, weights = components(2)
    noise = np.random.default_rng(3).uniform(0.1, 1.0, (4, 2))
    y = np.array([[0.3, -0.2], [np.nan, 0.1], [1.0, 30.0]])
    found = mixture_log_density(y, mean, variance, noise, weights)
    for i in range(3):
        for p in range(2):
            densities = norm.pdf(y[i, p], mean[:, i, p], np.sqrt(variance[:, i, p] + noise[:, p]))
            np.testing.assert_allclose(found[i, p], np.log(weights @ densities), rtol=1e-12)
    far = mixture_log_density(np.full((3, 2), 1e3), mean, variance, noise, weights)
    assert np.isfinite(far).all()  # far out each density underflows, the logarithm does not


def test_a_normal_log_density_is_scipys() -> None:
    np.testing.assert_allclose(
        normal_log_density(np.array([0.5]), np.array([-1.0]), np.array([4.0])),
        norm.logpdf([0.5], -1.0, 2.0),
        rtol=1e-14,
    )
