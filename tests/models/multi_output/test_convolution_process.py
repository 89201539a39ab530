from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from gpsuite.data.generators.gp_samples import convolution_covariance, lmc_covariance, squared_exponential
from gpsuite.models.multi_output.convolution import ConvolutionParameters, ConvolutionProcess
from gpsuite.models.multi_output.observations import Observations
from tests.arrays import Array
from tests.models.active_reference import TOLERANCE, cases


def problem(
    seed: int, n: int = 9, P: int = 2, D: int = 2, L: int = 3, S: int = 4
) -> tuple[ConvolutionProcess, Array, Observations]:
    rng = np.random.default_rng(seed)
    model = ConvolutionProcess(P, D, L)
    observations = Observations(rng.uniform(-1.0, 1.0, (n, D)), rng.integers(0, P, n), rng.standard_normal(n))
    return model, model.draw_prior(rng, S), observations


def densities(parameters: ConvolutionParameters, D: int) -> dict[str, Array]:
    """Return A, Lambda, W and c of the first parameter vector in the paper's notation, with normal densities."""
    length, width = parameters.lengthscale[0], parameters.smoothing[0]
    scale = (parameters.own_spread[0] / length**2) ** (D / 4.0)
    return {
        "A": width[:, None, None] ** -2.0 * np.eye(D),
        "Lambda": length[:, None, None] ** -2.0 * np.eye(D),
        "W": parameters.W[0] * scale,
        "c": parameters.variance[0] * (2.0 * np.pi * length**2) ** (D / 2.0),
    }


def all_pairs(n: int, P: int) -> tuple[Array, Array]:
    return np.repeat(np.arange(n), P), np.tile(np.arange(P), n)


@pytest.mark.reference
@pytest.mark.parametrize("case", cases("convolution_covariance"))
def test_convolution_covariances_equal_the_references(case: dict[str, Any]) -> None:
    given_ = {name: np.array(values) for name, values in case["inputs"].items()}
    expected = np.array(case["expected"]["K"])
    np.testing.assert_allclose(convolution_covariance(**given_), expected, **TOLERANCE)
    D, (P, L) = given_["X"].shape[1], given_["W"].shape
    if D > 1:  # precision matrices beyond the model's isotropic ones
        return
    width, length = given_["A"][:, 0, 0] ** -0.5, given_["Lambda"][:, 0, 0] ** -0.5
    scale = ((2.0 * width[:, None] ** 2 + length**2) / length**2) ** (D / 4.0)
    variance = given_["c"] * (2.0 * np.pi * length**2) ** (-D / 2.0)
    parameters = ConvolutionParameters(
        variance[None], length[None], np.ones((1, P)), width[None], (given_["W"] / scale)[None]
    )
    model = ConvolutionProcess(P, D, L)
    row, p = all_pairs(len(given_["X"]), P)
    found = model.cross_covariance(model.unconstrain(parameters), given_["X"][row], p, given_["X2"])
    np.testing.assert_allclose(found[0].reshape(expected.shape), expected, **TOLERANCE)


@given(seed=st.integers(0, 10_000), D=st.integers(1, 4), P=st.integers(1, 3))
def test_the_model_is_the_general_covariance_and_positive_semidefinite(seed: int, D: int, P: int) -> None:
    model, u, observations = problem(seed, n=6, P=P, D=D, S=1)
    X = observations.X
    row, p = all_pairs(len(X), P)
    found = model.covariance(u, X[row], p, X[row], p)[0]
    general = convolution_covariance(X, X, **densities(model.constrain(u), D)).reshape(found.shape)
    scale = np.abs(general).max()
    np.testing.assert_allclose(found, general, rtol=1e-9, atol=1e-10 * scale)
    assert np.linalg.eigvalsh(found).min() > -1e-12 * scale * len(found)


def test_three_ways_to_the_covariance_agree() -> None:
    model, u, observations = problem(1)
    X, p = observations.X, observations.p
    X2 = np.random.default_rng(2).uniform(-1.0, 1.0, (5, 2))
    crossed = model.cross_covariance(u, X, p, X2)
    for q in range(2):
        one = np.full(5, q)
        np.testing.assert_array_equal(model.covariance(u, X, p, X2, one), crossed[..., q])
    at_once = model.cross_covariance(u, X[:1].repeat(2, axis=0), np.array([0, 1]), X[:1])
    np.testing.assert_allclose(at_once[:, :, 0], model.prior_covariance(u), rtol=1e-12)


