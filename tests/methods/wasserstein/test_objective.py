"""The objective on batches: slopes against differences, its parts, and what rows are chosen."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpsuite.methods.wasserstein.distance import wasserstein_on_points
from gpsuite.methods.wasserstein.gwi import GaussianObjective, WassersteinObjective, root_traces, squared_wasserstein
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.networks import Network
from gpsuite.models.random_elements.elements import (
    NNGP,
    GaussianElement,
    InducingBasis,
    KernelMean,
    NetworkKernel,
    NetworkMean,
    SparseKernel,
)
from gpsuite.models.random_elements.likelihoods import GaussianNoise, RobustMax, Softmax

RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((12, 2)), RNG.standard_normal((4, 2))
Y = RNG.integers(0, 3, 12)
SEED = np.array([5, 0], np.int32)


def element(mean: str = "kernel", kernel: str = "sparse", latent: int = 3) -> GaussianElement:
    rng = np.random.default_rng(1)
    prior = gpflow.kernels.SquaredExponential(1.3, [0.7, 1.1])
    gpflow.set_trainable(prior, False)
    basis = InducingBasis(prior, Z)
    variational = (
        SparseKernel(basis, 0.5 * np.tril(rng.standard_normal((latent, 4, 4))))
        if kernel == "sparse"
        else NetworkKernel([NNGP(1, "erf", 1.5, 0.3) for _ in range(latent)])
    )
    if mean == "kernel":
        function: Any = KernelMean(0.1, 0.3 * rng.standard_normal((4, latent)))
    else:
        function = NetworkMean(0.1, Network(NetworkSpec((5,), "tanh"), 2, latent), rng)
        function.variables[-2].assign(0.5 * rng.standard_normal((5, latent)))
    return GaussianElement(0.1, prior, function, variational, basis, 2)


@pytest.mark.parametrize(
    ("mean", "kernel", "likelihood"),
    [
        ("kernel", "sparse", RobustMax(3)),
        ("network", "nngp", RobustMax(3)),
        ("network", "sparse", Softmax(3)),
        ("network", "sparse", GaussianNoise(0.2)),
    ],
    ids=["kernel-sparse-robustmax", "network-nngp-robustmax", "network-sparse-softmax", "regression"],
)
def test_slopes_against_differences(mean: str, kernel: str, likelihood: Any) -> None:
    measures = element(mean, kernel, likelihood.n_latent)
    objective = WassersteinObjective(measures, likelihood.expected_log, 30, 7)
    targets = X[:, 0] if isinstance(likelihood, GaussianNoise) else Y
    variables = [*measures.variables, *getattr(likelihood, "variables", [])]

    def loss() -> Any:
        return objective.loss(tf.constant(X), tf.constant(targets), tf.constant(SEED))

    with tf.GradientTape() as tape:
        value = loss()
    slopes = tape.gradient(value, variables)
    for variable, slope in zip(variables, slopes, strict=True):
        start = variable.numpy()
        direction = np.random.default_rng(2).standard_normal(start.shape)
        if start.ndim == 3:
            direction = np.tril(direction)
        parts = []
        for sign in (1.0, -1.0):
            variable.assign(start + sign * 1e-6 * direction)
            parts.append(float(loss()))
        variable.assign(start)
        assert np.sum(slope.numpy() * direction) == pytest.approx((parts[0] - parts[1]) / 2e-6, rel=1e-5, abs=1e-6)


def test_the_distance_is_the_exact_one_on_the_chosen_rows() -> None:
    measures = element()
    inputs = tf.constant(X)
    mean, _, R = measures.moments(inputs, 12)
    found = squared_wasserstein(measures, inputs, mean, R).numpy()
    K, prior = measures.prior_kernel(X).numpy(), np.full(12, 0.1)
    for j in range(3):
        exact = wasserstein_on_points(prior, mean.numpy()[:, j], K, R.numpy()[j]).squared_distance
        assert found[j] == pytest.approx(exact, rel=1e-9)
    few = squared_wasserstein(measures, inputs, mean, R[:, :5, :5]).numpy()
    part = wasserstein_on_points(prior[:5], prior[:5], K[:5, :5], R.numpy()[0, :5, :5]).squared_distance
    assert few[0] == pytest.approx(part + np.mean((mean.numpy()[:, 0] - 0.1) ** 2), rel=1e-9)


def test_prior_and_posterior_that_agree_have_distance_zero_on_any_rows() -> None:
    measures = element()
    same = GaussianElement(
        0.1,
        measures.prior_kernel,
        KernelMean(0.1, np.zeros((4, 2))),
        SparseKernel(measures.basis, np.broadcast_to(np.eye(4), (2, 4, 4))),  # type: ignore[arg-type]
        measures.basis,
        2,
    )
    for rows in (X[:1], X[:4], X):
        mean, _, R = same.moments(tf.constant(rows), 100)
        np.testing.assert_allclose(squared_wasserstein(same, tf.constant(rows), mean, R).numpy(), 0.0, atol=1e-7)


def test_batches_estimate_the_whole_sum() -> None:
    measures, likelihood = element(), RobustMax(3)
    objective = WassersteinObjective(measures, likelihood.expected_log, 12, 12)
    parts = []
    for rows in (slice(0, 6), slice(6, 12)):
        mean, _, R = measures.moments(tf.constant(X[rows]), 12)
        distance = tf.reduce_sum(squared_wasserstein(measures, tf.constant(X[rows]), mean, R))
        loss = objective.loss(tf.constant(X[rows]), tf.constant(Y[rows]), SEED)
        parts.append(float(loss - distance))
    mean, variance, _ = measures.moments(tf.constant(X), 0)
    whole = -float(tf.reduce_sum(likelihood.expected_log(mean, variance, tf.constant(Y), None)))
    assert np.mean(parts) == pytest.approx(whole, rel=1e-12)


def test_the_authors_weight_of_the_data_falls_with_the_rows_of_a_batch() -> None:
    """Their regression loss has N / N_B times the mean of the squared errors, where the paper has their sum."""
    squares, N = np.arange(12.0), 12
    sums, means = [], []
    for size in (2, 6):
        batches = squares.reshape(-1, size)
        sums.append(np.mean([N / size * batch.sum() for batch in batches]))
        means.append(np.mean([N / size * batch.mean() for batch in batches]))
    assert sums == pytest.approx([squares.sum()] * 2)
    assert means == pytest.approx([squares.sum() / 2, squares.sum() / 6])


def test_root_traces_take_their_slopes_through_a_compiled_graph() -> None:
    factor = RNG.standard_normal((2, 5, 5))
    R, K = tf.Variable(factor @ factor.transpose(0, 2, 1)), tf.constant(np.eye(5))
    compiled = tf.function(lambda: tf.reduce_sum(root_traces(K, R)))
    with tf.GradientTape() as tape:
        value = compiled()
    # K = I: the nuclear norm of sqrt(R), slope R^-1/2 / 2
    slope = tape.gradient(value, R).numpy()
    for one, other in zip(slope, R.numpy(), strict=True):
        np.testing.assert_allclose(4.0 * one @ one @ other, np.eye(5), atol=1e-6)


def regression_objectives(latent_rows: int = 12) -> tuple[GaussianElement, GaussianObjective, WassersteinObjective]:
    measures, noise = element(latent=1), GaussianNoise(0.2)
    kernel = measures.kernel
    assert isinstance(kernel, SparseKernel)
    fast = GaussianObjective(measures, noise, kernel.mean_variance(X[:latent_rows]), latent_rows, 7)
    return measures, fast, WassersteinObjective(measures, noise.expected_log, latent_rows, 7)


def loss_and_slopes(objective: Any, inputs: Any, targets: Any, variables: list[Any]) -> tuple[float, list[Any]]:
    with tf.GradientTape() as tape:
        value = objective.loss(tf.constant(inputs), tf.constant(targets), SEED)
    return float(value), [slope.numpy() for slope in tape.gradient(value, variables)]


@pytest.mark.parametrize("with_features", [False, True])
def test_gaussian_noise_needs_the_mean_variance_only(with_features: bool) -> None:
    measures, fast, plain = regression_objectives()
    variables = [*measures.variables, *fast.noise.variables]
    inputs = measures.with_features(X) if with_features else X
    assert inputs.shape == (12, 2 + 4 * with_features)
    value, slopes = loss_and_slopes(fast, inputs, X[:, 0], variables)
    expected, by_rows = loss_and_slopes(plain, X, X[:, 0], variables)
    assert value == pytest.approx(expected, rel=1e-12)
    for slope, other in zip(slopes, by_rows, strict=True):
        np.testing.assert_allclose(slope, other, rtol=1e-10, atol=1e-12)


def test_the_mean_variance_replaces_each_row_of_an_epoch() -> None:
    measures, fast, plain = regression_objectives()
    variables = measures.variables
    sums = []
    for objective in (fast, plain):
        parts = [loss_and_slopes(objective, X[rows], X[rows, 0], variables) for rows in (slice(0, 4), slice(4, 12))]
        # batches of 4 and 8 of 12 rows: their sums over rows are weighted by 12 / 4 and 12 / 8
        sums.append(sum(value * share for (value, _), share in zip(parts, (1 / 3, 2 / 3), strict=True)))
    assert sums[0] == pytest.approx(sums[1], rel=1e-12)


def test_features_of_many_rows_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    measures = element()
    monkeypatch.setattr("gpsuite.models.random_elements.elements.LARGEST_FEATURES", 47)
    assert measures.with_features(X).shape == (12, 2)
    np.testing.assert_array_equal(measures.with_features(X[:11])[:, 2:].T, measures.basis.features(X[:11]).numpy())
