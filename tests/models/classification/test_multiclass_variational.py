"""GPflow's sparse softmax classifiers as posteriors: the same latent moments, and sound bounds."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest

from gpsuite.methods.robustness.multiclass.softmax_bound import SoftmaxBound
from gpsuite.models.classification.multiclass_variational import softmax_posterior


def svgp(whiten: bool, diagonal: bool, likelihood: gpflow.likelihoods.Likelihood) -> gpflow.models.SVGP:
    """Return a model of three classes with drawn variational parameters."""
    rng = np.random.default_rng(1)
    kernel = gpflow.kernels.SquaredExponential(variance=2.0, lengthscales=[0.9, 1.4])
    model = gpflow.models.SVGP(
        kernel,
        likelihood,
        gpflow.inducing_variables.InducingPoints(rng.standard_normal((6, 2))),
        num_latent_gps=3,
        q_diag=diagonal,
        whiten=whiten,
    )
    model.q_mu.assign(rng.standard_normal((6, 3)))
    root = rng.uniform(0.2, 1.3, (6, 3)) if diagonal else np.tril(rng.standard_normal((3, 6, 6))) * 0.4
    model.q_sqrt.assign(root)
    return model


@pytest.mark.parametrize(("whiten", "diagonal"), [(True, False), (False, False), (True, True)])
def test_the_latent_moments_are_gpflows(whiten: bool, diagonal: bool) -> None:
    model = svgp(whiten, diagonal, gpflow.likelihoods.Softmax(3))
    posterior, points = softmax_posterior(model), np.random.default_rng(2).standard_normal((15, 2))
    mean, covariance = posterior.latent(points)
    wanted_mean, wanted_variance = (each.numpy() for each in model.predict_f(points))
    np.testing.assert_allclose(mean, wanted_mean, atol=1e-9)
    np.testing.assert_allclose(np.einsum("bcc->bc", covariance), wanted_variance, atol=1e-9)
    np.testing.assert_allclose(covariance[:, 0, 1], 0.0, atol=1e-12)


def test_bounds_hold_for_it() -> None:
    posterior = softmax_posterior(svgp(True, False, gpflow.likelihoods.Softmax(3)))
    rng = np.random.default_rng(3)
    centre, half = rng.standard_normal((10, 2)), 10.0 ** rng.uniform(-3.0, -0.3, (10, 1))
    bound = SoftmaxBound(posterior, np.zeros(2), np.arange(2))
    local = bound.over(centre - half, centre + half)
    x = centre + half * rng.uniform(-1.0, 1.0, (30, 10, 2))
    p = posterior.probabilities(x.reshape(-1, 2)).reshape(30, 10, 3)
    for own in range(3):
        ends = bound.class_ends(local, own)
        assert np.all(p[..., own] >= ends.low - 1e-8) and np.all(p[..., own] <= ends.high + 1e-8)
        assert np.min(ends.high - ends.low) < 0.1


def test_other_likelihoods_are_refused() -> None:
    with pytest.raises(TypeError, match="MultiClass: only the softmax"):
        softmax_posterior(svgp(True, False, gpflow.likelihoods.MultiClass(3)))
