"""The robust-max likelihood: the quadrature against other integrals, its alarm, its slopes, its closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from gpsuite.models.classification.robust_max import (
    data_uncertainty,
    expected_log_likelihood,
    gauss_hermite_probabilities,
    label_probability,
    largest_probabilities,
    predictive_probabilities,
    sum_error,
)

FloatArray = npt.NDArray[np.float64]
QUADRATURE = 1e-9  # ten times what the panels' rule leaves
SUM = 1e-8  # the promise: sum_j S_j = 1


def problem(seed: int, count: int, classes: int, decades: float) -> tuple[FloatArray, FloatArray]:
    """Return means near each other and variances that differ by up to so many decades."""
    rng = np.random.default_rng(seed)
    variance = 10.0 ** rng.uniform(-decades, 0.0, (count, classes))
    return rng.standard_normal((count, classes)), variance


def test_variances_in_place_of_deviations_make_other_probabilities() -> None:
    """The authors' code divides by r where S needs its square root."""
    mean, variance = np.array([[0.0, 0.1]]), np.array([[0.04, 0.04]])
    draws = mean + np.sqrt(variance) * np.random.default_rng(0).standard_normal((200_000, 2))
    right = largest_probabilities(mean, variance)[0, 1]
    theirs = largest_probabilities(mean, variance * variance)[0, 1]
    assert right == pytest.approx(np.mean(draws[:, 1] > draws[:, 0]), abs=0.005)
    assert theirs - right > 0.3


def test_two_classes_have_a_closed_form() -> None:
    mean, variance = problem(0, 200, 2, 6.0)
    first = ndtr((mean[:, 0] - mean[:, 1]) / np.sqrt(variance.sum(axis=1)))
    np.testing.assert_allclose(largest_probabilities(mean, variance)[:, 0], first, atol=QUADRATURE)
    found = label_probability(mean, variance, np.zeros(200, int))
    np.testing.assert_allclose(found.value, first, atol=QUADRATURE)


