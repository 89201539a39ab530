from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.generators import (
    FUNCTIONS,
    NOISES,
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


def test_a_function_of_ones_own() -> None:
    sample = kernel_regression(np.random.default_rng(4), (2, 5), function=np.exp)
    np.testing.assert_array_equal(sample.f, np.exp(sample.X[..., 0]))


def test_wrong_arguments_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="domain"):
        kernel_regression(rng, 3, domain=(1.0, 1.0))
    with pytest.raises(KeyError):
        kernel_regression(rng, 3, function="tan")
