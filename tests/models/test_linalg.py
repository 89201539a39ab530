from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.models.linalg import (
    JITTER_LADDER,
    NonFiniteMatrixError,
    NotPositiveDefiniteError,
    condition_estimate,
    stable_cholesky,
)
from tests.arrays import Array

# Backward error of Cholesky and of the triangular solves is a small multiple of N eps, N <= 12 here.
ROUNDING = 1e-13


def random_psd(seed: int, size: int, rank: int, log_scale: float) -> Array:
    root = np.random.default_rng(seed).normal(size=(size, rank))
    return 10.0**log_scale * root @ root.T


sizes = st.integers(1, 12)
seeds = st.integers(0, 10_000)
log_scales = st.floats(-8.0, 8.0)


@given(seeds, sizes, log_scales)
def test_reconstructs_positive_definite_matrices_without_jitter(seed: int, size: int, scale: float) -> None:
    matrix = random_psd(seed, size, size + 3, scale)
    factor = stable_cholesky(matrix)
    assert factor.jitter == 0.0
    assert np.array_equal(factor.lower, np.tril(factor.lower))
    np.testing.assert_allclose(factor.lower @ factor.lower.T, matrix, rtol=0, atol=ROUNDING * np.trace(matrix))


@given(seeds, st.integers(2, 12), log_scales)
def test_reconstructs_singular_matrices_up_to_the_reported_jitter(seed: int, size: int, scale: float) -> None:
    matrix = random_psd(seed, size, 1, scale)
    factor = stable_cholesky(matrix)
    expected = matrix + factor.jitter * np.eye(size)
    assert factor.jitter <= JITTER_LADDER[2] * np.trace(matrix) / size
    np.testing.assert_allclose(factor.lower @ factor.lower.T, expected, rtol=0, atol=ROUNDING * np.trace(matrix))


@given(seeds, sizes)
def test_solves_and_logdet_agree_with_the_matrix(seed: int, size: int) -> None:
    matrix = random_psd(seed, size, size + 3, 0.0) + np.eye(size)
    right = np.random.default_rng(seed + 1).normal(size=(size, 2))
    factor = stable_cholesky(matrix)
    np.testing.assert_allclose(matrix @ factor.solve(right), right, atol=1e-11)
    np.testing.assert_allclose(matrix @ factor.solve(right[:, 0]), right[:, 0], atol=1e-11)
    half = factor.half_solve(right)
    np.testing.assert_allclose(half.T @ half, right.T @ np.linalg.solve(matrix, right), atol=1e-11)
    np.testing.assert_allclose(factor.logdet, np.linalg.slogdet(matrix)[1], atol=1e-11)


def test_ladder_stops_at_the_first_jitter_that_works() -> None:
    # Smallest eigenvalue -3e-9 at mean diagonal 1: 1e-10 is too little, 1e-8 is enough.
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    matrix = basis @ np.diag([4.0 / 3, 4.0 / 3, 4.0 / 3 + 3e-9, -3e-9]) @ basis.T
    assert stable_cholesky(matrix).jitter == pytest.approx(1e-8, rel=1e-6)


def test_input_is_not_changed() -> None:
    for order in ("C", "F"):
        matrix = np.array(random_psd(0, 5, 2, 0.0), order=order)
        before = matrix.copy()
        stable_cholesky(matrix)
        assert np.array_equal(matrix, before)


def test_failure_names_size_condition_and_jitters() -> None:
    with pytest.raises(NotPositiveDefiniteError) as caught:
        stable_cholesky(np.diag([1.0, 1.0, -0.5]))
    assert isinstance(caught.value, ArithmeticError)
    tried = ", ".join(f"{jitter:g}" for jitter in JITTER_LADDER)
    for part in ("N=3", "condition about 2.0e+00", tried):
        assert part in str(caught.value)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), -np.eye(3), np.diag([1e-3, -1.0])])
def test_matrices_without_positive_trace_fail(matrix: Array) -> None:
    with pytest.raises(NotPositiveDefiniteError):
        stable_cholesky(matrix)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_input_is_reported(value: float) -> None:
    matrix = np.eye(4)
    matrix[2, 1] = value
    with pytest.raises(NonFiniteMatrixError, match="row 2, column 1"):
        stable_cholesky(matrix)


def test_finite_matrix_whose_sum_overflows_is_accepted() -> None:
    huge = 1e307 * (np.eye(8) + 1.0)
    assert stable_cholesky(huge).lower[0, 0] == pytest.approx(np.sqrt(2e307))


@pytest.mark.parametrize("shape", [(0, 0), (2, 3), (4,)])
def test_matrices_that_are_not_square_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="square"):
        stable_cholesky(np.ones(shape))


def test_the_condition_estimate_is_right_for_diagonal_matrices() -> None:
    assert condition_estimate(np.diag([1.0, 1e-6])) == pytest.approx(1e6)
    assert condition_estimate(np.zeros((2, 2))) == np.inf
