"""The links of the plain bound: class probability of a Gaussian latent value, its derivatives and their bounds.

The logistic function is the distribution function of a density sigma' around 0, so with f ~ N(m, v)
E sigma(f) = int sigma'(l) Phi((m - l) / sqrt(v)) dl. The trapezoidal rule converges for it like exp(-2 pi^2 / h) at
any v that is not small; for small v it is applied to the Gaussian density instead.

Equation: derived, class probability from mean and variance
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from gpsuite.arrays import FloatArray

QUADRATURE = 1e-12  # absolute, of an expectation: some hundred terms in double precision
CELLS = 24
LARGEST_MEAN = 1e100
WIDE = 3.0
LOGISTIC = (0.0962251, 0.125, 0.1276841)  # largest |sigma''|, |sigma'''|, |sigma''''|, rounded up

_NARROW_STEP, _NARROW_REACH = 0.1, 24.0
_WIDE_STEP, _WIDE_REACH = 0.25, 100.0
_BLOCK = 1 << 11
_FINEST, _MOST_NODES = 0.15, 1 << 18  # in f: the squeezed probit's logarithm is singular at a distance of .9


def logistic_value(mean: Any, variance: Any) -> FloatArray:
    """Return E sigma(f) [B], the first of `logistic_moments`."""
    return np.asarray(_moments(mean, variance, 1)[0])


def logistic_moments(mean: Any, variance: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E sigma(f) and its derivatives in mean and variance, E sigma'(f) and E sigma''(f) / 2.

    Args:
        mean: [B].
        variance: [B], >= 0.
    """
    value, first, second = _moments(mean, variance, 3)
    return value, first, second / 2


def _moments(mean: Any, variance: Any, count: int) -> FloatArray:
    """Return the first `count` of E sigma, E sigma', E sigma'', [count, B]."""
    m, deviation = np.asarray(mean, dtype=np.float64), np.sqrt(np.asarray(variance, dtype=np.float64))
    found = np.empty((count, len(m)))
    for start in range(0, len(m), _BLOCK):
        part = np.arange(start, min(start + _BLOCK, len(m)))
        wide = deviation[part] > WIDE
        for rule, which in ((_narrow, part[~wide]), (_wide, part[wide])):
            if len(which):
                found[:, which] = rule(m[which], deviation[which], count)
    return found


def _narrow(mean: FloatArray, deviation: FloatArray, count: int) -> FloatArray:
    nodes = _nodes(_NARROW_STEP, _NARROW_REACH)
    weights = _NARROW_STEP * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    f = mean[:, None] + deviation[:, None] * nodes
    p = expit(f)
    if count == 1:
        return np.asarray(p @ weights)[None]
    q = expit(-f)
    slope = p * q
    return np.stack([p @ weights, slope @ weights, (slope * (q - p)) @ weights])


def _wide(mean: FloatArray, deviation: FloatArray, count: int) -> FloatArray:
    nodes = _nodes(_WIDE_STEP, _WIDE_REACH)
    weights = _WIDE_STEP * expit(nodes) * expit(-nodes)
    z = (mean[:, None] - nodes) / deviation[:, None]
    value = ndtr(z) @ weights
    if count == 1:
        return np.asarray(value)[None]
    density = np.exp(-(z**2) / 2) / (np.sqrt(2 * np.pi) * deviation[:, None])
    return np.stack([value, density @ weights, (-z * density) @ weights / deviation])


def _nodes(step: float, reach: float) -> FloatArray:
    count = round(reach / step)
    return step * np.arange(-count, count + 1)


def expected_derivatives(
    link: str, squeeze: float, y: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E d log p(y|f) / df and -E d2 log p(y|f) / df2 for f ~ N(mean, variance), [N] each.

    By the trapezoidal rule, which converges like exp(-2 pi distance / step) for functions that are analytic at that
    distance from the real line. NaN for marginals so wide that this takes more than `_MOST_NODES` nodes.
    """
    deviation = np.sqrt(variance)
    step = min(0.25, _FINEST / float(np.max(deviation)))
    first, second = np.zeros(len(y)), np.zeros(len(y))
    if not 24 / step <= _MOST_NODES:
        return first * np.nan, second * np.nan
    nodes = _nodes(step, 12.0)
    weights = step * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    for start in range(0, len(nodes), _BLOCK):
        part = slice(start, start + _BLOCK)
        t = y[:, None] * (mean[:, None] + deviation[:, None] * nodes[part])
        if link == "logistic":
            slope, bend = expit(-t), expit(t) * expit(-t)
        else:
            log_p = log_ndtr(t) if squeeze == 0 else np.log(squeeze + (1 - 2 * squeeze) * ndtr(t))
            slope = (1 - 2 * squeeze) * np.exp(-(t**2) / 2 - log_p) / np.sqrt(2 * np.pi)
            bend = slope * (slope + t)
        first += slope @ weights[part]
        second += bend @ weights[part]
    return y * first, second


def largest_on_line(G: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return at least the largest E sigma(f), f ~ N(G + slope v, v), over v in [low, high], [B].

    At the ends of `CELLS` cells, and between them by the second derivative along the line: with the heat equation,
    slope^2 E sigma_2 + slope E sigma_3 + E sigma_4 / 4 in the derivatives sigma_k.
    """
    share = np.linspace(0, 1, CELLS + 1)
    # cells of equal width in sqrt(1 + v): the probability changes with the deviation
    ends = [np.sqrt(1 + each)[:, None] for each in (low, high)]
    v = np.clip((ends[0] + share * (ends[1] - ends[0])) ** 2 - 1, low[:, None], high[:, None])
    v[:, 0], v[:, -1] = low, high
    m = np.clip(G[:, None] + slope[:, None] * v, -LARGEST_MEAN, LARGEST_MEAN)
    sound = np.isfinite(m) & np.isfinite(v)
    p = logistic_value(np.where(sound, m, 0.0).ravel(), np.where(sound, v, 0.0).ravel()).reshape(v.shape)
    second, third, fourth = LOGISTIC
    bend = second * slope**2 + third * np.abs(slope) + fourth / 4
    between = np.max(np.diff(v, axis=1), axis=1) ** 2 / 8 * bend * (1 + 1e-12)
    # the argument's rounding, times the largest derivative 1/4
    rounding = 1e-15 * (np.abs(G) + np.abs(slope) * high)
    found = np.minimum(p.max(axis=1) + between + rounding + QUADRATURE, 1.0)
    return np.where(sound.all(axis=1), found, 1.0)
