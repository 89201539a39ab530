from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.methods.robustness.rkhs_taylor_quadratic import quadratic_range, quadratic_size


def values(b: np.ndarray, M: np.ndarray, x: np.ndarray) -> np.ndarray:
    return x @ b + np.einsum("pj,jk,pk->p", x, M, x)


@given(seed=st.integers(0, 10_000), d=st.integers(1, 6), diagonal=st.booleans())
def test_exact_for_diagonal_matrices_and_sound_for_others(seed: int, d: int, diagonal: bool) -> None:
    rng = np.random.default_rng(seed)
    b, M, r = rng.standard_normal(d), rng.standard_normal((d, d)), rng.random(d) * (rng.random(d) < 0.8)
    M = np.diag(np.diag(M)) if diagonal or d == 1 else M + M.T
    low, high = (end[0] for end in quadratic_range(b[None], M[None], r[None]))
    x = rng.uniform(-1.0, 1.0, (200, d)) * r
    x = np.concatenate([x, np.sign(x) * r])
    assert low <= values(b, M, x).min() + 1e-12
    assert high >= values(b, M, x).max() - 1e-12
    assert max(abs(low), abs(high)) <= quadratic_size(b[None], M[None], r[None])[0] + 1e-12
    if diagonal or d == 1:
        ends = []
        for j in range(d):
            grid = np.linspace(-r[j], r[j], 3001)
            stationary = -b[j] / (2.0 * M[j, j])
            grid = np.append(grid, stationary if abs(stationary) <= r[j] else 0.0)
            ends.append(b[j] * grid + M[j, j] * grid**2)
        np.testing.assert_allclose(low, sum(end.min() for end in ends), atol=1e-12)
        np.testing.assert_allclose(high, sum(end.max() for end in ends), atol=1e-12)


def test_coupled_terms_are_never_worse_than_intervals_and_cost_nothing_at_corners() -> None:
    b, M, r = np.zeros((1, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]]), np.array([[1.0, 2.0]])
    low, high = quadratic_range(b, M, r)
    assert low[0] >= -2.0
    assert high[0] == 1.0 + 4.0 + 2.0 * 0.5 * 2.0


@pytest.mark.parametrize("size", [1e-250, 1e-170])
def test_tiny_forms_scale(size: float) -> None:
    b, M, r = np.array([[1.0, -0.3]]), np.array([[[2.0, 0.2], [0.2, 1.0]]]), np.array([[1.0, 2.0]])
    for plain, scaled in zip(quadratic_range(b, M, r), quadratic_range(size * b, size * M, r), strict=True):
        np.testing.assert_allclose(scaled, size * plain, rtol=1e-12)
