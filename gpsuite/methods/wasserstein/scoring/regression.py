"""Scores of Gaussian predictions N(mean, variance), noise included, in the targets' units. No TensorFlow.

Equation: Gneiting & Raftery 2007, Eq. (21)
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from gpsuite.arrays import FloatArray


def rmse(y: FloatArray, mean: FloatArray) -> float:
    """Return the root of the mean squared error, in units of y."""
    return float(np.sqrt(np.mean((np.asarray(y) - mean) ** 2)))


def negative_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> float:
    """Return the mean of -log N(y; mean, variance) in nats.

    Raises:
        ValueError: if shapes disagree, a value is not finite or a variance is not positive.
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    return float(np.mean(0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)))


def crps(y: FloatArray, mean: FloatArray, variance: FloatArray) -> float:
    """Return the mean continuous ranked probability score, in units of y (Gneiting & Raftery 2007, Eq. 21).

    Raises:
        ValueError: as `negative_log_density`.
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    s = np.sqrt(variance)
    z = (y - mean) / s
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return float(np.mean(s * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))))


def interval_coverage(y: FloatArray, mean: FloatArray, variance: FloatArray, level: float) -> float:
    """Return the share of targets within the central intervals of probability `level`.

    Raises:
        ValueError: as `negative_log_density`, or if the level is not in (0, 1).
    """
    y, mean, variance = checked_gaussians(y, mean, variance)
    return float(np.mean(np.abs(y - mean) <= interval_half_widths(variance, level)))


def interval_half_widths(variance: FloatArray, level: float) -> FloatArray:
    """Return half the widths of the central intervals of probability `level`, in units of y.

    Raises:
        ValueError: if the level is not in (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level}: must be in (0, 1)")
    return np.asarray(ndtri(0.5 * (1.0 + level)) * np.sqrt(variance))


def checked_gaussians(
    y: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the three as float64 arrays of one shape.

    Raises:
        ValueError: if shapes disagree, there is no point, a value is not finite or a variance is not positive.
    """
    y, mean, variance = (np.asarray(part, dtype=np.float64) for part in (y, mean, variance))
    if y.shape != mean.shape or y.shape != variance.shape or y.size == 0:
        raise ValueError(f"shapes differ or are empty: {y.shape}, {mean.shape}, {variance.shape}")
    if not (np.isfinite(y).all() and np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise ValueError("targets, means and variances must be finite")
    if not (variance > 0.0).all():
        raise ValueError("variances must be positive")
    return y, mean, variance
