"""GPflow's sparse softmax classifiers as posteriors: the same latent moments, and sound bounds."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.class_probability import LatentRanges
from gpsuite.methods.robustness.multiclass.multiclass_search import MultiClassSearch
from gpsuite.methods.robustness.multiclass.robust_max_bound import SLOPE, RobustMaxBound
from gpsuite.methods.robustness.multiclass.softmax_bound import SoftmaxBound
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.models.classification.multiclass_posterior import QUADRATURE, RobustMaxPosterior
from gpsuite.models.classification.robust_max import largest_probabilities
from gpsuite.models.classification.variational import multiclass_posterior


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
    posterior, points = multiclass_posterior(model), np.random.default_rng(2).standard_normal((15, 2))
    mean, covariance = posterior.latent(points)
    wanted_mean, wanted_variance = (each.numpy() for each in model.predict_f(points))
    np.testing.assert_allclose(mean, wanted_mean, atol=1e-9)
    np.testing.assert_allclose(np.einsum("bcc->bc", covariance), wanted_variance, atol=1e-9)
    np.testing.assert_allclose(covariance[:, 0, 1], 0.0, atol=1e-12)


def test_bounds_hold_for_it() -> None:
    posterior = multiclass_posterior(svgp(True, False, gpflow.likelihoods.Softmax(3)))
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


def test_robust_max_probabilities_are_those_of_gpflows_latent_values() -> None:
    """By sampling them; GPflow's own 20 Gauss-Hermite nodes are off by up to .022 here, at most points by 1e-3."""
    model = svgp(True, False, gpflow.likelihoods.MultiClass(3))
    posterior, points = multiclass_posterior(model), np.random.default_rng(2).standard_normal((15, 2))
    assert isinstance(posterior, RobustMaxPosterior) and posterior.epsilon == pytest.approx(1e-3)
    p, theirs = posterior.probabilities(points), model.predict_y(points)[0].numpy()
    assert np.median(np.abs(p - theirs).max(axis=1)) < 1e-3
    mean, variance = (each.numpy() for each in model.predict_f(points))
    f = mean + np.sqrt(variance) * np.random.default_rng(4).standard_normal((100_000, 15, 3))
    wins = np.stack([(f.argmax(axis=2) == c).mean(axis=0) for c in range(3)], axis=1)
    # five standard errors of a share
    np.testing.assert_allclose(
        p, (1.0 - 1e-3) * wins + 5e-4 * (1.0 - wins), atol=5.0 * 0.5 / np.sqrt(100_000)
    )
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=3.0 * QUADRATURE)


def test_robust_max_bounds_hold_and_its_searches_close() -> None:
    posterior = multiclass_posterior(svgp(True, False, gpflow.likelihoods.MultiClass(3)))
    assert isinstance(posterior, RobustMaxPosterior)
    rng = np.random.default_rng(3)
    centre, half = rng.standard_normal((10, 2)), 10.0 ** rng.uniform(-3.0, -0.3, (10, 1))
    lo, hi = centre - half, centre + half
    bound = RobustMaxBound(posterior, np.zeros(2), np.arange(2))
    x = centre + half * rng.uniform(-1.0, 1.0, (20, 10, 2))
    p = posterior.probabilities(x.reshape(-1, 2)).reshape(20, 10, 3)
    for own in range(3):
        ends = bound.class_bounds(lo, hi, own)
        assert np.all(p[..., own] >= ends.low - 1e-8) and np.all(p[..., own] <= ends.high + 1e-8)
        assert np.min(ends.high - ends.low) < 0.1
        low, high = bound.class_of(bound.at(centre), own)
        exact = posterior.probabilities(centre)[:, own]
        assert np.all((low <= exact) & (exact <= high) & (high - low < 1e-7))
    apart = p[..., 0] - p[..., 1]
    margin = bound.margin_bounds(lo, hi, 0, 1)
    assert np.all((margin.low - 1e-8 <= apart) & (apart <= margin.high + 1e-8))
    point = centre[0]
    search = MultiClassSearch(posterior, point, np.arange(2))
    region = linf_ball(point, 0.02)
    found = search.range(search.centre.own, region, 0.05, Budget(boxes=2000))
    assert found.minimum.status == found.maximum.status == "closed"
    assert search.decide(region, Budget(boxes=500))[0].status in ("safe", "unsafe")


def test_the_slope_by_a_variance_is_its_bound() -> None:
    """|dS / d log r| reaches (8 pi e)^-1/2 where the other latent value is certain, and never exceeds it."""
    u = np.linspace(0.0, 4.0, 81)
    mean = np.stack([u, 0.0 * u], axis=1)
    step = 1e-4
    slopes = []
    for scale in (np.exp(step), np.exp(-step)):
        variance = np.stack([np.full_like(u, scale), np.full_like(u, 1e-8)], axis=1)
        slopes.append(largest_probabilities(mean, variance)[:, 0])
    reached = np.max(np.abs(slopes[0] - slopes[1])) / (2.0 * step)
    assert 0.99 * SLOPE < reached < 1.001 * SLOPE


def test_other_likelihoods_are_refused() -> None:
    with pytest.raises(TypeError, match="only the softmax and the robust maximum"):
        multiclass_posterior(svgp(True, False, gpflow.likelihoods.Gaussian()))


def test_every_variance_that_moves_is_paid_for() -> None:
    """Three equal classes, log variances within .01, .02 and .03 of zero: the slope times .06 either way."""
    posterior = RobustMaxPosterior(
        np.zeros((1, 2)),
        "matern52",
        1.0,
        np.ones(2),
        np.ones((3, 1)),
        np.zeros((0, 3, 1)),
        np.zeros(0),
        1.0,
        0.03,
    )
    bound = RobustMaxBound(posterior, np.zeros(2), np.arange(2))
    spread = np.array([[0.01], [0.02], [0.03]])
    same = np.zeros((3, 1))
    ranges = LatentRanges(same, same, np.exp(-spread), np.exp(spread), same, same + 1.0)
    for own in range(3):
        low, high = bound._class_range(ranges, own)
        for stated, sign in ((low, -1.0), (high, 1.0)):
            S = 1.0 / 3.0 + sign * (SLOPE * 0.06 + QUADRATURE)
            np.testing.assert_allclose(stated, 0.97 * S + 0.015 * (1.0 - S), rtol=1e-7)
