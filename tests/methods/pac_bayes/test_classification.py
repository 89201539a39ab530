"""PAC-Bayes for classes: risk, gradient and KL by other routes; failures on labels whose true risk is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes import classification as method
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound
from gpsuite.methods.pac_bayes.classification import (
    Confidence,
    InformedPrior,
    Posterior,
    PriorSettings,
    Projected,
    bounds_of,
    gibbs_errors,
    kl_of_differences,
    leading_directions,
    train,
    training_objective,
)
from tests.arrays import Array


def problem(n: int = 60, classes: int = 3, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, classes)), rng.uniform(0.05, 2.0, n), rng.integers(0, classes, n)


def test_two_classes_have_a_closed_form() -> None:
    mean, variance, labels = problem(classes=2)
    lead = np.where(labels == 1, 1.0, -1.0) * (mean[:, 1] - mean[:, 0])
    lower, upper = gibbs_errors(mean, variance, labels)
    exact = ndtr(-lead / np.sqrt(2.0 * variance))
    assert lower == pytest.approx(exact, abs=1e-12) and upper == pytest.approx(exact, abs=1e-12)


def test_rows_that_are_nearly_certain_are_bracketed_by_pairs_of_classes_and_not_by_a_cell() -> None:
    """Of many such rows a whole cell each would be most of the risk."""
    lead = np.linspace(3.0, 6.0, 50)
    mean = np.column_stack([lead, np.zeros((50, 4))])
    lower, upper = gibbs_errors(mean, np.ones(50), np.zeros(50, dtype=np.int64))
    pair = ndtr(-lead / np.sqrt(2.0))
    assert np.all(lower >= pair - 1e-12) and np.all(upper <= 4.0 * pair + 1e-12)
    assert np.all(upper - lower <= 1.0 / method.CELLS + 1e-12)


@pytest.mark.parametrize("classes", [3, 10])
def test_the_bracket_holds_what_sampling_finds(classes: int) -> None:
    mean, variance, labels = problem(40, classes)
    rng, draws = np.random.default_rng(1), 20_000
    scores = mean[None] + np.sqrt(variance)[None, :, None] * rng.standard_normal((draws, 40, classes))
    found = (scores.argmax(axis=2) != labels).mean(axis=0)
    lower, upper = gibbs_errors(mean, variance, labels)
    error = 5.0 * np.sqrt(0.25 / draws)
    assert np.all(lower - error <= found) and np.all(found <= upper + error)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(0, 1000), st.integers(5, 50))
def test_more_cells_narrow_the_bracket_from_both_sides(classes: int, seed: int, cells: int) -> None:
    mean, variance, labels = problem(8, classes, seed)
    coarse, fine = (gibbs_errors(mean, variance, labels, k) for k in (cells, 4 * cells))
    assert np.all(coarse[0] <= fine[0] + 1e-12) and np.all(fine[1] <= coarse[1] + 1e-12)


def test_without_noise_a_row_is_right_or_wrong_and_a_tie_is_wrong() -> None:
    mean = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    lower, upper = gibbs_errors(mean, np.zeros(3), np.zeros(3, dtype=np.int64))
    assert lower.tolist() == upper.tolist() == [0.0, 1.0, 1.0]


def test_kl_is_that_of_gaussians_over_the_differences_of_scores() -> None:
    rng = np.random.default_rng(5)
    R, C = 3, 4
    shift, ratio = rng.normal(size=(R, C)), rng.uniform(0.1, 1.0, R)
    # orthonormal contrasts of the classes: what decides, and nothing else
    basis = np.linalg.qr(np.column_stack([np.ones(C), rng.normal(size=(C, C - 1))]))[0][:, 1:]
    mean, S = (shift @ basis).ravel(), np.kron(np.diag(ratio), np.eye(C - 1))
    exact = 0.5 * (np.trace(S) + mean @ mean - len(mean) - np.linalg.slogdet(S)[1])
    assert kl_of_differences(shift, ratio) == pytest.approx(exact, rel=1e-12)
    assert kl_of_differences(shift + rng.normal(size=(R, 1)), ratio) == pytest.approx(exact, rel=1e-12)


def clouds(n: int, seed: int = 0, classes: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return (rng.normal(size=(n, 4)) + 3.0 * np.eye(4)[labels]).astype(np.float32), labels


def test_the_prior_is_the_regression_it_says() -> None:
    X, y = clouds(80)
    prior = InformedPrior.fit(X, y, 3, np.arange(20), PriorSettings(0.3, 0.01, 0.5))

    def k(a: Array, b: Array) -> Array:
        return np.exp(-prior.width * ((a[:, None].astype(float) - b[None].astype(float)) ** 2).sum(axis=2))

    K, Kzz = k(X, X[:20]), k(X[:20], X[:20])
    A = K.T @ K + 0.01 * (Kzz + 1e-4 * np.eye(20))
    mean = np.linalg.solve(A, K.T @ (np.eye(3)[y] - 1.0 / 3.0))
    scores, U = prior.whitened(X)
    # distances in float32, and a matrix of condition 1e6
    assert np.abs(scores - K @ mean).max() < 1e-3 and np.abs(prior.moments(X)[0] - scores).max() < 1e-12
    variance = 0.5 * np.einsum("ij,ij->i", K, np.linalg.solve(A, K.T).T)
    assert (U.astype(float) ** 2).sum(axis=1) == pytest.approx(variance, rel=1e-2)


def test_the_gradient_is_that_of_differences() -> None:
    rng = np.random.default_rng(2)
    rows = Projected(rng.normal(size=(50, 3)), rng.normal(size=(50, 2)).astype(np.float32), np.full(50, 0.4))
    objective = training_objective(rows, rng.integers(0, 3, 50), 1.3)
    point = np.concatenate([rng.normal(size=6), [-0.4, -1.2]])
    gradient = objective(point)[1]
    for i in range(len(point)):
        step = np.zeros(len(point))
        step[i] = 1e-2  # float32 products: 1e-6 of a loss of 1, over the step
        slope = (objective(point + step)[0] - objective(point - step)[0]) / 2e-2
        assert gradient[i] == pytest.approx(slope, abs=3e-4)


def test_training_beats_the_prior_that_saw_nothing_and_its_risk_is_the_objectives() -> None:
    X, y = clouds(2000)
    V = leading_directions(X, 4)
    assert np.abs(V.T @ V - np.eye(4)).max() < 1e-12
    rows, constant = Projected.of(np.zeros((2000, 3)), X, V), 1.0
    found = train(rows, y, constant, V, Budget(evaluations=60))
    confidence = Confidence(0.05, 1, constant, 0.0)
    trained = bounds_of(*rows.moments(found.shift, found.ratio), y, found, confidence)
    nothing = Posterior.prior(4, 3)
    untrained = bounds_of(rows.prior_mean, (X.astype(float) ** 2).sum(axis=1), y, nothing, confidence)
    assert trained.bound_kl < 0.3 < 0.6 < untrained.bound_kl
    assert math.isnan(trained.bound_binomial) and trained.kl == found.kl > 0.0
    objective = training_objective(rows, y, constant)
    loss = objective(np.concatenate([found.shift.ravel(), np.log(found.ratio)]))[0]
    assert loss == pytest.approx(constant * trained.gibbs + trained.kl / 2000, abs=2e-3)


def hard_clouds(spread: float, fall: float, centre: float, classes: int) -> tuple[Array, Array]:
    """Rows far from the origin: the prior's noise along their centre makes most of them wrong."""
    rng = np.random.default_rng(0)
    labels, means = rng.integers(0, classes, 1500), rng.normal(size=(classes, 80))
    X = (rng.normal(size=(1500, 80)) + spread * means[labels]) * np.exp(-3.0 * fall * np.arange(80) / 80) + centre
    return X.astype(np.float32), labels


