from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.errors import UserError
from gpsuite.models.classification.links import LOGISTIC, PROBIT, SQUEEZED_PROBIT
from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from gpsuite.models.kernels import build_kernel
from gpsuite.models.radial import kappa, kappa_and_slope, squared_distances
from tests.arrays import Array
from tests.models.gpc_problems import fitted_posterior

KERNELS = pytest.mark.parametrize("kernel", KERNEL_NAMES)


@KERNELS
@pytest.mark.parametrize("inputs", [1, 3, 40])
def test_kernel_is_gpflows(kernel: str, inputs: int) -> None:
    rng = np.random.default_rng(inputs)
    A, B = rng.standard_normal((7, inputs)), rng.standard_normal((5, inputs))
    h = Hyperparameters(2.5, tuple(rng.uniform(0.5, 3.0, inputs).tolist()))
    gpflow_kernel = build_kernel(ModelSpec(kernel, ard=True), h, inputs)
    lengths = np.array(h.lengthscales)
    ours = 2.5 * kappa(kernel, squared_distances(A / lengths, B / lengths))
    np.testing.assert_allclose(ours, gpflow_kernel(A, B).numpy(), rtol=1e-12, atol=1e-15)
    scaled = A / lengths
    np.testing.assert_array_equal(np.diagonal(kappa(kernel, squared_distances(scaled, scaled))), 1.0)


def test_gradients_hold_for_weights_of_both_signs() -> None:
    """A variational posterior's rows have any weights; the variance's gradient by differences."""
    posterior, *_ = fitted_posterior("laplace", "squared_exponential", PROBIT)
    weights = np.linspace(-0.9, 0.7, len(posterior.weights))
    posterior = replace(posterior, weights=weights)
    x, step = posterior.X[:4] + 0.2, 1e-6
    slope = posterior.latent_with_gradient(x)[3]
    for axis in range(x.shape[1]):
        moved = step * (np.arange(x.shape[1]) == axis)
        difference = (posterior.latent(x + moved)[1] - posterior.latent(x - moved)[1]) / (2 * step)
        np.testing.assert_allclose(slope[:, axis], difference, atol=1e-6 * posterior.variance)


@KERNELS
@given(q=st.floats(1e-3, 60.0))
def test_slope_is_minus_twice_the_derivative(kernel: str, q: float) -> None:
    step = 1e-5 * q
    high, low = kappa(kernel, np.array([q + step, q - step]))
    _, slope = kappa_and_slope(kernel, np.array([q]))
    assert slope[0] == pytest.approx(-(high - low) / step, rel=1e-6, abs=1e-12)


def test_unknown_kernel_is_refused() -> None:
    posterior, _ = fitted_posterior()
    with pytest.raises(UserError, match="unknown kernel"):
        replace(posterior, kernel="matern23")
    with pytest.raises(UserError, match="unknown kernel"):
        kappa("linear", np.zeros(1))


@KERNELS
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_latent_moments_match_their_definition(kernel: str, inference: str) -> None:
    posterior, _ = fitted_posterior(inference, kernel)
    Xnew = np.random.default_rng(1).standard_normal((9, 2))
    h = Hyperparameters(posterior.variance, tuple(posterior.lengthscales.tolist()))
    k = build_kernel(ModelSpec(kernel, ard=True), h, 2)(Xnew, posterior.X).numpy()
    R = posterior.root.T @ posterior.root
    mean, variance = posterior.latent(Xnew)
    np.testing.assert_allclose(mean, k @ posterior.alpha, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(variance, posterior.variance - np.einsum("bi,ij,bj->b", k, R, k), rtol=1e-11)


@KERNELS
@pytest.mark.parametrize("link", [PROBIT, LOGISTIC, SQUEEZED_PROBIT], ids=lambda link: link.name)
def test_gradients_match_differences(kernel: str, link: Any) -> None:
    posterior, _ = fitted_posterior("laplace", kernel)
    posterior = replace(posterior, link=link)
    Xnew = np.random.default_rng(2).standard_normal((6, 2))
    _, _, d_mean, d_variance = posterior.latent_with_gradient(Xnew)
    probability, d_probability = posterior.probability_with_gradient(Xnew)
    np.testing.assert_array_equal(probability, posterior.probability(Xnew))
    for j in range(2):
        step = 1e-5 * np.eye(2)[j]
        high, low = posterior.latent(Xnew + step), posterior.latent(Xnew - step)
        np.testing.assert_allclose(d_mean[:, j], (high[0] - low[0]) / 2e-5, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(d_variance[:, j], (high[1] - low[1]) / 2e-5, rtol=1e-6, atol=1e-8)
        slope = (posterior.probability(Xnew + step) - posterior.probability(Xnew - step)) / 2e-5
        np.testing.assert_allclose(d_probability[:, j], slope, rtol=1e-6, atol=1e-8)


@KERNELS
@given(x=st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=2), variance=st.floats(1e-2, 400.0))
def test_variance_is_between_zero_and_the_priors(kernel: str, x: list[float], variance: float) -> None:
    posterior, _ = fitted_posterior("laplace", kernel, hyperparameters=Hyperparameters(variance, (0.9, 1.5)))
    got = posterior.latent(np.array([x]))[1][0]
    assert 0.0 < got <= variance


def test_far_away_is_the_prior() -> None:
    posterior, _ = fitted_posterior()
    mean, variance = posterior.latent(np.array([[1e4, -1e4]]))
    assert (mean[0], variance[0], posterior.probability(np.array([[1e4, 0.0]]))[0]) == (0.0, 2.5, 0.5)


def test_blocks_give_what_single_points_give(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, _ = fitted_posterior()
    Xnew = np.random.default_rng(3).standard_normal((10, 2))
    whole = posterior.latent_with_gradient(Xnew)
    monkeypatch.setattr("gpsuite.models.latent._BLOCK", 90)
    for parts, expected in zip(posterior.latent_with_gradient(Xnew), whole, strict=True):
        np.testing.assert_allclose(parts, expected, rtol=1e-12, atol=1e-13)
    for parts, expected in zip(posterior.latent(Xnew), whole[:2], strict=True):
        np.testing.assert_allclose(parts, expected, rtol=1e-12)


@pytest.mark.parametrize("Xnew", [np.zeros(2), np.zeros((3, 1)), np.array([[0.0, np.nan]])])
def test_unusable_inputs_are_refused(Xnew: Array) -> None:
    posterior, _ = fitted_posterior()
    with pytest.raises(ValueError, match="finite inputs"):
        posterior.latent(Xnew)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros(3)}, "inputs"),
        ({"alpha": np.zeros(3)}, "alpha: shape"),
        ({"root": np.zeros((3, 30))}, "root: shape"),
        ({"alpha": np.full(30, np.nan)}, "alpha has non-finite"),
        ({"variance": float("nan")}, "positive"),
        ({"lengthscales": np.array([1.0, -1.0])}, "positive"),
        ({"operator_bound": 0.5}, "operator_bound"),
    ],
)
def test_inconsistent_posteriors_are_refused(change: dict[str, Any], message: str) -> None:
    posterior, _ = fitted_posterior()
    with pytest.raises(ValueError, match=message):
        replace(posterior, **change)
