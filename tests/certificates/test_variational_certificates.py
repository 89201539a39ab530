"""Certificates of variational classifiers: the stored posterior is the one that maximises the variational bound."""

from __future__ import annotations

import dataclasses
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from gpsuite.certificates.form import MalformedError, check_form
from gpsuite.certificates.plain_kernel import CURVATURE
from gpsuite.certificates.plain_scores import expected_derivatives
from gpsuite.certificates.stationarity import TOLERANCE, stationarity_residuals
from gpsuite.certificates.verification import check_levels
from gpsuite.methods.robustness.certification import stored_model
from tests.methods.robustness.certified_point import changed
from tests.methods.robustness.variational_problems import INDUCING, KINDS, certificate, fitted, variational_model

LINK_NAMES = ("probit", "logistic", "squeezed_probit")
CASES = [(kernel, link, 2.5) for kernel in CURVATURE for link in LINK_NAMES]
CASES += [("squared_exponential", "logistic", variance) for variance in (0.01, 10.0)]


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_equations_are_those_of_gpflows_own_bound(kind: str, link: str) -> None:
    """At the maximum by natural gradients GPflow's bound has no gradient, with 100 nodes for the expectations."""
    model, X, y = variational_model(kind, "squared_exponential", link)
    model.likelihood.quadrature = gpflow.quadrature.NDiagGHQuadrature(1, 100)
    with tf.GradientTape() as tape:
        loss = model.training_loss() if kind == "vgp" else model.training_loss((X, (y[:, None] + 1) / 2))
    parameters = (model.q_mu.unconstrained_variable, model.q_sqrt.unconstrained_variable)
    for gradient in tape.gradient(loss, parameters):
        assert np.abs(gradient.numpy()).max() < 1e-6


