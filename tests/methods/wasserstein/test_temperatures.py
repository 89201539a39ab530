"""Temperatures per class: their loss against predictions and finite differences, and where it is least."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS
from gpsuite.methods.wasserstein.scoring import negative_log_likelihood
from gpsuite.methods.wasserstein.temperatures import class_temperatures, tempered_loss
from gpsuite.models.random_elements.likelihoods import RobustMax, Softmax
from tests.arrays import Array
from tests.methods.wasserstein.class_problems import fit, rows

pytestmark = pytest.mark.usefixtures("uncompiled")
LIKELIHOODS = [RobustMax(4), Softmax(4)]


def moments(count: int, classes: int = 4) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((count, classes)), rng.uniform(0.2, 2.0, (count, classes))


def drawn(likelihood: RobustMax | Softmax, mean: Array, variance: Array) -> Array:
    """Return a label of each row, drawn from its predicted probabilities."""
    rng = np.random.default_rng(4)
    steps = likelihood.predict(mean, variance).probabilities.cumsum(axis=1)
    return (rng.uniform(size=len(mean))[:, None] > steps[:, :-1]).sum(axis=1)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_loss_is_that_of_predictions_and_its_slopes_are_differences(likelihood: RobustMax | Softmax) -> None:
    mean, variance = moments(40)
    y = np.arange(40) % 4
    alpha: FloatArray = np.array([0.3, 1.0, 2.0, 7.0])
    loss, slopes = tempered_loss(likelihood, mean, variance, y, alpha)
    predicted = likelihood.predict(mean, alpha * variance).probabilities
    assert loss == pytest.approx(negative_log_likelihood(predicted, y), abs=1e-9)
    for j in range(4):
        step = np.exp(1e-5 * np.eye(4)[j])
        high, low = (tempered_loss(likelihood, mean, variance, y, a)[0] for a in (alpha * step, alpha / step))
        assert slopes[j] == pytest.approx((high - low) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_expected_loss_is_stationary_at_one_if_the_model_is_right(likelihood: RobustMax | Softmax) -> None:
    """Sum over labels of p_j d(-log p_j): weighted by the model's own probabilities, slopes at alpha = 1 vanish."""
    mean, variance = moments(40)
    slopes = [likelihood.label_slopes(mean, variance, np.full(40, label))[1] for label in range(4)]
    np.testing.assert_allclose(np.sum(slopes, axis=0), 0.0, atol=1e-8)
    assert np.abs(slopes[0]).max() > 0.01


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_a_wrong_variance_of_one_class_is_found(likelihood: RobustMax | Softmax) -> None:
    """Labels of a right model leave the temperatures at 1; variances divided by 10 and 5 ask for 10 and 5."""
    mean, variance = moments(4000)
    y = drawn(likelihood, 2.0 * mean, 4.0 * variance)
    fault = np.array([1.0, 10.0, 1.0, 0.2])
    right = class_temperatures(likelihood, 2.0 * mean, 4.0 * variance, y)
    found = class_temperatures(likelihood, 2.0 * mean, 4.0 * variance / fault, y)
    np.testing.assert_allclose(right, 1.0, rtol=0.35)
    np.testing.assert_allclose(found / right, fault, rtol=1e-2)


@pytest.mark.parametrize("name", ["gwi", "gwi_softmax"])
def test_training_is_the_same_and_only_validation_rows_choose(name: str) -> None:
    work = fit(3)
    plain = CLASSIFIERS.get(name)(work)
    tempered = CLASSIFIERS.get(name)(replace(work, options=replace(work.options, tempered=True)))
    assert plain.report.state.scores == tempered.report.state.scores
    held = rows(3)
    losses = [
        negative_log_likelihood(found.predict(held.X_validation).probabilities, held.y_validation)
        for found in (plain, tempered)
    ]
    assert losses[1] < losses[0]
    alpha = [tempered.chosen[f"temperature {label}"] for label in range(3)]
    mean, variance = tempered.model.element.predict(held.X)
    expected = tempered.model.likelihood.predict(mean, alpha * variance).probabilities
    np.testing.assert_array_equal(tempered.predict(held.X).probabilities, expected)


def test_the_number_of_inducing_inputs_with_the_best_validation_score_is_kept() -> None:
    work = fit(3)
    alone = {m: CLASSIFIERS.get("gwi")(replace(work, options=replace(work.options, inducing=m))) for m in (0.3, 1.0)}
    tried = CLASSIFIERS.get("gwi")(replace(work, options=replace(work.options, inducing_tried=(0.3, 1.0))))
    best = min(alone, key=lambda multiple: alone[multiple].report.state.best_score)
    assert alone[0.3].report.state.best_score != alone[1.0].report.state.best_score
    assert tried.chosen["inducing"] == best
    np.testing.assert_array_equal(
        tried.predict(work.rows.X).probabilities, alone[best].predict(work.rows.X).probabilities
    )
