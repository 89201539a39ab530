from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.generators import (
    KERNELS,
    ConvolutionParameters,
    GpSamples,
    LmcParameters,
    Sizes,
    convolution_covariance,
    gp_samples,
    lmc_covariance,
    matern52,
    sample_gaussian,
    squared_exponential,
    squared_exponential_paper,
)
from tests.arrays import Array

POINTS = np.array([[0.0, 0.0], [3.0, 4.0], [0.3, -0.4]])


def small(seed: int = 0, **changes: Any) -> GpSamples:
    form = {name: changes.pop(name) for name in ("kernel", "process") if name in changes}
    sizes = Sizes(**{"draws": 2, "n_train": 30, "n_test": 10, **changes})
    return gp_samples(np.random.default_rng(seed), sizes, **form)


def test_kernels_at_known_distances() -> None:
    """Distances 5 and 0.5 from the first point."""
    r = np.array([0.0, 5.0, 0.5])
    rows = {name: kernel(POINTS[:1], POINTS, 2.0, 0.8)[0] for name, kernel in KERNELS.items()}
    a = np.sqrt(5) * r / 0.8
    np.testing.assert_allclose(rows["squared_exponential"], 2 * np.exp(-(r**2) / 1.28), rtol=1e-13)
    np.testing.assert_allclose(rows["squared_exponential_paper"], 2 * np.exp(-(r**2) / 0.8), rtol=1e-13)
    np.testing.assert_allclose(rows["matern52"], 2 * (1 + a + a * a / 3) * np.exp(-a), rtol=1e-13)


@given(lengthscale=st.floats(0.05, 5.0))
def test_the_two_forms_agree_after_a_change_of_lengthscale(lengthscale: float) -> None:
    """exp(-r^2 / rho) is exp(-r^2 / (2 l^2)) with rho = 2 l^2."""
    np.testing.assert_allclose(
        squared_exponential_paper(POINTS, POINTS, 1.0, 2 * lengthscale**2),
        squared_exponential(POINTS, POINTS, 1.0, lengthscale),
        rtol=1e-12,
    )


def test_lmc_covariance_entry_by_entry() -> None:
    W = np.random.default_rng(0).standard_normal((4, 2))
    latent = np.stack([matern52(POINTS, POINTS[:2], 1.0, lengthscale) for lengthscale in (0.5, 2.0)])
    covariance = lmc_covariance(latent, W)
    assert covariance.shape == (3, 4, 2, 4)
    expected = sum(W[3, k] * W[1, k] * latent[k, 2, 0] for k in range(2))
    assert covariance[2, 3, 0, 1] == pytest.approx(expected, rel=1e-13)


def test_convolution_covariance_by_numerical_integration() -> None:
    """In one dimension: the double integral of both smoothings against the latent covariance."""
    precision, latent, weights = np.array([4.0, 9.0]), 2.0, np.array([0.7, -1.3])
    u = np.linspace(-6, 6, 1201)
    step = u[1] - u[0]

    def normal(x: Array, inverse_variance: float) -> Array:
        values: Array = np.sqrt(inverse_variance / 2 / np.pi) * np.exp(-0.5 * inverse_variance * x**2)
        return values

    x, x2, c = 0.4, -0.3, 1.7
    smooth = [normal(point - u, a) for point, a in zip((x, x2), precision, strict=True)]
    inner = c * normal(u[:, None] - u[None, :], latent)
    expected = weights[0] * weights[1] * smooth[0] @ inner @ smooth[1] * step**2
    found = convolution_covariance(
        np.array([[x]]),
        np.array([[x2]]),
        precision[:, None, None],
        np.array([[[latent]]]),
        weights[:, None],
        np.array([c]),
    )
    assert found[0, 0, 0, 1] == pytest.approx(expected, rel=1e-9)


def test_convolution_covariance_with_full_matrices_is_a_covariance() -> None:
    rng = np.random.default_rng(1)
    roots = rng.standard_normal((5, 2, 2))
    precisions = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(2)
    W, X = rng.standard_normal((3, 2)), rng.uniform(-2, 2, (6, 2))
    K = convolution_covariance(X, X, precisions[:3], precisions[3:], W, np.array([1.0, 2.0])).reshape(18, 18)
    np.testing.assert_allclose(K, K.T, rtol=1e-12, atol=1e-15)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_samples_have_the_covariance() -> None:
    """Entries of a sample covariance of n draws: standard error at most sqrt(2 / n) for unit variances."""
    n = 20_000
    K = squared_exponential(POINTS, POINTS, 1.0, 0.5)
    draws = sample_gaussian(np.random.default_rng(2), K, n)
    assert draws.shape == (n, 3)
    assert (np.abs(draws.T @ draws / n - K) < 5 * np.sqrt(2 / n)).all()
    assert (np.abs(draws.mean(axis=0)) < 5 / np.sqrt(n)).all()


