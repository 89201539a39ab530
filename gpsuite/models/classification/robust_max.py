"""The robust-max likelihood: P(argmax F = j) for independent Gaussian latent values, and quantities from it.

p(y | f) = 1 - epsilon where y = argmax f, otherwise epsilon / (C - 1) (Matthews 2017, ch. 4). With F_j ~ N(m_j, r_j),

    S_j = E[prod_{l != j} Phi((F_j - m_l) / sqrt(r_l))],

a one-dimensional integral with features as narrow as the smallest deviation. Gauss-Hermite nodes follow only one
density and miss the others' features (errors of 1e-2 at 50 nodes). The rule here is composite. A panel has at most
`PANEL` deviations of every latent value that still varies there. It is halved for each tenfold of 10 classes, since a
product of many distribution functions is steeper than one. Each panel has a Gauss-Legendre rule. No TensorFlow.

Equation: Matthews 2017, Notes Sec. 1
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, roots_hermite, roots_legendre, xlogy

from gpsuite.arrays import FloatArray, IntArray

EPSILON = 0.01  # Wild et al. 2022
# Deviations beyond which a normal distribution function is 0 or 1 in float64.
REACH = 8.3
# Largest width of a panel for up to 10 classes, in deviations of the narrowest latent value that varies on it.
PANEL = 4.0
# Least deviation that nodes in float64 resolve, relative to the distance from the largest mean.
RESOLVED = 1e-8
# If a deviation is smaller than this share of its mean, the means are moved to 0 first. Otherwise nodes lose digits, up
# to 1e-8 of S.
TIGHT = 1e-6
_NODES, _WEIGHTS = roots_legendre(16)  # nodes per panel: with these panels |sum of S - 1| is below 1e-8
_INVERSE_ROOT_TWO_PI = 1.0 / np.sqrt(2.0 * np.pi)
_ROWS = 256  # points at a time: the working arrays fit in the cache


@dataclass(frozen=True, eq=False)
class LabelProbability:
    """Probability S_y that the label's latent value is the largest, with its slopes.

    Attributes:
        value: S_y [N].
        by_mean: dS_y / dm_l [N, C].
        by_variance: dS_y / dr_l [N, C].
    """

    value: FloatArray
    by_mean: FloatArray
    by_variance: FloatArray


def largest_probabilities(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return S [N, C], the probability of each latent value to be the largest, of means and variances [N, C], C >= 2.

    The sum over classes is 1 up to the quadrature's error (`sum_error`). It is not normalised.

    Raises:
        ValueError: if shapes disagree, C < 2, a value is not finite or a variance is not positive.
    """
    mean, variance = _checked(mean, variance)
    mean, deviation = _resolved(mean, np.sqrt(variance))
    found = np.empty_like(mean)
    for rows in _blocks(len(mean)):
        m, s = mean[rows], deviation[rows]
        # the largest value is between the largest lower and the largest upper reach
        owner, nodes, weights = _rule(m, s, (m - REACH * s).max(axis=1), (m + REACH * s).max(axis=1))
        u = (nodes[:, :, None] - m[owner, None, :]) / s[owner, None, :]
        density = _INVERSE_ROOT_TWO_PI * np.exp(-0.5 * u * u) / s[owner, None, :]
        panels = np.einsum("tq,tqc,tqc->tc", weights, density, _products_of_others(ndtr(u)))
        found[rows] = _summed(owner, panels, len(m))
    return found


def label_probability(mean: FloatArray, variance: FloatArray, labels: IntArray) -> LabelProbability:
    """Return S_y and its slopes for the label y in 0, ..., C - 1 of each point, for training.

    Raises:
        ValueError: as `largest_probabilities`, or if a label is not one of the classes.
    """
    mean, variance = _checked(mean, variance)
    labels = checked_labels(labels, len(mean), mean.shape[1])
    mean, deviation = _resolved(mean, np.sqrt(variance))
    value, by_mean, by_variance = np.empty(len(mean)), np.empty_like(mean), np.empty_like(mean)
    for rows in _blocks(len(mean)):
        parts = _label_block(mean[rows], deviation[rows], labels[rows])
        value[rows], by_mean[rows], by_variance[rows] = parts
    return LabelProbability(value, by_mean, by_variance)


