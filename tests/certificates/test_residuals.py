"""A posterior's residuals: what they confirm, refute or leave open, and what cancels in them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpsuite.certificates.plain_kernel import gram
from gpsuite.certificates.stationarity import Residuals, _softmax_residuals, _weighted_root, mode_residuals
from gpsuite.certificates.verification import CONFIRMED, OPEN, REFUTED, residual_level
from tests.arrays import Array


@pytest.mark.parametrize(
    ("size", "rounding", "outcome"),
    [
        (1e-6, 0.0, CONFIRMED),
        (1.1e-6, 0.0, REFUTED),
        (1.1e-6, 1.2e-6, OPEN),
        (1.3e-6, 1.2e-6, REFUTED),
        (np.nan, 1.0, REFUTED),
        (np.inf, np.nan, REFUTED),
    ],
)
def test_a_posterior_is_confirmed_refuted_or_left_open_by_its_residual(
    size: float, rounding: float, outcome: str
) -> None:
    for each in ((size, 0.0, 0.0), (0.0, size, 0.0), (0.0, 0.0, size)):
        assert residual_level("", Residuals(*each, rounding)).outcome == outcome


def test_a_residual_that_cancels_says_nothing() -> None:
    """Two rows at a distance of 1e-9: large opposite errors of their weights, or of R, leave no number of K."""
    K = np.ones((2, 2))  # 1 - 5e-19 off the diagonal, rounded
    away, slope, precision = 1e6 * np.array([1.0, -1.0]), np.array([0.1, 0.2]), np.array([0.3, 0.4])
    F = np.linalg.cholesky(np.linalg.inv(K + np.diag(1.0 / precision))).T

    def residuals(alpha: Array, root: Array) -> Residuals:
        model: Any = SimpleNamespace(alpha=alpha, root=root, weights=-np.ones(len(root)))
        return mode_residuals(model, K, slope, precision, 0.0)

    right = residuals(slope, F)
    assert max(right.mean, right.covariance) < 1e-6
    assert residuals(slope + away, F).mean > 1e-3
    assert residuals(slope, np.vstack([F, 0.1 * away])).covariance > 1e-3


def test_a_residual_of_several_classes_that_cancels_says_nothing() -> None:
    """The same between two rows of a softmax: the forged row of the root moves the variance between them."""
    rng, n, C = np.random.default_rng(0), 8, 3
    X, classes = rng.normal(size=(n, 2)), rng.integers(0, C, n).astype(np.float64)
    X[1], classes[1] = X[0] + [1e-9, 0.0], classes[0]
    K, f = gram(X, np.ones(2), "squared_exponential"), np.zeros((C, n))
    own = classes == np.arange(C)[:, None]
    for _ in range(3000):
        pi = np.exp(f) / np.exp(f).sum(axis=0)
        f += 0.3 * ((own - pi) @ K - f)
    root = _weighted_root(pi, K)
    assert root is not None
    forged = np.zeros((1, C, n))
    forged[0, 0, :2] = 3e8, -3e8

    def residuals(rows: Array) -> Residuals:
        model: Any = SimpleNamespace(alpha=own - pi, root=rows, weights=-np.ones(len(rows)))
        return _softmax_residuals(model, classes, K)

    assert residuals(root).largest < 1e-9
    assert residuals(np.concatenate([root, forged])).covariance > 1e-3