@pytest.mark.parametrize(
    ("problem_of", "least"),
    [((1.0, 1.5, 10.0, 5), 105.0), ((0.5, 1.5, 10.0, 3), 340.0)],  # alone, one start ends at 108.5, the other at 911.8
)
def test_the_better_of_two_starts_counts(problem_of: tuple[float, float, float, int], least: float) -> None:
    X, y = hard_clouds(*problem_of)
    classes = problem_of[-1]
    V = leading_directions(X, 20)
    rows = Projected.of(np.zeros((1500, classes)), X, V)
    found = train(rows, y, 1.6, V, Budget(evaluations=400))
    objective = training_objective(rows, y, 1.6)
    assert 1500 * objective(np.concatenate([found.shift.ravel(), np.log(found.ratio)]))[0] < least


def test_labels_of_chance_hardly_move_the_prior() -> None:
    X, _ = clouds(200)
    labels = np.random.default_rng(9).integers(0, 3, 200)
    V = leading_directions(X, 4)
    rows = Projected.of(np.zeros((200, 3)), X, V)
    assert train(rows, labels, 0.01, V, Budget(evaluations=30)).kl < 0.1


def test_the_binomial_bound_counts_the_choices() -> None:
    mean, labels = np.eye(2)[np.zeros(50, dtype=int)], np.array([1, 1, *[0] * 48])
    found = bounds_of(mean, np.full(50, 1e-4), labels, Posterior.prior(1, 2), Confidence(0.05, 8, 0.5, 0.0))
    assert found.errors == 2 and found.bound_binomial == binomial_upper_bound(2, 50, 0.05 / 8)
    assert found.bound_binomial < found.bound_kl
