"""Variational kernels, means and networks: identities, equivalence with GPflow's SVGP, refusals."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import erf

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.networks import Network
from gpsuite.models.random_elements import elements
from gpsuite.models.random_elements.elements import (
    ACTIVATIONS,
    NNGP,
    SMALLEST_NOISE,
    GaussianElement,
    InducingBasis,
    KernelMean,
    NetworkKernel,
    NetworkMean,
    SparseKernel,
    fit_prior,
)
from tests.arrays import Array

RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((9, 2)), RNG.standard_normal((4, 2))
KERNEL = gpflow.kernels.SquaredExponential(1.3, [0.7, 1.1])
BASIS = InducingBasis(KERNEL, Z)
WEIGHTS, FACTORS = RNG.standard_normal((4, 3)), np.tril(RNG.standard_normal((3, 4, 4)))


def element() -> GaussianElement:
    return GaussianElement(0.2, KERNEL, KernelMean(0.2, WEIGHTS), SparseKernel(BASIS, FACTORS), BASIS, 2)


def test_it_is_the_posterior_of_gpflows_whitened_svgp() -> None:
    model = gpflow.models.SVGP(KERNEL, gpflow.likelihoods.Gaussian(), Z, num_latent_gps=3, q_mu=WEIGHTS, q_sqrt=FACTORS)
    mean, variance = element().predict(X)
    theirs, spread = model.predict_f(X)
    # GPflow's jitter is 1e-6, ours 1e-6 of the variance
    np.testing.assert_allclose(mean - 0.2, theirs.numpy(), atol=1e-5)
    np.testing.assert_allclose(variance, spread.numpy(), atol=1e-5)
    _, full = model.predict_f(X, full_cov=True)
    _, _, R = element().moments(tf.constant(X), len(X))
    np.testing.assert_allclose(R.numpy(), full.numpy(), atol=1e-5)


def test_matrix_and_diagonal_agree_and_are_positive() -> None:
    _, variance, R = element().moments(tf.constant(X), 5)
    np.testing.assert_allclose(np.einsum("css->sc", R.numpy()), variance.numpy()[:5], rtol=1e-12)
    assert np.linalg.eigvalsh(R.numpy()).min() > 0.0


def test_unit_factors_give_back_the_prior() -> None:
    prior = SparseKernel(BASIS, np.eye(4)[None])
    variance, R = prior.evaluate(tf.constant(X), BASIS.features(X), len(X))
    np.testing.assert_allclose(variance.numpy()[:, 0], 1.3, rtol=1e-12)
    np.testing.assert_allclose(R.numpy()[0], KERNEL(X).numpy(), atol=1e-12)


def test_both_parametrisations_are_one_kernel() -> None:
    plain = np.linalg.solve(BASIS.factor.T, FACTORS)  # L = L_Z^-T B
    own = SparseKernel.from_plain(BASIS, plain)
    for name in ("variance", "matrix"):
        ours, theirs = (
            kernel.evaluate(tf.constant(X), BASIS.features(X), 9)[name == "matrix"].numpy()
            for kernel in (own, SparseKernel(BASIS, FACTORS))
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


@pytest.mark.parametrize("scale", [0.0, 1e-9])
def test_a_singular_factor_is_a_kernel_too(scale: float) -> None:
    """L L' has no Cholesky factor, or one of half of the digits."""
    factors = FACTORS * np.array([1.0, scale, 1.0, scale])
    own = SparseKernel.from_plain(BASIS, np.linalg.solve(BASIS.factor.T, factors))
    assert (np.triu(own.factors.numpy(), 1) == 0.0).all()
    found = own.factors.numpy()
    np.testing.assert_allclose(found @ found.transpose(0, 2, 1), factors @ factors.transpose(0, 2, 1), atol=1e-12)
    least = np.abs(np.linalg.det(factors[0]))
    np.testing.assert_allclose(np.abs(np.prod(np.diagonal(found[0]))), least, rtol=1e-6, atol=1e-30)


def test_sparse_regression_matches_gpflows_sgpr() -> None:
    Y, noise = RNG.standard_normal((9, 2)), 0.3
    weights, covariance = BASIS.regression(X, Y, noise)
    model = gpflow.models.SGPR((X, Y), KERNEL, Z, noise_variance=noise)
    features = BASIS.features(X).numpy()
    mean, variance = model.predict_f(X)
    np.testing.assert_allclose(features.T @ weights, mean.numpy(), atol=1e-4)
    sparse = SparseKernel.from_covariance(BASIS, covariance, 1)
    ours, _ = sparse.evaluate(tf.constant(X), BASIS.features(X), 0)
    np.testing.assert_allclose(ours.numpy()[:, 0], variance.numpy()[:, 0], atol=1e-4)
    with pytest.raises(ValueError, match="noise_variance=0"):
        BASIS.regression(X, Y, 0.0)


