from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize

from gpsuite.models.classification.approximation import (
    BinaryProblem,
    GPCFit,
    KernelSystem,
    NotConvergedError,
    WeightedSystem,
)
from gpsuite.models.classification.expectation_propagation import _moved, _posterior_variance, expectation_propagation
from gpsuite.models.classification.laplace import _accepted_step, laplace
from gpsuite.models.classification.links import LINKS, LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from tests.arrays import Array
from tests.models.gpc_problems import two_classes

SE = ModelSpec()
BOTH = pytest.mark.parametrize("inference", ["laplace", "ep"])
LINK = pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=lambda link: link.name)


def fit_at(inference: str, theta: Array, spec: ModelSpec, link: Link, seed: int = 0) -> GPCFit:
    X, y = two_classes(seed, inputs=3)
    fit = INFERENCES.get(inference)(
        BinaryProblem(X, y, spec, link), Hyperparameters.from_log(np.append(theta, 0.0)), None
    )
    assert fit.converged
    return fit


@BOTH
@LINK
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("ard", [False, True])
def test_the_gradient_matches_differences(inference: str, link: Link, kernel: str, ard: bool) -> None:
    spec = ModelSpec(kernel, ard=ard)
    theta = np.log([3.0, 0.7, 1.4, 2.5]) if ard else np.log([3.0, 1.1])
    gradient = fit_at(inference, theta, spec, link).gradient
    for j in range(len(theta)):
        step = 1e-4 * np.eye(len(theta))[j]
        high, low = (fit_at(inference, theta + s * step, spec, link) for s in (1.0, -1.0))
        slope = (high.log_marginal_likelihood - low.log_marginal_likelihood) / 2e-4
        assert gradient[j] == pytest.approx(slope, rel=1e-6, abs=1e-7)


@LINK
def test_laplace_is_the_mode_and_its_curvature(link: Link) -> None:
    X, y = two_classes(3, 12)
    h = Hyperparameters(2.0, (1.2,))
    posterior = laplace(BinaryProblem(X, y, SE, link), h).require_converged()
    K = KernelSystem(X, SE, h).K
    inverse = np.linalg.inv(K)
    found = minimize(lambda f: 0.5 * f @ inverse @ f - link.log_likelihood(y, f).sum(), np.zeros(12), tol=1e-12)
    mode, variance = posterior.latent(X)
    np.testing.assert_allclose(mode, found.x, atol=1e-4)
    np.testing.assert_allclose(posterior.alpha, link.derivatives(y, mode)[0], rtol=1e-8)
    covariance = np.linalg.inv(inverse - np.diag(link.derivatives(y, mode)[1]))
    np.testing.assert_allclose(variance, np.diagonal(covariance), rtol=1e-8)


@LINK
@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("variance", [0.3, 4.0, 50.0])
def test_ep_is_exact_for_one_point(link: Link, label: float, variance: float) -> None:
    fit = expectation_propagation(
        BinaryProblem(np.zeros((1, 1)), np.array([label]), SE, link), Hyperparameters(variance)
    )
    sd = math.sqrt(variance)

    def moment(power: int) -> float:
        def weighted(f: float) -> float:
            return f**power * float(link.sigma(label * f)) * math.exp(-0.5 * (f / sd) ** 2)  # type: ignore[arg-type]

        return quad(weighted, -12 * sd, 12 * sd, points=[0.0], epsabs=1e-14)[0] / (sd * math.sqrt(2 * math.pi))

    z, first, second = (moment(power) for power in range(3))
    mean, spread = fit.require_converged().latent(np.zeros((1, 1)))
    assert fit.log_marginal_likelihood == pytest.approx(math.log(z), abs=1e-10)
    assert mean[0] == pytest.approx(first / z, rel=1e-8)
    assert spread[0] == pytest.approx(second / z - (first / z) ** 2, rel=1e-8)


@pytest.mark.parametrize("labels", [(1.0, 1.0), (1.0, -1.0)])
def test_ep_matches_quadrature_for_two_points(labels: tuple[float, float]) -> None:
    X, y, h = np.array([[0.0], [0.7]]), np.array(labels), Hyperparameters(1.5)
    fit = expectation_propagation(BinaryProblem(X, y, SE, PROBIT), h)
    lower = np.linalg.cholesky(KernelSystem(X, SE, h).K)

    def moment(weight: Any) -> float:
        def integrand(b: float, a: float) -> float:
            f = lower @ np.array([a, b])
            density = math.exp(-0.5 * (a * a + b * b)) / (2.0 * math.pi)
            return weight(f) * density * math.exp(float(PROBIT.log_likelihood(y, f).sum()))

        return dblquad(integrand, -8, 8, -8, 8, epsabs=1e-7)[0]

    z = moment(lambda f: 1.0)
    means = [moment(lambda f, i=i: f[i]) / z for i in range(2)]
    # EP is not exact for two points, but close
    assert fit.log_marginal_likelihood == pytest.approx(math.log(z), abs=3e-3)
    np.testing.assert_allclose(fit.require_converged().latent(X)[0], means, atol=0.02)


