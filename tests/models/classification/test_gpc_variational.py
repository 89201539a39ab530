"""GPflow's sparse softmax classifiers as posteriors: the same latent moments, and sound bounds."""

from __future__ import annotations

from dataclasses import replace

import gpflow
import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.class_probability import LatentRanges
from gpsuite.methods.robustness.multiclass.robust_max_bound import SLOPE, RobustMaxBound
from gpsuite.methods.robustness.multiclass.softmax_bound import SoftmaxBound
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.models.classification.links import LINKS, LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link, SqueezedProbit
from gpsuite.models.classification.multiclass_posterior import QUADRATURE, RobustMaxPosterior
from gpsuite.models.classification.robust_max import largest_probabilities
from gpsuite.models.classification.variational import (
    StableBernoulli,
    as_vgp,
    build_vgp,
    multiclass_posterior,
    variational_posterior,
)
from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from tests.models.gpc_problems import build_svgp, fitted_posterior, two_classes

H = Hyperparameters(2.5, (0.8, 1.7))
ARD = ModelSpec(ard=True)
XNEW = np.random.default_rng(9).standard_normal((11, 2))
KERNELS = pytest.mark.parametrize("kernel", KERNEL_NAMES)


def randomised(model: gpflow.models.SVGP | gpflow.models.VGP, width: float) -> None:
    """Set the variational distribution to something far from the prior, also wider than it."""
    rng = np.random.default_rng(1)
    model.q_mu.assign(rng.standard_normal(model.q_mu.shape))
    shape = model.q_sqrt.shape
    if len(shape) == 3:
        root = np.tril(0.3 * rng.standard_normal(shape[1:])) + np.diag(rng.uniform(0.1, width, shape[1]))
        model.q_sqrt.assign(root[None])
    else:
        model.q_sqrt.assign(rng.uniform(0.1, width, shape))


def assert_equal_to_gpflow(model: gpflow.models.SVGP | gpflow.models.VGP) -> None:
    posterior = variational_posterior(model)
    mean, variance = (part.numpy()[:, 0] for part in model.predict_f(XNEW))
    ours = posterior.latent(XNEW)
    np.testing.assert_allclose(ours[0], mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours[1], variance, rtol=1e-9, atol=1e-9)
    assert (variance <= posterior.operator_bound * posterior.variance * (1.0 + 1e-12)).all()
    tolerance = 1e-4 if posterior.link == LOGISTIC else 1e-9  # GPflow's own quadrature has 20 nodes
    np.testing.assert_allclose(posterior.probability(XNEW), model.predict_y(XNEW)[0].numpy()[:, 0], atol=tolerance)


@KERNELS
@pytest.mark.parametrize("width", [0.5, 2.0])
def test_vgp_predicts_the_same(kernel: str, width: float) -> None:
    model = build_vgp(*two_classes(0), ModelSpec(kernel, ard=True), H, SQUEEZED_PROBIT)
    randomised(model, width)
    assert_equal_to_gpflow(model)


def test_operator_bound_is_the_largest_eigenvalue_or_one() -> None:
    model = build_vgp(*two_classes(0), ModelSpec(), Hyperparameters(2.0, (0.9,)), PROBIT)
    for scale, expected in ((0.5, 1.0), (3.0, 9.0)):
        model.q_sqrt.assign(scale * np.eye(30)[None])
        assert variational_posterior(model).operator_bound == pytest.approx(expected)


@KERNELS
@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("diagonal", [True, False])
def test_svgp_predicts_the_same(kernel: str, whiten: bool, diagonal: bool) -> None:
    Z = two_classes(0, 8)[0]
    model = build_svgp(Z, 100, ModelSpec(kernel, ard=True), H, SQUEEZED_PROBIT, whiten)
    if diagonal:
        model = gpflow.models.SVGP(model.kernel, model.likelihood, model.inducing_variable, q_diag=True, whiten=whiten)
    randomised(model, 1.3)
    assert_equal_to_gpflow(model)