def test_prior_variances_are_those_of_the_linear_model_for_any_widths() -> None:
    model, u, _ = problem(3, D=13)
    model = ConvolutionProcess(2, 13, 3)
    parameters = model.constrain(u)
    expected = (parameters.W**2 * parameters.variance[:, None]).sum(axis=2)
    found = np.diagonal(model.prior_covariance(u), axis1=1, axis2=2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_without_smoothing_it_is_the_linear_model_of_coregionalisation() -> None:
    model, u, observations = problem(4, S=1)
    drawn = model.constrain(u)
    X = observations.X
    latent = [
        squared_exponential(X, X, v, length) for v, length in zip(drawn.variance[0], drawn.lengthscale[0], strict=True)
    ]
    expected = lmc_covariance(np.stack(latent), drawn.W[0])
    row, p = all_pairs(len(X), 2)
    far = []
    for width in (1e-1, 1e-2, 1e-3, 1e-4):
        narrow = ConvolutionParameters(drawn.variance, drawn.lengthscale, drawn.noise, np.full((1, 2), width), drawn.W)
        found = model.covariance(model.unconstrain(narrow), X[row], p, X[row], p)[0]
        far.append(np.abs(found - expected.reshape(found.shape)).max())
    assert far[-1] < 1e-5 < far[0]
    np.testing.assert_allclose(np.array(far[1:]) / far[:-1], 1e-2, rtol=0.2)  # differences fall as widths squared


@pytest.mark.parametrize("P", [1, 2, 3])
def test_the_likelihood_is_that_of_a_normal_vector(P: int) -> None:
    model, u, observations = problem(5, P=P)
    X, p = observations.X, observations.p
    K = model.covariance(u, X, p, X, p)
    noise = model.noise(u)[:, p]
    expected = [multivariate_normal(cov=k + np.diag(s)).logpdf(observations.y) for k, s in zip(K, noise, strict=True)]
    np.testing.assert_allclose(model.likelihood(observations).value(u), expected, rtol=1e-9)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 8), D=st.integers(1, 5), P=st.integers(1, 3))
def test_gradients_are_central_differences(seed: int, n: int, D: int, P: int) -> None:
    model, u, observations = problem(seed, n=n, D=D, P=P, L=2, S=2)
    likelihood = model.likelihood(observations)
    for function in (likelihood.value_and_gradient, model.log_prior):
        _, gradient = function(u)
        for i in range(model.n_parameters):
            # relative to u: a narrow lengthscale's softplus lies at large negative u
            step = 1e-5 * np.eye(model.n_parameters)[i]
            slope = (function(u + step)[0] - function(u - step)[0]) / 2e-5
            scale = np.abs(gradient).max(axis=1) + 1.0
            np.testing.assert_allclose(gradient[:, i] / scale, slope / scale, atol=2e-6)


def test_particles_do_not_depend_on_their_company() -> None:
    model, u, observations = problem(6, n=60, S=100)  # more than one batch
    likelihood = model.likelihood(observations)
    value, gradient = likelihood.value_and_gradient(u)
    few, few_gradients = likelihood.value_and_gradient(u[90:93])
    np.testing.assert_allclose(value[90:93], few, rtol=1e-12)
    np.testing.assert_allclose(gradient[90:93], few_gradients, rtol=1e-9, atol=1e-9)


def test_a_covariance_without_factor_is_minus_infinity() -> None:
    model, u, observations = problem(7)
    u[1, 0] = np.nan
    u[2, :3], u[2, 3:6], u[2, 6:8] = (1e12, 1e9, -1e4)  # huge variances, inputs as good as equal, smallest noise
    value, gradient = model.likelihood(observations).value_and_gradient(u)
    assert value[1:3].tolist() == [-np.inf, -np.inf]
    assert not gradient[1:3].any()
    assert np.isfinite(value[[0, 3]]).all()
    assert gradient[[0, 3]].all()


def test_names_follow_u_and_parameters_return() -> None:
    model, u, _ = problem(8)
    parameters = model.constrain(u)
    assert model.names[:3] == ("variance_0", "variance_1", "variance_2")
    assert model.names[6:10] == ("noise_0", "noise_1", "smoothing_0", "smoothing_1")
    assert model.names[10:] == ("W_00", "W_01", "W_02", "W_10", "W_11", "W_12")
    assert u.shape[1] == model.n_parameters == len(model.names)
    np.testing.assert_allclose(model.join(parameters)[:, 8:10], parameters.smoothing)
    np.testing.assert_allclose(model.unconstrain(parameters), u, rtol=1e-7, atol=1e-7)


def test_impossible_models_and_observations_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        ConvolutionProcess(2, 0)
    model, u, observations = problem(9)
    with pytest.raises(ValueError, match="The model has 1"):
        ConvolutionProcess(1, 2).likelihood(observations)
    with pytest.raises(ValueError, match="2 columns"):
        ConvolutionProcess(2, 1).likelihood(observations)
    empty = Observations(np.empty((0, 2)), np.empty(0, dtype=np.int64), np.empty(0))
    value, gradient = model.likelihood(empty).value_and_gradient(u)
    assert not value.any()
    assert not gradient.any()
