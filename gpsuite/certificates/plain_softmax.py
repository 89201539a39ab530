"""Expectations of the softmax for checking: a product trapezoidal rule with its error, and changes with covariance.

Along z_k -> z_k + i b the sum of exponentials keeps cos(b w_k / 2) of its size. w_k is the spread of column k of the
root. So for b w_k < pi the integrands are bounded by 1 / cos^2 in a strip. The rule of step h has an error of at most 2
M exp(a^2 / 2) / (exp(2 pi a / h) - 1) (Trefethen & Weideman 2014, Theorem 5.1). The part cut off is known from the
weights.

For independent latent values there is a rule for any number of classes. The softmax is the distribution of the largest
of f_j + G_j with independent Gumbel variables (McFadden 1974). Let f_j ~ N(m_j, d_j), with H_j and h_j distribution and
density of the sum. Then p_c = int h_c prod_{j != c} H_j dt and E p_c p_j = int h_c h_j prod_{l != c, j} H_l dt. For
u = e^-y, |Im y| <= b: |exp(-u)| <= 1, |u exp(-u)| <= 1 / (e cos b), and int |u exp(-u)| dy <= 1 / cos b. So the
trapezoidal rule's error is known in t and in the Gaussian variable. The part cut off is the difference of the sum of
the p_c from one.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpsuite.arrays import FloatArray

TOLERANCE = 1e-8  # error of the rule along one direction
REACH = 6.0
MOST_NODES = 1 << 18
ENTRIES = 1 << 20  # numbers held at once
COARSE, LEAST_SPREAD = 1.25, 0.05
SHARE, WIDEST = 0.9, 6.0  # used share of the strip. Beyond 6 the Gaussian's growth outweighs the gain
ROUNDING = 1e-10  # rounding of sums of so many terms
CURVATURE = 1.0 / (12.0 * math.sqrt(3.0))  # half the largest |w'Hw| / (max w - min w)^2 of the softmax's Hessian
PRODUCTS = 2.0 / 27.0  # largest p_c p_i p_j of three classes, twice
STRIP = 0.9 * math.pi / 2
MOST_DEVIATION = 60.0  # spread of independent values: above it the rule takes too many nodes
_STEP = 2 * math.pi * STRIP / math.log1p(2 / (math.cos(STRIP) ** 2 * TOLERANCE))
_BEYOND = 22.0  # range of a Gumbel variable, e^-22 is cut off


@dataclass(frozen=True)
class Expectations:
    """E softmax [B, K] and E softmax softmax' [B, K, K] for B Gaussians, and the error of every entry, [B]."""

    mean: FloatArray
    product: FloatArray
    error: FloatArray


def expectations(mean: FloatArray, root: FloatArray) -> Expectations:
    """Return the expectations for f = mean + root z, z standard normal. NaN if that takes too many nodes.

    The rule of a box depends only on that box. So a check gets the stated numbers regardless of the other boxes.

    Args:
        mean: [B, K], finite.
        root: [B, K, K - 1].
    """
    B, K = mean.shape
    found = Expectations(np.full((B, K), np.nan), np.full((B, K, K), np.nan), np.full(B, np.nan))
    spread = rounded_up(root.max(axis=1) - root.min(axis=1))
    for wide in np.unique(spread, axis=0):
        rows = np.flatnonzero((spread == wide).all(axis=1))
        steps = [_step(w) for w in wide.tolist()]
        counts = [math.ceil(REACH / step) for step in steps]
        if math.prod(2 * count + 1 for count in counts) <= MOST_NODES:
            z = [step * np.arange(-count, count + 1) for step, count in zip(steps, counts, strict=True)]
            found.mean[rows], found.product[rows], found.error[rows] = _sums(mean[rows], root[rows], steps, z)
    return found


def rounded_up(spread: FloatArray) -> FloatArray:
    """Return the spreads rounded up to powers of `COARSE`: this gives few different rules."""
    return np.asarray(COARSE ** np.ceil(np.log(np.maximum(spread, LEAST_SPREAD)) / math.log(COARSE) + 1e-9))