def gauss_hermite_probabilities(mean: FloatArray, variance: FloatArray, order: int) -> FloatArray:
    """Return S [N, C] by the single Gauss-Hermite rule of Wild et al. 2022 (A.6). It is inexact if variances differ."""
    mean, variance = _checked(mean, variance)
    deviation = np.sqrt(variance)
    nodes, weights = roots_hermite(order)
    found = np.empty_like(mean)
    for j in range(mean.shape[1]):
        f = mean[:, j, None] + np.sqrt(2.0) * deviation[:, j, None] * nodes
        factors = ndtr((f[:, :, None] - mean[:, None, :]) / deviation[:, None, :])
        factors[:, :, j] = 1.0
        found[:, j] = factors.prod(axis=2) @ weights / np.sqrt(np.pi)
    return found


def expected_log_likelihood(probability: FloatArray, n_classes: int, epsilon: float = EPSILON) -> FloatArray:
    """Return E_Q[log p(y | F)] = log(1 - epsilon) S_y + log(epsilon / (C - 1)) (1 - S_y), in nats, like S_y."""
    right, wrong = log_levels(n_classes, epsilon)
    return right * probability + wrong * (1.0 - probability)


def predictive_probabilities(largest: FloatArray, epsilon: float = EPSILON) -> FloatArray:
    """Return Q(Y = j) = (1 - epsilon) S_j + epsilon / (C - 1) (1 - S_j), like S [N, C]."""
    _, wrong = log_levels(largest.shape[1], epsilon)
    return np.asarray((1.0 - epsilon) * largest + np.exp(wrong) * (1.0 - largest))


def data_uncertainty(n_classes: int, epsilon: float = EPSILON) -> float:
    """Return E_Q H[y | F] in nats: the same for every input, regardless of the latent values."""
    return float(-xlogy(1.0 - epsilon, 1.0 - epsilon) - xlogy(epsilon, epsilon / (n_classes - 1)))


def log_levels(n_classes: int, epsilon: float) -> tuple[float, float]:
    """Return log(1 - epsilon) and log(epsilon / (C - 1)). ValueError unless C >= 2 and 0 < epsilon < 1."""
    if n_classes < 2 or not 0.0 < epsilon < 1.0:
        raise ValueError(f"C={n_classes}, epsilon={epsilon}: needed are C >= 2 and 0 < epsilon < 1")
    return float(np.log1p(-epsilon)), float(np.log(epsilon / (n_classes - 1)))


def sum_error(largest: FloatArray) -> float:
    """Return the largest |sum_j S_j - 1|, which shows a failure of the quadrature."""
    return float(np.max(np.abs(largest.sum(axis=1) - 1.0)))


def checked_labels(labels: npt.NDArray[Any], count: int, n_classes: int) -> IntArray:
    """Return labels as integers [N]. ValueError on another shape or a label outside 0, ..., C - 1."""
    labels = np.asarray(labels)
    if labels.shape != (count,):
        raise ValueError(f"labels of shape ({count},) are needed, got {labels.shape}")
    known = labels.astype(np.int64)
    if (known != labels).any() or (known < 0).any() or (known >= n_classes).any():
        raise ValueError(f"labels must be the integers 0, ..., {n_classes - 1}")
    return known