def test_all_points_inducing_give_the_exact_posterior() -> None:
    Y, noise = np.sin(X[:, :1]), 0.1
    basis = InducingBasis(KERNEL, X, 0.0)
    weights, covariance = basis.regression(X, Y, noise)
    exact = gpflow.models.GPR((X, Y), KERNEL, noise_variance=noise)
    mean, variance = exact.predict_f(Z)
    features = basis.features(Z).numpy()
    np.testing.assert_allclose(features.T @ weights, mean.numpy(), atol=1e-8)
    sparse = SparseKernel.from_covariance(basis, covariance, 1)
    ours, _ = sparse.evaluate(tf.constant(Z), basis.features(Z), 0)
    np.testing.assert_allclose(ours.numpy()[:, 0], variance.numpy()[:, 0], atol=1e-7)


def test_network_kernels_are_their_own_for_each_class() -> None:
    kernels = [NNGP(scale=scale) for scale in (1.0, 2.0)]
    variance, R = NetworkKernel(kernels).evaluate(tf.constant(X), None, 3)
    np.testing.assert_allclose(variance.numpy()[:, 1], 2.0 * variance.numpy()[:, 0], rtol=1e-14)
    np.testing.assert_allclose(R.numpy()[1], 2.0 * NNGP()(X[:3]).numpy(), rtol=1e-14)
    assert len(NetworkKernel(kernels).variables) == 6


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_dense_network_matches_its_layers_one_by_one(activation: str) -> None:
    network = Network(NetworkSpec((5, 4), activation), 2, 3)
    p = network.initial(np.random.default_rng(1))
    act = np.tanh if activation == "tanh" else lambda u: np.maximum(u, 0.0)
    hidden = act(act(X @ p[0] + p[1]) @ p[2] + p[3])
    np.testing.assert_allclose(network.features(p, X).numpy(), hidden, rtol=1e-12)
    np.testing.assert_allclose(network(p, X).numpy(), hidden @ p[4] + p[5], rtol=1e-12)


def test_a_convolutional_network_matches_loops() -> None:
    network = Network(NetworkSpec((2,), "relu", (4, 4, 1)), 16, 3)
    p = network.initial(np.random.default_rng(2))
    image = np.random.default_rng(3).uniform(size=(1, 16))
    padded = np.pad(image.reshape(4, 4), 1)
    maps = np.zeros((4, 4, 2))
    for i in range(4):
        for j in range(4):
            maps[i, j] = np.tensordot(padded[i : i + 3, j : j + 3], p[0][:, :, 0, :], 2) + p[1]
    pooled = np.maximum(maps, 0.0).reshape(2, 2, 2, 2, 2).max(axis=(1, 3))
    np.testing.assert_allclose(network(p, image).numpy()[0], pooled.ravel() @ p[2] + p[3], rtol=1e-5, atol=1e-6)
    assert network(p, image).dtype == tf.float64


def test_dropout_leaves_out_its_share_and_keeps_the_mean() -> None:
    network = Network(NetworkSpec((4000,), "relu"), 2, 1)
    p = network.initial(np.random.default_rng(4))
    plain = network.features(p, X).numpy()
    dropped = network.features(p, X, 0.25, np.array([1, 0], np.int32)).numpy()
    active = plain > 0.0
    assert np.mean(dropped[active] == 0.0) == pytest.approx(0.25, abs=0.01)
    kept = active & (dropped > 0.0)
    np.testing.assert_allclose(dropped[kept], plain[kept] / 0.75, rtol=1e-12)
    again = network.features(p, X, 0.25, np.array([1, 0], np.int32)).numpy()
    np.testing.assert_array_equal(dropped, again)


def test_a_network_mean_starts_at_the_prior_mean_and_can_leave_it() -> None:
    mean = NetworkMean(0.1, Network(NetworkSpec((5,)), 2, 3), np.random.default_rng(5))
    np.testing.assert_array_equal(mean(tf.constant(X), None).numpy(), np.full((9, 3), 0.1))
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(mean(tf.constant(X), None))
    slopes = tape.gradient(value, mean.variables)
    assert np.abs(slopes[-2].numpy()).max() > 0.0


