"""Likelihoods on Gaussian latent values: expectations by sampling and in closed form, slopes, predictions."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.integrate import quad
from scipy.special import entr, log_softmax, ndtr, softmax
from scipy.stats import norm

from gpsuite.models.classification.links import LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link
from gpsuite.models.classification.variational import StableBernoulli
from gpsuite.models.random_elements import likelihoods
from gpsuite.models.random_elements.likelihoods import Bernoulli, GaussianNoise, RobustMax, Softmax, label_probability
from tests.arrays import Array

RNG = np.random.default_rng(0)
MEAN, VARIANCE = RNG.standard_normal((6, 3)), RNG.uniform(0.05, 2.0, (6, 3))
Y = np.array([0, 1, 2, 0, 1, 2])
SEED = np.array([3, 0], np.int32)


def tensors(*arrays: Array) -> list[tf.Tensor]:
    return [tf.constant(a) for a in arrays]


def test_slopes_pass_through_tensorflow() -> None:
    mean, variance = (tf.Variable(part) for part in (MEAN, VARIANCE))
    weights = RNG.standard_normal(6)
    compiled = tf.function(lambda: tf.reduce_sum(weights * RobustMax(3).expected_log(mean, variance, Y, None)))
    with tf.GradientTape() as tape:
        value = compiled()
    slopes = tape.gradient(value, [mean, variance])
    for variable, slope in zip((mean, variance), slopes, strict=True):
        start = variable.numpy()
        for index in np.ndindex(2, 3):
            step = np.zeros_like(start)
            step[index] = 1e-6
            parts = []
            for sign in (1.0, -1.0):
                variable.assign(start + sign * step)
                parts.append(float(compiled()))
            variable.assign(start)
            assert slope.numpy()[index] == pytest.approx((parts[0] - parts[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_robust_max_is_gpflows_but_for_its_squeeze() -> None:
    invlink = gpflow.likelihoods.RobustMax(3, epsilon=0.01)
    theirs = gpflow.likelihoods.MultiClass(3, invlink=invlink)
    ours = RobustMax(3).expected_log(*tensors(MEAN, VARIANCE), Y, None)  # type: ignore[call-arg]
    X = np.zeros((6, 1))
    np.testing.assert_allclose(
        ours.numpy(), theirs.variational_expectations(X, MEAN, VARIANCE, Y[:, None]).numpy(), atol=5e-3
    )


def test_a_diverged_batch_is_not_a_number_rather_than_an_error() -> None:
    S = label_probability(*tensors(MEAN * np.nan, VARIANCE), tf.constant(Y))
    assert np.isnan(S.numpy()).all()


def test_softmax_expectation_and_prediction_by_sampling() -> None:
    draws = MEAN + np.sqrt(VARIANCE) * RNG.standard_normal((40_000, 6, 3))
    logs = log_softmax(draws, axis=2)
    expected = logs[:, np.arange(6), Y].mean(axis=0)
    many = [
        Softmax(3).expected_log(*tensors(MEAN, VARIANCE), Y, np.array([s, 0], np.int32))  # type: ignore[call-arg]
        for s in range(60)
    ]
    np.testing.assert_allclose(np.mean(many, axis=0), expected, atol=0.07)
    found = Softmax(3).predict(MEAN, VARIANCE)
    p = softmax(draws, axis=2)
    np.testing.assert_allclose(found.probabilities, p.mean(axis=0), atol=6e-3)
    np.testing.assert_allclose(found.data_uncertainty, -(p * logs).sum(axis=2).mean(axis=0), atol=6e-3)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, rtol=1e-12)


def test_softmax_without_variance_is_softmax() -> None:
    found = Softmax(3).predict(MEAN, np.full((6, 3), 1e-14))
    np.testing.assert_allclose(found.probabilities, softmax(MEAN, axis=1), rtol=1e-6)
    np.testing.assert_allclose(found.knowledge_uncertainty, 0.0, atol=1e-10)


@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=["probit", "logistic"])
def test_bernoulli_against_gpflow_and_sampling(link: Link) -> None:
    likelihood, y = Bernoulli(link), np.array([0, 1, 1, 0, 1, 0])
    mean, variance = MEAN[:, :1], VARIANCE[:, :1]
    theirs = StableBernoulli(link)
    expected = theirs.variational_expectations(np.zeros((6, 1)), mean, variance, y[:, None].astype(float))
    ours = likelihood.expected_log(*tensors(mean, variance), tf.constant(y), None)  # type: ignore[call-arg]
    np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-4)
    found = likelihood.predict(mean, variance)
    draws = mean[:, 0] + np.sqrt(variance[:, 0]) * RNG.standard_normal((40_000, 6))
    p = link.sigma(draws)
    np.testing.assert_allclose(found.probabilities[:, 1], p.mean(axis=0), atol=8e-3)
    entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p))
    np.testing.assert_allclose(found.data_uncertainty, entropy.mean(axis=0), atol=8e-3)


def test_bernoulli_probit_has_a_closed_form() -> None:
    found = Bernoulli(PROBIT).predict(MEAN[:, :1], VARIANCE[:, :1])
    closed = ndtr(MEAN[:, 0] / np.sqrt(1.0 + VARIANCE[:, 0]))
    np.testing.assert_allclose(found.probabilities[:, 1], closed, rtol=1e-12)


@pytest.mark.parametrize("link", [PROBIT, LOGISTIC, SQUEEZED_PROBIT], ids=lambda link: link.name)
def test_the_datas_uncertainty_is_found_under_wide_and_narrow_densities(link: Link) -> None:
    """The entropy's bump about 0 is between the nodes of a density 30 wide: a rule over the density gives 0."""

    def entropy(f: float) -> float:
        p = float(link.sigma(np.array(f)))
        return float(entr(p) + entr(1.0 - p))

    moments = [(0.0, 1e-9), (0.3, 0.5), (0.0, 10.0), (3.0, 10.0), (-5.0, 30.0), (5.0, 100.0), (80.0, 2.0)]
    mean, deviation = np.array(moments).T[:, :, None]
    found = Bernoulli(link).predict(mean, deviation**2).data_uncertainty
    for value, (m, s) in zip(found, moments, strict=True):
        ends = m - 9.0 * s, m + 9.0 * s
        kinks = [at for at in (-45.0, -5.0, 0.0, 5.0, 45.0, m) if ends[0] < at < ends[1]]
        exact, _ = quad(lambda f, m=m, s=s: entropy(f) * norm.pdf(f, m, s), *ends, points=kinks or None, limit=800)
        assert value == pytest.approx(exact, abs=1e-8)


