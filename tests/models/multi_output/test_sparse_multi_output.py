from __future__ import annotations

import numpy as np
import pytest

from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions, SparseMultiOutput
from tests.arrays import Array


def problem(size: int) -> tuple[LinearCoregionalization, Array, Observations, Array]:
    rng = np.random.default_rng(size)
    X = rng.uniform(-2.0, 2.0, (size, 2))
    seen = Observations(X, rng.integers(0, 3, size), np.sin(X.sum(axis=1)) + 0.2 * rng.normal(size=size))
    model = LinearCoregionalization(3)
    return model, model.draw_prior(rng, 1)[0], seen, rng.uniform(-2.0, 2.0, (9, 2))


def test_with_every_observation_as_inducing_pair_the_mean_is_the_exact_one() -> None:
    model, u, seen, X = problem(25)
    exact = PoolPredictions(model, u[None], seen, X).mean[0]
    sparse = SparseMultiOutput(model, u, seen, seen.X, seen.p)
    np.testing.assert_allclose(sparse.mean(X), exact, atol=1e-6)


def test_the_mean_solves_titsias_equation() -> None:
    model, u, seen, X = problem(40)
    Z, p = seen.X[:10] + 0.1, seen.p[:10]
    Kuu, Kuf = (model.covariance(u[None], Z, p, other, q)[0] for other, q in ((Z, p), (seen.X, seen.p)))
    noise = model.noise(u[None])[0][seen.p]
    weights = np.linalg.solve(Kuu + (Kuf / noise) @ Kuf.T, (Kuf / noise) @ seen.y)
    expected = np.stack(
        [model.covariance(u[None], X, np.full(9, q), Z, p)[0] @ weights for q in range(3)], axis=1
    )
    np.testing.assert_allclose(SparseMultiOutput(model, u, seen, Z, p).mean(X), expected, rtol=1e-6)


def test_blocks_of_observations_and_inputs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, u, seen, X = problem(30)
    whole = SparseMultiOutput(model, u, seen, seen.X[:8], seen.p[:8]).mean(X)
    monkeypatch.setattr("gpsuite.models.multi_output.pool_predictions.BLOCK", 4)
    np.testing.assert_allclose(
        SparseMultiOutput(model, u, seen, seen.X[:8], seen.p[:8]).mean(X), whole, rtol=1e-9
    )
