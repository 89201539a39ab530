"""How good the model of the outputs, the safety model and the queries are.

Equation: Li et al. 2022, Sec. 5, App. I
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.models.sampling.mixtures import mixture_log_density, mixture_moments, normal_log_density

Convention = Literal["mixture", "moment_matched", "last_noise"]


def rmse(mean: FloatArray, Y: FloatArray) -> float:
    """Return the root mean square error, averaged over the outputs: each has the same share, in its own units.

    Args:
        mean: predictions [n, P].
        Y: targets [n, P].

    Raises:
        ValueError: if the shapes differ or there is nothing to compare.
    """
    if mean.shape != Y.shape or not Y.size:
        raise ValueError(
            f"predictions {mean.shape} and targets {Y.shape}: must have the same shape, not empty"
        )
    return float(np.sqrt(((mean - Y) ** 2).mean(axis=0)).mean())


def log_densities(
    Y: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    noise: FloatArray,
    weights: FloatArray,
    convention: Convention = "mixture",
) -> FloatArray:
    """Return the predictive log density of each measured value, [n, P].

    Args:
        Y: measured values [n, P].
        mean: of the noise-free outputs for each of S hyperparameter vectors, [S, n, P].
        variance: of the noise-free outputs, [S, n, P].
        noise: variances of the noise, [S, P].
        weights: not negative, summing to 1, [S].
        convention: `mixture`: log density of the mixture. `moment_matched`: of the normal distribution of its moments,
            noise included. `last_noise`: the same with the last hyperparameter vector's noise, as the paper's
            authors compute it.
    """
    if convention == "mixture":
        return mixture_log_density(Y, mean, variance, noise, weights)
    centre, spread = mixture_moments(mean, variance, weights)
    added = noise[-1] if convention == "last_noise" else weights @ noise
    return normal_log_density(Y, centre, spread + added)


def safety_precision(marked: BoolArray, safe: BoolArray) -> float:
    """Return the share of truly safe inputs among those the model marks safe; NaN if it marks none.

    Args:
        marked: what the safety model holds safe, [n].
        safe: what is, [n].
    """
    return float(safe[marked].mean()) if marked.any() else float("nan")


def safe_query_percent(safe: BoolArray) -> float:
    """Return the percentage of safe queries, given which were, [K]; NaN without queries."""
    return 100.0 * float(safe.mean()) if safe.size else float("nan")
