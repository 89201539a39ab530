"""Predictions under the reference posterior of safe_al.json: moments of the mixture, and how safe its inputs are."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.methods.active_learning.problem import SafetyLimit, mixture_probability, moment_matched_probability
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.posterior import mixture_moments
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings, start
from tests.models.posterior_reference import (
    MAIN,
    POSTERIOR,
    SAFETY,
    STANDARD_ERRORS,
    main_observations,
    safety_observations,
)

pytestmark = pytest.mark.reference
RUNS = 7
VARIANCES = 0.15  # relative, as the file states for deviations of quantities that are not heavy-tailed


@pytest.mark.parametrize("name", [key for key in ("mogp_pred", "safety_pred") if key in POSTERIOR])
def test_predictions_agree_with_the_reference_posterior(name: str) -> None:
    model, data = (MAIN, main_observations()) if name == "mogp_pred" else (SAFETY, safety_observations())
    wanted, runs = POSTERIOR[name], []
    for seed in range(RUNS):
        state = start(model, model.likelihood(data), np.random.default_rng(seed), SMCSettings())
        found = PoolPredictions(model, state.u, data, np.array(wanted["x"])[:, None])
        weights = state.posterior.weights
        moments = mixture_moments(found.mean, found.variance, weights)
        row = list(moments)
        if name == "safety_pred":
            h = found.mean[..., 0], found.variance[..., 0], weights
            limit = SafetyLimit(0.7, "above")
            row += [moment_matched_probability(limit, *h)[:, None], mixture_probability(limit, *h)[:, None]]
        runs.append(np.stack(row))
    names = ("mean", "var", "prob_above_0p7_moment_matched", "prob_above_0p7_exact_mixture")
    average, error = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(RUNS)
    for key, value, off in zip(names, average, error, strict=False):
        expected = np.array(wanted[key]).reshape(value.shape)
        own = np.array(wanted.get(f"{key}_mcse", np.zeros(value.shape))).reshape(value.shape)
        near = STANDARD_ERRORS * np.hypot(off, own)
        near += VARIANCES * expected if key == "var" else 1e-3
        assert np.all(np.abs(value - expected) <= near), (key, value.ravel(), expected.ravel(), near.ravel())