def test_gaussian_expectation_is_gpflows() -> None:
    y = RNG.standard_normal(6)
    ours = GaussianNoise(0.3).expected_log(*tensors(MEAN[:, :1], VARIANCE[:, :1], y), None)  # type: ignore[call-arg]
    theirs = gpflow.likelihoods.Gaussian(0.3).variational_expectations(
        np.zeros((6, 1)), MEAN[:, :1], VARIANCE[:, :1], y[:, None]
    )
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="must be positive"):
        GaussianNoise(0.0)


def test_a_quadrature_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "gpsuite.models.random_elements.likelihoods.robust_max.largest_probabilities"
    monkeypatch.setattr(module, lambda mean, variance: np.full_like(mean, 0.3))
    with pytest.raises(ArithmeticError, match=r"sum of S is off by 1.0e-01"):
        RobustMax(3).predict(MEAN, VARIANCE)


def test_every_row_is_predicted_for_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row alone, and one left over by the blocks."""
    whole = Softmax(3).predict(MEAN, VARIANCE)
    monkeypatch.setattr(likelihoods, "_BLOCK_ROWS", 5)
    parts = Softmax(3).predict(MEAN, VARIANCE)
    single = Softmax(3).predict(MEAN[:1], VARIANCE[:1])
    np.testing.assert_allclose(parts.probabilities, whole.probabilities, rtol=1e-12)
    np.testing.assert_allclose(parts.data_uncertainty, whole.data_uncertainty, rtol=1e-12)
    np.testing.assert_allclose(single.probabilities, whole.probabilities[:1], rtol=1e-12)