def _sums(
    mean: FloatArray, root: FloatArray, steps: list[float], z: list[FloatArray]
) -> tuple[FloatArray, FloatArray, float]:
    """Return the sums over the product of these nodes, and their error."""
    B, K = mean.shape
    w = [step * np.exp(-(x**2) / 2) / math.sqrt(2.0 * math.pi) for step, x in zip(steps, z, strict=True)]
    error = ROUNDING + sum(TOLERANCE * (1 + 1e-6) + abs(1.0 - float(each.sum())) for each in w)
    nodes = np.stack(np.meshgrid(*z, indexing="ij")).reshape(len(z), -1)
    weights = np.prod(np.meshgrid(*w, indexing="ij"), axis=0).ravel()
    first, second = np.zeros((B, K)), np.zeros((B, K, K))
    size = max(1, ENTRIES // (B * K))
    for start in range(0, len(weights), size):
        part = slice(start, start + size)
        f = mean[:, :, None] + root @ nodes[:, part]
        p = np.exp(f - f.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        weighted = p * weights[part]
        first += weighted.sum(axis=2)
        second += weighted @ p.transpose(0, 2, 1)
    return first, second, error


def _step(w: float) -> float:
    """Return the rule's step along a column of this spread."""
    a = min(SHARE * math.pi / w, WIDEST)
    growth = 2.0 / math.cos(0.5 * a * w) ** 2 * math.exp(0.5 * a * a)
    return 2.0 * math.pi * a / math.log1p(growth / TOLERANCE)


def covariance_root(D: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L [B, K, K - 1] and the variances of differences [B, K, K] of L L', near D [B, K, K]."""
    K = D.shape[1]
    centring = np.eye(K) - 1.0 / K
    values, vectors = np.linalg.eigh(-0.5 * centring @ D @ centring)
    # the eigenvalue of equal values, zero, is first up to rounding. The part left out counts in the change
    root = vectors[:, :, 1:] * np.sqrt(np.maximum(values[:, None, 1:], 0.0))
    return root, ((root[:, :, None] - root[:, None]) ** 2).sum(axis=3)


def covariance_step(low: FloatArray, high: FloatArray, own: int, sign: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest rise (sign 1) or fall of E softmax_own if the variances of differences change, [B] each.

    dp_c = (1/2) sum_j E[p_c p_j (1 - 2 p_c)] dD_cj - sum_{i < j; i, j != c} E[p_c p_i p_j] dD_ij. The change is
    returned as a difference, and as the logarithm of a factor of p_c or of 1 - p_c.

    Args:
        low: smallest change of every D_ij, [B, K, K], symmetric, zero on the diagonal.
        high: largest change.
        own: the class.
        sign: 1 for a rise, -1 for a fall.
    """
    B, K, _ = low.shape
    size = np.maximum(np.abs(low), np.abs(high))
    others = [c for c in range(K) if c != own]
    rest = np.ix_(np.arange(B), np.array(others), np.array(others))
    falls, rises = -low[rest].min(axis=(1, 2)), high[rest].max(axis=(1, 2))  # at least 0: the diagonal
    mine, theirs = size[:, own].max(axis=1), falls if sign > 0 else rises
    step = (CURVATURE * mine + PRODUCTS * (K - 2) / (K - 1) * theirs) * (1 + 1e-12)
    return step, 0.5 * (mine + np.maximum(falls, rises)) * (1 + 1e-12)


def moved_by_covariance(p: FloatArray, low: FloatArray, high: FloatArray, own: int, sign: int) -> FloatArray:
    """Return the largest (sign 1) or smallest E softmax_own [B] that `p` may become. See `covariance_step`."""
    step, rate = covariance_step(low, high, own, sign)
    if sign > 0:
        return np.fmin(p + step, np.fmin(p * np.exp(rate), 1 - (1 - p) * np.exp(-rate)) + 1e-14)
    return np.fmax(p - step, np.fmax(p * np.exp(-rate), 1 - (1 - p) * np.exp(rate)) - 1e-14)


def tilted(p: FloatArray, h: FloatArray) -> FloatArray:
    """Return p e^h / (p e^h + 1 - p), an upper bound of E softmax_c if all f_c - f_j rise by at most h.

    It is concave in p for h >= 0 and convex for h <= 0. For h <= 0 it is a lower bound after a fall.
    """
    up = p * np.exp(np.clip(h, -700.0, 700.0))
    return np.asarray(up / (up + (1 - p)))


def pairs_of(classes: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(combinations(classes, 2))


def independent_variances(D: FloatArray) -> FloatArray:
    """Return d >= 0 [B, K], K >= 3, with d_i + d_j near D_ij, by least squares."""
    K = D.shape[1]
    rows = D.sum(axis=2)
    return np.asarray(np.maximum((rows - rows.sum(axis=1, keepdims=True) / (2 * (K - 1))) / (K - 2), 0.0))


def independent_expectations(mean: FloatArray, variance: FloatArray) -> Expectations:
    """Return the expectations for independent f_j ~ N(mean_j, variance_j), NaN if that takes too many nodes.

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
        found.mean[row], found.product[row], found.error[row] = _independent(mean[row], np.sqrt(variance[row]), d)
    return found


def _independent(mean: FloatArray, deviation: FloatArray, fine: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the expectations of one box. `fine` are deviations that fix the rules, at least the box's."""
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
    # H_j <= 1 up to its error. A product of K factors adds their errors, over the length of t
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
