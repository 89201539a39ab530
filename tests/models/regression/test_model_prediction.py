from __future__ import annotations

import numpy as np
import pytest

from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.regression.gpflow_models import build_fitc, build_gpr, build_sgpr, predict
from tests.arrays import Array
from tests.models.regression_problems import START

Problem = tuple[Array, Array]
FLAT = Hyperparameters(variance=1e12, lengthscales=(1e3,), noise_variance=1e-9)


def test_shapes_and_dtype(problem: Problem) -> None:
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
def test_unusable_inputs(problem: Problem, Xnew: Array) -> None:
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
