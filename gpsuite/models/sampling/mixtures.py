"""Mixtures of normal distributions over hyperparameters: their moments and densities.

A prediction under S weighted hyperparameter vectors is the mixture of S normal distributions. The acquisition and the
safety rule replace it by the normal distribution of the same moments (Li, Rakitsch and Zimmer 2022, App. I.2).

Equation: Li et al. 2022, Eq. (30)
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from gpsuite.arrays import FloatArray

LOG_2PI = math.log(2.0 * math.pi)


def mixture_moments(
    mean: FloatArray, variance: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of each mixture, [...] both: sum w μ and sum w (σ² + (μ − mean)²).

    Args:
        mean: of the components, [S, ...].
        variance: of the components, [S, ...].
        weights: not negative, summing to 1, [S].
    """
    centre = np.tensordot(weights, mean, axes=1)
    # Deviations from the mean: the difference of the raw moments cancels where the components agree.
    return centre, np.tensordot(weights, variance + (mean - centre) ** 2, axes=1)


def mixture_covariance(
    mean: FloatArray, covariance: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean [..., P] and covariance [..., P, P] of each mixture of multivariate normal distributions.

    Args:
        mean: of the components, [S, ..., P].
        covariance: of the components, [S, ..., P, P].
        weights: not negative, summing to 1, [S].
    """
    centre = np.tensordot(weights, mean, axes=1)
    away = mean - centre
    between = np.einsum("s,s...p,s...q->...pq", weights, away, away)
    return centre, np.tensordot(weights, covariance, axes=1) + between


def normal_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return log N(y | mean, variance) elementwise."""
    return np.asarray(-0.5 * ((y - mean) ** 2 / variance + np.log(variance) + LOG_2PI))


def mixture_log_density(
    y: FloatArray, mean: FloatArray, variance: FloatArray, noise: FloatArray, weights: FloatArray
) -> FloatArray:
    """Return log sum_s w_s N(y_p | μ_sp, σ²_sp + noise_sp), [..., P]; NaN where y is.

    Args:
        y: measured values of the P outputs, [..., P].
        mean: of the noise-free outputs, [S, ..., P].
        variance: of the noise-free outputs, [S, ..., P].
        noise: variances of the noise, [S, P].
        weights: not negative, summing to 1, [S].
    """
    total = variance + noise.reshape(len(noise), *[1] * (y.ndim - 1), -1)
    factors = weights.reshape(-1, *[1] * y.ndim)
    return np.asarray(logsumexp(normal_log_density(y, mean, total), axis=0, b=factors))