@pytest.mark.parametrize("name", ["se_ard", "nngp_erf"])
def test_a_prior_is_fitted_and_then_fixed(name: str) -> None:
    Y = np.sin(2.0 * X[:, :1]) * np.ones((1, 2))
    start = fit_prior(name, X, Y, np.random.default_rng(6), Budget(evaluations=1))
    fitted = fit_prior(name, X, Y, np.random.default_rng(6), Budget(evaluations=20))
    assert fitted.report.loss < start.report.loss
    assert not fitted.kernel.trainable_parameters
    assert fitted.noise_variance >= SMALLEST_NOISE
    exact = gpflow.models.GPR((X, Y), fitted.kernel, noise_variance=fitted.noise_variance)
    assert -float(exact.log_marginal_likelihood()) == pytest.approx(fitted.report.loss, rel=1e-6)


def test_the_same_rows_are_searched_once_and_leave_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    Y = np.cos(3.0 * X[:, :1])
    searched: list[int] = []
    search = elements._prior_search
    monkeypatch.setattr(elements, "_prior_search", lambda *given: searched.append(1) or search(*given))
    streams = [np.random.default_rng(7) for _ in range(3)]
    budgets = Budget(evaluations=20), Budget(evaluations=20), Budget(seconds=600.0, evaluations=20)
    first, again, timed = (fit_prior("se_ard", X, Y, rng, b) for rng, b in zip(streams, budgets, strict=True))
    assert len(searched) == 2  # a search against the clock is one of its own
    for other in (again, timed):
        np.testing.assert_array_equal(first.kernel.lengthscales.numpy(), other.kernel.lengthscales.numpy())
        assert (first.noise_variance, first.report.loss) == (other.noise_variance, other.report.loss)
    assert first.kernel is not again.kernel
    assert len({rng.random() for rng in streams}) == 1


