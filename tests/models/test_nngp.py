"""Kernels of infinitely wide networks: sampled networks, slopes, positive definiteness."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import erf

from gpsuite.errors import UserError
from gpsuite.models.random_elements.elements import ACTIVATIONS, NNGP
from tests.arrays import Array

X = np.random.default_rng(0).standard_normal((6, 3))


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
    sampled = np.mean([wide_network(X, kernel, 800, rng) for _ in range(30)], axis=0)
    np.testing.assert_allclose(sampled, kernel(X).numpy(), rtol=0.03, atol=0.03)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("depth", [1, 3])
def test_matrix_forms_agree(activation: str, depth: int) -> None:
    kernel = NNGP(depth, activation, 1.7, 0.3, scale=2.5)
    K = kernel(X).numpy()
    np.testing.assert_allclose(np.diagonal(K), kernel(X, full_cov=False).numpy(), rtol=1e-14)
    np.testing.assert_allclose(kernel(X, X[:2]).numpy(), K[:, :2], rtol=1e-14)
    assert np.linalg.eigvalsh(K).min() > -1e-10
    np.testing.assert_allclose(K, 2.5 * NNGP(depth, activation, 1.7, 0.3)(X).numpy(), rtol=1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_slopes_against_differences(activation: str) -> None:
    # the diagonal, where automatic differentiation of ReLU's angle is not finite, and opposite inputs count too
    points = tf.constant(np.vstack([X, -X[:1]]))
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


def test_relu_slope_of_the_inputs_between_two_points() -> None:
    kernel = NNGP(1, "relu", 2.0, 0.0)
    points = tf.Variable(X)
    with tf.GradientTape() as tape:
        value = kernel(points)[0, 1]
    slope = tape.gradient(value, points).numpy()
    step = np.zeros_like(X)
    step[0, 1] = 1e-6
    ahead, behind = (float(kernel(X + sign * step).numpy()[0, 1]) for sign in (1, -1))
    assert slope[0, 1] == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def test_he_initialisation_keeps_the_diagonal() -> None:
    first, deep = (NNGP(depth, "relu", 2.0, 0.0)(X, full_cov=False).numpy() for depth in (1, 9))
    np.testing.assert_allclose(first, deep, rtol=1e-13)


def test_a_zero_input_has_a_value_and_a_slope() -> None:
    kernel = NNGP(2, "relu", 2.0, 0.0)
    points = tf.Variable(np.vstack([np.zeros(3), X[:2]]))
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(kernel(points))
    assert np.isfinite(value.numpy())
    assert np.isfinite(tape.gradient(value, points).numpy()).all()


def test_it_is_a_gpflow_kernel() -> None:
    model = gpflow.models.GPR((X, X[:, :1]), NNGP(1, "erf", 1.0, 1.0))
    mean, variance = model.predict_f(X)
    assert np.isfinite(mean.numpy()).all()
    assert (variance.numpy() > 0.0).all()


def test_impossible_kernels_are_refused() -> None:
    with pytest.raises(UserError, match="activation"):
        NNGP(activation="rleu")
    with pytest.raises(ValueError, match="depth >= 1"):
        NNGP(depth=0)
    with pytest.raises(ValueError, match="weight_variance"):
        NNGP(weight_variance=-1.0)
