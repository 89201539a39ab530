"""The NumPy model against GPflow's model of the same thing: value, autodiff gradient, predictions, and back."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from tests.models.coregionalization_gpflow import from_gpflow, pairs, to_gpflow
from tests.models.multi_output_problems import draw_observations

MODELS = [
    LinearCoregionalization(2),
    LinearCoregionalization(3, n_latent=2, kernel="squared_exponential"),
    LinearCoregionalization(2, mixing="identity"),
    LinearCoregionalization(1, mixing="identity"),
]
IDS = ["two-outputs", "fewer-latent", "independent", "safety"]


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_value_gradient_and_way_back(model: LinearCoregionalization) -> None:
    observations = draw_observations(model.n_outputs, 12)
    u = model.draw_prior(np.random.default_rng(2), 1)
    regression = to_gpflow(model, u[0], observations)
    with tf.GradientTape() as tape:
        expected = regression.log_marginal_likelihood()
    slopes = tape.gradient(expected, regression.trainable_variables)
    value, gradient = model.likelihood(observations).value_and_gradient(u)
    assert value[0] == pytest.approx(float(expected), rel=1e-9)
    by_value = {
        float(v): float(s)
        for variable, slope in zip(regression.trainable_variables, slopes, strict=True)
        for v, s in zip(variable.numpy().ravel(), slope.numpy().ravel(), strict=True)
    }
    # GPflow's variables come in another order but are the entries of u
    assert sorted(by_value) == pytest.approx(sorted(u[0]), rel=1e-9, abs=1e-9)
    order = np.argsort(u[0])
    assert [by_value[key] for key in sorted(by_value)] == pytest.approx(
        gradient[0][order], rel=1e-7, abs=1e-8
    )
    np.testing.assert_allclose(from_gpflow(model, regression), u[0], rtol=1e-9, atol=1e-12)


def test_predictions_agree() -> None:
    model = LinearCoregionalization(2)
    observations = draw_observations(2, 14)
    u = model.draw_prior(np.random.default_rng(5), 1)
    X, p = np.random.default_rng(6).uniform(-1.0, 1.0, (7, 2)), np.array([0, 1, 1, 0, 1, 0, 0])
    mean, covariance = to_gpflow(model, u[0], observations).predict_f(pairs(X, p), full_cov=True)
    noise = np.diag(model.noise(u)[0][observations.p])
    K = model.covariance(u, observations.X, observations.p, observations.X, observations.p)[0] + noise
    cross = model.covariance(u, observations.X, observations.p, X, p)[0]
    solved = np.linalg.solve(K, cross)
    np.testing.assert_allclose(solved.T @ observations.y, mean.numpy()[:, 0], atol=1e-8)
    left = model.covariance(u, X, p, X, p)[0] - cross.T @ solved
    np.testing.assert_allclose(left, covariance.numpy()[0], atol=1e-8)
