"""The proved enclosure of softmax expectations, against integrals that share nothing with it."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness.multiclass.softmax_enclosure import (
    IndependentMoments,
    _by_slope,
    enclosed_moments,
    independent_moments,
    independent_variances,
)
from gpsuite.models.classification.multiclass_posterior import (
    POWER,
    REPETITIONS,
    SoftmaxMoments,
    centred_root,
    softmax_moments,
)
from tests.arrays import Array

ROOM = 1e-8  # of the integrals
KINDS = ("nearly independent", "any", "few factors", "few large factors")
LARGEST = {"nearly independent": 30.0, "any": 3.0, "few factors": 1.5, "few large factors": 15.0}
STEP, SHARE, REACH = 0.2, 1.0, 7.0  # a step is at most this share of what the largest spread allows
RARE = 36.0 / (REPETITIONS << POWER)  # six standard errors of an event so rare that Sobol points may miss it


def random_gaussians(rng: np.random.Generator, C: int, count: int, kind: str, largest: float) -> tuple[Array, Array]:
    """Return means [B, C] and roots [B, C, C - 1] of centred covariances; scales from a tenth to `largest`."""
    size = np.exp(rng.uniform(np.log(0.1), np.log(largest), (count, 1, 1)))
    mean = rng.standard_normal((count, C)) * np.exp(rng.uniform(-2.0, 1.5, (count, 1))) * np.maximum(size[:, :, 0], 1.0)
    if kind == KINDS[0]:
        root = rng.standard_normal((count, C, C)) * 10.0 ** rng.uniform(-2.0, -0.3, (count, 1, 1))
        covariance = root @ root.transpose(0, 2, 1) + np.eye(C) * rng.uniform(0.3, 1.0, (count, 1, C))
    else:
        root = rng.standard_normal((count, C, C if kind == KINDS[1] else 2)) / np.sqrt(C)
        covariance = root @ root.transpose(0, 2, 1)
    return mean, centred_root(size**2 * covariance)


def over_two_factors(mean: Array, root: Array) -> tuple[Array, Array]:
    """Return E softmax and E softmax softmax' where only two columns of the root are not zero."""
    step = min(STEP, SHARE / float((root.max(axis=1) - root.min(axis=1)).max()))
    z = step * np.arange(-round(REACH / step), round(REACH / step) + 1)
    w = step * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    nodes = np.stack([np.repeat(z, len(z)), np.tile(z, len(z))])
    f = mean[:, :, None] + root[:, :, :2] @ nodes
    p = np.exp(f - f.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    weighted = p * np.outer(w, w).ravel()
    return weighted.sum(axis=2), weighted @ p.transpose(0, 2, 1)


def outside(found: SoftmaxMoments, mean: Array, product: Array, room: Array) -> int:
    """Return of how many cases a probability, or a class' products, are not within the stated errors."""
    wrong = (np.abs(found.mean - mean) > (found.error + room)[:, None]).any(axis=1)
    apart = np.abs(found.product - product)
    np.einsum("bcc->bc", apart)[...] = 0.0
    wrong |= (apart.sum(axis=2) > (found.tilt + mean.shape[1] * room)[:, None]).any(axis=1)
    return int(wrong.sum())


def study(C: int, kind: str, count: int, seed: int) -> tuple[int, Array]:
    """Return how many of so many cases are outside, and the errors stated."""
    rng, wrong, errors = np.random.default_rng([seed, C, KINDS.index(kind)]), 0, []
    for start in range(0, count, 50):
        many = min(50, count - start)
        mean, root = random_gaussians(rng, C, many, kind, LARGEST[kind])
        found = enclosed_moments(mean, root)
        errors.append(found.error)
        if kind == "few large factors":
            known = [over_two_factors(m[None], L[None]) for m, L in zip(mean, root, strict=True)]
            first, second = (np.concatenate(each) for each in zip(*known, strict=True))
            wrong += outside(found, first, second, np.full(many, ROOM))
            continue
        if kind == "few factors":
            wrong += outside(found, *over_two_factors(mean, root), np.full(many, ROOM))
            continue
        other = softmax_moments(mean, root)  # by the trapezoidal rule, or Sobol points within six standard errors
        wrong += outside(found, other.mean, other.product, other.error + (ROOM if other.proved else RARE))
    return wrong, np.concatenate(errors)


@pytest.mark.guarantee
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [3, 4, 7, 10])
def test_no_expectation_of_some_is_outside(C: int, kind: str) -> None:
    wrong, errors = study(C, kind, 10 if kind == KINDS[3] else 100, 1)
    assert wrong == 0
    assert np.quantile(errors, 0.1) < 0.1


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", range(3, 11))
def test_no_expectation_of_103_600_is_outside(C: int, kind: str) -> None:
    wrong, errors = study(C, kind, 200 if kind == KINDS[3] else 4_250, 2)
    assert wrong == 0
    print(C, kind, np.quantile(errors, [0.1, 0.5, 0.9]))


