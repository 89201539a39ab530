"""Newton steps on a local quadratic model of the score: the attack that goes with the expansions.

Equation: derived, search with the level bound
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.latent_model import Expansion
from gpsuite.methods.robustness.level_bound.level import Level

SHARES = (1.0, 0.5, 0.25, 0.0625)
STEPS = 30


def newton_steps(
    expansion: Expansion, level: Level, sign: int, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, float]:
    """Return steps in lengthscales from the centre of a single expansion towards its model's maximum.

    Args:
        expansion: at one point, B = 1.
        level: whose score of (sign mean, variance) is to rise.
        sign: 1 or -1.
        low: lower ends of the region from the centre, in lengthscales, [d].
        high: upper ends, [d].

    Returns:
        steps [S, d], and by how much the model says that the first one raises the score.
    """
    gradient, hessian = score_derivatives(expansion, level, sign)
    step = _ascend(gradient, hessian, low, high)
    gain = float(gradient @ step + step @ hessian @ step)
    return np.array(SHARES)[:, None] * step, gain


def score_derivatives(expansion: Expansion, level: Level, sign: int) -> tuple[FloatArray, FloatArray]:
    """Return gradient [d] and half Hessian [d, d] of an increasing function of the score at a single centre."""
    (mean_slope, mean_half), (variance_slope, variance_half) = (
        (slope[0], half[0]) for slope, half in expansion.taylor()
    )
    by_mean, by_variance, mixed, twice = (
        float(each[0]) for each in level.derivatives(sign * expansion.mean, expansion.variance)
    )
    mean_slope = sign * mean_slope
    gradient = by_mean * mean_slope + by_variance * variance_slope
    cross = np.outer(mean_slope, variance_slope)
    hessian = by_mean * sign * mean_half + by_variance * variance_half
    hessian += 0.5 * (mixed * (cross + cross.T) + twice * np.outer(variance_slope, variance_slope))
    return gradient, hessian


def _ascend(gradient: FloatArray, hessian: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Climb gradient'x + x'hessian x over low <= x <= high from 0 by accelerated projected gradients."""
    steepest = 2.0 * float(np.abs(hessian).sum(axis=1).max())
    if steepest == 0.0:
        return np.where(gradient > 0.0, high, np.where(gradient < 0.0, low, 0.0))
    x = ahead = np.zeros_like(gradient)
    momentum = 1.0
    for _ in range(STEPS):
        step: FloatArray = np.minimum(
            np.maximum(ahead + (gradient + 2.0 * (hessian @ ahead)) / steepest, low), high
        )
        if np.array_equal(step, x):
            break
        following = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum) ** 0.5)
        ahead, x = step + ((momentum - 1.0) / following) * (step - x), step
        momentum = following
    return x
