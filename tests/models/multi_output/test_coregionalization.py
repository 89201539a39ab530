"""Linear model of coregionalisation: names, transforms, covariances, and the likelihood with its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from gpsuite.data.generators.gp_samples import KERNELS, lmc_covariance
from gpsuite.models.multi_output import observations
from gpsuite.models.multi_output.convolution import ConvolutionProcess
from gpsuite.models.multi_output.coregionalization import (
    CoregionalizationLikelihood,
    LinearCoregionalization,
    Parameters,
)
from gpsuite.models.multi_output.observations import CovarianceBatch, Likelihood, Observations
from tests.arrays import Array
from tests.models.coregionalization_gpflow import from_gpflow, pairs, to_gpflow
from tests.models.multi_output_problems import draw_observations

MODELS = [
    LinearCoregionalization(2),
    LinearCoregionalization(4),
    LinearCoregionalization(3, n_latent=2, kernel="squared_exponential"),
    LinearCoregionalization(2, n_latent=3),
    LinearCoregionalization(3, mixing="identity"),
    LinearCoregionalization(1, mixing="identity", kernel="squared_exponential"),
]
models = pytest.mark.parametrize("model", MODELS, ids=["P2", "P4", "P3-L2-se", "P2-L3", "independent", "safety"])


def observed_covariances(model: LinearCoregionalization, u: Array, observations: Observations) -> Array:
    X, p = observations.X, observations.p
    noise = model.noise(u)[:, p, None] * np.eye(len(p))
    return model.covariance(u, X, p, X, p) + noise


def central_differences(likelihood: Likelihood, u: Array, step: float = 1e-5) -> Array:
    shifts = step * np.eye(u.shape[1])
    slopes = [(likelihood.value(u + shift) - likelihood.value(u - shift)) / (2.0 * step) for shift in shifts]
    return np.stack(slopes, axis=1)


@models
def test_covariances_are_those_of_the_generators(model: LinearCoregionalization) -> None:
    rng = np.random.default_rng(0)
    u = model.draw_prior(rng, 5)
    X, X2 = rng.normal(size=(6, 2)), rng.normal(size=(9, 2))
    X[4] = X[1]
    p, p2 = rng.integers(model.n_outputs, size=6), rng.integers(model.n_outputs, size=9)
    found = model.cross_covariance(u, X, p, X2)
    at_pairs = model.covariance(u, X, p, X2, p2)
    parameters = model.constrain(u)
    kernel = KERNELS[model.kernel]
    for s, W in enumerate(parameters.W):
        scales = zip(parameters.variance[s], parameters.lengthscale[s], strict=True)
        full = lmc_covariance(np.array([kernel(X, X2, *scale) for scale in scales]), W)
        np.testing.assert_allclose(found[s], full[np.arange(6), p], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(at_pairs[s], full[np.arange(6), p][:, np.arange(9), p2], rtol=1e-12, atol=1e-14)
    repeated = model.covariance(u, X2, p2, X, p)
    np.testing.assert_allclose(repeated, at_pairs.swapaxes(1, 2), rtol=1e-12, atol=1e-14)
    outputs = np.arange(model.n_outputs)
    point = np.tile(X[:1], (model.n_outputs, 1))
    at_one = model.covariance(u, point, outputs, point, outputs)
    np.testing.assert_allclose(model.prior_covariance(u), at_one, rtol=1e-12, atol=1e-14)


def test_batches_do_not_change_the_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rng = MODELS[0], np.random.default_rng(1)
    u, X, X2 = model.draw_prior(rng, 7), rng.normal(size=(5, 1)), rng.normal(size=(11, 1))
    p = np.array([0, 1, 1, 0, 1])
    whole = model.cross_covariance(u, X, p, X2)
    monkeypatch.setattr("gpsuite.models.multi_output.coregionalization.CHUNK", 45)
    np.testing.assert_allclose(model.cross_covariance(u, X, p, X2), whole, rtol=1e-13)


@models
def test_likelihood_is_the_normal_density_and_its_gradient(model: LinearCoregionalization) -> None:
    observations = draw_observations(model.n_outputs, 13)
    u = model.draw_prior(np.random.default_rng(3), 6)
    likelihood = model.likelihood(observations)
    value, gradient = likelihood.value_and_gradient(u)
    expected = [multivariate_normal(cov=K).logpdf(observations.y) for K in observed_covariances(model, u, observations)]
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_array_equal(likelihood.value(u), value)
    np.testing.assert_allclose(gradient, central_differences(likelihood, u), rtol=1e-6, atol=1e-6)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 9),
    n_outputs=st.integers(1, 3),
    mixing=st.sampled_from(["free", "identity"]),
)
def test_any_pattern_of_observed_outputs_is_allowed(seed: int, n: int, n_outputs: int, mixing: str) -> None:
    model = LinearCoregionalization(n_outputs, mixing=mixing)
    rng = np.random.default_rng(seed)
    observations = Observations(rng.normal(size=(n, 1)), rng.integers(n_outputs, size=n), rng.normal(size=n))
    u = model.draw_prior(rng, 3)
    value, gradient = model.likelihood(observations).value_and_gradient(u)
    for K, found in zip(observed_covariances(model, u, observations), value, strict=True):
        quadratic = observations.y @ np.linalg.solve(K, observations.y)
        expected = -0.5 * (quadratic + np.linalg.slogdet(2.0 * np.pi * K)[1])
        assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)
    order = rng.permutation(n)
    shuffled = Observations(observations.X[order], observations.p[order], observations.y[order])
    again = model.likelihood(shuffled).value_and_gradient(u)
    np.testing.assert_allclose(again[0], value, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(again[1], gradient, rtol=1e-6, atol=1e-5 * (1.0 + np.abs(gradient).max()))


@models
def test_particles_do_not_influence_each_other(model: LinearCoregionalization, monkeypatch: pytest.MonkeyPatch) -> None:
    observations = draw_observations(model.n_outputs, 10)
    u = model.draw_prior(np.random.default_rng(4), 7)
    value, gradient = model.likelihood(observations).value_and_gradient(u)
    monkeypatch.setattr("gpsuite.models.multi_output.coregionalization.CHUNK", 3 * 45 * model.n_latent)
    likelihood = model.likelihood(observations)
    for size in (2, 7, 3):  # the work arrays grow, and are larger than what is asked
        found = likelihood.value_and_gradient(u[:size])
        np.testing.assert_allclose(found[0], value[:size], rtol=1e-12)
        np.testing.assert_allclose(found[1], gradient[:size], rtol=1e-9, atol=1e-10)


@models
def test_what_cannot_be_factorised_is_minus_infinity_for_its_particle_only(model: LinearCoregionalization) -> None:
    observations = draw_observations(model.n_outputs, 10)
    u = model.draw_prior(np.random.default_rng(5), 5)
    value, gradient = model.likelihood(observations).value_and_gradient(u)
    bad = u.copy()
    bad[1, 0] = np.inf
    bad[2, model.n_latent] = np.nan
    bad[3] = -1e4  # variance and lengthscale underflow to zero
    found, slopes = model.likelihood(observations).value_and_gradient(bad)
    assert np.isneginf(found[1:4]).all()
    assert not slopes[1:4].any()
    np.testing.assert_allclose(found[[0, 4]], value[[0, 4]], rtol=1e-12)
    np.testing.assert_allclose(slopes[[0, 4]], gradient[[0, 4]], rtol=1e-9)


def test_a_singular_covariance_is_minus_infinity() -> None:
    model = LinearCoregionalization(1, mixing="identity")
    X = np.linspace(0.0, 1e-9, 20)[:, None]
    singular = Observations(X, np.zeros(20, dtype=np.int64), np.ones(20))
    u = np.array([[1e11, 20.0, -40.0]])  # noise 1e-6 under a variance of 1e11
    value, gradient = model.likelihood(singular).value_and_gradient(u)
    assert np.isneginf(value).all()
    assert not gradient.any()


def test_no_observations_tell_nothing() -> None:
    model = LinearCoregionalization(2)
    empty = Observations(np.empty((0, 1)), np.empty(0, dtype=np.int64), np.empty(0))
    u = model.draw_prior(np.random.default_rng(0), 3)
    value, gradient = model.likelihood(empty).value_and_gradient(u)
    np.testing.assert_array_equal(value, np.zeros(3))
    np.testing.assert_array_equal(gradient, np.zeros_like(u))
    assert model.cross_covariance(u, empty.X, empty.p, np.zeros((4, 1))).shape == (3, 0, 4, 2)
    assert model.cross_covariance(u, np.zeros((4, 1)), np.zeros(4, dtype=np.int64), empty.X).shape == (3, 4, 0, 2)


@models
def test_names_follow_the_order_of_the_transformed_parameters(model: LinearCoregionalization) -> None:
    u = model.draw_prior(np.random.default_rng(6), 4)
    assert u.shape == (4, model.n_parameters) == (4, len(model.names))
    parameters = model.constrain(u)
    by_name = dict(zip(model.names, model.join(parameters).T, strict=True))
    np.testing.assert_array_equal(by_name["lengthscale_0"], parameters.lengthscale[:, 0])
    last = model.n_outputs - 1
    np.testing.assert_array_equal(by_name[f"noise_{last}"], parameters.noise[:, last])
    if model.mixing == "free":
        np.testing.assert_array_equal(by_name[f"W_{last}0"], parameters.W[:, last, 0])
        np.testing.assert_array_equal(u[:, -model.n_latent :], parameters.W[:, last])
    np.testing.assert_allclose(model.unconstrain(parameters), u, rtol=1e-9, atol=1e-12)


def test_independent_outputs_are_the_free_model_without_mixing() -> None:
    free, independent = LinearCoregionalization(3), LinearCoregionalization(3, mixing="identity")
    observations = draw_observations(3, 14)
    u = independent.draw_prior(np.random.default_rng(7), 5)
    mixed = np.hstack([u, np.tile(np.eye(3).ravel(), (5, 1))])
    value, gradient = independent.likelihood(observations).value_and_gradient(u)
    expected, slopes = free.likelihood(observations).value_and_gradient(mixed)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, slopes[:, :9], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("kwargs", "word"),
    [
        ({"n_outputs": 0}, "outputs"),
        ({"n_outputs": 2, "mixing": "some"}, "mixing"),
        ({"n_outputs": 2, "kernel": "linear"}, "kernel"),
        ({"n_outputs": 2, "mixing": "identity", "n_latent": 3}, "latent"),
    ],
)
def test_impossible_structures_are_refused(kwargs: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        LinearCoregionalization(**kwargs)


def test_an_unknown_output_is_refused() -> None:
    with pytest.raises(ValueError, match="outputs"):
        LinearCoregionalization(2).likelihood(draw_observations(3, 6))


@pytest.mark.parametrize("name", observations.LATENT_KERNELS)
def test_kernel_slopes_are_those_of_differences(name: str) -> None:
    r2 = np.array([0.0, 0.01, 0.5, 4.0, 100.0])
    kernel = observations.LatentKernel(name, r2)

    def filled(log_lengthscale: float) -> Array:
        out = np.empty((3, 5))
        kernel.fill(np.exp(np.array([log_lengthscale])), *out)
        return out

    slopes = (filled(0.3 + 1e-6)[0] - filled(0.3 - 1e-6)[0]) / 2e-6
    np.testing.assert_allclose(filled(0.3)[1], slopes, rtol=1e-8, atol=1e-10)
    assert filled(0.3)[0][0] == 1.0


@pytest.mark.parametrize(
    ("variance", "lengthscale", "weight", "noise"),
    [
        (1e150, 1e-300, 1.0, 0.1),
        (1.0, 1e-200, 1.0, 0.1),
        (1e-100, 1.0, 1e170, 0.1),
        (1e-200, 1e-150, 1.0, 1e-300),
        (1e300, 1.0, 1.0, 0.1),
        (1e200, 1e-120, 1e40, 1e200),
    ],
)
def test_what_is_not_finite_in_value_or_gradient_has_no_weight_and_no_slope(
    variance: float, lengthscale: float, weight: float, noise: float
) -> None:
    """A vector's value and gradient are finite, or minus infinity and zero; the others keep theirs."""
    rng = np.random.default_rng(0)
    known = Observations(rng.uniform(-1, 1, (8, 1)), np.arange(8) % 2, rng.standard_normal(8))
    likelihood = CoregionalizationLikelihood(known, 2, 1, "matern52")
    parts = (variance, lengthscale, noise, weight)
    shapes = ((3, 1), (3, 1), (3, 2), (3, 2, 1))

    def vectors(which: int) -> Parameters:
        filled = (np.full(shape, 0.7) for shape in shapes)
        return Parameters(
            *(
                np.where(np.indices(shape)[0] == which, part, plain)
                for part, shape, plain in zip(parts, shapes, filled, strict=True)
            )
        )

    odd, plain = vectors(1), vectors(9)
    with np.errstate(all="ignore"):
        value, slope = likelihood.value_and_gradient(odd)
    expected, expected_slope = likelihood.value_and_gradient(plain)
    slopes = [getattr(slope, name)[1] for name in ("variance", "lengthscale", "noise", "W")]
    assert all(np.isfinite(each).all() for each in slopes)
    if not np.isfinite(value[1]):
        assert value[1] == -np.inf
        assert not any(each.any() for each in slopes)
    np.testing.assert_allclose(value[[0, 2]], expected[[0, 2]], rtol=1e-12)
    np.testing.assert_allclose(slope.W[[0, 2]], expected_slope.W[[0, 2]], rtol=1e-10)