def test_the_search_for_a_prior_does_not_make_an_input_noise() -> None:
    """Eight values of the input that matters: the first step once led to a lengthscale of 1e-9, with no way back."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 3))
    X[:, 0] = rng.integers(0, 8, 60) / 2.3 - 1.5
    Y = np.exp(1.5 * X[:, :1])
    prior = fit_prior(
        "se_ard",
        X,
        (Y - Y.mean()) / Y.std(),
        np.random.default_rng(1),
        Budget(evaluations=100),
        shortest=elements.SHORTEST,
    )
    assert 1.0 < prior.kernel.lengthscales.numpy()[0] < 4.0


def test_last_bits_of_targets_do_not_choose_another_prior() -> None:
    rng = np.random.default_rng(8)
    inputs = rng.normal(size=(60, 20))
    Y = np.sin(inputs[:, :1]) + 0.1 * rng.normal(size=(60, 1))
    blurred = Y * (1.0 + 1e-13 * rng.standard_normal(Y.shape))
    fitted = [
        fit_prior("se_ard", inputs, each, np.random.default_rng(6), Budget(evaluations=100)) for each in (Y, blurred)
    ]
    lengthscales = [prior.kernel.lengthscales.numpy() for prior in fitted]
    np.testing.assert_array_equal(*lengthscales)  # scipy's L-BFGS-B: they differ by more than 1e-6
    assert fitted[0].noise_variance == fitted[1].noise_variance


def test_impossible_parts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Z must be finite"):
        InducingBasis(KERNEL, Z * np.nan)
    with pytest.raises(ValueError, match=r"factors \[C, 4, 4\]"):
        SparseKernel(BASIS, np.eye(3)[None])
    with pytest.raises(ValueError, match="at least one kernel"):
        NetworkKernel([])
    with pytest.raises(UserError, match="activation"):
        NetworkSpec(activation="rleu")
    with pytest.raises(UserError, match="poolings leave nothing of 8 x 8"):
        NetworkSpec((2, 2, 2, 2), image=(8, 8, 1))
    with pytest.raises(ValueError, match="63 inputs are no images"):
        Network(NetworkSpec((2,), image=(8, 8, 1)), 63, 10)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (X[:, :1], r"inputs \[N, 2\]"),
        (X[0], r"inputs \[N, 2\]"),
        (X[:0], "N >= 1"),
        (np.where(np.arange(18).reshape(9, 2) == 5, np.nan, X), r"X\[2, 1\] is nan"),
    ],
)
def test_inputs_of_another_kind_are_refused(inputs: Array, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        element().predict(inputs)


# Kernels of infinitely wide networks: sampled networks, slopes, positive definiteness.
WIDE_X = np.random.default_rng(0).standard_normal((6, 3))


def wide_network(X: Array, kernel: NNGP, width: int, rng: np.random.Generator) -> Array:
    """Return the covariance of the outputs of one random network, given its last hidden layer, [N, N]."""
    w, b = (float(p.numpy()) for p in (kernel.weight_variance, kernel.bias_variance))
    act = erf if kernel.activation == "erf" else lambda u: np.maximum(u, 0.0)
    hidden = X
    for _ in range(kernel.depth):
        weights = rng.standard_normal((hidden.shape[1], width)) * np.sqrt(w / hidden.shape[1])
        hidden = act(hidden @ weights + np.sqrt(b) * rng.standard_normal(width))
    return b + w * hidden @ hidden.T / width


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("depth", [1, 2])
def test_wide_networks_have_this_covariance(activation: str, depth: int) -> None:
    kernel = NNGP(depth, activation, 1.6, 0.2)
    rng = np.random.default_rng(1)
    sampled = np.mean([wide_network(WIDE_X, kernel, 800, rng) for _ in range(30)], axis=0)
    np.testing.assert_allclose(sampled, kernel(WIDE_X).numpy(), rtol=0.03, atol=0.03)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("depth", [1, 3])
def test_matrix_forms_agree(activation: str, depth: int) -> None:
    kernel = NNGP(depth, activation, 1.7, 0.3, scale=2.5)
    K = kernel(WIDE_X).numpy()
    np.testing.assert_allclose(np.diagonal(K), kernel(WIDE_X, full_cov=False).numpy(), rtol=1e-14)
    np.testing.assert_allclose(kernel(WIDE_X, WIDE_X[:2]).numpy(), K[:, :2], rtol=1e-14)
    assert np.linalg.eigvalsh(K).min() > -1e-10
    np.testing.assert_allclose(K, 2.5 * NNGP(depth, activation, 1.7, 0.3)(WIDE_X).numpy(), rtol=1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_slopes_match_differences(activation: str) -> None:
    # the diagonal, where automatic differentiation of ReLU's angle is not finite, and opposite inputs count too
    points = tf.constant(np.vstack([WIDE_X, -WIDE_X[:1]]))
    kernel = NNGP(2, activation, 1.7, 0.3, scale=1.2)
    weights = np.random.default_rng(2).standard_normal((7, 7))

    def value() -> tf.Tensor:
        return tf.reduce_sum(weights * kernel(points)) + tf.reduce_sum(weights[0] * kernel.K_diag(points))

    with tf.GradientTape() as tape:
        loss = value()
    variables = [p.unconstrained_variable for p in kernel.trainable_parameters]
    for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
        start, step = float(variable.numpy()), 1e-6
        variable.assign(start + step)
        ahead = float(value())
        variable.assign(start - step)
        difference = (ahead - float(value())) / (2.0 * step)
        variable.assign(start)
        assert float(slope) == pytest.approx(difference, rel=1e-6)


def test_the_relu_kernels_slope_in_the_inputs_agrees_with_differences() -> None:
    kernel = NNGP(1, "relu", 2.0, 0.0)
    points = tf.Variable(WIDE_X)
    with tf.GradientTape() as tape:
        value = kernel(points)[0, 1]
    slope = tape.gradient(value, points).numpy()
    step = np.zeros_like(WIDE_X)
    step[0, 1] = 1e-6
    ahead, behind = (float(kernel(WIDE_X + sign * step).numpy()[0, 1]) for sign in (1, -1))
    assert slope[0, 1] == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def test_he_initialisation_keeps_the_diagonal() -> None:
    first, deep = (NNGP(depth, "relu", 2.0, 0.0)(WIDE_X, full_cov=False).numpy() for depth in (1, 9))
    np.testing.assert_allclose(first, deep, rtol=1e-13)


def test_a_zero_input_has_a_value_and_a_slope() -> None:
    kernel = NNGP(2, "relu", 2.0, 0.0)
    points = tf.Variable(np.vstack([np.zeros(3), WIDE_X[:2]]))
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(kernel(points))
    assert np.isfinite(value.numpy())
    assert np.isfinite(tape.gradient(value, points).numpy()).all()


def test_it_is_a_gpflow_kernel() -> None:
    model = gpflow.models.GPR((WIDE_X, WIDE_X[:, :1]), NNGP(1, "erf", 1.0, 1.0))
    mean, variance = model.predict_f(WIDE_X)
    assert np.isfinite(mean.numpy()).all()
    assert (variance.numpy() > 0.0).all()


def test_impossible_kernels_are_refused() -> None:
    with pytest.raises(UserError, match="activation"):
        NNGP(activation="rleu")
    with pytest.raises(ValueError, match="depth >= 1"):
        NNGP(depth=0)
    with pytest.raises(ValueError, match="weight_variance"):
        NNGP(weight_variance=-1.0)
