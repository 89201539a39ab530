"""A trained two-class GWI goes through the robustness family: the same posterior, certified around a point."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.robustness import Budget, linf_ball, probability_range
from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.models.random_elements.certifiable import certifiable_posterior
from gpsuite.models.random_elements.element import GaussianElement
from tests.methods.wasserstein.class_problems import fit, labelled

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


def test_what_cannot_be_certified_is_refused() -> None:
    network = CLASSIFIERS.get("gwi")(fit(3, epochs=1)).model.element
    with pytest.raises(TypeError, match="kernel mean"):
        certifiable_posterior(network, PROBIT)
    several = CLASSIFIERS.get("gwi_kernel")(fit(3, epochs=1)).model.element
    with pytest.raises(TypeError, match="one latent function"):
        certifiable_posterior(several, PROBIT)
