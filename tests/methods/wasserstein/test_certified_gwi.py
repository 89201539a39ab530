"""A trained two-class GWI goes through the robustness family: the same posterior, certified around a point."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
from sklearn.datasets import load_digits

from gpsuite.certificates.verification import CONFIRMED, OPEN, check_levels
from gpsuite.methods.robustness import Budget, linf_ball, probability_range
from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS, ClassifierFit
from gpsuite.methods.wasserstein.fitting import split_rows
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.classification.variational import softmax_posterior
from gpsuite.models.random_elements.elements import (
    GaussianElement,
    InducingBasis,
    KernelMean,
    SparseKernel,
    certifiable_posterior,
    certifiable_robust_max,
)
from tests.methods.robustness.certified_point import certify_range
from tests.methods.wasserstein.class_problems import fit, labelled, options

pytestmark = pytest.mark.usefixtures("uncompiled")


@pytest.fixture
def trained() -> tuple[GaussianElement, GPCPosterior]:
    element = CLASSIFIERS.get("gwi_bernoulli")(fit(2, epochs=6)).model.element
    return element, certifiable_posterior(element, PROBIT)


def test_it_is_the_same_posterior(trained: tuple[GaussianElement, GPCPosterior]) -> None:
    element, posterior = trained
    X, _ = labelled(3, 20, 2)
    mean, variance = element.predict(X)
    ours, spread = posterior.latent(X)
    np.testing.assert_allclose(ours, mean[:, 0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(spread, variance[:, 0], rtol=1e-6, atol=1e-8)


def test_three_functions_are_the_same_posterior_but_for_the_constant_that_all_share() -> None:
    model = CLASSIFIERS.get("gwi_kernel")(fit(3, epochs=3)).model
    posterior = certifiable_robust_max(model.element, model.likelihood.epsilon)
    X, _ = labelled(3, 20)
    mean, variance = model.element.predict(X)
    ours, covariance = posterior.latent(X)
    np.testing.assert_allclose(ours + model.element.prior_mean, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.einsum("bcc->bc", covariance), variance, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(posterior.probabilities(X), model.predict(X).probabilities, atol=1e-6)


def test_a_sparse_softmax_is_the_same_posterior_and_its_second_class_is_the_positive_one() -> None:
    model = CLASSIFIERS.get("svgp_softmax")(fit(2, epochs=3)).model
    posterior = softmax_posterior(model.model)
    X, _ = labelled(3, 20, 2)
    mean, variance = model.latent(X)
    ours, covariance = posterior.latent(X)
    np.testing.assert_allclose(ours + model.prior_mean, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.einsum("bcc->bc", covariance), variance, rtol=1e-6, atol=1e-6)
    positive = posterior.difference(1, 0).probability(X)
    np.testing.assert_allclose(positive, posterior.probabilities(X)[:, 1], atol=1e-9)


def test_its_probability_is_certified_around_a_point(trained: tuple[GaussianElement, GPCPosterior]) -> None:
    _, posterior = trained
    centre = np.array([2.0, 0.0])
    region = linf_ball(centre, 0.1)
    found = probability_range(posterior, region, tolerance=0.02, budget=Budget(boxes=5000))
    sampled = posterior.probability(centre + np.random.default_rng(0).uniform(-0.1, 0.1, (2000, 2)))
    low, high = found.minimum.outer, found.maximum.outer
    assert low <= sampled.min()
    assert sampled.max() <= high
    assert high - low < sampled.max() - sampled.min() + 0.05


def test_a_digit_keeps_its_class_with_a_certificate_that_the_checker_confirms() -> None:
    """Threes against eights, 8 x 8 pixels from 0 to 1: five of them may move by .1."""
    X, digits = load_digits(return_X_y=True)
    chosen = np.isin(digits, [3, 8])
    X, y = X[chosen] / 16.0, (digits[chosen] == 8).astype(np.int64)
    rows = split_rows(X[:200], y[:200], 0.2, np.random.default_rng(0))
    found = CLASSIFIERS.get("gwi_bernoulli")(ClassifierFit(rows, 2, options(epochs=4), 0, Budget()))
    posterior = certifiable_posterior(found.model.element, PROBIT)
    correct = (posterior.probability(X[200:]) > 0.5) == (y[200:] == 1)
    assert correct.mean() > 0.9
    centre = X[200:][correct][0]
    region = linf_ball(centre, 0.1, free=sorted(np.argsort(X.var(axis=0))[-5:].tolist()))
    proved = probability_range(posterior, region, tolerance=0.02, budget=Budget(boxes=5000))
    assert proved.verdict.status == "safe"
    certificate = certify_range(posterior, region, (proved.minimum, proved.maximum), slack=0.01)
    confirmed, stated, _ = check_levels(certificate, None)
    assert (confirmed.outcome, stated.outcome) == (CONFIRMED, OPEN)


def test_what_cannot_be_certified_is_refused() -> None:
    network = CLASSIFIERS.get("gwi")(fit(3, epochs=1)).model.element
    with pytest.raises(TypeError, match="kernel mean"):
        certifiable_posterior(network, PROBIT)
    several = CLASSIFIERS.get("gwi_kernel")(fit(3, epochs=1)).model.element
    with pytest.raises(TypeError, match="one latent function"):
        certifiable_posterior(several, PROBIT)


def test_variances_above_the_prior_s_are_kept() -> None:
    """A variational covariance of four times the prior's: nothing is clipped to the prior."""
    kernel, Z = gpflow.kernels.SquaredExponential(variance=1.3), np.array([[0.0, 0.0], [2.0, 1.0]])
    basis = InducingBasis(kernel, Z)
    sparse = SparseKernel.from_covariance(basis, 4.0 * np.eye(2), 1)
    element = GaussianElement(0.0, kernel, KernelMean(0.0, np.ones((2, 1))), sparse, basis, 2)
    posterior = certifiable_posterior(element, PROBIT)
    assert posterior.operator_bound == pytest.approx(4.0)
    variance = element.predict(Z)[1][:, 0]
    assert np.all(variance > 3.9 * 1.3)
    np.testing.assert_allclose(posterior.latent(Z)[1], variance, rtol=1e-5)
