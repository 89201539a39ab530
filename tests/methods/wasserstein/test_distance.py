"""Wasserstein distances of Gaussian measures: closed forms, equivalences, slopes, bias of the paper's estimate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from gpsuite.methods.wasserstein.distance import root_trace, wasserstein_by_eigenvalues, wasserstein_on_points
from tests.methods.wasserstein.class_problems import squared_gaussian_wasserstein

FloatArray = npt.NDArray[np.float64]
ROOT = 1e-7  # square roots of eigenvalues that are 0 but for rounding lose half of their digits


def covariance(rng: np.random.Generator, size: int, rank: int | None = None) -> FloatArray:
    factor = rng.standard_normal((size, rank or size))
    return factor @ factor.T / size


def kernels(seed: int, size: int) -> tuple[FloatArray, ...]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(size), rng.standard_normal(size), covariance(rng, size), covariance(rng, size)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 12))
def test_the_estimate_on_all_points_is_exact(seed: int, size: int) -> None:
    m_p, m_q, K, R = kernels(seed, size)
    exact = wasserstein_on_points(m_p, m_q, K, R)
    paper = wasserstein_by_eigenvalues(m_p, m_q, np.diagonal(K), np.diagonal(R), R, K)
    assert paper.squared_distance == pytest.approx(exact.squared_distance, rel=ROOT, abs=ROOT)
    on_space = squared_gaussian_wasserstein(m_p, K, m_q, R)
    assert on_space == pytest.approx(size * exact.squared_distance, rel=1e-12, abs=1e-10)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 10), rank=st.integers(1, 10))
def test_it_is_a_distance(seed: int, size: int, rank: int) -> None:
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((3, size))
    parts = [covariance(rng, size, min(rank, size)) for _ in range(3)]
    squared = {
        (i, j): wasserstein_on_points(means[i], means[j], parts[i], parts[j]).squared_distance
        for i in range(3)
        for j in range(3)
    }
    for i in range(3):
        assert squared[i, i] == pytest.approx(0.0, abs=ROOT)
        for j in range(3):
            assert squared[i, j] > -ROOT
            assert squared[i, j] == pytest.approx(squared[j, i], abs=ROOT)
    lengths = {pair: np.sqrt(max(value, 0.0)) for pair, value in squared.items()}
    assert lengths[0, 2] <= lengths[0, 1] + lengths[1, 2] + np.sqrt(ROOT)


def test_one_dimension_has_a_closed_form() -> None:
    found = squared_gaussian_wasserstein(np.array([1.0]), np.array([[4.0]]), np.array([-2.0]), np.array([[0.25]]))
    assert found == pytest.approx(3.0**2 + (2.0 - 0.5) ** 2)


def test_commuting_covariances_add_over_eigenvalues() -> None:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    a, b = rng.uniform(0, 2, 5), rng.uniform(0, 2, 5)
    zero = np.zeros(5)
    found = squared_gaussian_wasserstein(zero, basis * a @ basis.T, zero, basis * b @ basis.T)
    assert found == pytest.approx(np.sum((np.sqrt(a) - np.sqrt(b)) ** 2))


@pytest.mark.parametrize("rank", [2, 6])
def test_root_trace_against_matrix_roots(rank: int) -> None:
    rng = np.random.default_rng(1)
    K = covariance(rng, 6)
    R = np.stack([covariance(rng, 6, rank), covariance(rng, 6)])
    values, _ = root_trace(K, R)
    for value, one in zip(values, R, strict=True):
        root = sqrtm(K)
        assert value == pytest.approx(np.trace(sqrtm(root @ one @ root)).real, rel=1e-6)
        singular = np.linalg.svd(np.linalg.cholesky(K).T @ _factor(one), compute_uv=False)
        assert value == pytest.approx(singular.sum(), rel=1e-8)


@pytest.mark.parametrize("rank", [1, 3])
def test_root_trace_of_a_singular_prior(rank: int) -> None:
    rng = np.random.default_rng(5)
    K, R = covariance(rng, 6, rank), covariance(rng, 6)
    values, _ = root_trace(K, R[None])
    singular = np.linalg.svd(_factor(K).T @ _factor(R), compute_uv=False)
    assert values[0] == pytest.approx(singular.sum(), rel=1e-6)


def _factor(matrix: FloatArray) -> FloatArray:
    eigenvalues, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))


def test_root_trace_slopes_against_differences() -> None:
    rng = np.random.default_rng(2)
    K, R = covariance(rng, 5), np.stack([covariance(rng, 5), covariance(rng, 5)])
    _, slopes = root_trace(K, R)
    np.testing.assert_array_equal(slopes, slopes.transpose(0, 2, 1))
    for _ in range(5):
        direction = rng.standard_normal((5, 5))
        direction = direction + direction.T
        step = 1e-6 * direction
        ahead, behind = root_trace(K, R + step)[0], root_trace(K, R - step)[0]
        np.testing.assert_allclose(np.einsum("jab,ab->j", slopes, direction), (ahead - behind) / 2e-6, rtol=1e-5)


def test_slopes_of_singular_kernels_are_finite() -> None:
    rng = np.random.default_rng(3)
    K, R = covariance(rng, 6, 2), np.stack([covariance(rng, 6, 1), np.zeros((6, 6))])
    values, slopes = root_trace(K, R)
    assert np.isfinite(slopes).all()
    assert values[1] == 0.0


def test_few_points_bias_the_estimate_upwards() -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, 60)
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.5**2)
    R = 0.3 * K
    zero, k, r = np.zeros(60), np.diagonal(K), np.diagonal(R)
    exact = wasserstein_on_points(zero, zero, K, R).squared_distance
    few = [rng.choice(60, 6, replace=False) for _ in range(50)]
    estimates = [wasserstein_by_eigenvalues(zero, zero, k, r, R[i], K[:, i]).squared_distance for i in few]
    nuclear = [wasserstein_on_points(zero[i], zero[i], K[np.ix_(i, i)], R[np.ix_(i, i)]).squared_distance for i in few]
    assert np.mean(estimates) > 1.2 * exact
    # on the subsample's own measure nothing is lost here: R is a multiple of K
    np.testing.assert_allclose(nuclear, exact, rtol=10 * ROOT)


def test_impossible_arrays_are_refused() -> None:
    one, eye = np.zeros(3), np.eye(3)
    with pytest.raises(ValueError, match="K and R"):
        wasserstein_on_points(one, one, eye, np.eye(2))
    with pytest.raises(ValueError, match="finite"):
        wasserstein_on_points(one, one, eye, eye * np.nan)
    with pytest.raises(ValueError, match="finite"):
        wasserstein_on_points(one, one + np.inf, eye, eye)
    with pytest.raises(ValueError, match="N_S"):
        wasserstein_by_eigenvalues(one, one, one, one, eye[:2], eye)


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e160])
@pytest.mark.parametrize("d", [10, 200])
def test_the_distance_of_singular_gaussians_is_exact(d: int, scale: float) -> None:
    """Rank one: W2^2 = |m_P - m_Q|^2 + |a - b|^2 for covariances aa' and bb' of parallel a and b."""
    a = np.sqrt(scale) * np.random.default_rng(1).normal(size=d)
    zero, K = np.zeros(d), np.outer(a, a)
    b = (1 + 1e-4) * a
    assert 0.0 <= squared_gaussian_wasserstein(zero, K, zero, K) <= 1e-13 * np.trace(K)
    assert squared_gaussian_wasserstein(zero, K, 1e-4 * a, K) == pytest.approx(1e-8 * np.sum(a**2), rel=1e-5)
    found = squared_gaussian_wasserstein(zero, K, zero, np.outer(b, b))
    assert found == pytest.approx(np.sum((a - b) ** 2), rel=1e-5)


def test_eigenvalues_below_zero_count_as_zero() -> None:
    """The product diag(4, -9): only the root of 4 is left."""
    none, ones = np.zeros(2), np.ones(2)
    found = wasserstein_by_eigenvalues(none, none, ones, ones, np.diag([4.0, -9.0]), np.eye(2))
    np.testing.assert_allclose(found.cross, 2.0 * 2.0 / 2.0)
