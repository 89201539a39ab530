"""How far an approximate latent posterior is from the gold standard, at test inputs.

The paper (Blaas et al. 2020, Sec. 6.2) reports "empirical distances" without a definition. Here: the mean over
test inputs of the 2-Wasserstein distance between the latent marginals; the KL divergence is given beside it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray


def gaussian_wasserstein(
    mean_a: FloatArray, variance_a: FloatArray, mean_b: FloatArray, variance_b: FloatArray
) -> FloatArray:
    """Return the 2-Wasserstein distance of one-dimensional normals, sqrt((m_a - m_b)^2 + (sd_a - sd_b)^2)."""
    return np.hypot(mean_a - mean_b, np.sqrt(variance_a) - np.sqrt(variance_b))


def gaussian_kl(
    mean_a: FloatArray, variance_a: FloatArray, mean_b: FloatArray, variance_b: FloatArray
) -> FloatArray:
    """Return KL(a | b) of one-dimensional normals, in nats."""
    ratio = variance_a / variance_b
    return np.asarray(0.5 * (ratio - 1.0 - np.log(ratio) + (mean_a - mean_b) ** 2 / variance_b))


def wasserstein_to_draws(mean: FloatArray, variance: FloatArray, draws: FloatArray) -> FloatArray:
    """Return the 2-Wasserstein distance of normals from the empirical distributions of draws, shape [B].

    In one dimension the optimal plan pairs quantiles. With cells of probability 1/S the normal's part is
    replaced by its quantile in the middle of the cell.

    Args:
        mean: shape [B].
        variance: shape [B].
        draws: shape [S, B].
    """
    count = draws.shape[0]
    quantiles = ndtri((np.arange(count) + 0.5) / count)
    gaps = np.sort(draws, axis=0) - (mean + np.sqrt(variance) * quantiles[:, None])
    return np.asarray(np.sqrt(np.mean(np.square(gaps), axis=0)))