@pytest.mark.parametrize("ratio", [1e-3, 1e-5, 1e-6, 1e-7, 3e-8, 1.1e-8, 1e-9])
def test_two_narrow_classes_have_it_too(ratio: float) -> None:
    """Deviations of this part of the mean: nodes far from zero have no digits left for them, unless they are moved."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        first = rng.uniform(1.0, 2.0)
        deviation = ratio * first * rng.uniform(1.0, 1.5, 2)
        mean = np.array([first, first + deviation[0] * rng.uniform(-2.0, 2.0)])
        found = largest_probabilities(mean[None], deviation[None] ** 2)[0]
        assert found[0] == pytest.approx(ndtr((mean[0] - mean[1]) / np.hypot(*deviation)), abs=1e-10)


@pytest.mark.parametrize("classes", [3, 7, 10])
def test_equal_classes_are_equally_likely(classes: int) -> None:
    S = largest_probabilities(np.full((1, classes), 0.3), np.full((1, classes), 2.0))
    np.testing.assert_allclose(S, 1.0 / classes, atol=QUADRATURE)


def test_three_classes_against_an_adaptive_integral() -> None:
    for mean, variance in zip(*problem(1, 4, 3, 4.0), strict=True):
        s = np.sqrt(variance)

        def integrand(f: float, mean: FloatArray = mean, s: FloatArray = s) -> float:
            others = ndtr((f - mean[1]) / s[1]) * ndtr((f - mean[2]) / s[2])
            return float(norm.pdf(f, mean[0], s[0]) * others)

        near = np.unique(np.concatenate([mean + k * s for k in (-9, -3, 0, 3, 9)]))
        pieces = [quad(integrand, a, b, epsabs=1e-14)[0] for a, b in itertools.pairwise(near)]
        S = largest_probabilities(mean[None], variance[None])[0, 0]
        np.testing.assert_allclose(S, sum(pieces), atol=QUADRATURE)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 12),
    decades=st.sampled_from([0.0, 1.0, 3.0, 6.0]),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 30.0]),
)
def test_probabilities_sum_to_one(seed: int, classes: int, decades: float, spread: float) -> None:
    mean, variance = problem(seed, 8, classes, decades)
    S = largest_probabilities(spread * mean, variance)
    assert sum_error(S) < SUM
    assert S.min() >= 0.0
    labels = np.full(8, seed % classes)
    own = label_probability(spread * mean, variance, labels).value
    np.testing.assert_allclose(own, S[:, seed % classes], atol=QUADRATURE)


ADVERSARIAL = {
    "narrow amid wide": ([0.0, 0.1, -0.2], [1.0, 1e-6, 1.0]),
    "wide amid narrow": ([0.0, 1e-3, 2e-3], [1.0, 1e-6, 1e-6]),
    "narrow at the wide one's edge": ([0.0, 8.0, -8.0], [1.0, 1e-6, 1e-6]),
    "narrow beyond the edge": ([0.0, 8.4, 8.2], [1.0, 1e-6, 1e-6]),
    "a ladder": (list(np.linspace(-1, 1, 7)), list(10.0 ** -np.arange(7))),
    "ten narrow ones": ([0.01 * k for k in range(10)] + [0.0], [1e-6] * 10 + [1.0]),
    "large numbers": ([1e6, 1e6 + 1.0, 1e6 - 1.0], [1e6, 1.0, 1e3]),
    "equal and tiny": ([0.0, 0.0, 0.0], [1e-12, 1e-12, 1e-6]),
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_variances_keep_the_sum(name: str) -> None:
    mean, variance = (np.array([part], dtype=np.float64) for part in ADVERSARIAL[name])
    S = largest_probabilities(mean, variance)
    assert sum_error(S) < SUM
    for j in range(S.shape[1]):
        own = label_probability(mean, variance, np.array([j])).value
        assert own[0] == pytest.approx(S[0, j], abs=QUADRATURE)


def test_the_alarm_tells_where_gauss_hermite_fails() -> None:
    mean, variance = (np.array([part], np.float64) for part in ADVERSARIAL["narrow amid wide"])
    plain = gauss_hermite_probabilities(mean, variance, 50)
    wrong = np.abs(plain - largest_probabilities(mean, variance)).max()
    assert wrong > 1e-3
    assert sum_error(plain) > 1e-3
    easy = problem(2, 20, 4, 0.0)
    assert sum_error(gauss_hermite_probabilities(*easy, 50)) < SUM


@pytest.mark.parametrize("decades", [0.5, 3.0, 6.0])
def test_slopes_against_differences(decades: float) -> None:
    mean, variance = problem(3, 40, 5, decades)
    labels = np.random.default_rng(4).integers(0, 5, 40)
    found = label_probability(mean, variance, labels)
    for j in range(5):
        # a step much shorter than the narrowest deviation, and as large as rounding allows
        step = 1e-4 * np.sqrt(variance.min(axis=1))
        ahead, behind = mean.copy(), mean.copy()
        ahead[:, j] += step
        behind[:, j] -= step
        parts = [label_probability(m, variance, labels).value for m in (ahead, behind)]
        slope = (parts[0] - parts[1]) / (2.0 * step)
        np.testing.assert_allclose(found.by_mean[:, j], slope, rtol=1e-5, atol=1e-10 / step.min())
        share = 1e-4
        factor = np.where(np.arange(5) == j, share, 0.0)
        parts = [label_probability(mean, variance * (1 + d * factor), labels).value for d in (1, -1)]
        slope = (parts[0] - parts[1]) / (2.0 * share)  # in units of the variance
        np.testing.assert_allclose(found.by_variance[:, j] * variance[:, j], slope, rtol=1e-4, atol=1e-7)


def test_moving_all_means_changes_nothing() -> None:
    mean, variance = problem(5, 50, 6, 2.0)
    found = label_probability(mean, variance, np.zeros(50, int))
    scale = np.abs(found.by_mean).max()
    np.testing.assert_allclose(found.by_mean.sum(axis=1), 0.0, atol=1e-9 * scale)
    # scaling F by c: m by c, r by c^2
    homogeneous = (found.by_mean * mean).sum(axis=1) + 2.0 * (found.by_variance * variance).sum(axis=1)
    np.testing.assert_allclose(homogeneous, 0.0, atol=1e-8)


def test_monte_carlo_agrees() -> None:
    mean, variance = problem(6, 2, 4, 2.0)
    rng = np.random.default_rng(7)
    draws = mean + np.sqrt(variance) * rng.standard_normal((40_000, 2, 4))
    shares = np.stack([(draws.argmax(axis=2) == j).mean(axis=0) for j in range(4)], axis=1)
    np.testing.assert_allclose(shares, largest_probabilities(mean, variance), atol=5 * 0.5 / np.sqrt(4e4))


def test_likelihood_and_prediction_are_consistent() -> None:
    S = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
    p = predictive_probabilities(S, 0.03)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-15)
    np.testing.assert_allclose(p[1], [0.97, 0.015, 0.015])
    expected = 0.7 * np.log(0.97) + 0.3 * np.log(0.015)
    assert expected_log_likelihood(S[0, 0], 3, 0.03) == pytest.approx(expected)
    assert data_uncertainty(3, 0.03) == pytest.approx(-np.sum(p[1] * np.log(p[1])))


GOOD = np.zeros((2, 3)), np.ones((2, 3))


@pytest.mark.parametrize(
    ("mean", "variance", "words"),
    [
        (np.zeros((2, 1)), np.ones((2, 1)), "C >= 2"),
        (np.zeros(3), np.ones(3), "C >= 2"),
        (GOOD[0], np.ones((2, 2)), "C >= 2"),
        (GOOD[0], np.zeros((2, 3)), "positive"),
        (GOOD[0] + np.nan, GOOD[1], "finite"),
        (GOOD[0], GOOD[1] * np.inf, "finite"),
    ],
)
def test_impossible_moments_are_refused(mean: FloatArray, variance: FloatArray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        largest_probabilities(mean, variance)
    with pytest.raises(ValueError, match=words):
        label_probability(mean, variance, np.zeros(2, int))


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0.5, 1.0]])
def test_impossible_labels_are_refused(labels: list[float]) -> None:
    with pytest.raises(ValueError, match=r"labels must be the integers 0, \.\.\., 2"):
        label_probability(*GOOD, np.array(labels))


@pytest.mark.parametrize("epsilon", [0.0, 1.0, -0.1, np.nan])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        predictive_probabilities(np.full((1, 2), 0.5), epsilon)


@pytest.mark.parametrize("n_classes", [10, 11, 26, 100, 101, 1000])
def test_many_classes_are_resolved(n_classes: int) -> None:
    """The largest of many equal values is steeper than any one of them: each is it with probability 1/C."""
    mean, variance = np.full((1, n_classes), 0.1), np.ones((1, n_classes))
    assert largest_probabilities(mean, variance) == pytest.approx(1.0 / n_classes, abs=2e-9 / n_classes)
    assert label_probability(mean, variance, np.array([1])).value == pytest.approx(1.0 / n_classes, rel=2e-9)


@pytest.mark.parametrize(
    ("mean", "variance", "expected"),
    [
        ([1.0, 0.0], [5e-34, 1.0], [ndtr(1.0), ndtr(-1.0)]),  # narrower than the spacing of floats at its mean
        ([0.0, 1.0], [1.0, 5e-34], [ndtr(-1.0), ndtr(1.0)]),
        ([-1.0, 0.0], [5e-34, 1.0], [ndtr(-1.0), ndtr(1.0)]),
        ([4.5e11, 0.0], [1e-10, 1.0], [1.0, 0.0]),
        ([1e12, 0.0], [1e-10, 1.0], [1.0, 0.0]),
        ([1e3, 0.0, 1e3], [1e-30, 1.0, 1e-30], [0.5, 0.0, 0.5]),
        ([1.0, 1.0 - 1e-9], [1e-24, 1e-24], [1.0, 0.0]),
    ],
)
def test_deviations_tiny_next_to_their_means_end_and_add_up(
    mean: list[float], variance: list[float], expected: list[float]
) -> None:
    m, r = np.array([mean]), np.array([variance])
    assert largest_probabilities(m, r)[0] == pytest.approx(expected, abs=2e-8)
    for label, value in enumerate(expected):
        assert label_probability(m, r, np.array([label])).value[0] == pytest.approx(value, abs=2e-8)