@pytest.mark.parametrize(("kernel", "link", "variance"), CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_posteriors_at_the_maximum_are_stationary(kind: str, kernel: str, link: str, variance: float) -> None:
    posterior, where = fitted(kind, kernel, link, variance)
    found = stationarity_residuals(stored_model(posterior), where)
    assert found.largest <= 1e-7 and found.moments == 0.0
    assert found.rounding < TOLERANCE


MOVES: list[tuple[str, Any]] = [
    ("mean", lambda m, o: (dataclasses.replace(m, alpha=changed(m.alpha, (0, 4), m.alpha[0, 4] + 1e-3)), o)),
    ("root", lambda m, o: (dataclasses.replace(m, root=m.root * (1 + 1e-4)), o)),
    ("weights", lambda m, o: (dataclasses.replace(m, weights=changed(m.weights, 2, m.weights[2] + 1e-3)), o)),
    ("variance", lambda m, o: (dataclasses.replace(m, variance=m.variance * 1.001), o)),
    ("lengthscales", lambda m, o: (dataclasses.replace(m, lengthscales=m.lengthscales * 1.001), o)),
    ("inputs", lambda m, o: (dataclasses.replace(m, X=changed(m.X, (7, 1), m.X[7, 1] + 1e-2)), o)),
    ("label", lambda m, o: (m, dataclasses.replace(o, targets=changed(o.targets, 5, 1 - o.targets[5])))),
    ("link", lambda m, o: (dataclasses.replace(m, likelihood="logistic"), o)),
    ("squeeze", lambda m, o: (dataclasses.replace(m, squeeze=1e-3), o)),
    ("jitter", lambda m, o: (m, dataclasses.replace(o, jitter=1e-3))),
]


@pytest.mark.parametrize(("what", "move"), MOVES, ids=[what for what, _ in MOVES])
@pytest.mark.parametrize("kind", KINDS)
def test_a_moved_posterior_is_not_stationary(kind: str, what: str, move: Any) -> None:
    posterior, where = fitted(kind)
    found = stationarity_residuals(*move(stored_model(posterior), where))
    assert found.largest > TOLERANCE and found.largest > found.rounding


def test_a_moved_training_row_is_not_stationary() -> None:
    posterior, where = fitted("svgp")
    moved = dataclasses.replace(where, X=changed(where.X, (7, 1), where.X[7, 1] + 1e-3))
    assert stationarity_residuals(stored_model(posterior), moved).largest > TOLERANCE


def test_a_covariance_that_is_none_is_not_stationary() -> None:
    posterior, where = fitted("svgp")
    model = stored_model(posterior)
    for weights in (model.weights - 1.0, model.weights * np.nan, model.weights * 1e90):
        assert not stationarity_residuals(dataclasses.replace(model, weights=weights), where).largest <= TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_the_residual_bounds_the_distance_to_the_maximum(kind: str) -> None:
    """|mu - mu'| <= sqrt(2 s) residual and |Sigma - Sigma'| <= 3 s residual, of a mean and a covariance moved."""
    posterior, where = fitted(kind, link="logistic")
    rng = np.random.default_rng(2)
    points = rng.uniform(-3, 3, (500, 2))
    mean, variance = posterior.latent(points)
    for alpha, weights in ((0.98, 1.0), (1.0, 0.999)):
        early = dataclasses.replace(posterior, alpha=alpha * posterior.alpha, weights=weights * posterior.weights)
        found = stationarity_residuals(stored_model(early), where)
        moved = early.latent(points)
        assert np.abs(moved[0] - mean).max() <= np.sqrt(2 * posterior.variance) * found.largest
        assert np.abs(moved[1] - variance).max() <= 3 * posterior.variance * found.largest
        gap = np.abs(moved[0] - mean).max() + np.abs(moved[1] - variance).max()
        assert gap > 1e-3 * posterior.variance * found.largest


@pytest.mark.parametrize("deviation", [0.3, 4.0, 60.0])
@pytest.mark.parametrize(("link", "squeeze"), [("probit", 0.0), ("probit", 1e-3), ("logistic", 0.0)])
def test_expected_derivatives_agree_with_a_finer_rule(link: str, squeeze: float, deviation: float) -> None:
    mean, y = np.array([-3.0, 0.2, 5.0]), np.array([1.0, -1.0, 1.0])
    variance = np.array([deviation, 0.5 * deviation, 0.01]) ** 2
    nodes = np.linspace(-12, 12, 200_001)
    weights = np.exp(-(nodes**2) / 2) / np.exp(-(nodes**2) / 2).sum()
    from scipy.special import expit, log_ndtr, ndtr

    t = y[:, None] * (mean[:, None] + np.sqrt(variance)[:, None] * nodes)
    if link == "logistic":
        slope, bend = expit(-t), expit(t) * expit(-t)
    else:
        density = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
        p = squeeze + (1 - 2 * squeeze) * ndtr(t)
        slope = (1 - 2 * squeeze) * (density / p if squeeze else np.exp(-(t**2) / 2 - log_ndtr(t)) / np.sqrt(2 * np.pi))
        bend = slope * (slope + t)
    first, second = expected_derivatives(link, squeeze, y, mean, variance)  # type: ignore[arg-type]
    np.testing.assert_allclose(first, y * (slope @ weights), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(second, bend @ weights, rtol=1e-10, atol=1e-10)


def test_marginals_too_wide_for_the_rule_are_no_residual_to_accept() -> None:
    one = np.ones(1)
    assert np.isnan(expected_derivatives("probit", 0.0, one, one, np.array([1e9]))).all()


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("origin's arrays", {"X": np.zeros((3, 2))}),
        ("origin's arrays", {"X": np.zeros((30, 3))}),
        ("origin's arrays", {"X": np.zeros((0, 2))}),  # 30 rows for a model of 8 inducing inputs
        ("origin: a number", {"X": np.full((30, 2), np.nan)}),
        ("jitter", {"jitter": -1e-6}),
        ("jitter", {"jitter": 0.1}),
        ("origin's arrays", {"inference": "laplace"}),
        ("origin's arrays", {"sites": np.zeros((2, 30))}),
    ],
)
def test_a_malformed_origin_is_refused(words: str, changes: dict[str, Any]) -> None:
    whole = certificate("svgp")
    assert whole.origin is not None
    with pytest.raises(MalformedError, match=words):
        check_form(dataclasses.replace(whole, origin=dataclasses.replace(whole.origin, **changes)))


@pytest.mark.parametrize(("kind", "values"), [("svgp", f"{INDUCING} inducing inputs"), ("vgp", "one value per row")])
def test_the_statement_names_the_values_and_their_jitter(kind: str, values: str) -> None:
    statement = check_levels(certificate(kind), None)[1].statement
    assert statement.endswith(f"variational posterior of the stored rows and labels, {values}, jitter 1e-06")
