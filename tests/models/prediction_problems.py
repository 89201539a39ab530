"""Small multi-output problems with several hyperparameter vectors, and their predictions written out plainly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations


@dataclass(frozen=True)
class Problem:
    """A model, hyperparameter vectors u [S, d], all its data, and inputs to predict at."""

    model: MultiOutputModel
    u: FloatArray
    data: Observations
    X_pool: FloatArray

    def first(self, n: int) -> Observations:
        return self.slice(0, n)

    def slice(self, start: int, stop: int) -> Observations:
        return Observations(self.data.X[start:stop], self.data.p[start:stop], self.data.y[start:stop])


def problem(seed: int, n_outputs: int = 2, *, particles: int = 5, values: int = 12, pool: int = 9) -> Problem:
    """Draw a problem from the model's own prior over hyperparameters."""
    rng = np.random.default_rng(seed)
    model = LinearCoregionalization(n_outputs, mixing="identity" if n_outputs == 1 else "free")
    X = rng.uniform(-2.0, 2.0, (values, 2))
    p = rng.integers(0, n_outputs, values)
    X[1] = X[0]  # one input twice, as when two outputs are measured there
    p[:2] = 0, n_outputs - 1
    data = Observations(X, p, rng.normal(size=values))
    return Problem(model, model.draw_prior(rng, particles), data, rng.uniform(-2.0, 2.0, (pool, 2)))


def plain_posterior(
    given: Problem, seen: Observations, s: int, X: FloatArray, p: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean [m] and covariance [m, m] of the noise-free f_p(x) for one hyperparameter vector."""
    u, model = given.u[s : s + 1], given.model
    noise = model.noise(u)[0]
    K = model.covariance(u, seen.X, seen.p, seen.X, seen.p)[0] + np.diag(noise[seen.p])
    cross = model.covariance(u, seen.X, seen.p, X, p)[0]
    inner = model.covariance(u, X, p, X, p)[0]
    return cross.T @ np.linalg.solve(K, seen.y), inner - cross.T @ np.linalg.solve(K, cross)
