"""Small sets of observations of several outputs, shared by tests."""

from __future__ import annotations

import numpy as np

from gpsuite.models.multi_output.observations import Observations


def draw_observations(n_outputs: int, n: int, *, seed: int = 0, repeated: bool = True) -> Observations:
    """Return values of outputs in random order at inputs [n, 2]; two rows share their input if `repeated`."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    if repeated:
        X[n // 2] = X[0]
    p = rng.permutation(np.arange(n) % n_outputs)
    return Observations(X, p, np.sin(3.0 * X[:, 0]) + p + 0.3 * rng.standard_normal(n))
