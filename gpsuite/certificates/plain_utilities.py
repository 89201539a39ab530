"""Expectations of the softmax of independent latent values, for any number of classes, with their error.

The softmax is the distribution of the largest of f_j + G_j with independent Gumbel variables (McFadden 1974). For
f_j ~ N(m_j, d_j), H_j and h_j distribution and density of the sum, p_c = int h_c prod_{j != c} H_j dt and
E p_c p_j = int h_c h_j prod_{l != c, j} H_l dt. With u = e^-y, |Im y| <= b: |exp(-u)| <= 1,
|u exp(-u)| <= 1 / (e cos b), and int |u exp(-u)| dy <= 1 / cos b, so the trapezoidal rule's error is known in t and in
the Gaussian variable; what is cut off is what the p_c lack to one.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

import math

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.certificates.plain_softmax import (
    REACH,
    ROUNDING,
    TOLERANCE,
    Expectations,
    rounded_up,
)

STRIP = 0.9 * math.pi / 2
MOST_DEVIATION = 60.0  # above it the rule takes too many nodes
_STEP = 2 * math.pi * STRIP / math.log1p(2 / (math.cos(STRIP) ** 2 * TOLERANCE))
_BEYOND = 22.0  # e^-22: of a Gumbel variable


def independent_variances(D: FloatArray) -> FloatArray:
    """Return d >= 0 [B, K], K >= 3, with d_i + d_j near D_ij, by least squares."""
    K = D.shape[1]
    rows = D.sum(axis=2)
    return np.asarray(np.maximum((rows - rows.sum(axis=1, keepdims=True) / (2 * (K - 1))) / (K - 2), 0.0))


def independent_expectations(mean: FloatArray, variance: FloatArray) -> Expectations:
    """Return them for independent f_j ~ N(mean_j, variance_j), NaN where that takes too many nodes.

    Args:
        mean: [B, K], finite.
        variance: [B, K].
    """
    B, K = mean.shape
    found = Expectations(np.full((B, K), np.nan), np.full((B, K, K), np.nan), np.full(B, np.nan))
    for row in range(B):
        d = rounded_up(np.sqrt(variance[row]))
        if not d.max() <= MOST_DEVIATION:
            continue
        found.mean[row], found.product[row], found.error[row] = _one(mean[row], np.sqrt(variance[row]), d)
    return found


def _one(mean: FloatArray, deviation: FloatArray, fine: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the expectations of one box; `fine` are deviations that fix the rules, at least the box's."""
    low = float(np.max(mean - REACH * deviation)) - 3.0
    high = float(np.max(mean + np.maximum(REACH * deviation, deviation**2 / 2))) + _BEYOND
    t = low + _STEP * np.arange(math.ceil((high - low) / _STEP) + 1)
    below, density, inner = np.empty((len(mean), len(t))), np.empty((len(mean), len(t))), 0.0
    for c, (m, d, wide) in enumerate(zip(mean, deviation, fine, strict=True)):
        a = min(STRIP / wide, 6.0)
        step = 2 * math.pi * a / math.log1p(2 * math.exp(a * a / 2) / (math.cos(a * wide) * TOLERANCE))
        count = math.ceil(REACH / step)
        z = step * np.arange(-count, count + 1)
        w = step * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        u = np.exp(np.clip(m - t, -700.0, 700.0))[:, None] * np.exp(d * z)
        cdf = np.exp(-u) * w
        below[c], density[c] = cdf.sum(axis=1), (cdf * u).sum(axis=1)
        inner = max(inner, TOLERANCE + abs(1.0 - float(w.sum())))
    # H_j <= 1 up to its own error, which every product of K of them sums, over the length of t
    log_below = np.log(np.maximum(below, 1e-300))
    every = np.exp(log_below.sum(axis=0))
    ratio = density / np.maximum(below, 1e-300)
    p = _STEP * (ratio * every).sum(axis=1)
    product = _STEP * (ratio * every) @ ratio.T
    np.einsum("cc->c", product)[...] = 0.0
    lost = abs(1.0 - float(p.sum()))
    error = lost + len(mean) * (TOLERANCE + inner * (high - low + 1.0) * (1 + 1e-6)) + ROUNDING
    np.einsum("cc->c", product)[...] = p - product.sum(axis=1)
    return p, product, len(mean) * error
