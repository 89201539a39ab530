"""Lengthscales that rows apart from a bound choose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.full_gp import NOISE, SPREAD, relevance_lengthscales


def rows(seed: int, n: int, inputs: int) -> tuple[FloatArray, FloatArray]:
    """Return rows of which the first input alone matters."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, inputs))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n)
    return X, (y - y.mean()) / y.std()


def test_it_is_the_mode_that_a_search_without_gradients_finds() -> None:
    """The posterior from scipy's normal density; the flat directions of three lengthscales leave 1e-3."""
    X, y = rows(0, 25, 2)
    centre = np.log([1.0, 2.0, 2.0, NOISE])

    def loss(theta: FloatArray) -> float:
        variance, *lengthscales, noise = np.exp(theta)
        off = (X[:, None] - X) / np.array(lengthscales)
        K = variance * np.exp(-0.5 * np.sum(off**2, axis=2)) + noise * np.eye(25)
        prior = 0.5 * np.sum((theta - centre) ** 2) / SPREAD**2
        return float(prior - multivariate_normal(np.zeros(25), K).logpdf(y))

    found = minimize(
        loss, centre, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10, "maxiter": 4000}
    )
    assert found.success
    np.testing.assert_allclose(relevance_lengthscales(X, y), np.exp(found.x[1:-1]), rtol=1e-3)


@pytest.mark.parametrize("n", [40, 200])
def test_an_input_without_effect_gets_a_long_one(n: int) -> None:
    found = relevance_lengthscales(*rows(1, n, 6))
    assert np.all(found[1:] > 6.0 * found[0])


def test_of_two_rows_all_inputs_stay_alike() -> None:
    found = relevance_lengthscales(np.array([[1.0, -1.0, 0.5], [-1.0, 1.0, 0.4]]), np.array([1.0, -1.0]))
    assert np.all(np.abs(np.log2(found / np.sqrt(6.0))) < 1.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.permutations(range(4)))
def test_the_order_of_inputs_does_not_matter(seed: int, order: list[int]) -> None:
    X, y = rows(seed, 12, 4)
    np.testing.assert_allclose(
        relevance_lengthscales(X[:, order], y), relevance_lengthscales(X, y)[order], rtol=1e-2
    )


def test_copies_do_not_send_them_to_zero() -> None:
    """Of equal rows with equal targets the likelihood grows without limit as the noise falls."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 4, 100) - 1.5
    found = relevance_lengthscales(np.repeat(X, 4, axis=0)[:100], np.repeat(y, 4)[:100])
    assert np.all(np.abs(np.log(found / 2.0)) <= 4.5 * (1.0 + 1e-12))  # three prior deviations of 1.5
