from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.generators import lssvm_classes, synthetic2d


def test_synthetic2d_has_the_papers_size_and_balance() -> None:
    sample = synthetic2d(np.random.default_rng(0))
    assert sample.X.shape == (1200, 2)
    assert (sample.y[:600] == 1.0).all()
    assert (sample.y[600:] == -1.0).all()


@given(half=st.integers(1, 8), repetitions=st.integers(1, 4), seed=st.integers(0, 99))
def test_synthetic2d_is_standardised_in_every_repetition(half: int, repetitions: int, seed: int) -> None:
    sample = synthetic2d(np.random.default_rng(seed), (repetitions, 2 * half))
    assert sample.X.shape == (repetitions, 2 * half, 2)
    assert sample.y.shape == (repetitions, 2 * half)
    np.testing.assert_allclose(sample.X.mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(sample.X.std(axis=1, ddof=1), 1.0, rtol=1e-12)
    assert (sample.y.sum(axis=1) == 0).all()


def test_synthetic2d_classes_are_normals_shifted_by_five() -> None:
    raw = synthetic2d(np.random.default_rng(1), (50, 400), standardise=False)
    n = 50 * 200
    for label, centre in ((1.0, (5.0, 0.0)), (-1.0, (0.0, 5.0))):
        points = raw.X[raw.y == label]
        assert len(points) == n
        assert (np.abs(points.mean(axis=0) - centre) < 5 / np.sqrt(n)).all()
        # entries of a sample covariance of unit normals have standard errors of at most sqrt(2 / n)
        assert (np.abs(np.cov(points.T) - np.eye(2)) < 5 * np.sqrt(2 / n)).all()
    scaled = synthetic2d(np.random.default_rng(1), (50, 400))
    back = raw.X.std(axis=1, ddof=1, keepdims=True) * scaled.X + raw.X.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(back, raw.X, rtol=1e-12, atol=1e-12)


def test_synthetic2d_needs_an_even_number() -> None:
    with pytest.raises(ValueError, match="even"):
        synthetic2d(np.random.default_rng(0), 5)


@given(n=st.integers(1, 9), repetitions=st.integers(1, 3))
def test_lssvm_classes_shapes_and_balance(n: int, repetitions: int) -> None:
    sample = lssvm_classes(np.random.default_rng(0), (repetitions, n), location=(1.0, 0.0, -2.0))
    assert sample.X.shape == (repetitions, n, 3)
    assert set(np.unique(sample.y)) <= {-1.0, 1.0}
    assert (sample.y.sum(axis=1) == n % 2).all()
    assert (np.diff(sample.y, axis=1) <= 0).all()


def test_lssvm_classes_are_laplace_and_mirror_images() -> None:
    sample = lssvm_classes(np.random.default_rng(2), (100, 200), scale=0.5)
    n = 100 * 100
    for label in (1.0, -1.0):
        deviations = sample.X[sample.y == label] - label * np.array([1.0, 0.5])
        # medians: the share below is one half; |e| is exponential with mean and deviation 0.5, above it for 1/e
        assert (np.abs((deviations < 0).mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(n)).all()
        assert (np.abs(np.abs(deviations).mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(n)).all()
        tail = np.exp(-1.0)
        shares = (np.abs(deviations) > 0.5).mean(axis=0)
        assert (np.abs(shares - tail) < 5 * np.sqrt(tail * (1 - tail) / n)).all()


def test_lssvm_classes_refuse_a_scale_that_is_not_positive() -> None:
    with pytest.raises(ValueError, match="scale=0"):
        lssvm_classes(np.random.default_rng(0), 4, scale=0.0)


def test_the_same_generator_state_gives_the_same_data() -> None:
    for draw in (synthetic2d, lssvm_classes):
        first, second = draw(np.random.default_rng(5), 10), draw(np.random.default_rng(5), 10)
        np.testing.assert_array_equal(first.X, second.X)
        assert not np.array_equal(first.X, draw(np.random.default_rng(6), 10).X)
