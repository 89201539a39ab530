"""Distances, scores, losses and predictions of fixed weights give the numbers they gave: see tests/golden.py."""

from __future__ import annotations

from functools import partial

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpsuite.methods.wasserstein import distance, scoring
from gpsuite.methods.wasserstein.baselines import build_mean_field, build_network, last_layer_laplace
from gpsuite.methods.wasserstein.fitting import split_rows
from gpsuite.methods.wasserstein.gwi import GaussianObjective, WassersteinObjective, inducing_count
from gpsuite.methods.wasserstein.scoring import temperature, tempered, variance_factor
from gpsuite.models.classification.links import LOGISTIC, PROBIT
from gpsuite.models.network_spec import NetworkSpec
from gpsuite.models.random_elements.elements import (
    NNGP,
    GaussianElement,
    InducingBasis,
    KernelMean,
    NetworkKernel,
    SparseKernel,
    certifiable_posterior,
)
from gpsuite.models.random_elements.likelihoods import Bernoulli, GaussianNoise, RobustMax, Softmax
from tests import golden
from tests.methods.wasserstein.class_problems import squared_gaussian_wasserstein

PACKAGES = ("gpsuite.methods.wasserstein", "gpsuite.models.random_elements", "gpsuite.models.network")
RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((12, 2)), RNG.standard_normal((4, 2))
Y = np.arange(12) % 3
SEED = np.array([5, 0], np.int32)


def distances() -> list[object]:
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((2, 5, 5))
    K, R, m, n = A @ A.T + np.eye(5), B @ B.T + np.eye(5), rng.standard_normal(5), rng.standard_normal(5)
    return [
        distance.wasserstein_by_eigenvalues(m, n, np.diagonal(K), np.diagonal(R), R[:3], K[:, :3]),
        distance.wasserstein_on_points(m, n, K, R),
        squared_gaussian_wasserstein(m, K, n, R),
        distance.root_trace(K, np.stack([R, K + R])),
    ]


def scores() -> list[object]:
    rng = np.random.default_rng(2)
    p, labels = rng.dirichlet(np.ones(3), 20), rng.integers(0, 3, 20)
    members = rng.dirichlet(np.ones(3), (4, 20))
    inside, outside = np.round(rng.random(15), 1), np.round(0.3 + rng.random(12), 1)
    y, mean, variance = rng.standard_normal(9), rng.standard_normal(9), rng.uniform(0.1, 1.0, 9)
    logits = 3.0 * rng.standard_normal((20, 3))
    curve = scoring.risk_coverage(np.round(rng.random(20), 1), p.argmax(axis=1) != labels)
    bins = scoring.reliability(p, labels, 5)
    return [
        scoring.accuracy(p, labels),
        scoring.negative_log_likelihood(p, labels),
        scoring.brier_score(p, labels),
        bins,
        bins.error,
        scoring.calibration_error(p, labels),
        scoring.overconfidence(p, labels),
        scoring.entropy(p),
        scoring.mutual_information(members),
        curve,
        curve.area,
        scoring.auroc(inside, outside),
        scoring.average_precision(inside, outside),
        scoring.false_positives_at_95(inside, outside),
        scoring.rmse(y, mean),
        scoring.negative_log_density(y, mean, variance),
        scoring.crps(y, mean, variance),
        scoring.interval_coverage(y, mean, variance, 0.8),
        scoring.interval_half_widths(variance, 0.8),
        variance_factor(y, mean, variance),
        temperature(logits, labels),
        tempered(logits, 1.7),
        split_rows(X, Y, 0.25, np.random.default_rng(3)),
        [inducing_count(n, 0.7) for n in (1, 2, 10, 1000)],
    ]


def element(latent: int, network: bool = False, prior_mean: float = 0.1) -> GaussianElement:
    rng = np.random.default_rng(1)
    prior = gpflow.kernels.SquaredExponential(1.3, [0.7, 1.1])
    gpflow.set_trainable(prior, False)
    basis = InducingBasis(prior, Z)
    factors = SparseKernel(basis, 0.5 * np.tril(rng.standard_normal((latent, 4, 4))) + np.eye(4))
    kernel = NetworkKernel([NNGP(1, "erf", 1.5, 0.3) for _ in range(latent)]) if network else factors
    mean = KernelMean(prior_mean, 0.3 * rng.standard_normal((4, latent)))
    return GaussianElement(prior_mean, prior, mean, kernel, basis, 2)


def objectives() -> list[object]:
    found: list[object] = []
    for likelihood, network in ((RobustMax(3), False), (Softmax(3), True), (GaussianNoise(0.2), False)):
        measures = element(likelihood.n_latent, network)
        targets = X[:, 0] if isinstance(likelihood, GaussianNoise) else Y
        objective = WassersteinObjective(measures, likelihood.expected_log, 30, 7)
        found += [objective.loss(tf.constant(X), tf.constant(targets), tf.constant(SEED)).numpy()]
        found += [measures.predict(X)]
    mean, variance = RNG.standard_normal((5, 3)), np.linspace(0.05, 2.0, 15).reshape(5, 3)
    found += [each.predict(mean, variance) for each in (RobustMax(3), Softmax(3))]
    found += [Bernoulli(link).predict(mean[:, :1], variance[:, :1]) for link in (PROBIT, LOGISTIC)]
    basis = element(1).basis
    found += [basis.features(X).numpy(), basis.gram(X, X[:, :1]), basis.regression(X, X[:, :1], 0.3)]
    return [*found, certifiable_posterior(element(1, prior_mean=0.0), PROBIT)]


def gaussian_objective() -> list[object]:
    measures, noise = element(1), GaussianNoise(0.2)
    assert isinstance(measures.kernel, SparseKernel)
    objective = GaussianObjective(measures, noise, measures.kernel.mean_variance(X), 12, 7)
    rows = tf.constant(measures.with_features(X))
    return [measures.with_features(X), objective.loss(rows, tf.constant(X[:, 0]), tf.constant(SEED)).numpy()]


def stepwise(scenario: golden.Scenario) -> object:
    """Run TensorFlow's functions step by step."""
    tf.config.run_functions_eagerly(True)
    try:
        return scenario()
    finally:
        tf.config.run_functions_eagerly(False)


def networks() -> list[object]:
    spec = NetworkSpec((4,), "tanh")
    model = build_network(spec, 2, 3, 12, np.random.default_rng(2), dropout=0.3)
    bayes = build_mean_field(spec, 2, 3, 12, np.random.default_rng(2))
    laplace = last_layer_laplace(model, X, X[:4] + 0.1, Y[:4])
    narrow = build_network(NetworkSpec((4, 3), "tanh"), 2, 3, 12, np.random.default_rng(3))
    return [
        model.logits(X),
        model.validation_loss(X, Y),
        model.predict_with_dropout(X, 2, 5),
        bayes.predict(X, 2, 5),
        bayes.validation_loss(X, Y),
        laplace,
        laplace.predict(X),
        laplace.logit_moments(X),
        last_layer_laplace(narrow, X, X[:4] + 0.1, Y[:4]),
    ]


SCENARIOS: dict[str, golden.Scenario] = {
    "distances": distances,
    "scores": scores,
    "objectives": partial(stepwise, objectives),
    "gaussian objective": partial(stepwise, gaussian_objective),
    "networks": partial(stepwise, networks),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_numbers_are_the_stored_ones(name: str) -> None:
    golden.check(__file__, name, SCENARIOS[name], PACKAGES)
