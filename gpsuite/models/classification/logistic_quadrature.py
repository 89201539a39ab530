"""Gaussian expectations of the logistic function and its derivatives. No TensorFlow."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, ndtr

from gpsuite.arrays import FloatArray

REACH = 12.0
"""Standard deviations covered by the trapezoidal rule: the rest is below 1e-32."""

EP_REACH = 24.0
"""The same where relative accuracy in the tail matters: sigma's tilt moves the mass by up to `WIDE` deviations."""

STEP = 0.05
WIDE = 10.0
"""Standard deviation from which the other rule is used: the trapezoidal error is 2 exp(-2 pi^2 / (STEP sd))."""

_FADED, _NODES = 40.0, 96  # sigma(-40) = 4e-18
_ABSCISSAE, _WEIGHTS = np.polynomial.legendre.leggauss(_NODES)  # type: ignore[no-untyped-call]
_F = 0.5 * _FADED * (_ABSCISSAE + 1.0)
_W = 0.5 * _FADED * _WEIGHTS
_BLOCK = 4096


def logistic_moments(
    mean: FloatArray, variance: FloatArray, reach: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E sigma(f), E sigma'(f), E sigma''(f) for f ~ N(mean, variance), sigma logistic.

    Absolute error below 1e-12. Up to a standard deviation of `WIDE`: trapezoidal rule, exponentially accurate
    since sigma's poles lie at +-i pi. Above: sigma is a step plus a short-ranged odd function, so
    E sigma = Phi(mean/sd) + int_0^40 sigma(-f) [N(-f) - N(f)] df, by Gauss-Legendre. The number of operations
    does not depend on the variance, and each result only on its own mean and variance.

    Args:
        mean: any shape.
        variance: >= 0, broadcasts with `mean`.
        reach: standard deviations to cover, `REACH` or `EP_REACH`.
    """
    mean, variance = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(variance, np.float64))
    flat_mean, sd = mean.ravel(), np.sqrt(variance.ravel())
    out = np.empty((3, flat_mean.size))
    for start in range(0, flat_mean.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        wide = sd[part] > WIDE
        block = np.empty((3, wide.size))
        block[:, ~wide] = _trapezoid(flat_mean[part][~wide], sd[part][~wide], reach)
        block[:, wide] = _step_and_rest(flat_mean[part][wide], sd[part][wide])
        out[:, part] = block
    return out[0].reshape(mean.shape), out[1].reshape(mean.shape), out[2].reshape(mean.shape)


def _trapezoid(mean: FloatArray, sd: FloatArray, reach: float) -> FloatArray:
    count = round(reach / STEP)
    g = STEP * np.arange(-count, count + 1)
    weights = STEP * np.exp(-0.5 * g * g) / math.sqrt(2.0 * math.pi)
    f = mean[:, None] + sd[:, None] * g
    # sigma of both signs: 1 - sigma would lose the tail.
    low, high = expit(f), expit(-f)
    first = low * high
    return np.stack([low @ weights, first @ weights, (first * (high - low)) @ weights])


def _step_and_rest(mean: FloatArray, sd: FloatArray) -> FloatArray:
    left, right = (
        np.exp(-0.5 * ((sign * _F - mean[:, None]) / sd[:, None]) ** 2)
        / (math.sqrt(2.0 * math.pi) * sd[:, None])
        for sign in (-1.0, 1.0)
    )
    low, high = expit(-_F), expit(_F)
    first = low * high
    second = first * (low - high)
    return np.stack(
        [
            ndtr(mean / sd) + (left - right) @ (low * _W),
            (left + right) @ (first * _W),
            (right - left) @ (second * _W),
        ]
    )
