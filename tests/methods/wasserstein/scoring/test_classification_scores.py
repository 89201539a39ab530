"""Scores of class probabilities: closed forms, scikit-learn, orientation, edges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from gpsuite.methods.wasserstein.scoring import (
    accuracy,
    brier_score,
    calibration_error,
    entropy,
    mutual_information,
    negative_log_likelihood,
    overconfidence,
    reliability,
    risk_coverage,
)

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
def test_calibration_error_point_by_point(seed: int, bins: int) -> None:
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
