from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.generators import (
    FUNCTIONS,
    NOISES,
    KernelExpansion,
    draw_kernel_expansion,
    kernel_regression,
)


@given(
    function=st.sampled_from(sorted(FUNCTIONS)),
    noise=st.sampled_from(sorted(NOISES)),
    n=st.integers(1, 6),
    repetitions=st.integers(1, 4),
)
def test_shapes_and_exact_function_values(function: str, noise: str, n: int, repetitions: int) -> None:
    sample = kernel_regression(
        np.random.default_rng(0), (repetitions, n), function=function, noise=noise, domain=(-3.0, 3.0)
    )
    assert sample.X.shape == (repetitions, n, 1)
    assert sample.y.shape == sample.f.shape == (repetitions, n)
    assert (np.abs(sample.X) <= 3.0).all()
    np.testing.assert_array_equal(sample.f, FUNCTIONS[function](sample.X[..., 0]))
    if noise == "zero":
        np.testing.assert_array_equal(sample.y, sample.f)


def test_inputs_are_uniform_and_noise_has_its_scale() -> None:
    sample = kernel_regression(np.random.default_rng(1), (100, 200))
    n = sample.y.size
    inputs = sample.X
    below = (inputs < np.array([-1.0, 0.0, 1.0])).mean(axis=(0, 1))
    assert (np.abs(below - [0.25, 0.5, 0.75]) < 5 * 0.5 / np.sqrt(n)).all()
    assert abs(np.abs(sample.y - sample.f).mean() - 0.3) < 5 * 0.3 / np.sqrt(n)


def test_every_repetition_has_inputs_of_its_own() -> None:
    sample = kernel_regression(np.random.default_rng(1), (3, 4))
    assert np.unique(sample.X).size == 12


def test_heteroscedastic_noise_uses_the_drawn_inputs() -> None:
    sample = kernel_regression(np.random.default_rng(2), 20_000, noise="heteroscedastic", noise_scale=2.0)
    standard = (sample.y - sample.f) / (2.0 * (0.1 + np.abs(sample.X[:, 0])))
    assert abs(standard.std() - 1.0) < 5 / np.sqrt(2 * 20_000)


def test_a_kernel_expansion_is_its_kernel_sum() -> None:
    expansion = draw_kernel_expansion(np.random.default_rng(3))
    assert expansion.centres.tolist() == np.linspace(-2.0, 2.0, 8).tolist()
    x = np.linspace(-2.5, 2.5, 6).reshape(2, 3)
    kernel = np.exp(-((x[..., None] - expansion.centres) ** 2) / (2 * 0.8**2))
    np.testing.assert_allclose(expansion(x), kernel @ expansion.coefficients, rtol=1e-12, atol=1e-14)
    sample = kernel_regression(np.random.default_rng(4), (2, 5), function=expansion)
    np.testing.assert_array_equal(sample.f, expansion(sample.X[..., 0]))


def test_norm_of_one_bump() -> None:
    assert KernelExpansion(np.array([0.3]), np.array([-2.0]), 0.5).squared_norm == 4.0
    two = KernelExpansion(np.array([0.0, 1.0]), np.array([1.0, 1.0]), 1.0)
    assert two.squared_norm == pytest.approx(2 + 2 * np.exp(-0.5), rel=1e-14)


def test_wrong_arguments_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="domain"):
        kernel_regression(rng, 3, domain=(1.0, 1.0))
    with pytest.raises(KeyError):
        kernel_regression(rng, 3, function="tan")
    for arguments in ({"n_centres": 1}, {"lengthscale": 0.0}, {"lengthscale": np.nan}):
        with pytest.raises(ValueError, match="n_centres"):
            draw_kernel_expansion(rng, **arguments)
