"""The concave relaxation of cubics: never below the maximum, sharp where it should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.methods.robustness.level_bound import cubic
from gpsuite.methods.robustness.level_bound.cubic import (
    Cubic,
    add_norm_times_linear,
    cubic_maximum,
    dominating_diagonal,
    sum_slack,
    symmetric_part,
    third_order_sums,
)
from tests.methods.robustness.level_bound.level_models import random_cubic, value


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.0, 0.1, 1.0, 10.0]))
def test_no_point_of_a_box_is_above_and_the_own_point_is_inside(seed: int, d: int, bent: float) -> None:
    rng = np.random.default_rng(seed)
    polynomial = random_cubic(rng, 3, d, bent)
    radius = 10.0 ** rng.uniform(-2.0, 0.5, (3, d)) * rng.choice([0.0, 1.0, 1.0], (3, d))
    found = cubic_maximum(polynomial, radius)
    low, high = polynomial.range(radius)
    for box in range(3):
        x = rng.uniform(-1.0, 1.0, (300, d))
        x[::2] = np.sign(x[::2])
        sampled = value(polynomial, np.vstack([x * radius[box], found.point[box]]), box)
        assert (np.abs(found.point[box]) <= radius[box]).all()
        slack = 1e-12 * (1.0 + np.abs(sampled))
        assert (sampled <= found.bound[box] + slack).all()
        assert (sampled <= high[box] + slack).all()
        assert (sampled >= low[box] - slack).all()
    assert (found.share >= -1e-9 * (1.0 + np.abs(found.bound[:, None]))).all()


def test_monotone_and_concave_polynomials_are_maximised_exactly() -> None:
    rng = np.random.default_rng(1)
    small = random_cubic(rng, 4, 6)
    radius = rng.uniform(0.5, 1.0, (4, 6))
    steep = replace(small, linear=1e3 * np.sign(small.linear))
    corner = np.sign(steep.linear) * radius
    best = [value(steep, corner[box : box + 1], box)[0] for box in range(4)]
    np.testing.assert_allclose(cubic_maximum(steep, radius).bound, best, rtol=1e-10)
    # Concave and without a cubic part: the remaining gap is that of 12 steps.
    M = -np.einsum("bij,bkj->bik", small.quadratic, small.quadratic) - np.eye(6)
    concave = replace(small, linear=0.0 * small.linear, quadratic=M, cubic=None)
    np.testing.assert_allclose(cubic_maximum(concave, radius).bound, small.constant, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_diagonals_dominate_and_none_is_wasteful(d: int) -> None:
    rng = np.random.default_rng(d)
    M = rng.standard_normal((40, d, d)) * 10.0 ** rng.uniform(-3.0, 1.0, (40, 1, d))
    H = M + M.transpose(0, 2, 1)
    with np.errstate(invalid="ignore"):
        A = dominating_diagonal(H)  # type: ignore[arg-type]
    least = np.linalg.eigvalsh(A[:, :, None] * np.eye(d) - H)[:, 0]
    size = np.abs(H).max(axis=(1, 2))
    assert (least >= -1e-12 * size).all()
    largest = np.linalg.eigvalsh(H)[:, -1]
    assert (A.sum(axis=1) <= d * np.maximum(largest, 0.0) + 1e-10 * size).all()
    # Any diagonal above H has at least the trace of its positive diagonal.
    assert (A.sum(axis=1) >= np.maximum(np.einsum("bjj->bj", H), 0.0).sum(axis=1) - 1e-12 * size).all()


def test_a_matrix_that_is_not_finite_is_bounded_by_nothing() -> None:
    H = np.array([[[np.inf, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]]])
    with np.errstate(invalid="ignore"):
        A = dominating_diagonal(H)
    assert not np.isfinite(A[0]).all()
    np.testing.assert_allclose(A[1], [1.0, 2.0])


def test_tensors_equal_direct_sums() -> None:
    rng = np.random.default_rng(5)
    rows, D = rng.standard_normal((2, 3, 9)), rng.standard_normal((2, 3, 9))
    sums = third_order_sums(rows, D)
    np.testing.assert_allclose(sums, np.einsum("brn,bjn,bkn->brjk", rows, D, D), atol=1e-13)
    C, x = symmetric_part(sums), rng.standard_normal((2, 3))
    for axes in ((0, 2, 1, 3), (0, 3, 2, 1)):
        np.testing.assert_allclose(C, C.transpose(axes), atol=1e-13)
    cubed = np.einsum("bjkl,bj,bk,bl->b", C, x, x, x)
    np.testing.assert_allclose(cubed, np.einsum("bjkl,bj,bk,bl->b", sums, x, x, x), atol=1e-12)
    a = rng.standard_normal((2, 3))
    add_norm_times_linear(C, a)
    added = np.einsum("bjkl,bj,bk,bl->b", C, x, x, x) - cubed
    np.testing.assert_allclose(added, (x**2).sum(1) * (a * x).sum(1), atol=1e-12)


def test_the_gap_of_a_point_that_is_not_the_maximum_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubic, "STEPS", 0)
    # x_1 + x_2 - .26 (x_1 - x_2)^2: no input is surely monotone, and from the middle the whole slope is a gap.
    square = 0.26 * np.array([[[-1.0, 1.0], [1.0, -1.0]]])
    found = cubic_maximum(Cubic(np.zeros(1), np.ones((1, 2)), square, None), np.ones((1, 2)))
    assert 2.0 <= found.bound[0] <= 2.0 + 1e-9


def test_the_rounding_of_a_cubic_s_terms_is_allowed_for() -> None:
    """By their sizes, 3 + 0.5 + 1 here."""
    polynomial = Cubic(np.array([3.0]), np.array([[0.5, -2.0]]), np.zeros((1, 2, 2)), None)
    found = cubic_maximum(polynomial, np.array([[1.0, 0.5]])).bound[0]
    assert found - (3.0 + 0.5 + 1.0) == pytest.approx(sum_slack(2) * 4.5, rel=1e-2)


def test_diagonals_allow_for_the_error_of_the_eigenvalue(monkeypatch: pytest.MonkeyPatch) -> None:
    H = np.array([2.0, 0.5])[:, None, None] * (np.eye(6) - 1.0 / 3.0)  # reflections: rows sum to 7/3 of the eigenvalue
    found = []
    for share in (0.0, 1e-3):
        monkeypatch.setattr(cubic, "EIGENVALUE", share)
        found.append(dominating_diagonal(H).sum(axis=1))
    np.testing.assert_allclose(found[0], [12.0, 3.0])
    # six times the share of the Frobenius norm
    np.testing.assert_allclose(found[1] - found[0], 6e-3 * np.sqrt(6.0) * np.array([2.0, 0.5]))
