"""Objectives and predictions of the network baselines against their definitions, on untrained weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import entr, log_softmax, softmax
from scipy.stats import norm

from gpsuite.methods.wasserstein import baselines
from gpsuite.methods.wasserstein import baselines as networks_module
from gpsuite.methods.wasserstein.baselines import (
    SparseVariationalGP,
    build_mean_field,
    build_network,
    build_sparse_gp,
    from_members,
)
from gpsuite.methods.wasserstein.scoring import tempered_log_density
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.random_elements.likelihoods import Softmax

pytestmark = pytest.mark.usefixtures("uncompiled")
SPEC, N_DATA = NetworkSpec((4, 4), "tanh"), 30
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((6, 4)), np.array([0, 1, 2, 0, 1, 2])
SEED = np.array([5, 0], np.int32)


def test_members_are_averaged_and_so_are_their_entropies() -> None:
    members = np.random.default_rng(1).dirichlet(np.ones(3), (4, 5))
    found = from_members(iter(members))
    np.testing.assert_allclose(found.probabilities, members.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.data_uncertainty, entr(members).sum(axis=2).mean(axis=0), rtol=1e-14)
    with pytest.raises(ValueError, match="at least one member"):
        from_members([])


def test_the_networks_loss_is_the_negative_log_posterior() -> None:
    """A batch of 6 of 30 rows counts five times; every weight has a standard normal prior."""
    model = build_network(SPEC, 4, 3, N_DATA, np.random.default_rng(2))
    log_likelihood = log_softmax(model.logits(X), axis=1)[np.arange(6), Y].sum()
    squares = sum(float(np.sum(v.numpy() ** 2)) for v in model.variables)
    expected = -5.0 * log_likelihood + 0.5 * squares
    assert float(model.loss(tf.constant(X), tf.constant(Y), SEED)) == pytest.approx(expected, rel=1e-12)
    assert model.validation_loss(X, Y) == pytest.approx(-log_likelihood / 6.0, rel=1e-12)
    model.variables[-1].assign(np.array([np.nan, 0.0, 0.0]))  # one is enough
    assert math.isnan(model.validation_loss(X, Y))


def test_dropout_is_averaged_over_networks_with_units_left_out() -> None:
    model = build_network(SPEC, 4, 3, N_DATA, np.random.default_rng(2), dropout=0.5)
    seed = 2**31 + 9
    members = [
        softmax(model.network(model.variables, X, 0.5, np.array([9, draw], np.int32)).numpy(), axis=1)
        for draw in range(3)
    ]
    found = model.predict_with_dropout(X, 3, seed)
    np.testing.assert_allclose(found.probabilities, np.mean(members, axis=0), rtol=1e-12)
    assert (members[0] != members[1]).any()
    plain = model.loss(tf.constant(X), tf.constant(Y), SEED)
    assert float(plain) != float(model.loss(tf.constant(X), tf.constant(Y), SEED + 1))
    np.testing.assert_array_equal(model.logits(X), model.network(model.variables, X).numpy())


@pytest.mark.parametrize("dropout", [-0.1, 1.0, np.nan])
def test_a_probability_of_leaving_out_is_below_one(dropout: float) -> None:
    build_network(SPEC, 4, 3, N_DATA, np.random.default_rng(2), dropout=0.0)
    with pytest.raises(ValueError, match="dropout="):
        build_network(SPEC, 4, 3, N_DATA, np.random.default_rng(2), dropout=dropout)


def test_blocks_of_rows_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_network(SPEC, 4, 3, N_DATA, np.random.default_rng(2))
    whole = model.logits(X)
    monkeypatch.setattr(networks_module, "_ROWS", 4)
    np.testing.assert_allclose(model.logits(X), whole, rtol=1e-13)


def test_the_mean_field_has_its_stated_prior_and_start() -> None:
    """Weights: variance 2 / fan-in, biases 1; the posterior starts at a network's start with deviation .02."""
    rng = np.random.default_rng(3)
    model = build_mean_field(NetworkSpec((5, 7), "tanh"), 4, 3, N_DATA, rng)
    deviations = [float(p.scale) for p in model.prior()]
    assert deviations == pytest.approx([math.sqrt(0.5), 1.0, math.sqrt(0.4), 1.0, math.sqrt(2 / 7), 1.0])
    assert all(float(p.loc) == 0.0 for p in model.prior())
    for q, start in zip(model.posterior(), model.network.initial(np.random.default_rng(3)), strict=True):
        np.testing.assert_allclose(q.loc.numpy(), start, rtol=1e-15)
        np.testing.assert_allclose(q.scale.numpy(), 0.02, rtol=1e-6)


