"""The squared-exponential kernel in plain numpy: one thin matrix product and one exponential, in place.

Where inputs are so far from 0 that the product would lose digits, `gpsuite.models.radial.FAR`, by differences.

Equation: Rasmussen & Williams 2006, Eq. (5.1)
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray
from gpsuite.models.config import Hyperparameters
from gpsuite.models.radial import is_far, squared_distances


def check_logarithms(theta: FloatArray, count: int) -> None:
    """Raise ValueError unless theta holds `count` logarithms of hyperparameters."""
    if len(theta) != count:
        raise ValueError(f"theta must have {count} entries, got {len(theta)}")


def log_kernel_factors(scaled: FloatArray, log_variance: float) -> tuple[FloatArray, FloatArray]:
    """Return factors A, B [N, D+2] with A_i . B_j = ln sigma_f^2 - |x_i - x_j|^2 / 2.

    Args:
        scaled: inputs [N, D] divided by the lengthscales, centred near 0 so that the squares cancel little.
        log_variance: ln sigma_f^2.
    """
    half_square = -0.5 * np.einsum("ij,ij->i", scaled, scaled)[:, None]
    one = np.ones_like(half_square)
    return np.hstack([scaled, one, half_square + log_variance]), np.hstack([scaled, half_square, one])


def se_kernel(X: FloatArray, other: FloatArray, hyperparameters: Hyperparameters) -> FloatArray:
    """Return k(x, x') = sigma_f^2 exp(-sum_j ((x_j - x'_j)/l_j)^2 / 2) as a matrix [N, N'].

    Args:
        X: inputs [N, D].
        other: inputs [N', D].
        hyperparameters: variance and one or D lengthscales.
    """
    lengthscales = np.asarray(hyperparameters.lengthscales)
    centre = other.mean(axis=0)
    log_variance = math.log(hyperparameters.variance)
    exponent = log_kernel((X - centre) / lengthscales, (other - centre) / lengthscales, log_variance)
    # rounding may leave the exponent of equal points above its limit
    np.minimum(exponent, log_variance, out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))


def se_kernel_by_differences(X: FloatArray, hyperparameters: Hyperparameters) -> tuple[FloatArray, float]:
    """Return k(X, X) [N, N] and the error of its entries in ulps of sigma_f^2: slower than `se_kernel`, and closer.

    A scaled difference carries the ulps of the scaled inputs, where a difference of squares carries theirs; to first
    order it moves exp(-r^2/2) by 0.61 of its own error at most, and its relative rounding by less than an ulp.
    """
    scaled = (X - X.mean(axis=0)) / np.asarray(hyperparameters.lengthscales)
    matrix = cdist(scaled, scaled, "sqeuclidean")
    matrix *= -0.5
    matrix += math.log(hyperparameters.variance)
    return np.exp(matrix, out=matrix), 1.0 + math.sqrt(float(np.einsum("ij,ij->i", scaled, scaled).max()))


def log_kernel(A: FloatArray, B: FloatArray, log_variance: float) -> FloatArray:
    """Return ln sigma_f^2 - |a_i - b_k|^2 / 2 [N, N'] for inputs [N, D], [N', D] divided by the lengthscales.

    Args:
        A: scaled inputs, centred near 0.
        B: others, about the same centre.
        log_variance: ln sigma_f^2.
    """
    if is_far(A, B):
        exponent = squared_distances(A, B)
        exponent *= -0.5
        exponent += log_variance
        return exponent
    left, _ = log_kernel_factors(A, log_variance)
    _, right = log_kernel_factors(B, log_variance)
    return np.asarray(left @ right.T)
