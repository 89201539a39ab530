"""Edges of scores, tempering, training and settings: ties, ends of ranges, what is only just refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import brentq
from scipy.special import softmax

from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.distance import RELATIVE_FLOOR, root_trace, wasserstein_by_eigenvalues
from gpsuite.methods.wasserstein.fitting import ClassifierOptions, GWIOptions, TrainingOptions, TrainingRows, split_rows
from gpsuite.methods.wasserstein.gwi import build_gwi_classifier, build_gwi_regressor, inducing_count
from gpsuite.methods.wasserstein.scoring import accuracy, interval_coverage, reliability, risk_coverage, temperature
from gpsuite.methods.wasserstein.training import train
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.random_elements.likelihoods import Bernoulli, RobustMax, Softmax
from tests.arrays import Array

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 2))


def test_a_row_of_probabilities_may_miss_one_by_a_millionth() -> None:
    y = np.array([0])
    assert accuracy(np.array([[0.6, 0.4 + 5e-7]]), y) == 1.0
    with pytest.raises(ValueError, match="sum to 1"):
        accuracy(np.array([[0.6, 0.4 + 5e-6]]), y)
    # a confidence above one by rounding is in the last bin
    assert reliability(np.array([[1.0 + 5e-7, 0.0]]), y, 10).counts[-1] == 1


def test_an_interval_holds_its_ends_and_risks_are_of_vectors() -> None:
    half = 1.959963984540054
    assert interval_coverage(np.array([half, -half]) * (1 - 1e-12), np.zeros(2), np.ones(2), 0.95) == 1.0
    assert interval_coverage(np.array([half, -half]) * (1 + 1e-9), np.zeros(2), np.ones(2), 0.95) == 0.0
    with pytest.raises(ValueError, match="level=0"):
        interval_coverage(np.zeros(2), np.zeros(2), np.ones(2), 0.0)
    with pytest.raises(ValueError, match="vectors"):
        risk_coverage(np.zeros((2, 1)), np.zeros((2, 1)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="vectors"):
        risk_coverage(np.zeros(0), np.zeros(0))  # type: ignore[arg-type]


def test_the_temperature_is_where_the_slope_vanishes() -> None:
    logits = 2.0 * np.random.default_rng(1).standard_normal((200, 3))
    y = np.array([np.random.default_rng(k).choice(3, p=p) for k, p in enumerate(softmax(logits / 2.5, axis=1))])

    def slope(inverse: float) -> float:
        expected = np.sum(softmax(inverse * logits, axis=1) * logits, axis=1)
        return float(np.mean(expected - logits[np.arange(200), y]))

    assert temperature(logits, y) == pytest.approx(1.0 / brentq(slope, 0.01, 5.0, xtol=1e-14), rel=2e-7)
    # always wrong: the hotter the better, up to a thousand; always right: the colder, down to a thousandth
    assert temperature(logits, logits.argmin(axis=1)) == pytest.approx(1e3, rel=1e-5)
    assert temperature(1e-4 * logits, logits.argmax(axis=1)) == pytest.approx(1e-3, rel=1e-5)


def test_the_slope_of_a_root_at_zero_is_that_of_the_floor() -> None:
    """K = I, R = diag(1, 0): slopes R^-1/2 / 2 with 0 counted as 1e-12 of the largest eigenvalue."""
    assert RELATIVE_FLOOR == 1e-12
    values, slopes = root_trace(np.eye(2), np.diag([4.0, 0.0])[None])
    assert values[0] == pytest.approx(2.0)
    np.testing.assert_allclose(slopes[0], np.diag([0.25, 0.5 / 2e-6]), rtol=1e-9)


def test_every_shape_of_the_estimate_is_checked() -> None:
    one, eye = np.zeros(3), np.eye(3)
    for place in range(1, 4):
        vectors = [one, one, one, one]
        vectors[place] = np.zeros(2)
        with pytest.raises(ValueError, match="four vectors"):
            wasserstein_by_eigenvalues(*vectors, eye[:2], eye[:, :2])  # type: ignore[call-arg]
    for r, k in ((eye[:2], eye), (eye[:2, :2], eye[:, :2])):
        with pytest.raises(ValueError, match="four vectors"):
            wasserstein_by_eigenvalues(one, one, one, one, r, k)


class Scored:
    """One weight that falls at each step; its validation scores are given."""

    def __init__(self, scores: list[float]) -> None:
        self.weight = tf.Variable(np.zeros(1))
        self.variables, self.scores, self.seen = [self.weight], iter(scores), list[float]()

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        return tf.reduce_sum(self.weight)

    def validation_loss(self, X: Array, y: Array) -> float:
        self.seen.append(float(self.weight.numpy()[0]))
        return next(self.scores)


ROWS = split_rows(X, np.arange(20.0), 0.2, np.random.default_rng(1))


@pytest.mark.usefixtures("uncompiled")
def test_of_equal_scores_the_first_is_kept_and_ends_the_patience() -> None:
    model = Scored([3.0, 2.0, 2.0, 2.0, 1.0])
    report = train(model, ROWS, TrainingOptions(epochs=5, batches=(100,), patience=2), 7, Budget())
    assert (report.state.best_epoch, report.state.epoch) == (2, 4)
    assert float(model.weight.numpy()[0]) == model.seen[1]


@pytest.mark.usefixtures("uncompiled")
def test_a_model_that_never_has_a_score_has_diverged() -> None:
    model = Scored([math.nan] * 3)
    report = train(model, ROWS, TrainingOptions(epochs=3, batches=(100,), patience=9), 7, Budget())
    assert (report.status, report.state.best_epoch, report.state.best_score) == ("diverged", 0, math.inf)


def test_rows_that_do_not_fit_are_refused() -> None:
    y = np.zeros(20)
    for rows in (
        (X, y, X[:, :1], y),
        (X[:0], y[:0], X, y),
        (X, y, X[:0], y[:0]),
        (X[:, 0], y, X[:, 0], y),
        (X, y[:, None], X, y),
    ):
        with pytest.raises(ValueError, match="are needed"):
            TrainingRows(*rows)
    with pytest.raises(ValueError, match="must be finite"):
        TrainingRows(X, np.append(y[1:], np.nan), X, y)
    with pytest.raises(ValueError, match="share in"):
        split_rows(X, y, 0.0, RNG)


@pytest.mark.parametrize("name", ["epochs", "batches", "patience", "learning_rates", "trial_epochs"])
def test_settings_of_training_are_positive(name: str) -> None:
    def options(value: int) -> TrainingOptions:
        held: Any = (value,) if name in ("batches", "learning_rates") else value
        return replace(TrainingOptions(), **{name: held})

    options(1)
    with pytest.raises(ValueError, match="must be positive"):
        options(0)


@pytest.mark.parametrize("name", ["prior_evaluations", "chosen"])
def test_settings_of_the_measures_are_positive(name: str) -> None:
    replace(GWIOptions(), **{name: 1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be positive"):
        replace(GWIOptions(), **{name: 0})  # type: ignore[arg-type]


def test_what_is_not_set_is_as_the_paper_has_it() -> None:
    """M = sqrt(N), 100 rows for the covariance terms, m_P = .1; robust max with 1 %, five members."""
    for shared in (GWIOptions(), ClassifierOptions()):
        assert (shared.prior_mean, shared.prior_evaluations, shared.inducing, shared.chosen) == (0.1, 100, 1, 100)
        assert shared.network == NetworkSpec((100,))
    own = ClassifierOptions()
    assert (own.epsilon, own.dropout, own.members, own.draws) == (0.01, 0.2, 5, 50)
    training = TrainingOptions()
    assert (training.epochs, training.batches, training.learning_rates, training.patience) == (
        100,
        (1000,),
        (0.01,),
        10,
    )
    assert [inducing_count(rows, 0.5) for rows in (1, 7, 100)] == [1, 1, 5]


@pytest.mark.usefixtures("uncompiled")
def test_a_networks_kernel_starts_as_large_as_the_prior() -> None:
    options = GWIOptions(kernel="nngp", prior="se", prior_mean=0.3, prior_evaluations=2, chosen=5)
    model = build_gwi_regressor(X, X[:, 0], options, np.random.default_rng(2))
    assert model.element.basis is None
    _, own = model.element.predict(X)
    prior = model.element.prior_kernel(X, full_cov=False).numpy()
    assert own.mean() == pytest.approx(prior.mean(), rel=1e-5)
    assert model.objective.chosen == 5 and model.objective.n_data == 20


@pytest.mark.usefixtures("uncompiled")
def test_targets_are_indicators_or_signs_less_the_priors_mean() -> None:
    """With all rows inducing and the kernel's mean, the start is the GP regression on those targets."""
    y = (X[:, 0] > 0).astype(int)
    for likelihood, prior_mean, low, high in ((Bernoulli(PROBIT), 0.0, -1.0, 1.0), (RobustMax(2), 0.1, 0.0, 1.0)):
        options = GWIOptions(mean="kernel", prior="se", prior_mean=prior_mean, prior_evaluations=2, inducing=100.0)
        element = build_gwi_classifier(X, y, likelihood, options, np.random.default_rng(2)).element
        targets = np.where(y == 1, high, low)
        prior = element.prior_kernel
        K = prior(X).numpy()
        mean, variance = element.predict(X)
        # the regression's residuals are its noise times K^-1 of what it predicts: one noise explains every row, nearly
        weights = np.linalg.solve(K + 1e-9 * np.eye(20), mean[:, -1] - prior_mean)
        residuals = targets - mean[:, -1]
        noise = float(residuals @ weights / (weights @ weights))
        np.testing.assert_allclose(residuals, noise * weights, atol=0.15)
        assert noise > 0.0 and (variance < np.diag(K).max() + 1e-9).all()


@pytest.mark.parametrize("rows", [1, 500, 501, 1001])
def test_a_softmax_prediction_leaves_no_row_out(rows: int) -> None:
    mean = np.random.default_rng(0).standard_normal((rows, 3))
    found, alone = (Softmax(3).predict(mean, np.ones((rows, 3))), Softmax(3).predict(mean[-1:], np.ones((1, 3))))
    np.testing.assert_allclose(found.probabilities[-1], alone.probabilities[0], rtol=0.0, atol=1e-14)
    assert found.data_uncertainty[-1] == pytest.approx(alone.data_uncertainty[0], abs=1e-13)