def _resolved(mean: FloatArray, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means and deviations [N, C] that give the same probabilities and that nodes in float64 can distinguish.

    If a deviation is tiny compared with its mean, means are relative to the point's largest mean. Deviations are at
    least `RESOLVED` of that distance: narrower ones are steps as well.
    """
    tight = (deviation < TIGHT * np.abs(mean)).any(axis=1)
    if not tight.any():
        return mean, deviation
    mean, deviation = mean.copy(), deviation.copy()
    mean[tight] -= mean[tight].max(axis=1, keepdims=True)
    deviation[tight] = np.maximum(deviation[tight], RESOLVED * np.abs(mean[tight]))
    return mean, deviation


def _label_block(m: FloatArray, s: FloatArray, y: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    rows = np.arange(len(m))
    own_m, own_s = m[rows, y], s[rows, y]
    others = m + REACH * s
    others[rows, y] = -np.inf
    # above `high` the label is certainly the largest: the density's tail in closed form
    high = np.minimum(own_m + REACH * own_s, others.max(axis=1))
    owner, nodes, weights = _rule(m, s, (m - REACH * s).max(axis=1), high)
    u = (nodes[:, :, None] - m[owner, None, :]) / s[owner, None, :]
    density = _INVERSE_ROOT_TWO_PI * np.exp(-0.5 * u * u) / s[owner, None, :]
    panels, label = np.arange(len(owner)), y[owner]
    own_u, own = u[panels, :, label], weights * density[panels, :, label]
    phi = ndtr(u)
    phi[panels, :, label] = 1.0
    others_phi = _products_of_others(phi)
    integrand = own * others_phi[panels, :, label]
    slopes = own[:, :, None] * density * others_phi
    by_mean, by_variance = -slopes.sum(axis=1), -0.5 * np.einsum("tqc,tqc->tc", slopes, u) / s[owner]
    by_mean[panels, label] = (integrand * own_u).sum(axis=1) / s[owner, label]
    by_variance[panels, label] = 0.5 * (integrand * (own_u**2 - 1.0)).sum(axis=1) / s[owner, label] ** 2
    z = (np.maximum(high, (m - REACH * s).max(axis=1)) - own_m) / own_s
    tail = _INVERSE_ROOT_TWO_PI * np.exp(-0.5 * z * z) / own_s
    value = ndtr(-z) + _summed(owner, integrand.sum(axis=1)[:, None], len(m))[:, 0]
    d_mean, d_variance = _summed(owner, by_mean, len(m)), _summed(owner, by_variance, len(m))
    d_mean[rows, y] += tail
    d_variance[rows, y] += 0.5 * z * tail / own_s
    return value, d_mean, d_variance


def _rule(m: FloatArray, s: FloatArray, low: FloatArray, high: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return panels on [low, high] of each point: their owners [T], nodes [T, Q] and weights [T, Q]."""
    begin, end = m - REACH * s, m + REACH * s
    panel = PANEL * 0.5 ** max(math.ceil(math.log10(m.shape[1])) - 1, 0)
    at, active = low.copy(), np.flatnonzero(low < high)
    owners, lefts, widths = [active[:0]], [low[:0]], [low[:0]]
    while active.size:
        here = at[active, None]
        longest = np.maximum(panel * s[active], begin[active] - here)
        longest[here >= end[active]] = np.inf
        right = np.minimum(at[active] + longest.min(axis=1), high[active])
        owners.append(active)
        lefts.append(at[active])
        widths.append(right - at[active])
        at[active] = right
        active = active[right < high[active]]
    left, half = np.concatenate(lefts)[:, None], 0.5 * np.concatenate(widths)[:, None]
    return np.concatenate(owners), left + half * (_NODES + 1.0), half * _WEIGHTS


def _products_of_others(phi: FloatArray) -> FloatArray:
    """Return prod_{i != l} phi_i over the last axis, for every l, without a division."""
    before, after = np.ones_like(phi), np.ones_like(phi)
    np.cumprod(phi[..., :-1], axis=-1, out=before[..., 1:])
    np.cumprod(phi[..., :0:-1], axis=-1, out=after[..., -2::-1])
    return before * after


def _summed(owner: IntArray, panels: FloatArray, count: int) -> FloatArray:
    sums = [np.bincount(owner, panels[:, k], count) for k in range(panels.shape[1])]
    return np.stack(sums, axis=1).astype(np.float64)  # bincount of an empty array returns integers


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, count, _ROWS))


def _checked(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, variance = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    if mean.ndim != 2 or mean.shape != variance.shape or mean.shape[1] < 2:
        raise ValueError(f"mean and variance [N, C], C >= 2, are needed, got {mean.shape} and {variance.shape}")
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance > 0.0).all()):
        raise ValueError("means must be finite, variances finite and positive")
    return mean, variance