def test_singular_covariances_can_be_sampled_and_indefinite_ones_not() -> None:
    X = np.linspace(0, 1, 300)[:, None]
    draws = sample_gaussian(np.random.default_rng(3), squared_exponential(X, X, 4.0, 1.0), 1)
    assert np.abs(np.diff(draws, 3)).max() < 4.0 * 2e-3  # smooth but for the jitter, 1e-4 of the deviation
    with pytest.raises(np.linalg.LinAlgError):
        sample_gaussian(np.random.default_rng(3), np.diag([1.0, -1.0]), 1)


def test_shapes_and_parameters_of_the_paper() -> None:
    samples = small()
    data = samples.data
    assert data.X.shape == (40, 2)
    assert data.F.shape == data.Y.shape == (2, 40, 4)
    assert data.h.shape == data.z.shape == (2, 40)
    assert data.X.min() >= -2
    assert data.X.max() < 2
    assert isinstance(samples.parameters, LmcParameters)
    np.testing.assert_allclose((samples.parameters.W**2).sum(axis=1), 1.0, rtol=1e-14)
    assert samples.parameters.W.shape == (4, 3)


def test_random_parameters_fill_their_ranges() -> None:
    many = [small(seed, draws=1, n_train=1, n_test=0) for seed in range(300)]
    lengthscales = np.concatenate([one.parameters.lengthscales for one in many])
    for values in (lengthscales, np.array([one.safety_variance for one in many])):
        assert values.min() >= 0.01
        assert values.max() < 1.0
        assert abs((values < 0.505).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(values))


@pytest.mark.parametrize("process", ["lmc", "convolution"])
def test_threshold_leaves_a_fifth_of_all_noisy_safety_values_below(process: str) -> None:
    data = small(process=process, draws=5).data
    assert (data.z < data.threshold).sum() == 0.2 * data.z.size
    assert data.threshold == np.quantile(data.z, 0.2)


def test_noise_levels_of_the_samples() -> None:
    data = small(draws=50).data
    for noise, deviation in ((data.Y - data.F, 0.4), (data.z - data.h, 0.05)):
        assert abs(noise.std() / deviation - 1) < 5 / np.sqrt(2 * noise.size)


@pytest.mark.parametrize("process", ["lmc", "convolution"])
def test_outputs_have_the_covariance_of_their_parameters(process: str) -> None:
    """All entries of the covariance of 4 points x 2 outputs over 20,000 draws, within five standard errors."""
    n = 20_000
    samples = small(draws=n, n_train=4, n_test=0, n_outputs=2, n_latent=2, process=process)
    X, parameters = samples.data.X, samples.parameters
    if isinstance(parameters, ConvolutionParameters):
        K = convolution_covariance(X, X, parameters.A, parameters.Lambda, parameters.W, parameters.c)
    else:
        latent = [squared_exponential(X, X, 1.0, lengthscale) for lengthscale in parameters.lengthscales]
        K = lmc_covariance(np.stack(latent), parameters.W)
    K = K.reshape(8, 8)
    F = samples.data.F.reshape(n, 8)
    error = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / n)
    assert (np.abs(F.T @ F / n - K) < 5 * error).all()
    safety = samples.data.h.var(axis=0) / samples.safety_variance
    assert (np.abs(safety - 1) < 5 * np.sqrt(2 / n)).all()


def test_convolution_outputs_have_unit_variance_on_average() -> None:
    """As in the linear model, whose outputs have variance 1 each."""
    parameters = small(process="convolution", draws=1, n_outputs=5).parameters
    assert isinstance(parameters, ConvolutionParameters)
    x = np.zeros((1, 2))
    K = convolution_covariance(x, x, parameters.A, parameters.Lambda, parameters.W, parameters.c)
    assert np.trace(K.reshape(5, 5)) == pytest.approx(5.0, rel=1e-12)


@pytest.mark.parametrize("process", ["lmc", "convolution"])
def test_fewer_draws_are_the_first_ones(process: str) -> None:
    few, many = small(3, process=process).data, small(3, process=process, draws=4).data
    np.testing.assert_array_equal(few.X, many.X)
    for name in ("F", "Y", "h", "z"):
        np.testing.assert_allclose(getattr(few, name), getattr(many, name)[:2], atol=1e-12)


def test_a_second_call_gives_another_sample() -> None:
    rng = np.random.default_rng(7)
    first, second = (gp_samples(rng, Sizes(1, 5, 0)) for _ in range(2))
    assert not np.array_equal(first.data.X, second.data.X)
    np.testing.assert_array_equal(small(7).data.z, small(7).data.z)


def test_kernel_forms_give_different_functions_of_the_same_parameters() -> None:
    code, paper = small(), small(kernel="squared_exponential_paper")
    np.testing.assert_array_equal(code.data.X, paper.data.X)
    assert np.abs(code.data.F - paper.data.F).max() > 0.01
    with pytest.raises(KeyError):
        small(kernel="rbf")
    with pytest.raises(ValueError, match="process=icm"):
        small(process="icm")
