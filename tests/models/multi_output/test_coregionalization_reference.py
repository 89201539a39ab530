"""The linear model of coregionalisation against the independently computed numbers of safe_al.json."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from tests.models.active_reference import GRADIENT_RTOL, TOLERANCE, cases, table

pytestmark = pytest.mark.reference


def _parameters(inputs: dict[str, Any]) -> Parameters:
    variance = np.array([inputs["variance"]])
    W = np.array(inputs.get("W", np.eye(variance.shape[1])))
    noise = np.array(inputs.get("noise", np.ones(len(W))))
    return Parameters(variance, np.array([inputs["lengthscale"]]), noise[None], W[None])


def _model(inputs: dict[str, Any]) -> LinearCoregionalization:
    n_outputs, n_latent = _parameters(inputs).W.shape[1:]
    return LinearCoregionalization(n_outputs, n_latent, mixing="free" if "W" in inputs else "identity")


@pytest.mark.parametrize("case", cases("lmc_covariance"))
def test_the_covariance_equals_the_references(case: dict[str, Any]) -> None:
    inputs = case["inputs"]
    model, A = _model(inputs), np.array(inputs["A"])
    u = model.unconstrain(_parameters(inputs))
    row, p = np.divmod(np.arange(len(A) * model.n_outputs), model.n_outputs)
    found = model.cross_covariance(u, A[row], p, np.array(inputs["B"]))[0]
    expected = np.array(case["expected"]["K"])
    np.testing.assert_allclose(found.reshape(expected.shape), expected, **TOLERANCE)


@pytest.mark.parametrize("case", cases("log_marginal_likelihood"))
def test_likelihood_and_gradient_equal_the_references(case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    observations = Observations.from_table(np.array(inputs["X"]), table(inputs["Y"]))
    assert len(observations) == expected["n_observed"]
    likelihood = _model(inputs).constrained_likelihood(observations)
    value, slopes = likelihood.value_and_gradient(_parameters(inputs))
    np.testing.assert_allclose(value[0], expected["lml"], **TOLERANCE)
    for name, slope in expected["grad_constrained"].items():
        np.testing.assert_allclose(getattr(slopes, name)[0], slope, rtol=GRADIENT_RTOL, atol=1e-8)


@pytest.mark.parametrize("case", cases("log_prior_and_target"))
def test_prior_and_target_equal_the_references(case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    model = _model(inputs)
    observations = Observations.from_table(np.array(inputs["X"]), table(inputs["Y"]))
    u = model.unconstrain(_parameters(inputs))
    named = model.split(u)
    for name, values in expected["unconstrained"].items():
        np.testing.assert_allclose(getattr(named, name)[0], values, **TOLERANCE)
    log_jacobian = np.log(model.prior.derivative(u)).sum()
    np.testing.assert_allclose(log_jacobian, expected["log_jacobian"], **TOLERANCE)
    log_prior = model.log_prior(u)[0][0]
    np.testing.assert_allclose(log_prior - log_jacobian, expected["log_prior"], **TOLERANCE)
    lml = model.likelihood(observations).value(u)[0]
    np.testing.assert_allclose(lml, expected["lml"], **TOLERANCE)
    np.testing.assert_allclose(lml + log_prior, expected["hmc_target"], **TOLERANCE)


@pytest.mark.parametrize("case", cases("independent_gps"))
def test_independent_outputs_have_the_references_likelihood_and_predictions(case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    model = _model(inputs)
    observations = Observations.from_table(np.array(inputs["X"]), table(inputs["Y"]))
    X, p, Xs = observations.X, observations.p, np.array(inputs["Xs"])
    u = model.unconstrain(_parameters(inputs))
    np.testing.assert_allclose(model.likelihood(observations).value(u)[0], expected["lml"], **TOLERANCE)
    log_prior = model.log_prior(u)[0] - np.log(model.prior.derivative(u)).sum(axis=1)
    np.testing.assert_allclose(log_prior[0], expected["log_prior"], **TOLERANCE)
    K = model.covariance(u, X, p, X, p)[0] + np.diag(model.noise(u)[0, p])
    cross = model.cross_covariance(u, X, p, Xs)[0].reshape(len(p), -1)
    mean = np.linalg.solve(K, observations.y) @ cross
    explained = (cross * np.linalg.solve(K, cross)).sum(axis=0)
    variance = np.tile(np.diagonal(model.prior_covariance(u)[0]), len(Xs)) - explained
    np.testing.assert_allclose(mean, np.ravel(expected["mean"]), **TOLERANCE)
    np.testing.assert_allclose(variance, np.ravel(expected["var"]), **TOLERANCE)