@BOTH
@LINK
def test_label_flip_mirrors_the_mean(inference: str, link: Link) -> None:
    X, y = two_classes(1)
    plus, minus = (
        INFERENCES.get(inference)(BinaryProblem(X, sign * y, SE, link), Hyperparameters(2.0, (0.9,)), None)
        for sign in (1.0, -1.0)
    )
    assert plus.log_marginal_likelihood == pytest.approx(minus.log_marginal_likelihood, abs=1e-10)
    np.testing.assert_allclose(plus.posterior.alpha, -minus.posterior.alpha, atol=1e-9)
    np.testing.assert_allclose(plus.gradient, minus.gradient, atol=1e-8)


@BOTH
@given(variance=st.floats(1e-3, 1e4), lengthscale=st.floats(0.05, 30.0), seed=st.integers(0, 20))
def test_precision_of_the_data_is_between_zero_and_the_inverse_prior(
    inference: str, variance: float, lengthscale: float, seed: int
) -> None:
    # 0 <= R and K R <= 1: eigenvalues of L' R L lie in [0, 1]
    X, y = two_classes(seed, 15)
    h = Hyperparameters(variance, (lengthscale,))
    posterior = INFERENCES.get(inference)(BinaryProblem(X, y, SE, PROBIT), h, None).require_converged()
    values, vectors = np.linalg.eigh(KernelSystem(X, SE, h).K)
    features = posterior.root @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    shares = np.linalg.eigvalsh(features.T @ features)
    assert shares.min() >= -1e-10
    assert shares.max() <= 1.0 + 1e-10


@BOTH
def test_start_from_another_fit_changes_only_the_work(inference: str) -> None:
    X, y = two_classes(2, 60)
    infer = INFERENCES.get(inference)
    other = infer(BinaryProblem(X, y, SE, PROBIT), Hyperparameters(3.0, (0.8,)), None)
    cold = infer(BinaryProblem(X, y, SE, PROBIT), Hyperparameters(3.1, (0.82,)), None)
    warm = infer(BinaryProblem(X, y, SE, PROBIT), Hyperparameters(3.1, (0.82,)), other.state)
    assert warm.iterations < cold.iterations
    assert warm.log_marginal_likelihood == pytest.approx(cold.log_marginal_likelihood, abs=1e-9)
    np.testing.assert_allclose(warm.posterior.alpha, cold.posterior.alpha, atol=1e-7)


@pytest.mark.parametrize("start", [np.full(30, 1e3), np.full(30, np.nan)])
def test_laplace_survives_an_absurd_start(start: Array) -> None:
    X, y = two_classes(0)
    h = Hyperparameters(2.0, (0.9,))
    expected = laplace(BinaryProblem(X, y, SE, PROBIT), h).log_marginal_likelihood
    fit = laplace(BinaryProblem(X, y, SE, PROBIT), h, start)
    assert fit.converged
    assert fit.log_marginal_likelihood == pytest.approx(expected, abs=1e-10)


def test_a_start_worse_than_none_is_not_taken() -> None:
    """Of lower log density than f = 0, -N log 2: the iteration is that without a start, to the last bit."""
    X, y = two_classes(0)
    h = Hyperparameters(2.0, (0.9,))
    K, cold = KernelSystem(X, SE, h).K, laplace(BinaryProblem(X, y, SE, PROBIT), h)
    for size, taken in ((-0.02, False), (-0.005, False), (0.02, True)):
        start = size * y
        density = PROBIT.log_likelihood(y, K @ start).sum() - 0.5 * start @ K @ start
        assert (density >= -30 * np.log(2.0)) == taken
        assert density > -30 * np.log(3.0)
        assert np.array_equal(laplace(BinaryProblem(X, y, SE, PROBIT), h, start).state, cold.state) != taken


@BOTH
@pytest.mark.parametrize("variance", [1e-8, 1e6])
@pytest.mark.parametrize("lengthscale", [1e-3, 1e3])
def test_extreme_hyperparameters_converge_or_say_so(inference: str, variance: float, lengthscale: float) -> None:
    X, y = two_classes(0)
    h = Hyperparameters(variance, (lengthscale,))
    fit = INFERENCES.get(inference)(BinaryProblem(X, y, SE, PROBIT), h, None)
    if fit.converged:
        assert np.isfinite([fit.log_marginal_likelihood, *fit.gradient]).all()
        assert fit.log_marginal_likelihood < 0.0
    else:
        with pytest.raises(NotConvergedError, match="no convergence"):
            fit.require_converged()


@BOTH
def test_vanishing_prior_is_a_coin_toss(inference: str) -> None:
    X, y = two_classes(0)
    fit = INFERENCES.get(inference)(BinaryProblem(X, y, SE, PROBIT), Hyperparameters(1e-12), None)
    assert fit.log_marginal_likelihood == pytest.approx(30 * math.log(0.5), rel=1e-9)


