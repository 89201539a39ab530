"""Scores of class probabilities: closed forms, scikit-learn, orientation, edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score, roc_curve

from gpsuite.methods.wasserstein.scoring import (
    accuracy,
    auroc,
    average_precision,
    brier_score,
    calibration_error,
    crps,
    entropy,
    false_positives_at_95,
    interval_coverage,
    interval_half_widths,
    mutual_information,
    negative_log_density,
    negative_log_likelihood,
    overconfidence,
    reliability,
    risk_coverage,
    rmse,
    tempered_log_density,
    variance_factor,
)
from tests.arrays import Array

FloatArray = npt.NDArray[np.float64]


def predictions(seed: int, count: int = 60, classes: int = 4) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.7), count)
    return p, np.array([rng.choice(classes, p=row) for row in p])


def test_likelihood_and_brier_against_scikit_learn() -> None:
    p, y = predictions(0)
    assert negative_log_likelihood(p, y) == pytest.approx(log_loss(y, p, labels=range(4)), rel=1e-12)  # type: ignore[arg-type]
    two, labels = predictions(1, classes=2)
    # scikit-learn's counts one class, ours both
    assert brier_score(two, labels) == pytest.approx(2.0 * brier_score_loss(labels, two[:, 1]), rel=1e-12)  # type: ignore[arg-type]


def test_a_perfect_prediction_scores_best_and_the_opposite_worst() -> None:
    y = np.array([0, 1, 2, 1])
    right, wrong = np.eye(3)[y], np.eye(3)[(y + 1) % 3]
    for score, best, worst in (
        (accuracy, 1.0, 0.0),
        (brier_score, 0.0, 2.0),
        (calibration_error, 0.0, 1.0),
        (overconfidence, 0.0, 1.0),
        (negative_log_likelihood, 0.0, np.inf),
    ):
        assert score(right, y) == best
        assert score(wrong, y) == worst


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), bins=st.integers(1, 20))
def test_calibration_error_matches_a_sum_point_by_point(seed: int, bins: int) -> None:
    p, y = predictions(seed)
    total = 0.0
    for b in range(bins):
        inside = (p.max(axis=1) > b / bins) & (p.max(axis=1) <= (b + 1) / bins)
        if inside.any():
            right = p.argmax(axis=1)[inside] == y[inside]
            total += inside.mean() * abs(right.mean() - p.max(axis=1)[inside].mean())
    assert calibration_error(p, y, bins) == pytest.approx(total, abs=1e-14)  # type: ignore[arg-type]
    assert reliability(p, y, bins).counts.sum() == len(y)  # type: ignore[arg-type]


def test_a_confidence_on_an_edge_belongs_to_the_bin_below() -> None:
    p = np.array([[0.5, 0.5], [0.8, 0.2], [1.0, 0.0]])
    found = reliability(p, np.zeros(3, int), bins=10)
    assert found.counts.tolist() == [0, 0, 0, 0, 1, 0, 0, 1, 0, 1]
    assert np.isnan(found.accuracy[0])


def test_one_bin_is_the_mean_gap() -> None:
    p, y = predictions(2)
    assert calibration_error(p, y, 1) == pytest.approx(abs(overconfidence(p, y)))  # type: ignore[arg-type]


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), members=st.integers(1, 6))
def test_uncertainty_splits_into_data_and_knowledge(seed: int, members: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.ones(5), (members, 7))
    total, knowledge = entropy(p.mean(axis=0)), mutual_information(p)
    assert (knowledge >= -1e-15).all()
    np.testing.assert_allclose(total - knowledge, entropy(p).mean(axis=0))
    assert (total <= np.log(5) + 1e-15).all()
    np.testing.assert_allclose(mutual_information(p[:1]), 0.0, atol=1e-15)
    np.testing.assert_allclose(entropy(np.eye(5)), 0.0)


def test_risk_coverage_keeps_the_most_certain_first() -> None:
    wrong = np.array([0, 1, 0, 1])
    best = risk_coverage(np.array([0.1, 0.8, 0.2, 0.9]), wrong)
    np.testing.assert_allclose(best.coverage, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(best.risk, [0.0, 0.0, 1 / 3, 0.5])
    worst = risk_coverage(-np.array([0.1, 0.8, 0.2, 0.9]), wrong)
    assert worst.area > best.area
    assert worst.risk[-1] == best.risk[-1] == 0.5


def test_risk_coverage_does_not_depend_on_the_order_of_ties() -> None:
    wrong = np.array([1, 0, 0, 1, 0])
    tied = np.array([0.3, 0.3, 0.3, 0.1, 0.3])
    found = risk_coverage(tied, wrong)
    np.testing.assert_allclose(found.risk, risk_coverage(tied[::-1], wrong[::-1]).risk)
    np.testing.assert_allclose(found.risk, [1.0, 1.25 / 2, 1.5 / 3, 1.75 / 4, 2 / 5])


@pytest.mark.parametrize(
    ("p", "y", "words"),
    [
        (np.full((2, 2), 0.6), [0, 1], "sum to 1"),
        (np.array([[1.5, -0.5]]), [0], "non-negative"),
        (np.full((2, 2), np.nan), [0, 1], "non-negative and sum"),
        (np.full((2, 2), 0.5), [0, 2], "labels must be"),
        (np.full((2, 2), 0.5), [0], "labels of shape"),
        (np.zeros((0, 2)), [], "N, C"),
    ],
)
def test_what_is_no_prediction_is_refused(p: FloatArray, y: list[int], words: str) -> None:
    for score in (accuracy, negative_log_likelihood, brier_score, calibration_error, overconfidence):
        with pytest.raises(ValueError, match=words):
            score(p, np.array(y))


def test_bad_bins_and_uncertainties_are_refused() -> None:
    with pytest.raises(ValueError, match="bins=0"):
        calibration_error(*predictions(3), 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finite"):
        risk_coverage(np.array([np.nan, 1.0]), np.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="same length"):
        risk_coverage(np.ones(2), np.zeros(3))  # type: ignore[arg-type]


# Out-of-distribution scores against scikit-learn, by counting pairs, and at their limits.
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), m=st.integers(1, 40), levels=st.sampled_from([2, 5, 0]))
def test_against_scikit_learn_with_and_without_ties(seed: int, n: int, m: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    inside, outside = rng.standard_normal(n), rng.standard_normal(m) + 0.5
    if levels:
        inside, outside = np.round(inside * levels), np.round(outside * levels)
    truth, scores = np.repeat([0, 1], [n, m]), np.concatenate([inside, outside])
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    assert average_precision(inside, outside) == pytest.approx(average_precision_score(truth, scores), abs=1e-12)
    # scikit-learn's curve with the inside inputs positive and small scores meaning inside
    false, true, _ = roc_curve(1 - truth, -scores, drop_intermediate=False)
    assert false_positives_at_95(inside, outside) == pytest.approx(false[np.argmax(true >= 0.95 - 1e-12)])


def test_scores_reach_their_limits() -> None:
    low, high = np.arange(10.0), np.arange(10.0) + 100.0
    assert (auroc(low, high), average_precision(low, high), false_positives_at_95(low, high)) == (1.0, 1.0, 0.0)
    assert (auroc(high, low), false_positives_at_95(high, low)) == (0.0, 1.0)
    same = np.ones(7)
    assert (auroc(same, same), average_precision(same, same), false_positives_at_95(same, same)) == (0.5, 0.5, 1.0)


def test_only_the_order_counts() -> None:
    rng = np.random.default_rng(0)
    inside, outside = rng.standard_normal(30), rng.standard_normal(20) + 1.0
    for score in (auroc, average_precision, false_positives_at_95):
        assert score(np.exp(inside) - 3.0, np.exp(outside) - 3.0) == score(inside, outside)


@pytest.mark.parametrize("bad", [np.zeros(0), np.array([np.nan]), np.zeros((2, 1))])
def test_what_is_no_sample_is_refused(bad: Array) -> None:
    for score in (auroc, average_precision, false_positives_at_95):
        with pytest.raises(ValueError, match="inside scores"):
            score(bad, np.ones(2))
        with pytest.raises(ValueError, match="outside scores"):
            score(np.ones(2), bad)


# Scores of Gaussian predictions against integrals, simulation and their own optimum.
@pytest.mark.parametrize(("y", "mean", "variance"), [(0.3, 1.0, 0.5), (-2.0, 1.0, 4.0), (1.0, 1.0, 1e-4)])
def test_crps_is_the_integral_of_the_squared_gap(y: float, mean: float, variance: float) -> None:
    s = np.sqrt(variance)
    below = quad(lambda t: norm.cdf(t, mean, s) ** 2, min(y, mean) - 12 * s, y, points=[mean], epsabs=1e-12)[0]
    above = quad(lambda t: norm.sf(t, mean, s) ** 2, y, max(y, mean) + 12 * s, points=[mean], epsabs=1e-12)[0]
    found = crps(np.array([y]), np.array([mean]), np.array([variance]))
    assert found == pytest.approx(below + above, rel=1e-7)


def test_density_and_error_match_sums_point_by_point() -> None:
    rng = np.random.default_rng(0)
    y, mean, variance = rng.standard_normal(9), rng.standard_normal(9), rng.uniform(0.1, 2.0, 9)
    expected = -norm.logpdf(y, mean, np.sqrt(variance)).mean()
    assert negative_log_density(y, mean, variance) == pytest.approx(expected, rel=1e-12)
    assert rmse(y, mean) == pytest.approx(np.linalg.norm(y - mean) / 3.0)


def test_tempered_density_is_the_density_at_the_best_factor() -> None:
    rng = np.random.default_rng(3)
    y, mean, variance = rng.standard_normal(9), rng.standard_normal(9), rng.uniform(0.1, 2.0, 9)
    found = tempered_log_density(y, mean, variance)
    assert found == pytest.approx(negative_log_density(y, mean, variance_factor(y, mean, variance) * variance))
    assert found == pytest.approx(tempered_log_density(y, mean, 1e6 * variance))
    assert np.isfinite(tempered_log_density(y, y, variance))


def test_the_true_distribution_scores_best() -> None:
    y = np.random.default_rng(1).standard_normal(4000)
    one = np.ones(4000)
    for score in (negative_log_density, crps):
        right = score(y, 0.0 * one, one)
        assert right < score(y, 0.3 * one, one)
        assert right < score(y, 0.0 * one, 2.0 * one)
        assert right < score(y, 0.0 * one, 0.5 * one)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_central_intervals_hold_their_level(level: float) -> None:
    y = np.random.default_rng(2).standard_normal(20_000) * 3.0 + 1.0
    mean, variance = np.full(20_000, 1.0), np.full(20_000, 9.0)
    assert interval_coverage(y, mean, variance, level) == pytest.approx(level, abs=0.01)
    half = interval_half_widths(variance[:1], level)[0]
    assert norm.cdf(half / 3.0) - norm.cdf(-half / 3.0) == pytest.approx(level)


def test_impossible_predictions_are_refused() -> None:
    one = np.ones(2)
    for score in (negative_log_density, crps):
        with pytest.raises(ValueError, match="positive"):
            score(one, one, 0.0 * one)
        with pytest.raises(ValueError, match="shapes differ"):
            score(one, one, np.ones((2, 1)))
        with pytest.raises(ValueError, match="finite"):
            score(one * np.nan, one, one)
    with pytest.raises(ValueError, match="level=1"):
        interval_coverage(one, one, one, 1.0)


def test_a_target_at_the_end_of_its_interval_is_covered() -> None:
    half = interval_half_widths(np.ones(1), 0.9)
    assert interval_coverage(half, np.zeros(1), np.ones(1), 0.9) == 1.0
