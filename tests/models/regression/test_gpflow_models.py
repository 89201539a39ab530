"""Regressions as arrays: the moments of GPflow's own exact and sparse models."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn import cluster

from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.regression.gpflow_models import (
    build_fitc,
    build_gpr,
    build_sgpr,
    hyperparameters_of,
    kind_of,
    predict,
    regression_posterior,
    spec_of,
)
from gpsuite.models.regression.inducing import kmeans_inducing, limited_inducing
from tests.arrays import Array
from tests.models.regression_problems import START, closed_form_kernel

Problem = tuple[Array, Array]
# The Matern kernels' rounding near zero distance (see test_model_kernels) reaches the likelihood divided by the noise.
LIKELIHOOD_ROUNDING = 1e-5


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_log_marginal_likelihood_equals_normal_density(problem: Problem, name: str) -> None:
    X, Y = problem
    covariance = closed_form_kernel(name, X, X, START) + START.noise_variance * np.eye(len(X))
    expected = multivariate_normal(np.zeros(len(X)), covariance).logpdf(Y[:, 0])
    model = build_gpr(X, Y, ModelSpec(name), START)
    tolerance = 1e-10 if name == "squared_exponential" else LIKELIHOOD_ROUNDING
    np.testing.assert_allclose(model.log_marginal_likelihood().numpy(), expected, atol=tolerance)


def test_prediction_equals_closed_form(problem: Problem) -> None:
    X, Y = problem
    Xnew = np.array([[0.1, -0.4], [3.0, 3.0]])
    covariance = closed_form_kernel("squared_exponential", X, X, START) + START.noise_variance * np.eye(len(X))
    cross = closed_form_kernel("squared_exponential", X, Xnew, START)
    weights = np.linalg.solve(covariance, cross)
    mean, variance = predict(build_gpr(X, Y, ModelSpec(), START), Xnew)
    np.testing.assert_allclose(mean, weights.T @ Y, atol=1e-11)
    np.testing.assert_allclose(variance[:, 0], START.variance - np.sum(cross * weights, axis=0), atol=1e-11)


def test_flat_targets_are_one_output(problem: Problem) -> None:
    X, Y = problem
    flat, column = (build_gpr(X, targets, ModelSpec(), START) for targets in (Y[:, 0], Y))
    assert flat.data[1].shape == column.data[1].shape
    assert flat.log_marginal_likelihood() == column.log_marginal_likelihood()


def test_outputs_are_independent(problem: Problem) -> None:
    X, Y = problem
    both = build_gpr(X, np.hstack([Y, Y**2]), ModelSpec(), START).log_marginal_likelihood()
    single = sum(build_gpr(X, part, ModelSpec(), START).log_marginal_likelihood() for part in (Y, Y**2))  # type: ignore[arg-type]
    np.testing.assert_allclose(both, single, rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.ones((3, 2)), np.ones(4), "are needed"),
        (np.ones(3), np.ones(3), "are needed"),
        (np.ones((0, 2)), np.ones(0), "are needed"),
        (np.array([[np.nan]]), np.ones(1), "X has 1 non-finite"),
        (np.ones((2, 1)), np.array([np.inf, np.nan]), "Y has 2 non-finite"),
    ],
)
def test_unusable_data_are_refused(X: Array, Y: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_gpr(X, Y, ModelSpec(), START)


def test_noise_above_the_floor_is_kept_and_below_it_is_refused(problem: Problem) -> None:
    tiny = Hyperparameters(noise_variance=1e-8)
    with pytest.raises(ValueError, match="noise_floor=1e-06"):
        build_gpr(*problem, ModelSpec(), tiny)
    model = build_gpr(*problem, ModelSpec(noise_floor=0.0), tiny)
    assert hyperparameters_of(model).noise_variance == pytest.approx(1e-8, rel=1e-12)


# GPflow adds 1e-6 to the diagonal of K_ZZ: the sparse models with Z = X differ from the exact one in that order.
INDUCING_JITTER_EFFECT = 1e-3


@pytest.mark.parametrize("build", [build_sgpr, build_fitc])
def test_all_data_as_inducing_inputs_give_the_exact_model(problem: Problem, build) -> None:
    X, Y = problem
    Xnew = np.random.default_rng(1).uniform(-2, 2, size=(7, 2))
    exact, sparse = build_gpr(X, Y, ModelSpec(), START), build(X, Y, X, ModelSpec(), START)
    np.testing.assert_allclose(
        sparse.maximum_log_likelihood_objective(), exact.log_marginal_likelihood(), atol=INDUCING_JITTER_EFFECT
    )
    for ours, theirs in zip(predict(sparse, Xnew), predict(exact, Xnew), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=INDUCING_JITTER_EFFECT)


def test_sgpr_bounds_the_likelihood_from_below(problem: Problem) -> None:
    X, Y = problem
    exact = build_gpr(X, Y, ModelSpec(), START).log_marginal_likelihood()
    bounds = [build_sgpr(X, Y, X[:count], ModelSpec(), START).elbo() for count in (2, 8, 20)]
    assert bounds[0] < bounds[1] < bounds[2] < exact


@pytest.mark.parametrize("Z", [np.ones((3, 1)), np.ones(2), np.ones((0, 2)), np.full((1, 2), np.nan)])
def test_unusable_inducing_inputs_are_refused(problem: Problem, Z: Array) -> None:
    with pytest.raises(ValueError, match=r"inducing inputs \[M, 2\]"):
        build_sgpr(*problem, Z, ModelSpec(), START)


def test_kmeans_finds_separated_clusters() -> None:
    corners = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    rng = np.random.default_rng(0)
    X = np.repeat(corners, 20, axis=0) + 0.01 * rng.normal(size=(60, 2))
    Z = kmeans_inducing(X, 3, np.random.default_rng(1))
    for corner in corners:
        assert np.min(np.linalg.norm(Z - corner, axis=1)) < 0.05


def test_kmeans_depends_on_the_generator_only(problem: Problem) -> None:
    X, _ = problem
    first, again, other = (kmeans_inducing(X, 5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("M", [0, 4])
def test_kmeans_needs_enough_different_rows(M: int) -> None:
    X = np.array([[0.0], [1.0], [1.0], [2.0]])
    with pytest.raises(ValueError, match="3 different rows"):
        kmeans_inducing(X, M, np.random.default_rng(0))


def test_one_inducing_input_is_the_mean_and_all_rows_may_be_taken() -> None:
    X = np.array([[0.0, 1.0], [2.0, 5.0], [4.0, 0.0]])
    np.testing.assert_allclose(kmeans_inducing(X, 1, np.random.default_rng(0)), [[2.0, 2.0]])
    every = kmeans_inducing(X, 3, np.random.default_rng(0))
    np.testing.assert_allclose(every[np.argsort(every[:, 0])], X)


def test_limited_kmeans_makes_the_iterations_that_fit() -> None:
    """An iteration takes 1e-10 s per row, centre and input (four more count), the first centres as long as thirty."""
    X = np.random.default_rng(0).uniform(size=(400, 2))
    iteration = 1e-10 * 400 * 20 * 6
    found = {
        share: limited_inducing(X, 20, np.random.default_rng(1), share * iteration) for share in (30.9, 31.1, 32.1, 1e4)
    }
    rows, cut = found[30.9]
    assert cut and len(np.unique(rows, axis=0)) == 20
    assert all((row == X).all(axis=1).any() for row in rows), "no time for a centre: rows of X"
    for share in (31.1, 32.1):
        assert found[share][1]
        assert not any((row == X).all(axis=1).any() for row in found[share][0])
    assert not np.array_equal(found[31.1][0], found[32.1][0])
    whole = kmeans_inducing(X, 20, np.random.default_rng(1))
    assert not found[1e4][1]
    np.testing.assert_array_equal(found[1e4][0], whole)
    assert not limited_inducing(X, 20, np.random.default_rng(1), None)[1]


def test_kmeans_starts_again_for_every_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    started: set[int] = set()

    class Started(cluster.KMeans):
        def __init__(self, *, random_state: int, **given: Any) -> None:
            started.add(random_state)
            super().__init__(random_state=random_state, **given)

    monkeypatch.setattr(cluster, "KMeans", Started)
    for seed in range(40):
        kmeans_inducing(np.arange(4.0)[:, None], 2, np.random.default_rng(seed))
    assert len(started) == 40


FLAT = Hyperparameters(variance=1e12, lengthscales=(1e3,), noise_variance=1e-9)


def test_predictions_have_the_targets_shape_in_float64(problem: Problem) -> None:
    X, Y = problem
    mean, variance = predict(build_gpr(X, np.hstack([Y, -Y]), ModelSpec(), START), X[:4])
    assert mean.shape == variance.shape == (4, 2)
    assert mean.dtype == variance.dtype == np.float64
    np.testing.assert_allclose(mean[:, 0], -mean[:, 1])


def test_far_away_the_prior_returns(problem: Problem) -> None:
    X, Y = problem
    for model in (build_gpr(X, Y, ModelSpec(), START), build_sgpr(X, Y, X[:5], ModelSpec(), START)):
        mean, variance = predict(model, np.array([[100.0, 100.0]]))
        assert mean[0, 0] == pytest.approx(0.0, abs=1e-12)
        assert variance[0, 0] == pytest.approx(START.variance, rel=1e-12)


@pytest.mark.parametrize("Xnew", [np.ones((2, 3)), np.ones(2), np.array([[np.nan, 0.0]])])
def test_unusable_inputs_are_refused(problem: Problem, Xnew: Array) -> None:
    with pytest.raises(ValueError, match=r"inputs \[N, 2\]"):
        predict(build_gpr(*problem, ModelSpec(), START), Xnew)


def test_failed_factorisation_is_explained(problem: Problem) -> None:
    X, Y = problem
    spec = ModelSpec(noise_floor=0.0)
    with pytest.raises(NotPositiveDefiniteError, match=r"N=25, .*lengthscales=\(1000"):
        predict(build_gpr(X, Y, spec, FLAT), X)
    with pytest.raises(NotPositiveDefiniteError, match=r"N=10, .*lengthscales=\(1000"):
        predict(build_fitc(X, Y, X[:10], spec, FLAT), X)


def test_overflow_is_explained(problem: Problem) -> None:
    X, Y = problem
    with pytest.raises(ArithmeticError, match="covariance is not finite"):
        predict(build_gpr(1e200 * X, Y, ModelSpec(), START), X)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("ard", [False, True])
def test_spec_and_hyperparameters_come_back(problem: Problem, name: str, ard: bool) -> None:
    spec = ModelSpec(name, ard=ard, noise_floor=1e-4)
    values = Hyperparameters(2.0, (0.3, 4.0) if ard else (0.3,), 0.01)
    model = build_gpr(*problem, spec, values)
    assert spec_of(model) == spec
    back = hyperparameters_of(model)
    np.testing.assert_allclose(back.lengthscales, values.lengthscales, rtol=1e-14)
    np.testing.assert_allclose(
        [back.variance, back.noise_variance], [values.variance, values.noise_variance], rtol=1e-13
    )


def test_each_model_has_its_kind(problem: Problem) -> None:
    X, Y = problem
    assert kind_of(build_gpr(X, Y, ModelSpec(), START)) == "GPR"
    assert kind_of(build_sgpr(X, Y, X[:3], ModelSpec(), START)) == "SGPR"
    assert kind_of(build_fitc(X, Y, X[:3], ModelSpec(), START)) == "GPRFITC"


def test_foreign_models_are_refused(problem: Problem) -> None:
    kernel = gpflow.kernels.SquaredExponential()
    with pytest.raises(TypeError, match="VGP"):
        kind_of(gpflow.models.VGP(problem, kernel, gpflow.likelihoods.Gaussian()))
    with pytest.raises(TypeError, match="Constant"):
        spec_of(gpflow.models.GPR(problem, kernel, mean_function=gpflow.functions.Constant()))
    with pytest.raises(TypeError, match="StudentT"):
        spec_of(gpflow.models.VGP(problem, kernel, gpflow.likelihoods.StudentT()))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["squared_exponential", "matern32", "matern52"])
def test_moments_are_those_of_the_model(kernel: str, sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((30, 1))
    spec, values = ModelSpec(kernel=kernel, ard=True), Hyperparameters(1.3, (0.8, 1.7, 2.5), 0.05)
    model = build_sgpr(X, Y, X[:8], spec, values) if sparse else build_gpr(X, Y, spec, values)
    found = regression_posterior(model)
    assert found.noise_variance == pytest.approx(0.05)
    Xnew = rng.standard_normal((20, 3)) * 2.0
    mean, variance = predict(model, Xnew)
    # GPflow adds a jitter of 1e-6 to the inducing covariance
    tolerance = 1e-4 if sparse else 1e-9
    np.testing.assert_allclose(found.latent.latent(Xnew)[0], mean[:, 0], atol=tolerance)
    np.testing.assert_allclose(found.latent.latent(Xnew)[1], variance[:, 0], atol=tolerance)


def test_other_models_are_refused() -> None:
    X, spec = np.linspace(0.0, 1.0, 5)[:, None], ModelSpec()
    with pytest.raises(TypeError, match="GPRFITC"):
        regression_posterior(build_fitc(X, X, X[:2], spec, Hyperparameters()))
    with pytest.raises(TypeError, match="2"):
        regression_posterior(build_gpr(X, np.hstack([X, X]), spec, Hyperparameters()))