@pytest.mark.parametrize("module", ["laplace", "expectation_propagation"])
def test_stopped_early_is_not_converged(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"gpsuite.models.classification.{module}.MAX_ITERATIONS", 2)
    X, y = two_classes(0)
    infer = INFERENCES.get("ep" if module == "expectation_propagation" else module)
    fit = infer(BinaryProblem(X, y, SE, PROBIT), Hyperparameters(5.0), None)
    assert (fit.converged, fit.iterations) == (False, 2)
    with pytest.raises(NotConvergedError, match="2 iterations"):
        fit.require_converged()


def test_a_mode_whose_gradient_is_not_finite_is_not_converged() -> None:
    class WithoutThird(type(PROBIT)):
        """The value of the mode is finite, its derivative in the hyperparameters is not."""

        def derivatives(self, y: Array, f: Array) -> tuple[Array, ...]:
            first, second, third = super().derivatives(y, f)
            return first, second, third * np.nan

    X, y = two_classes(0)
    fit = laplace(BinaryProblem(X, y, SE, WithoutThird()), Hyperparameters(5.0))
    assert np.isfinite(fit.log_marginal_likelihood) and not fit.converged


@BOTH
def test_duplicate_inputs_need_no_jitter(inference: str) -> None:
    X, y = two_classes(4, 20)
    X, y = np.vstack([X, X]), np.concatenate([y, y])
    assert INFERENCES.get(inference)(BinaryProblem(X, y, SE, PROBIT), Hyperparameters(4.0, (3.0,)), None).converged


@BOTH
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((3, 1)), np.ones(2), "labels"),
        (np.zeros(3), np.ones(3), "inputs"),
        (np.array([[0.0], [np.inf]]), np.ones(2), "1 non-finite"),
        (np.zeros((2, 1)), np.array([0.0, 1.0]), "-1 or"),
    ],
)
def test_wrong_data_are_refused(inference: str, X: Array, y: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        INFERENCES.get(inference)(BinaryProblem(X, y, SE, PROBIT), Hyperparameters(), None)


@BOTH
def test_wrong_model_is_refused(inference: str) -> None:
    X, y = two_classes(0)
    with pytest.raises(ValueError, match="not concave"):
        INFERENCES.get(inference)(BinaryProblem(X, y, SE, SQUEEZED_PROBIT), Hyperparameters(), None)
    with pytest.raises(ValueError, match="2 lengthscales given for D=2 inputs with ard=False"):
        INFERENCES.get(inference)(BinaryProblem(X, y, SE, LINKS.get("probit")), Hyperparameters(1.0, (1.0, 2.0)), None)


def test_newton_step_that_overshoots_is_halved() -> None:
    X, y = two_classes(0)
    K = KernelSystem(X, SE, Hyperparameters(2.0, (0.9,))).K
    mode = laplace(BinaryProblem(X, y, SE, PROBIT), Hyperparameters(2.0, (0.9,))).state
    zero = np.zeros(30)
    density = 30 * math.log(0.5)
    a, f, reached = _accepted_step(y, PROBIT, density, (zero, zero), (50.0 * mode, 50.0 * K @ mode))
    assert density <= reached
    share = a[0] / (50.0 * mode[0])
    assert share in {0.5**k for k in range(3, 8)}
    np.testing.assert_allclose(f, K @ a, rtol=1e-12)
    assert _accepted_step(y, PROBIT, 0.0, (zero, zero), (mode, K @ mode)) is None


def test_posterior_variance_matches_its_definition_also_for_weak_sites() -> None:
    root = np.random.default_rng(1).standard_normal((5, 5))
    K, tau = root @ root.T, np.array([0.0, 1e-12, 1e-6, 0.4, 3.0])
    system = WeightedSystem(K, tau)
    expected = np.diagonal(K - K @ system.precision() @ K)
    np.testing.assert_allclose(_posterior_variance(system, tau), expected, rtol=1e-11)


def test_a_weighted_system_matches_its_definitions() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    K, weights, v = root @ root.T, np.array([0.0, 1e-9, 0.1, 0.5, 1.0, 0.9]), rng.standard_normal(6)
    system = WeightedSystem(K, weights)
    positive = np.where(weights > 0.0, weights, 1e-30)
    R = np.linalg.inv(K + np.diag(1.0 / positive))
    np.testing.assert_allclose(system.precision(), R, atol=1e-12)
    np.testing.assert_allclose(system.root.T @ system.root, R, atol=1e-12)
    np.testing.assert_allclose(system.smoothed(v), v - R @ K @ v, rtol=1e-10)


def test_a_site_moves_only_where_its_tilted_moments_are_usable() -> None:
    sites: Any = SimpleNamespace(tau=np.ones(4), nu=np.zeros(4))
    tilted: Any = SimpleNamespace(tau=np.array([3.0, -3.0, np.inf, 3.0]), nu=np.array([4.0, 4.0, 4.0, np.nan]))
    tau, nu = _moved(sites, tilted, 0.5)
    assert (tau.tolist(), nu.tolist()) == ([2.0, 1.0, 1.0, 1.0], [2.0, 0.0, 0.0, 0.0])