# The NumPy model against GPflow's model of the same thing: value, autodiff gradient, predictions, and back.
GPFLOW_MODELS = [
    LinearCoregionalization(2),
    LinearCoregionalization(3, n_latent=2, kernel="squared_exponential"),
    LinearCoregionalization(2, mixing="identity"),
    LinearCoregionalization(1, mixing="identity"),
]
IDS = ["two-outputs", "fewer-latent", "independent", "safety"]


@pytest.mark.parametrize("model", GPFLOW_MODELS, ids=IDS)
def test_value_and_gradient_agree_with_gpflow(model: LinearCoregionalization) -> None:
    observations = draw_observations(model.n_outputs, 12)
    u = model.draw_prior(np.random.default_rng(2), 1)
    regression = to_gpflow(model, u[0], observations)
    with tf.GradientTape() as tape:
        expected = regression.log_marginal_likelihood()
    slopes = tape.gradient(expected, regression.trainable_variables)
    value, gradient = model.likelihood(observations).value_and_gradient(u)
    assert value[0] == pytest.approx(float(expected), rel=1e-9)
    by_value = {
        float(v): float(s)
        for variable, slope in zip(regression.trainable_variables, slopes, strict=True)
        for v, s in zip(variable.numpy().ravel(), slope.numpy().ravel(), strict=True)
    }
    # GPflow's variables come in another order but are the entries of u
    assert sorted(by_value) == pytest.approx(sorted(u[0]), rel=1e-9, abs=1e-9)
    order = np.argsort(u[0])
    assert [by_value[key] for key in sorted(by_value)] == pytest.approx(gradient[0][order], rel=1e-7, abs=1e-8)
    np.testing.assert_allclose(from_gpflow(model, regression), u[0], rtol=1e-9, atol=1e-12)


