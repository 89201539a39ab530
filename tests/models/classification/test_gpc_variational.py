from __future__ import annotations

from dataclasses import replace

import gpflow
import numpy as np
import pytest

from gpsuite.models.classification.links import LINKS, LOGISTIC, PROBIT, SQUEEZED_PROBIT, Link, SqueezedProbit
from gpsuite.models.classification.variational import (
    StableBernoulli,
    as_vgp,
    build_vgp,
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
    np.testing.assert_allclose(
        posterior.probability(XNEW), model.predict_y(XNEW)[0].numpy()[:, 0], atol=tolerance
    )


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
        model = gpflow.models.SVGP(
            model.kernel, model.likelihood, model.inducing_variable, q_diag=True, whiten=whiten
        )
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
        (OtherVGP(data, kernel, bernoulli), "neither VGP nor SVGP"),
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
