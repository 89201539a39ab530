"""Laplace's method for several classes: gradient, two classes as a binary logistic problem, the stored factor."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.models.classification.approximation import BinaryProblem, NotConvergedError
from gpsuite.models.classification.laplace import laplace
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.softmax_laplace import MultiClassProblem, softmax_laplace
from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from tests.models.softmax_problems import drawn_problem

AT = Hyperparameters(3.0, (1.1, 0.8))
STEP = 1e-5


@pytest.mark.parametrize("C", [2, 3, 5])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_the_gradient_is_that_of_the_evidence(C: int, kernel: str) -> None:
    problem, theta = drawn_problem(C, kernel=kernel), AT.to_log()
    slopes = []
    for place in range(3):
        values = []
        for step in (STEP, -STEP):
            moved = theta.copy()
            moved[place] += step
            values.append(softmax_laplace(problem, Hyperparameters.from_log(moved)).log_marginal_likelihood)
        slopes.append((values[0] - values[1]) / (2.0 * STEP))
    # central differences: STEP^2, and rounding / STEP
    np.testing.assert_allclose(softmax_laplace(problem, AT).gradient, slopes, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_two_classes_are_the_binary_logistic_problem_of_the_difference(kernel: str) -> None:
    problem = drawn_problem(2, kernel=kernel)
    several = softmax_laplace(problem, AT)
    signs = 2.0 * problem.labels - 1.0
    twice = Hyperparameters(2.0 * AT.variance, AT.lengthscales)
    binary = laplace(BinaryProblem(problem.X, signs, ModelSpec(kernel, ard=True), LINKS.get("logistic")), twice)
    assert several.log_marginal_likelihood == pytest.approx(binary.log_marginal_likelihood, abs=1e-10)
    np.testing.assert_allclose(several.gradient, binary.gradient, atol=1e-9)
    posterior, points = several.require_converged(), np.random.default_rng(1).standard_normal((20, 2))
    difference = posterior.difference(1, 0)
    for mine, theirs in zip(difference.latent(points), binary.posterior.latent(points), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-10)
    # the expectation's stated error, and the binary quadrature's 1e-12
    moments = posterior.moments(points)
    np.testing.assert_array_less(
        np.abs(moments.mean[:, 1] - binary.posterior.probability(points)), moments.error + 1e-11
    )


@pytest.mark.parametrize("C", [2, 3, 4])
def test_differences_have_the_moments_of_the_whole(C: int) -> None:
    posterior = softmax_laplace(drawn_problem(C), AT).require_converged()
    points = np.random.default_rng(2).standard_normal((10, 2)) * 2.0
    mean, covariance = posterior.latent(points)
    for i in range(C):
        for j in range(C):
            if i == j:
                continue
            own_mean, own_variance = posterior.difference(i, j).latent(points)
            np.testing.assert_allclose(own_mean, mean[:, i] - mean[:, j], atol=1e-12)
            wanted = covariance[:, i, i] + covariance[:, j, j] - 2.0 * covariance[:, i, j]
            np.testing.assert_allclose(own_variance, wanted, atol=1e-11)


def test_the_covariance_is_that_of_the_dense_formula() -> None:
    """K - K (K + W^-1)^-1 K at the data, with the pseudo-inverse of the singular W as a limit."""
    problem = drawn_problem(3, n=9)
    fit = softmax_laplace(problem, AT)
    posterior, n = fit.require_converged(), 9
    pi = np.exp(fit.mode) / np.exp(fit.mode).sum(axis=0)
    W = np.zeros((3, n, 3, n))
    for i in range(n):
        W[:, i, :, i] = np.diag(pi[:, i]) - np.outer(pi[:, i], pi[:, i])
    K = posterior.variance * np.exp(
        -0.5 * (((problem.X[:, None] - problem.X[None]) / np.array(AT.lengthscales)) ** 2).sum(axis=2)
    )
    full = np.kron(np.eye(3), K)
    dense = np.linalg.solve(np.eye(3 * n) + full @ W.reshape(3 * n, 3 * n), full).reshape(3, n, 3, n)
    wanted = np.einsum("cidi->icd", dense)
    np.testing.assert_allclose(posterior.latent(problem.X)[1], wanted, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_mean_gradients_agree_with_differences(kernel: str) -> None:
    posterior = softmax_laplace(drawn_problem(3, kernel=kernel), AT).require_converged()
    points = np.random.default_rng(4).standard_normal((5, 2))
    mean, gradient = posterior.mean_with_gradient(points)
    np.testing.assert_allclose(mean, posterior.latent(points)[0], atol=1e-12)
    for j in range(2):
        step = STEP * np.eye(2)[j]
        slope = (posterior.latent(points + step)[0] - posterior.latent(points - step)[0]) / (2.0 * STEP)
        np.testing.assert_allclose(gradient[:, :, j], slope, atol=1e-8)


def test_labels_out_of_range_are_refused() -> None:
    X = np.zeros((3, 1))
    with pytest.raises(ValueError, match="labels must be 0 to 2"):
        MultiClassProblem(X, np.array([0, 1, 3]), 3, ModelSpec())
    with pytest.raises(ValueError, match="labels must be"):
        MultiClassProblem(X, np.array([0, 1, np.nan]), 3, ModelSpec())


def test_a_mode_that_rounding_blurs_is_one() -> None:
    """With K so ill-conditioned the steps stop shrinking far above `STEP_TOLERANCE`; from any start the mode is one."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(80, 2))
    problem = MultiClassProblem(X, (X[:, 0] * 2.99).astype(np.int64), 3, ModelSpec())
    at = Hyperparameters(1e6, (3.0,))
    first = softmax_laplace(problem, at)
    for number in range(5):
        near = first.state * (1.0 + 1e-9 * np.random.default_rng(number).normal(size=first.state.shape))
        again = softmax_laplace(problem, at, near)
        assert first.converged and again.converged and again.iterations < 30
        assert again.log_marginal_likelihood == pytest.approx(first.log_marginal_likelihood, rel=1e-6)
        np.testing.assert_allclose(again.mode, first.mode, atol=1e-5 * np.abs(first.mode).max())


def test_an_unfinished_mode_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpsuite.models.classification.softmax_laplace.MAX_ITERATIONS", 1)
    with pytest.raises(NotConvergedError, match="no convergence in 1 iterations"):
        softmax_laplace(drawn_problem(3), AT).require_converged()
