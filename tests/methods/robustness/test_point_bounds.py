"""What is known of single points: enclosed by exact arithmetic, no wider than stated, one-sided where it must be."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from gpsuite.methods.robustness import operators as operator_form_module
from gpsuite.methods.robustness.class_probability import (
    ProbabilityScore,
    ProbitScore,
    latent_ranges,
    probability_bounds,
    score_at,
)
from gpsuite.methods.robustness.operators import operator_form
from gpsuite.methods.robustness.rounding import SHORT_SUM, UNDERFLOW
from gpsuite.models.classification.links import LINKS
from tests.methods.robustness.exact_posterior import ExactPosterior, logistic_probability, normal_probability
from tests.methods.robustness.made_up_posteriors import KERNELS, LINK_NAMES, random_posterior


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sparse", [False, True])
def test_latent_ranges_enclose_the_exact_values_and_are_as_wide_as_stated(kernel: str, sparse: bool) -> None:
    rng = np.random.default_rng(8)
    posterior = random_posterior(rng, kernel, "probit", 20, 3, sparse)
    form = operator_form(posterior, posterior.X[0], np.array([0, 1]))
    points = posterior.X[:4, :2] + 0.2 * rng.standard_normal((4, 2))
    ranges, exact, s = latent_ranges(form, points), ExactPosterior(posterior), posterior.variance
    for i, point in enumerate(points):
        mean, variance = exact.moments(np.r_[point, posterior.X[0, 2]])
        assert Decimal(float(ranges.mean_low[i])) <= mean <= Decimal(float(ranges.mean_high[i]))
        assert Decimal(float(ranges.variance_low[i])) <= variance <= Decimal(float(ranges.variance_high[i]))
    mean, variance = np.abs(form.moments(points)[0]), np.abs(form.moments(points)[1])  # type: ignore[assignment]
    stated = 2 * s * (form.slack.coefficient + SHORT_SUM * mean)
    np.testing.assert_allclose(ranges.mean_high - ranges.mean_low, stated, rtol=1e-3, atol=4e-16 * s)
    stated = 2 * s * (form.slack.gram + SHORT_SUM * (1 + variance))
    np.testing.assert_allclose(ranges.variance_high - ranges.variance_low, stated, rtol=1e-3, atol=4e-16 * s)
    np.testing.assert_array_equal(ranges.mean, s * form.moments(points)[0])


def test_a_variance_that_the_floats_make_negative_counts_as_zero() -> None:
    posterior = random_posterior(np.random.default_rng(9), "matern52", "probit", 10, 2)
    form = operator_form(posterior, posterior.X[0], np.arange(2))
    negative = latent_ranges(replace(form, root=3.0 * form.root), posterior.X[:3])
    assert np.all(negative.variance == 0.0)
    assert np.all(negative.variance_low == 0.0)
    assert np.all(negative.variance_high == 0.0)


def test_distances_do_not_depend_on_how_many_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = random_posterior(np.random.default_rng(10), "matern32", "probit", 9, 3)
    form = operator_form(posterior, posterior.X[0], np.array([0, 2]))
    points = np.random.default_rng(11).standard_normal((7, 2))
    whole = form.squared_distances(points)
    monkeypatch.setattr(operator_form_module, "_ENTRIES", 40)
    np.testing.assert_array_equal(form.squared_distances(points), whole)
    apart = (posterior.X - np.insert(points[3], 1, posterior.X[0, 1])) / posterior.lengthscales
    np.testing.assert_allclose(whole[3], np.sum(apart**2, axis=1), rtol=1e-14)
    assert form.squared_distances(points[:0]).shape == (0, 9)


def test_sums_of_one_sign_bound_the_mean_and_vanish_exactly() -> None:
    posterior = random_posterior(np.random.default_rng(12), "squared_exponential", "probit", 6, 2)
    x0, free = posterior.X[0] + 0.3, np.array([1])
    form = operator_form(posterior, x0, free)
    weight = np.exp(-0.5 * ((x0[0] - posterior.X[:, 0]) / posterior.lengthscales[0]) ** 2)
    positive, negative = np.maximum(posterior.alpha, 0) @ weight, np.minimum(posterior.alpha, 0) @ weight
    assert positive <= form.ceiling <= positive * (1 + 1e-12)
    assert negative * (1 + 1e-12) <= form.floor <= negative
    silent = operator_form(replace(posterior, alpha=np.zeros(6)), x0, free)
    assert (silent.floor, silent.ceiling, silent.norm2, silent.slack.coefficient) == (0.0, 0.0, 0.0, 0.0)
    # Weights that underflow at a far point are not zero.
    far = operator_form(posterior, x0 + np.array([1e4, 0.0]) * posterior.lengthscales, free)
    assert not far.alpha.any()
    assert far.ceiling >= UNDERFLOW
    assert far.slack.coefficient >= UNDERFLOW
    assert far.norm2 >= UNDERFLOW


@pytest.mark.parametrize("squeeze", [0.0, 1e-3])
def test_probabilities_of_scores_are_rounded_outwards_and_keep_one_half(squeeze: float) -> None:
    score = ProbitScore(squeeze)
    t = np.r_[-45.0, -38.0, -37.0, -32.67134268537074, np.linspace(-12, 9, 60), -1e-300, 0.0, 1e-300]
    low, high = score.outward_probability(t, t)
    for i, each in enumerate(t):
        exact = normal_probability(Decimal(float(each)), squeeze)
        assert Decimal(float(low[i])) <= exact <= Decimal(float(high[i]))
    assert np.all(high - low <= 2.1e-12 * high + 2 * UNDERFLOW)
    assert np.all(low[t >= 0] >= 0.5)
    assert np.all(high[t <= 0] <= 0.5)
    assert (low[t == 0][0], high[t == 0][0]) == (0.5, 0.5)
    nothing = score.outward_probability(np.array([np.nan]), np.array([np.nan]))
    assert (nothing[0][0], nothing[1][0]) == (0.0, 1.0)


def test_logistic_probabilities_are_enclosed_up_to_the_largest_variances() -> None:
    rng = np.random.default_rng(13)
    mean = np.r_[0.0, rng.standard_normal(30) * 10.0 ** rng.uniform(-3, 3, 30)]
    variance = np.r_[1.0, 10.0 ** rng.uniform(-6, 6.5, 30)]
    low, high = probability_bounds(LINKS.get("logistic"), (mean, mean), (variance, variance))
    for i in range(31):
        exact = logistic_probability(float(mean[i]), float(variance[i]))
        assert low[i] <= exact + 1e-13
        assert high[i] >= exact - 1e-13
    assert np.all(high - low <= 2.1e-12)
    assert (low[0], high[0]) == (0.5, 0.5)
    assert np.all((low >= 0.5) | (mean < 0))
    assert np.all((high <= 0.5) | (mean > 0))


@pytest.mark.parametrize("link", LINK_NAMES)
def test_a_point_whose_moments_overflow_is_known_to_be_anything(link: str) -> None:
    posterior = random_posterior(np.random.default_rng(14), "matern52", link, 5, 1)
    form = operator_form(posterior, posterior.X[0], np.zeros(1, int))
    score = ProbabilityScore(posterior.link) if link == "logistic" else ProbitScore()
    low, high = score_at(form, score, np.array([[1e300]]))
    p_low, p_high = score.outward_probability(low, high)
    assert p_low[0] <= 0.5 <= p_high[0]