def test_the_mean_fields_loss_is_the_negative_evidence_bound() -> None:
    model = build_mean_field(SPEC, 4, 3, N_DATA, np.random.default_rng(3))
    for scale in model.scales:
        scale.assign(scale + 1.0)
    divergence = 0.0
    for q, p in zip(model.posterior(), model.prior(), strict=True):
        m, s, t = q.loc.numpy(), q.scale.numpy(), float(p.scale)
        divergence += float(np.sum(np.log(t / s) + (s**2 + m**2) / (2 * t**2) - 0.5))
    weights = networks_module._drawn(model.posterior(), SEED)
    log_likelihood = log_softmax(model.network(weights, X).numpy(), axis=1)[np.arange(6), Y].sum()
    found = float(model.loss(tf.constant(X), tf.constant(Y), SEED))
    assert found == pytest.approx(divergence - 5.0 * log_likelihood, rel=1e-10)


def test_draws_of_weights_differ_between_layers_and_draws_and_follow_the_posterior() -> None:
    model = build_mean_field(NetworkSpec((30, 30, 30), "tanh"), 4, 3, N_DATA, np.random.default_rng(3))
    posterior = model.posterior()
    first, second = (networks_module._drawn(posterior, np.array([7, draw], np.int32)) for draw in (0, 1))
    units = [
        ((w.numpy() - q.loc.numpy()) / q.scale.numpy()).ravel()
        for weights in (first, second)
        for w, q in zip(weights, posterior, strict=True)
        if w.shape == (30, 30)
    ]
    for i, one in enumerate(units):
        assert abs(one.mean()) < 0.15 and abs(one.std() - 1.0) < 0.1
        assert all(abs(np.corrcoef(one, other)[0, 1]) < 0.15 for other in units[i + 1 :])
    assert norm.cdf(0.15 * 30) > 0.999  # a mean of 900 normal numbers


def test_the_mean_fields_predictions_average_draws_of_the_seed() -> None:
    model = build_mean_field(SPEC, 4, 3, N_DATA, np.random.default_rng(3))
    for scale in model.scales:
        scale.assign(scale + 3.0)
    members = [
        softmax(
            model.network(networks_module._drawn(model.posterior(), np.array([9, draw], np.int32)), X).numpy(), axis=1
        )
        for draw in range(3)
    ]
    np.testing.assert_allclose(model.predict(X, 3, 2**31 + 9).probabilities, np.mean(members, axis=0), rtol=1e-12)
    held = model.predict(X, 10, 0).probabilities[np.arange(6), Y]
    assert model.validation_loss(X, Y) == pytest.approx(-np.log(held).mean(), rel=1e-12)
    assert len(model.variables) == 12
    model.means[-1].assign(np.full(3, np.nan))
    assert math.isnan(model.validation_loss(X, Y))


# The sparse variational GP's predictions: mean, noise, what is trained, what is refused; untrained.
GP_RNG = np.random.default_rng(0)
GP_X = GP_RNG.standard_normal((12, 2))
GP_Y = GP_X[:, 0] + 3.0