def test_predictions_agree() -> None:
    model = LinearCoregionalization(2)
    observations = draw_observations(2, 14)
    u = model.draw_prior(np.random.default_rng(5), 1)
    X, p = np.random.default_rng(6).uniform(-1.0, 1.0, (7, 2)), np.array([0, 1, 1, 0, 1, 0, 0])
    mean, covariance = to_gpflow(model, u[0], observations).predict_f(pairs(X, p), full_cov=True)
    noise = np.diag(model.noise(u)[0][observations.p])
    K = model.covariance(u, observations.X, observations.p, observations.X, observations.p)[0] + noise
    cross = model.covariance(u, observations.X, observations.p, X, p)[0]
    solved = np.linalg.solve(K, cross)
    np.testing.assert_allclose(solved.T @ observations.y, mean.numpy()[:, 0], atol=1e-8)
    left = model.covariance(u, X, p, X, p)[0] - cross.T @ solved
    np.testing.assert_allclose(left, covariance.numpy()[0], atol=1e-8)


# A log marginal likelihood asked for without its gradient.
VALUED_MODELS = {
    "coregionalization": LinearCoregionalization(3, 2),
    "independent": LinearCoregionalization(3, mixing="identity", kernel="squared_exponential"),
    "convolution": ConvolutionProcess(3, 2, 2),
}


def data(n: int) -> Observations:
    rng = np.random.default_rng(0)
    return Observations(rng.uniform(size=(n, 2)), rng.integers(0, 3, n), rng.standard_normal(n))


@pytest.mark.parametrize("model", VALUED_MODELS.values(), ids=VALUED_MODELS.keys())
@pytest.mark.parametrize("n", [0, 1, 40])
def test_a_value_has_the_same_bits_without_its_gradient(model: Any, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several batches, a vector without a likelihood among the others, and no derivative is computed."""
    likelihood = model.likelihood(data(n))
    u = model.draw_prior(np.random.default_rng(1), 45)
    if n:
        u[7] = np.nan
    expected, _ = likelihood.value_and_gradient(u)
    assert not n or np.isneginf(expected[7])
    monkeypatch.setattr(CovarianceBatch, "adjoints", None)
    np.testing.assert_array_equal(likelihood.value(u), expected)
