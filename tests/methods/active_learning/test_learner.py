"""What a learner predicts with all, some or one hyperparameter vector, and how it learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.active_learning.inference import InferenceSettings, Learner
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from tests.methods.active_learning.exploration_problems import SMALL, tiny

ROUNDING = 1e-7  # of the moves' start, enlarged by the moves


def learner(settings: InferenceSettings) -> Learner:
    problem, _ = tiny()
    model = LinearCoregionalization(2)
    return Learner(model, problem.outputs, problem.pool.X, settings, capacity=20)


def further(n: int) -> Observations:
    rng = np.random.default_rng(3)
    return Observations(rng.uniform(-2, 2, (n, 1)), rng.integers(0, 2, n), rng.standard_normal(n))


def taught(settings: InferenceSettings, n: int = 6) -> Learner:
    found, rng, data = learner(settings), np.random.default_rng(1), further(n)
    found.start(rng)
    found.predict()
    for k in range(n):
        found.add(data.X[[k]], data.p[[k]], data.y[[k]], rng)
        found.predict()
    return found


def test_fewer_members_predict_but_do_not_change_the_posterior() -> None:
    whole, some = taught(SMALL), taught(replace(SMALL, pool_members=5))
    np.testing.assert_allclose(some.posterior.u, whole.posterior.u, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(some.posterior.weights, whole.posterior.weights, atol=ROUNDING)
    members = np.array([0, 2, 4, 7, 9])
    assert some.predictions.mean.shape == (5, 15, 2)
    np.testing.assert_allclose(some.predictions.mean, whole.predictions.mean[members], atol=ROUNDING)
    np.testing.assert_allclose(some.predictions.variance, whole.predictions.variance[members], atol=ROUNDING)
    chosen = whole.posterior.weights[members]
    np.testing.assert_allclose(some.weights, chosen / chosen.sum(), atol=ROUNDING)
    np.testing.assert_allclose(some.noise, whole.noise[members], rtol=ROUNDING)


def test_more_members_than_particles_are_all() -> None:
    found = taught(replace(SMALL, pool_members=99), 1)
    np.testing.assert_array_equal(found.weights, found.posterior.weights / found.posterior.weights.sum())


@pytest.mark.parametrize("settings", [SMALL, replace(SMALL, pool_members=5), replace(SMALL, kind="map")])
def test_predictions_are_those_of_the_posterior_and_all_data(settings: InferenceSettings) -> None:
    found = taught(settings)
    size = len(found.weights)
    u = found.posterior.u[np.arange(size) * len(found.posterior) // size]
    fresh = PoolPredictions(found.model, u, found.observations, tiny()[0].pool.X)
    np.testing.assert_allclose(found.predictions.mean, fresh.mean, atol=1e-9)
    np.testing.assert_allclose(found.predictions.variance, fresh.variance, atol=1e-9)
    np.testing.assert_allclose(found.weights.sum(), 1.0)


def test_kept_particles_are_weighted_by_their_predictions() -> None:
    """With particles that never move, the posterior is importance sampling: weights are proportional to likelihoods."""
    still = replace(SMALL, smc=replace(SMALL.smc, keep=0.0, temper=0.0, restart=0.0))
    found, rng, data = learner(still), np.random.default_rng(1), further(6)
    found.start(rng)
    found.predict()
    u, before = found.posterior.u, found.model.likelihood(found.observations).value(found.posterior.u)
    for k in range(6):
        found.add(data.X[[k]], data.p[[k]], data.y[[k]], rng)
    np.testing.assert_array_equal(found.posterior.u, u)
    ratio = found.model.likelihood(found.observations).value(u) - before
    expected = np.exp(ratio - ratio.max())
    np.testing.assert_allclose(found.posterior.weights, expected / expected.sum(), rtol=1e-8)


def test_predictions_wait_for_predict() -> None:
    found = learner(SMALL)
    found.start(np.random.default_rng(1))
    with pytest.raises(ValueError, match="predict first"):
        _ = found.predictions


def test_one_member_is_enough_to_predict() -> None:
    found = taught(replace(SMALL, pool_members=1), 1)
    assert found.predictions.mean.shape[0] == 1
    np.testing.assert_array_equal(found.weights, [1.0])


@pytest.mark.parametrize(("wrong", "message"), [({"kind": "vi"}, "kind=vi"), ({"pool_members": 0}, "pool_members=0")])
def test_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        InferenceSettings(**wrong)
