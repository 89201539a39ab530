from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gpsuite.models.classification.approximation import gaussian_kl, gaussian_wasserstein, wasserstein_to_draws

MEAN, VARIANCE = np.array([0.0, 1.5]), np.array([1.0, 4.0])
OTHER_MEAN, OTHER_VARIANCE = np.array([0.3, -1.0]), np.array([2.0, 0.5])


def test_wasserstein_is_the_distance_of_quantiles() -> None:
    for i, ours in enumerate(gaussian_wasserstein(MEAN, VARIANCE, OTHER_MEAN, OTHER_VARIANCE)):
        first = norm(MEAN[i], np.sqrt(VARIANCE[i]))
        second = norm(OTHER_MEAN[i], np.sqrt(OTHER_VARIANCE[i]))
        square = quad(lambda p, a=first, b=second: (a.ppf(p) - b.ppf(p)) ** 2, 0.0, 1.0)[0]
        assert ours == pytest.approx(np.sqrt(square), rel=1e-5)


def test_kl_is_the_integral() -> None:
    for i, ours in enumerate(gaussian_kl(MEAN, VARIANCE, OTHER_MEAN, OTHER_VARIANCE)):
        first = norm(MEAN[i], np.sqrt(VARIANCE[i]))
        second = norm(OTHER_MEAN[i], np.sqrt(OTHER_VARIANCE[i]))
        integral = quad(lambda f, a=first, b=second: a.pdf(f) * (a.logpdf(f) - b.logpdf(f)), -30.0, 30.0, limit=200)[0]
        assert ours == pytest.approx(integral, rel=1e-6)


def test_equal_marginals_have_no_distance() -> None:
    assert (gaussian_wasserstein(MEAN, VARIANCE, MEAN, VARIANCE) == 0.0).all()
    assert (gaussian_kl(MEAN, VARIANCE, MEAN, VARIANCE) == 0.0).all()


def test_distance_to_draws_sees_moments_and_skewness() -> None:
    rng = np.random.default_rng(0)
    draws = OTHER_MEAN + np.sqrt(OTHER_VARIANCE) * rng.standard_normal((20_000, 2))
    exact = gaussian_wasserstein(MEAN, VARIANCE, OTHER_MEAN, OTHER_VARIANCE)
    np.testing.assert_allclose(wasserstein_to_draws(MEAN, VARIANCE, draws), exact, rtol=0.03)
    skewed = rng.exponential(size=(20_000, 1))
    assert wasserstein_to_draws(np.ones(1), np.ones(1), skewed)[0] > 0.3


def test_draws_stand_for_the_middles_of_their_cells() -> None:
    """Two draws at the normal's own quartile middles, .25 and .75, are at no distance; each pair is sorted first."""
    middle = norm.ppf([0.25, 0.75])
    draws = np.column_stack([3.0 + 2.0 * middle, middle[::-1]])  # type: ignore[list-item]
    np.testing.assert_allclose(wasserstein_to_draws(np.array([3.0, 0.0]), np.array([4.0, 1.0]), draws), 0.0, atol=1e-12)
    np.testing.assert_allclose(
        wasserstein_to_draws(np.array([3.5, 0.0]), np.array([4.0, 1.0]), draws), [0.5, 0.0], atol=1e-12
    )