def test_independent_values_are_known_to_seven_digits() -> None:
    """With two wide values and two of no variance, three narrow ones, or any: the same by the trapezoidal rule."""
    for C, deviations in ((4, [3.0, 4.0, 0.0, 0.0]), (3, [0.5, 1.0, 0.2]), (3, [9.0, 0.0, 4.0]), (3, [3.0, 3.0, 3.5])):
        d, mean = np.array([deviations], dtype=np.float64) ** 2, np.linspace(-1.0, 1.0, C)[None]
        found = independent_moments(mean, d)
        known = softmax_moments(mean, centred_root(np.array([np.diag(d[0])])))
        assert found.error[0] < 1e-5
        assert np.abs(found.first - known.mean).max() < found.error[0] + known.error[0]
        assert np.abs(found.second - known.product).max() < found.error[0] + known.error[0]
        assert np.abs(found.third.sum(axis=3) - found.second).max() < 2e-7
        assert (found.third >= 0.0).all()


def test_what_takes_too_many_nodes_is_not_known() -> None:
    found = independent_moments(np.array([[0.0, 1.0, 2.0]]), np.array([[1e12, 1e-4, 1e-4]]))
    assert found.error[0] == 1.0 and not found.first.any()
    enclosed = enclosed_moments(np.array([[0.0, 1.0, 2.0]]), centred_root(np.array([np.diag([1e12, 1e-4, 1e-4])])))
    assert np.abs(enclosed.mean - [0.5, 0.5 * 0.269, 0.5 * 0.731]).max() < enclosed.error[0] + 1e-6 < 0.3
    assert enclosed.tilt[0] < 0.8


def test_independent_variances_are_found() -> None:
    d = np.array([[1.0, 2.0, 0.5, 4.0]])
    D = (d[:, :, None] + d[:, None]) * (1.0 - np.eye(4))
    assert independent_variances(D, np.array([[0.0, 1.0, 5.0, -3.0]])) == pytest.approx(d)
    assert independent_variances(np.array([[[0.0, 3.0], [3.0, 0.0]]]), np.zeros((1, 2))) == pytest.approx(1.5)


def test_variances_like_those_of_digits_leave_little_open() -> None:
    """Correlations of a few hundredths, as of classifiers of ten classes: less than Sobol points state."""
    rng = np.random.default_rng(5)
    root = 0.07 * rng.standard_normal((20, 10, 10))
    covariance = root @ root.transpose(0, 2, 1) + np.eye(10) * rng.uniform(0.5, 1.0, (20, 1, 10))
    mean = rng.standard_normal((20, 10)) + 3.0 * np.eye(10)[0]
    found, sobol = (
        rule(mean, centred_root(np.asarray(covariance, dtype=np.float64)))
        for rule in (enclosed_moments, softmax_moments)
    )
    assert found.proved and not sobol.proved
    assert np.median(found.error) < np.median(sobol.error)


def test_the_slope_of_a_product_is_bounded_at_every_probability_vector() -> None:
    """A change that is one against three classes and minus one among two others: probabilities shared by these two."""
    C, n = 5, np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    change = np.zeros((1, C, C))
    change[0, :3, 3:], change[0, 3:, :3] = 1.0, 1.0
    change[0, 3, 4] = change[0, 4, 3] = -1.0
    p = np.array([0.0, 0.0, 0.0, 0.5, 0.5])
    slope = 0.5 * (-0.5 * n @ change[0] @ n + 3.0 * n @ change[0] @ p - 6.0 * p @ change[0] @ p)
    one = IndependentMoments(np.ones((1, C)), np.ones((1, C, C)), np.full((1, C, C, C), 1e-6), np.zeros(1))
    third = _by_slope(one, change)[1].high[0, 0, 1, 2]
    assert third >= 1e-6 * np.expm1(slope) / slope
