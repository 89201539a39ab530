"""The sparse variational GP's predictions: mean, noise, what is trained, what is refused; untrained."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from gpsuite.methods.wasserstein import baselines
from gpsuite.methods.wasserstein.baselines import SparseVariationalGP, build_sparse_gp
from gpsuite.methods.wasserstein.scoring import negative_log_density
from gpsuite.models.random_elements.likelihoods import Softmax

pytestmark = pytest.mark.usefixtures("uncompiled")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2))
Y = X[:, 0] + 3.0


def regression(prior_mean: float = 3.0, M: int = 5) -> SparseVariationalGP:
    rng = np.random.default_rng(1)
    return build_sparse_gp(X, Y[:, None], None, "se", prior_mean, 2, M, rng)


def test_an_untrained_regression_predicts_its_prior_and_the_noise() -> None:
    model = regression()
    mean, variance = model.predict_gaussian(X)
    np.testing.assert_allclose(mean, 3.0, rtol=1e-14)
    prior = model.model.kernel(X, full_cov=False).numpy()
    np.testing.assert_allclose(variance, prior + model.likelihood.variance, rtol=1e-6)
    assert model.validation_loss(X, Y) == pytest.approx(negative_log_density(Y, mean, variance), rel=1e-12)
    with pytest.raises(TypeError, match="predicts no classes"):
        model.predict(X)


def test_its_loss_counts_a_batch_for_all_rows() -> None:
    """q is the prior, so its divergence is 0: what is left is N / N_B times the expected log likelihood."""
    model = regression()
    half = tf.constant(X[:4]), tf.constant(Y[:4])
    mean, latent = model.latent(X[:4])
    noise = model.likelihood.variance
    expected = -0.5 * (np.log(2 * np.pi * noise) + ((Y[:4] - mean[:, 0]) ** 2 + latent[:, 0]) / noise)
    assert float(model.loss(*half, None)) == pytest.approx(-3.0 * expected.sum(), rel=1e-9)


def test_everything_but_gpflows_own_likelihood_is_trained() -> None:
    model = regression()
    names = {v.name.split(":")[0] for v in model.model.trainable_variables}
    sizes = sorted(int(np.prod(v.shape)) for v in model.model.trainable_variables)
    # lengthscale, variance, q's mean, Z, q's triangle of 5
    assert sizes == [1, 1, 5, 10, 15], names
    assert len(model.variables) == len(sizes) + 1  # the noise


def test_there_are_no_more_inducing_inputs_than_distinct_rows() -> None:
    doubled = np.vstack([X[:3], X[:3]])
    model = build_sparse_gp(
        doubled, np.eye(2)[[0, 1, 0, 0, 1, 0]], Softmax(2), "se", 0.1, 2, 5, np.random.default_rng(1)
    )
    assert model.model.inducing_variable.Z.shape[0] == 3
    assert model.model.num_latent_gps == 2
    with pytest.raises(TypeError, match="predicts no numbers"):
        model.predict_gaussian(X)
    probabilities = model.predict(X).probabilities
    np.testing.assert_allclose(probabilities, 0.5, atol=1e-3)  # fixed points, not an integral


def test_blocks_of_rows_do_not_show_and_what_fails_scores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = regression()
    model.model.q_mu.assign(np.random.default_rng(2).standard_normal((5, 1)))
    whole = model.predict_gaussian(X)
    monkeypatch.setattr(baselines, "_SPARSE_ROWS", 5)
    for one, other in zip(model.predict_gaussian(X), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    assert len(set(np.round(whole[0], 12))) == 12
    model.model.q_mu.unconstrained_variable.assign(np.full((5, 1), np.nan))
    assert math.isnan(model.validation_loss(X, Y))
