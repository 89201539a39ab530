"""Expectations of the softmax: against independent rules, within the stated error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import roots_hermitenorm, softmax

from gpsuite.arrays import FloatArray
from gpsuite.models.classification import multiclass_posterior
from gpsuite.models.classification.links import REACH, logistic_moments
from gpsuite.models.classification.multiclass_posterior import centred_root, softmax_moments


def _drawn(rng: np.random.Generator, C: int, B: int, scale: float) -> tuple[FloatArray, FloatArray]:
    mean = scale * rng.standard_normal((B, C))
    A = rng.standard_normal((B, C, C)) * scale
    return mean, A @ A.transpose(0, 2, 1)


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 10.0, 100.0])
def test_two_classes_match_the_logistic_rule(scale: float) -> None:
    mean, S = _drawn(np.random.default_rng(0), 2, 40, scale)
    found = softmax_moments(mean, centred_root(S))
    variance = S[:, 0, 0] + S[:, 1, 1] - 2.0 * S[:, 0, 1]
    wanted = logistic_moments(mean[:, 0] - mean[:, 1], variance, REACH)
    assert found.proved
    np.testing.assert_array_less(np.abs(found.mean[:, 0] - wanted[0]), found.error + 1e-12)
    np.testing.assert_array_less(np.abs(found.product[:, 0, 1] - wanted[1]), found.error + 1e-12)
    assert np.all(found.error < 1e-8)


@pytest.mark.parametrize("C", [3, 4])
def test_several_classes_match_gauss_hermite(C: int) -> None:
    """For standard deviations below one a Gauss-Hermite rule of 60 nodes a direction is exact to 1e-11."""
    mean, S = _drawn(np.random.default_rng(C), C, 5, 0.3)
    found = softmax_moments(mean, centred_root(S))
    nodes, weights = roots_hermitenorm({3: 60, 4: 36}[C])
    grid = np.stack(np.meshgrid(*[nodes] * (C - 1), indexing="ij"), axis=-1).reshape(-1, C - 1)
    weight = np.stack(np.meshgrid(*[weights] * (C - 1), indexing="ij"), axis=-1).reshape(-1, C - 1)
    product = weight.prod(axis=1) / weight.prod(axis=1).sum()
    # an own root: differences from the first value
    T = np.hstack([-np.ones((C - 1, 1)), np.eye(C - 1)])
    for row in range(len(mean)):
        root = np.vstack([np.zeros(C - 1), np.linalg.cholesky(T @ S[row] @ T.T)])
        p = softmax(mean[row] + grid @ root.T, axis=1)
        assert found.proved
        np.testing.assert_allclose(found.mean[row], product @ p, atol=found.error[row] + 1e-10)
        np.testing.assert_allclose(found.product[row], (p.T * product) @ p, atol=found.error[row] + 1e-10)


def test_the_stated_error_covers_a_coarser_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The formula for the step is sharp enough to be seen: the error of a coarse rule is near what it states."""
    mean, S = _drawn(np.random.default_rng(5), 3, 200, 2.0)
    exact = softmax_moments(mean, centred_root(S))
    monkeypatch.setattr("gpsuite.models.classification.multiclass_posterior.TOLERANCE", 0.3)
    coarse = softmax_moments(mean, centred_root(S))
    gap = np.abs(coarse.mean - exact.mean).max(axis=1)
    assert np.all(gap <= coarse.error) and gap.max() > 1e-6


def test_many_classes_state_a_statistical_error_that_covers_a_long_sum() -> None:
    rng = np.random.default_rng(7)
    mean, S = _drawn(rng, 8, 3, 0.7)
    root = centred_root(S)
    found = softmax_moments(mean, root)
    assert not found.proved
    for row in range(3):
        p = softmax(mean[row] + rng.standard_normal((400_000, 7)) @ root[row].T, axis=1)
        spread = p.std(axis=0).max() / np.sqrt(len(p))
        assert np.all(np.abs(p.mean(axis=0) - found.mean[row]) <= found.error[row] + 5.0 * spread)
    np.testing.assert_allclose(found.mean.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("C", [2, 3, 6, 10])
def test_equal_latent_values_have_equal_probabilities(C: int) -> None:
    found = softmax_moments(np.full((2, C), 3.0), centred_root(np.stack([np.eye(C), 0.0 * np.eye(C)])))
    np.testing.assert_array_less(np.abs(found.mean[0] - 1.0 / C), found.error[0])
    np.testing.assert_allclose(found.mean[1], 1.0 / C, atol=1e-12)
    np.testing.assert_allclose(found.product[1], 1.0 / C**2, atol=1e-12)


def test_a_root_gives_back_the_centred_covariance() -> None:
    S = _drawn(np.random.default_rng(3), 5, 6, 1.0)[1]
    root, centring = centred_root(S), np.eye(5) - 0.2
    np.testing.assert_allclose(root @ root.transpose(0, 2, 1), centring @ S @ centring, atol=1e-12)


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        softmax_moments(np.full((1, 3), np.nan), np.zeros((1, 3, 2)))
    with pytest.raises(ValueError, match="roots"):
        softmax_moments(np.zeros((1, 3)), np.zeros((1, 3, 3)))


def test_the_stated_error_is_that_of_the_worst_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """One class is nearly impossible: its probability hardly depends on the points."""
    mean = np.append(np.zeros(9), -30.0)[None]
    root = centred_root(0.1 * np.eye(10)[None])
    repeated = []
    sums = multiclass_posterior._sums
    monkeypatch.setattr(multiclass_posterior, "_sums", lambda *given: repeated.append(sums(*given)) or repeated[-1])
    found = softmax_moments(mean, root)
    first = np.array([each[0] for each in repeated])
    errors = multiclass_posterior.DEVIATIONS * first.std(axis=0, ddof=1) / np.sqrt(len(first))
    assert len(first) == multiclass_posterior.REPETITIONS and not found.proved
    assert errors.max() > 100.0 * errors.min()
    assert (found.error >= errors.max()).all()
