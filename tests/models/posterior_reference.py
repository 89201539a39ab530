"""The reference posterior of safe_al.json: its data, models, and what is compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from tests.arrays import Array
from tests.models.active_reference import section

POSTERIOR: dict[str, Any] = section("posterior")
MAIN, SAFETY = LinearCoregionalization(2), LinearCoregionalization(1, mixing="identity")

SD_TOLERANCE = 0.15
"""As the file states, for quantities that are not heavy-tailed."""

HEAVY_TAILED = ("S11", "S22", "S12")

STANDARD_ERRORS = 4.0
"""As the file states."""


def quantities(name: str) -> list[Any]:
    """Return the comparable quantities of mogp or safety as parameters of a test."""
    rows = POSTERIOR.get(name, {})
    return [pytest.param(key, row, id=key) for key, row in rows.items() if key not in HEAVY_TAILED]


def main_observations(count: int | None = None) -> Observations:
    """Return the first (or all) values of the two outputs."""
    x, p, y = (np.array(POSTERIOR["data"][name])[:count] for name in "xpy")
    return Observations(x[:, None], p.astype(np.int64), y)


def safety_observations() -> Observations:
    """Return the safety values."""
    x, z = (np.array(POSTERIOR["data"][name]) for name in "xz")
    return Observations(x[:, None], np.zeros(len(x), dtype=np.int64), z)


def main_invariants(u: Array) -> dict[str, Array]:
    """Return what signs and labels of the latent processes do not change, each [S]."""
    found = MAIN.constrain(u)
    covariance = np.einsum("spl,sl,sql->spq", found.W, found.variance, found.W)
    lengthscales = np.sort(found.lengthscale, axis=1)
    weights = np.abs(found.W).mean(axis=2)
    scale = np.sqrt(covariance[:, 0, 0] * covariance[:, 1, 1])
    return {
        "ls_min": lengthscales[:, 0],
        "ls_max": lengthscales[:, 1],
        "noise_1": found.noise[:, 0],
        "noise_2": found.noise[:, 1],
        "rho": covariance[:, 0, 1] / scale,
        "var_sum": found.variance.sum(axis=1),
        "absW1_mean": weights[:, 0],
        "absW2_mean": weights[:, 1],
        "lml": MAIN.likelihood(main_observations()).value(u),
    }


def safety_quantities(u: Array) -> dict[str, Array]:
    """Return the safety model's hyperparameters and log marginal likelihood, each [S]."""
    found = SAFETY.constrain(u)
    return {
        "variance": found.variance[:, 0],
        "lengthscale": found.lengthscale[:, 0],
        "noise": found.noise[:, 0],
        "lml": SAFETY.likelihood(safety_observations()).value(u),
    }


def check_against_reference(means: Array, sds: Array, row: dict[str, float]) -> None:
    """Compare means [R] and standard deviations [R] of one quantity in R independent runs with the reference."""
    error = means.std(ddof=1) / np.sqrt(len(means))
    assert abs(means.mean() - row["mean"]) < STANDARD_ERRORS * np.hypot(error, row["mcse_mean"])
    # The variance of all runs together: within and between them.
    spread = np.sqrt(np.mean(sds**2) + means.var())
    assert abs(spread / row["sd"] - 1.0) < SD_TOLERANCE
