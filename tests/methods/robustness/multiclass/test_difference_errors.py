"""How far a stored difference f_i - f_j may be from the exact one: against long doubles, and with a damaged root."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.multiclass.latent_differences import (
    class_pairs,
    difference_errors,
    difference_functions,
    latent_differences,
)
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.latent import LatentPosterior
from tests.models.softmax_problems import random_softmax_posterior

C, N = 4, 7


def posterior(seed: int, log_variance: float = 1.0) -> MultiClassPosterior:
    rng = np.random.default_rng([811, seed])
    return random_softmax_posterior(rng, "squared_exponential", C, N, 2, (log_variance, log_variance))


def farthest(exact: MultiClassPosterior, i: int, j: int, stored: LatentPosterior) -> tuple[float, float]:
    """Return the largest error of mean and variance over kernel values in [0, s]^N, at corners and inside."""
    k = np.random.default_rng(4).uniform(0.0, 1.0, (400, N))
    k[:200] = k[:200] > 0.5
    k = np.asarray(k, np.longdouble) * np.longdouble(stored.variance)

    def explained(root: FloatArray, weights: FloatArray) -> FloatArray:
        return np.asarray(((np.asarray(root, np.longdouble) @ k.T) ** 2).T @ np.asarray(weights, np.longdouble))

    half = np.longdouble(0.5) * (
        np.asarray(exact.root[:, i], np.longdouble) - np.asarray(exact.root[:, j], np.longdouble)
    )
    weights = np.longdouble(0.5) * (
        np.asarray(exact.alpha[i], np.longdouble) - np.asarray(exact.alpha[j], np.longdouble)
    )
    mean = np.abs(k @ (weights - np.asarray(stored.alpha, np.longdouble)))
    variance = np.abs(explained(half, exact.weights) - explained(stored.root, stored.weights))
    return float(mean.max()), float(variance.max())


@pytest.mark.parametrize("log_variance", [-2.0, 0.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_exact_difference_is_within_the_errors(seed: int, log_variance: float) -> None:
    several = posterior(seed, log_variance)
    for i, j in class_pairs(C):
        stored = several.difference(i, j)
        assert len(stored.root) == N < len(several.root)
        mean, variance = difference_errors(several, (i, j), stored)
        truth = farthest(several, i, j, stored)
        assert truth[0] <= mean <= 1.2e-16 * stored.variance * np.abs(stored.alpha).sum()
        assert 0.0 < truth[1] <= variance
        assert variance <= 1e-9 * stored.variance  # of rounding's size


@pytest.mark.parametrize("seed", range(5))
def test_a_root_that_is_put_together_badly_is_noticed(seed: int) -> None:
    """No formula for the transformation's rounding says so: the two products are compared."""
    several = posterior(seed)
    for i, j in class_pairs(C):
        stored = several.difference(i, j)
        bad = replace(stored, root=stored.root * (1.0 + 1e-6))
        truth = farthest(several, i, j, bad)[1]
        _, found = difference_errors(several, (i, j), bad)
        assert truth > 100.0 * difference_errors(several, (i, j), stored)[1]
        assert truth <= found <= 60.0 * truth


def test_rows_that_stay_are_off_by_their_subtraction_alone() -> None:
    several = replace(posterior(0), root=posterior(0).root[:3], weights=np.array([-1.0, -0.5, 0.7]))
    for i, j in class_pairs(C):
        stored = several.difference(i, j)
        assert len(stored.root) == 3
        _, variance = difference_errors(several, (i, j), stored)
        sizes = np.abs(stored.weights) @ np.abs(stored.root).sum(axis=1) ** 2
        assert farthest(several, i, j, stored)[1] <= variance <= 4.1 * 2.0**-53 * stored.variance**2 * sizes


def test_ranges_are_wider_by_the_errors() -> None:
    several = posterior(1)
    differences = latent_differences(several, several.X[0], np.arange(2))
    found = difference_functions(several)
    assert differences.rounding is found
    errors = 0.01 * np.arange(1.0, 7.0)
    lo, hi = several.X[:2] - 0.1, several.X[:2] + 0.1
    exact = replace(found, mean_error=np.zeros(6), variance_error=np.zeros(6))
    wide = replace(found, mean_error=errors, variance_error=10.0 * errors)
    for ranges in ("over", "at"):
        boxes = (lo, hi) if ranges == "over" else (several.X[:2],)
        narrow, wider = (getattr(replace(differences, rounding=each), ranges)(*boxes) for each in (exact, wide))
        if ranges == "over":
            narrow, wider = narrow[1], wider[1]
        expected = np.zeros((C, C))
        expected[tuple(np.array(class_pairs(C)).T)] = errors
        expected += expected.T
        for name, scale in (("mean", 1.0), ("change", 10.0)):
            low = getattr(narrow, f"{name}_low") - getattr(wider, f"{name}_low")
            high = getattr(wider, f"{name}_high") - getattr(narrow, f"{name}_high")
            for moved in (low, high):
                np.testing.assert_allclose(moved, np.broadcast_to(scale * expected, moved.shape), atol=1e-9)