@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=lambda link: link.name)
def test_stable_likelihood_is_the_link_also_in_the_tails(link: Link) -> None:
    likelihood = StableBernoulli(link)
    F, X = np.array([[-60.0], [-9.5], [0.3], [9.5], [60.0]]), np.zeros((5, 1))
    for label in (0.0, 1.0):
        ours = likelihood.log_prob(X, F, np.full((5, 1), label)).numpy()
        np.testing.assert_allclose(ours, link.log_likelihood(2.0 * label - 1.0, F)[:, 0], rtol=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", list(LINKS))
def test_links_are_kept(name: str) -> None:
    model = build_vgp(*two_classes(0), ModelSpec(), Hyperparameters(2.0, (0.9,)), LINKS.get(name))
    randomised(model, 0.7)
    assert variational_posterior(model).link == LINKS.get(name)
    assert_equal_to_gpflow(model)


@KERNELS
@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=lambda link: link.name)
def test_laplace_and_ep_become_a_vgp_and_return(kernel: str, inference: str, link: Link) -> None:
    posterior, y = fitted_posterior(inference, kernel, link)
    model = as_vgp(posterior, y)
    mean, variance = (part.numpy()[:, 0] for part in model.predict_f(XNEW))
    back = variational_posterior(model)
    for other in ((mean, variance), back.latent(XNEW)):
        np.testing.assert_allclose(other[0], posterior.latent(XNEW)[0], rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(other[1], posterior.latent(XNEW)[1], rtol=1e-7, atol=1e-8)
    assert back.operator_bound == pytest.approx(1.0)


def test_evidence_bound_of_ep_as_vgp_is_below_ep_evidence() -> None:
    posterior, y = fitted_posterior("ep", link=PROBIT)
    model = as_vgp(posterior, y)
    trained = build_vgp(*two_classes(0), ARD, H, PROBIT)
    gpflow.set_trainable(trained.kernel, False)
    gpflow.optimizers.Scipy().minimize(trained.training_loss, trained.trainable_variables, compile=False)
    assert float(model.elbo()) <= float(trained.elbo()) + 1e-6
    near = variational_posterior(trained).latent(XNEW)[0]
    np.testing.assert_allclose(near, posterior.latent(XNEW)[0], atol=0.35)


class OtherVGP(gpflow.models.VGP):
    """A model this package does not know."""


def test_other_models_are_refused() -> None:
    X, y = two_classes(0)
    data, kernel = (X, (y[:, None] + 1) / 2), gpflow.kernels.SquaredExponential()
    bernoulli = gpflow.likelihoods.Bernoulli()
    vgp = gpflow.models.VGP
    wrong = [
        (OtherVGP(data, kernel, bernoulli), "is no VGP or SVGP"),
        (vgp(data, kernel, gpflow.likelihoods.Gaussian()), "only Bernoulli"),
        (vgp(data, kernel, gpflow.likelihoods.Bernoulli(invlink=lambda f: f)), "only Bernoulli"),
        (vgp(data, gpflow.kernels.Linear(), bernoulli), "Linear"),
        (vgp(data, kernel, bernoulli, mean_function=gpflow.functions.Constant()), "zero mean"),
        (vgp(data, kernel, bernoulli, num_latent_gps=2), "2 latent functions"),
        (vgp(data, gpflow.kernels.Matern32(active_dims=[0]), bernoulli), "some of the inputs"),
    ]
    for model, message in wrong:
        with pytest.raises(TypeError, match=message):
            variational_posterior(model)
    with pytest.raises(ValueError, match="probit or logistic is needed"):
        build_vgp(X, y, ModelSpec(), Hyperparameters(), SqueezedProbit(squeeze=0.1))
    assert replace(SQUEEZED_PROBIT, squeeze=1e-3) == SQUEEZED_PROBIT


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
    np.testing.assert_allclose(p, (1.0 - 1e-3) * wins + 5e-4 * (1.0 - wins), atol=5.0 * 0.5 / np.sqrt(100_000))
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
    search = PointSearch(posterior, point, np.arange(2))
    region = linf_ball(point, 0.02)
    found = search.range(region, 0.05, Budget(boxes=2000))
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


def test_every_variance_that_moves_is_allowed_for() -> None:
    """Three equal classes, log variances within .01, .02 and .03 of zero: the slope times .06 either way."""
    posterior = RobustMaxPosterior(
        np.zeros((1, 2)), "matern52", 1.0, np.ones(2), np.ones((3, 1)), np.zeros((0, 3, 1)), np.zeros(0), 1.0, 0.03
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
