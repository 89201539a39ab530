from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from gpsuite.models.regression.gpflow_models import build_gpr, hyperparameters_of, predict
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
    covariance = closed_form_kernel("squared_exponential", X, X, START) + START.noise_variance * np.eye(
        len(X)
    )
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
def test_unusable_data(X: Array, Y: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_gpr(X, Y, ModelSpec(), START)


def test_noise_floor(problem: Problem) -> None:
    tiny = Hyperparameters(noise_variance=1e-8)
    with pytest.raises(ValueError, match="noise_floor=1e-06"):
        build_gpr(*problem, ModelSpec(), tiny)
    model = build_gpr(*problem, ModelSpec(noise_floor=0.0), tiny)
    assert hyperparameters_of(model).noise_variance == pytest.approx(1e-8, rel=1e-12)
