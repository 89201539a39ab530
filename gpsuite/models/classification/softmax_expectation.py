"""Gaussian expectations of the softmax, with a stated error. No TensorFlow.

For f ~ N(m, S) only differences of latent values count: S is centred, S = L L' with L [C, C - 1], and the trapezoidal
rule runs over z with f = m + L z. Shifting z_k by i a turns the terms of the softmax by at most a w_k, w_k the spread
of the column L_k; while a w_k < pi none of the sums vanishes, and |softmax| <= 1 / cos(a w_k / 2). So the rule of
step h along z_k is off by at most 2 M exp(a^2 / 2) / (exp(2 pi a / h) - 1), M = 1 / cos^2 for products of two, and what
is cut off is known from the weights. The nodes grow like a power of C; where they are too many, scrambled Sobol
points give an estimate whose stated error is `DEVIATIONS` standard errors: a statistical statement, not a proof
(`SoftmaxMoments.proved`).

Equation: derived, softmax of several classes
Source: Trefethen & Weideman 2014, Theorem 5.1 (trapezoidal rule); Owen 1998 (scrambled Sobol points).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from gpsuite.arrays import FloatArray

TOLERANCE = 1e-10
"""Largest error of the trapezoidal rule along one direction."""
REACH = 6.5
"""Nodes farther than this many deviations are left out; their weight is part of the error."""
MAX_NODES = 40_000
REPETITIONS, POWER = 16, 9
"""Independent scramblings, each of 2^9 points."""
DEVIATIONS = 6.0
ROUNDING = 1e-13

_SHARE = 0.9  # of the strip in which the integrand is analytic
_FARTHEST = 6.0  # beyond it the Gaussian's own growth in the strip costs more than it gains
_ENTRIES = 1 << 21


@dataclass(frozen=True, eq=False)
class SoftmaxMoments:
    """Expectations of the softmax for B Gaussians.

    Attributes:
        mean: p_c = E softmax_c, [B, C].
        product: E softmax_c softmax_j, [B, C, C]; dp_c / dm_j = delta_cj p_c - product_cj.
        error: bound of the error of every entry of both, [B].
        proved: whether the error is a bound; else it is statistical, from scrambled Sobol points.
    """

    mean: FloatArray
    product: FloatArray
    error: FloatArray
    proved: bool


def centred_root(covariance: FloatArray) -> FloatArray:
    """Return L [B, C, C - 1] with L L' the covariance [B, C, C] of the latent values less their average.

    Negative eigenvalues, which rounding makes, count as zero.
    """
    C = covariance.shape[-1]
    centring = np.eye(C) - 1.0 / C
    values, vectors = np.linalg.eigh(centring @ covariance @ centring)
    # The direction of equal values has eigenvalue zero; what stands first is as small, up to rounding.
    # The largest come first: there Sobol points are best.
    values, vectors = values[:, :0:-1], vectors[:, :, :0:-1]
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def softmax_moments(mean: FloatArray, root: FloatArray) -> SoftmaxMoments:
    """Return E softmax(f) and E softmax(f) softmax(f)' for f = mean + root z, z standard normal.

    Args:
        mean: [B, C].
        root: [B, C, C - 1], such as `centred_root` of the covariances.

    Raises:
        ValueError: if shapes disagree or a value is not finite.
    """
    B, C = mean.shape
    if root.shape != (B, C, C - 1) or C < 2:
        raise ValueError(f"means [B, C] and roots [B, C, C-1] are needed, got {mean.shape} and {root.shape}")
    if not (np.isfinite(mean).all() and np.isfinite(root).all()):
        raise ValueError("means and covariances must be finite")
    found = SoftmaxMoments(np.empty((B, C)), np.empty((B, C, C)), np.empty(B), True)
    if not B:
        return found
    spread = root.max(axis=1) - root.min(axis=1)
    # Similar spreads together: the widest of a group fixes its steps.
    order = np.argsort(spread.max(axis=1))
    proved = True
    for rows in _groups(spread[order]):
        part = order[rows]
        rule = _trapezoid(spread[part].max(axis=0))
        proved &= rule is not None
        answers = _scrambled(mean[part], root[part]) if rule is None else _sums(mean[part], root[part], rule)
        found.mean[part], found.product[part], found.error[part] = answers
    return SoftmaxMoments(found.mean, found.product, found.error, proved)


@dataclass(frozen=True)
class _Rule:
    nodes: FloatArray
    weights: FloatArray
    error: float


def _groups(spread: FloatArray) -> list[slice]:
    """Return runs of rows whose largest spreads differ by less than a half."""
    largest, runs, start = spread.max(axis=1), [], 0
    for end in range(1, len(largest) + 1):
        if end == len(largest) or largest[end] > 1.5 * max(largest[start], 0.1):
            runs.append(slice(start, end))
            start = end
    return runs


def _trapezoid(spread: FloatArray) -> _Rule | None:
    """Return the product rule for columns of at most these spreads [K], None if it has too many nodes."""
    with np.errstate(divide="ignore"):
        a = np.minimum(_SHARE * math.pi / spread, _FARTHEST)
    largest = 1.0 / np.cos(0.5 * a * spread) ** 2
    exponent = np.log1p(2.0 * largest * np.exp(0.5 * a * a) / TOLERANCE)
    steps = 2.0 * math.pi * a / exponent
    counts = np.ceil(REACH / steps).astype(int)
    # A spread of zero needs no nodes: the integrand is constant along it.
    counts[spread == 0.0] = 0
    if float(np.prod(2.0 * counts + 1.0)) > 3.0 * MAX_NODES:
        return None
    nodes, weights = np.zeros((1, 0)), np.ones(1)
    for count, step in zip(counts, steps, strict=True):
        z = step * np.arange(-count, count + 1)
        w = step * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) if count else np.ones(1)
        nodes = np.column_stack([np.repeat(nodes, len(z), axis=0), np.tile(z, len(nodes))])
        weights = np.outer(weights, w).ravel()
        near = np.einsum("qk,qk->q", nodes, nodes) <= REACH * REACH
        nodes, weights = nodes[near], weights[near]
    if len(weights) > MAX_NODES:
        return None
    cut = abs(1.0 - float(weights.sum()))
    return _Rule(nodes, weights, cut + len(spread) * TOLERANCE + ROUNDING)


def _sums(mean: FloatArray, root: FloatArray, rule: _Rule) -> tuple[FloatArray, FloatArray, FloatArray]:
    B, C = mean.shape
    first, second = np.empty((B, C)), np.empty((B, C, C))
    rows = max(1, _ENTRIES // (len(rule.weights) * C))
    for start in range(0, B, rows):
        part = slice(start, start + rows)
        p = root[part] @ rule.nodes.T
        p += mean[part, :, None]
        p -= p.max(axis=1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=1, keepdims=True)
        weighted = p * rule.weights
        first[part] = weighted.sum(axis=2)
        second[part] = weighted @ p.transpose(0, 2, 1)
    return first, second, np.full(B, rule.error)


def _scrambled(mean: FloatArray, root: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means over scrambled points, and `DEVIATIONS` standard errors of the worst entry."""
    B, C = mean.shape
    weights = np.full(1 << POWER, 0.5**POWER)
    first, second = np.empty((REPETITIONS, B, C)), np.empty((REPETITIONS, B, C, C))
    for index, nodes in enumerate(_sobol_nodes(C - 1)):
        first[index], second[index], _ = _sums(mean, root, _Rule(nodes, weights, 0.0))
    spread = np.maximum(first.std(axis=0, ddof=1).max(axis=1), second.std(axis=0, ddof=1).max(axis=(1, 2)))
    return (
        first.mean(axis=0),
        second.mean(axis=0),
        DEVIATIONS * spread / math.sqrt(REPETITIONS) + ROUNDING,
    )


@lru_cache(maxsize=16)
def _sobol_nodes(directions: int) -> tuple[FloatArray, ...]:
    """Return normal points [2^POWER, K] of every scrambling; the same in every run."""
    found = []
    for seed in range(REPETITIONS):
        unit = qmc.Sobol(directions, rng=np.random.default_rng([20201, seed])).random_base2(POWER)
        found.append(np.asarray(ndtri(np.clip(unit, 1e-12, 1.0 - 1e-12))))
    return tuple(found)
