"""How far an approximate latent posterior is from the gold standard, at test inputs.

The paper (Blaas et al. 2020, Sec. 6.2) reports "empirical distances" without a definition. Here: the mean over
test inputs of the 2-Wasserstein distance between the latent marginals; the KL divergence is given beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray


@dataclass(frozen=True)
class PosteriorDistance:
    """Means over the test inputs.

    Attributes:
        wasserstein: 2-Wasserstein distance of the normal marginals, in units of the latent value.
        wasserstein_draws: 2-Wasserstein distance from the draws themselves, which also sees skewness; it does not
            fall below the sampling error of the draws.
        kl: KL(gold standard | approximation) of the normal marginals, in nats.
        n: number of test inputs.
    """

    wasserstein: float
    wasserstein_draws: float
    kl: float
    n: int


def posterior_distance(
    mean: FloatArray,
    variance: FloatArray,
    gold_mean: FloatArray,
    gold_variance: FloatArray,
    gold_draws: FloatArray,
) -> PosteriorDistance:
    """Compare an approximation's marginals with the gold standard's.

    Args:
        mean: of the approximation, shape [B].
        variance: of the approximation, positive, shape [B].
        gold_mean: shape [B].
        gold_variance: positive, shape [B].
        gold_draws: draws of the latent values, shape [S, B].

    Raises:
        ValueError: if shapes differ, a value is not finite or a variance is not positive.
    """
    parts = (mean, variance, gold_mean, gold_variance)
    if any(part.shape != mean.shape for part in parts) or gold_draws.shape[1:] != mean.shape:
        raise ValueError("marginals [B] and draws [S, B] of the same test inputs are needed")
    if not all(np.isfinite(part).all() for part in (*parts, gold_draws)):
        raise ValueError("marginals and draws must be finite")
    if not ((variance > 0.0).all() and (gold_variance > 0.0).all()):
        raise ValueError("variances must be positive")
    return PosteriorDistance(
        wasserstein=float(gaussian_wasserstein(mean, variance, gold_mean, gold_variance).mean()),
        wasserstein_draws=float(wasserstein_to_draws(mean, variance, gold_draws).mean()),
        kl=float(gaussian_kl(gold_mean, gold_variance, mean, variance).mean()),
        n=mean.size,
    )


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
