"""Regressions as arrays: the moments of GPflow's own exact and sparse models."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.gpflow_models import (
    build_fitc,
    build_gpr,
    build_sgpr,
    predict,
    regression_posterior,
)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["squared_exponential", "matern32", "matern52"])
def test_moments_are_those_of_the_model(kernel: str, sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((30, 1))
    spec, values = ModelSpec(kernel=kernel, ard=True), Hyperparameters(1.3, (0.8, 1.7, 2.5), 0.05)
    model = build_sgpr(X, Y, X[:8], spec, values) if sparse else build_gpr(X, Y, spec, values)
    found = regression_posterior(model)
    assert found.noise_variance == pytest.approx(0.05)
    Xnew = rng.standard_normal((20, 3)) * 2.0
    mean, variance = predict(model, Xnew)
    # GPflow adds a jitter of 1e-6 to the inducing covariance
    tolerance = 1e-4 if sparse else 1e-9
    np.testing.assert_allclose(found.latent.latent(Xnew)[0], mean[:, 0], atol=tolerance)
    np.testing.assert_allclose(found.latent.latent(Xnew)[1], variance[:, 0], atol=tolerance)


def test_other_models_are_refused() -> None:
    X, spec = np.linspace(0.0, 1.0, 5)[:, None], ModelSpec()
    with pytest.raises(TypeError, match="GPRFITC"):
        regression_posterior(build_fitc(X, X, X[:2], spec, Hyperparameters()))
    with pytest.raises(TypeError, match="2"):
        regression_posterior(build_gpr(X, np.hstack([X, X]), spec, Hyperparameters()))
