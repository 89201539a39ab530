"""Metrics of models and queries by hand, and the mixture's moments and log densities of safe_al.json."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.active_learning.acquisition import (
    entropy,
    joint_entropy,
    log_densities,
    rmse,
    safe_query_percent,
    safety_precision,
)
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.posterior import mixture_covariance, mixture_moments
from tests.models.active_reference import TOLERANCE, cases, table


def test_the_rmse_is_averaged_over_outputs_after_the_root() -> None:
    Y = np.zeros((4, 2))
    mean = np.array([[1.0, 3.0], [-1.0, 3.0], [1.0, -3.0], [1.0, 3.0]])
    assert rmse(mean, Y) == 2.0  # not sqrt((1 + 9) / 2)
    with pytest.raises(ValueError, match="same shape"):
        rmse(mean, Y[:, :1])
    with pytest.raises(ValueError, match="not empty"):
        rmse(mean[:0], Y[:0])


def test_all_conventions_agree_for_one_hyperparameter_vector_only() -> None:
    rng = np.random.default_rng(0)
    Y, mean, variance = rng.normal(size=(3, 2)), rng.normal(size=(2, 3, 2)), rng.uniform(0.1, 1.0, (2, 3, 2))
    noise = np.array([[0.1, 0.2], [0.3, 0.4]])
    one = [
        log_densities(Y, mean[:1], variance[:1], noise[:1], np.ones(1), convention)
        for convention in ("mixture", "moment_matched", "last_noise")
    ]
    np.testing.assert_allclose(one[0], one[1], rtol=1e-13)
    np.testing.assert_array_equal(one[1], one[2])
    weights = np.array([0.3, 0.7])
    two = [
        log_densities(Y, mean, variance, noise, weights, convention)
        for convention in ("mixture", "moment_matched", "last_noise")
    ]
    assert min(np.abs(two[0] - two[1]).max(), np.abs(two[1] - two[2]).max()) > 1e-3


def test_precision_is_the_share_of_safe_among_marked() -> None:
    marked, safe = np.array([True, True, True, False, False]), np.array([True, False, True, True, False])
    assert safety_precision(marked, safe) == 2 / 3
    assert safety_precision(safe, marked) == 2 / 3
    assert safety_precision(safe, safe) == 1.0
    assert math.isnan(safety_precision(np.zeros(5, dtype=bool), safe))


def test_safe_queries_in_percent() -> None:
    assert safe_query_percent(np.array([True, True, False, True])) == 75.0
    assert math.isnan(safe_query_percent(np.zeros(0, dtype=bool)))


@pytest.mark.reference
@pytest.mark.parametrize("case", cases("moment_matching"))
def test_moment_matching(case: dict[str, Any]) -> None:
    inputs, expected = case["inputs"], case["expected"]
    samples = inputs["samples"]
    n_outputs, n_latent = (len(samples[0][name]) for name in ("noise", "variance"))
    model = LinearCoregionalization(n_outputs, n_latent, mixing="free" if "W" in samples[0] else "identity")
    named = [np.array([s[name] for s in samples]) for name in ("variance", "lengthscale", "noise")]
    u = model.unconstrain(Parameters(*named, np.array([s.get("W", np.eye(n_outputs)) for s in samples])))  # type: ignore[call-arg]
    data = Observations.from_table(np.array(inputs["X"]), table(inputs["Y"]))
    found = PoolPredictions(model, u, data, np.array(inputs["Xs"]), covariances=True)
    weights = np.full(len(u), 1.0 / len(u))
    mean, variance = mixture_moments(found.mean, found.variance, weights)
    assert found.covariance is not None
    same_mean, covariance = mixture_covariance(found.mean, found.covariance, weights)
    np.testing.assert_allclose(mean, expected["mean"], **TOLERANCE)
    np.testing.assert_array_equal(same_mean, mean)
    np.testing.assert_allclose(variance, expected["var"], **TOLERANCE)
    np.testing.assert_allclose(covariance, expected["cov"], **TOLERANCE)
    np.testing.assert_allclose(entropy(variance), expected["entropy_partial"], **TOLERANCE)
    np.testing.assert_allclose(joint_entropy(covariance), expected["entropy_full"], **TOLERANCE)
    predicted = found.mean, found.variance, model.noise(u), weights
    for convention, name in {
        "mixture": "log_density_exact_mixture",
        "moment_matched": "log_density_moment_matched",
        "last_noise": "log_density_reference_quirk",
    }.items():
        densities = log_densities(np.array(inputs["y_new"]), *predicted, convention)  # type: ignore[arg-type]
        np.testing.assert_allclose(densities, expected[name], **TOLERANCE)
