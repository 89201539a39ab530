"""A GPflow regression whose kernel is a sum of products: its predictions lie in the ranges, which are sharp."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.regression import MEAN, prediction_range
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.models.composite import radial, white
from gpsuite.models.latent import LatentPosterior


def test_a_gpflow_model_predicts_within_the_ranges() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-2.0, 2.0, (25, 2))
    Y = np.sin(2.0 * X[:, :1]) + 0.5 * X[:, 1:] + 0.1 * rng.standard_normal((25, 1))
    k = gpflow.kernels
    theirs = k.RBF(1.2, [0.9, 1.4]) + k.Matern32(0.5, 1.1, active_dims=[0]) * k.RBF(1.0, 0.8, active_dims=[1])
    model = gpflow.models.GPR((X, Y), theirs + k.White(0.03), noise_variance=0.04)
    ours = radial("squared_exponential", [0.9, 1.4], 2, variance=1.2) + white(0.03, 2)
    ours = ours + radial("matern32", 1.1, 2, [0], 0.5) * radial("squared_exponential", 0.8, 2, [1])
    latent = ours.latent()
    inverse = np.linalg.inv(np.linalg.cholesky(theirs(X).numpy() + (0.04 + latent.white) * np.eye(25)))
    alpha = inverse.T @ (inverse @ Y[:, 0])
    posterior = LatentPosterior(
        X, latent.kernel, latent.variance, latent.lengthscales, alpha, inverse, -np.ones(25), operator_bound=1.0
    )
    region = linf_ball([0.3, -0.2], 0.4)
    points = rng.uniform(region.lower, region.upper, (4000, 2))
    mean, variance = (each.numpy()[:, 0] for each in model.predict_f(points))
    own_mean, own_variance = posterior.latent(points)
    assert own_mean == pytest.approx(mean, abs=1e-6)
    # GPflow's variance of f at a new point has the white noise in it
    assert own_variance + latent.white == pytest.approx(variance, abs=1e-6)
    levels = {MEAN: mean, 0.975: mean + 1.959963984540054 * np.sqrt(variance + 0.04)}
    found = prediction_range(posterior, 0.04 + latent.white, region, tuple(levels), 1e-3, Budget(boxes=20_000))
    for each in found:
        values = levels[each.level]
        assert each.status == "closed"
        assert each.lowest_proved - 1e-5 <= values.min() and values.max() <= each.highest_proved + 1e-5
        assert values.min() - each.lowest_proved <= 0.02 and each.highest_proved - values.max() <= 0.02