def regression(prior_mean: float = 3.0, M: int = 5) -> SparseVariationalGP:
    rng = np.random.default_rng(1)
    return build_sparse_gp(GP_X, GP_Y[:, None], None, "se", prior_mean, 2, M, rng)


def test_an_untrained_regression_predicts_its_prior_and_the_noise() -> None:
    model = regression()
    mean, variance = model.predict_gaussian(GP_X)
    np.testing.assert_allclose(mean, 3.0, rtol=1e-14)
    prior = model.model.kernel(GP_X, full_cov=False).numpy()
    np.testing.assert_allclose(variance, prior + model.likelihood.variance, rtol=1e-6)
    assert model.validation_loss(GP_X, GP_Y) == pytest.approx(tempered_log_density(GP_Y, mean, variance), rel=1e-12)
    with pytest.raises(TypeError, match="predicts no classes"):
        model.predict(GP_X)


def test_a_regression_does_not_start_from_a_kernel_that_makes_an_input_noise() -> None:
    """Eight values of the input that matters: the first step of the search once led to a lengthscale of 1e-9."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 3))
    X[:, 0] = rng.integers(0, 8, 60) / 2.3 - 1.5
    Y = np.exp(1.5 * X[:, :1])
    model = build_sparse_gp(X, (Y - Y.mean()) / Y.std(), None, "se_ard", 0.0, 100, 5, np.random.default_rng(1))
    assert 1.0 < model.model.kernel.lengthscales.numpy()[0] < 4.0


def test_its_loss_counts_a_batch_for_all_rows() -> None:
    """q is the prior, so its divergence is 0: what is left is N / N_B times the expected log likelihood."""
    model = regression()
    half = tf.constant(GP_X[:4]), tf.constant(GP_Y[:4])
    mean, latent = model.latent(GP_X[:4])
    noise = model.likelihood.variance
    expected = -0.5 * (np.log(2 * np.pi * noise) + ((GP_Y[:4] - mean[:, 0]) ** 2 + latent[:, 0]) / noise)
    assert float(model.loss(*half, None)) == pytest.approx(-3.0 * expected.sum(), rel=1e-9)


def test_everything_but_gpflows_own_likelihood_is_trained() -> None:
    model = regression()
    names = {v.name.split(":")[0] for v in model.model.trainable_variables}
    sizes = sorted(int(np.prod(v.shape)) for v in model.model.trainable_variables)
    # lengthscale, variance, q's mean, Z, q's triangle of 5
    assert sizes == [1, 1, 5, 10, 15], names
    assert len(model.variables) == len(sizes) + 1  # the noise


def test_there_are_no_more_inducing_inputs_than_distinct_rows() -> None:
    doubled = np.vstack([GP_X[:3], GP_X[:3]])
    model = build_sparse_gp(
        doubled, np.eye(2)[[0, 1, 0, 0, 1, 0]], Softmax(2), "se", 0.1, 2, 5, np.random.default_rng(1)
    )
    assert model.model.inducing_variable.Z.shape[0] == 3
    assert model.model.num_latent_gps == 2
    with pytest.raises(TypeError, match="predicts no numbers"):
        model.predict_gaussian(GP_X)
    probabilities = model.predict(GP_X).probabilities
    np.testing.assert_allclose(probabilities, 0.5, atol=1e-3)  # fixed points, not an integral


def test_blocks_of_rows_do_not_show_and_what_fails_scores_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = regression()
    model.model.q_mu.assign(np.random.default_rng(2).standard_normal((5, 1)))
    whole = model.predict_gaussian(GP_X)
    monkeypatch.setattr(baselines, "_SPARSE_ROWS", 5)
    for one, other in zip(model.predict_gaussian(GP_X), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    assert len(set(np.round(whole[0], 12))) == 12
    model.model.q_mu.unconstrained_variable.assign(np.full((5, 1), np.nan))
    assert math.isnan(model.validation_loss(GP_X, GP_Y))
