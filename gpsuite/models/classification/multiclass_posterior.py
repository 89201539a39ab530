"""Gaussian expectations of the softmax, with a stated error. No TensorFlow.

For f ~ N(m, S) only differences of latent values count. So S is centred, S = L L' with L [C, C - 1], and the
trapezoidal rule is over z with f = m + L z. Shifting z_k by i a rotates the terms of the softmax by at most a w_k, with
w_k the spread of the column L_k. If a w_k < pi no sum is zero, and |softmax| <= 1 / cos(a w_k / 2). So the rule of step
h along z_k has an error of at most 2 M exp(a^2 / 2) / (exp(2 pi a / h) - 1). Here M = 1 / cos^2 for products of two.
The part cut off is known from the weights.

The number of nodes grows like a power of C. If they are too many, scrambled Sobol points give an estimate. Its stated
error is `DEVIATIONS` standard errors. This is statistical, not proved (`SoftmaxMoments.proved`).

Equation: derived, softmax of several classes
Source: Trefethen & Weideman 2014, Theorem 5.1 (trapezoidal rule). Owen 1998 (scrambled Sobol points).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.robust_max import largest_probabilities, predictive_probabilities
from gpsuite.models.latent import KernelPosterior
from gpsuite.models.radial import kappa, kappa_and_slope, squared_distances

# Largest error of the trapezoidal rule along one direction.
TOLERANCE = 1e-10
# Nodes farther than this many deviations are left out. Their weight is part of the error.
REACH = 6.5
MAX_NODES = 40_000
# Independent scramblings, each of 2^9 points.
REPETITIONS, POWER = 16, 9
DEVIATIONS = 6.0
ROUNDING = 1e-13
_SHARE = 0.9  # used share of the strip in which the integrand is analytic
_FARTHEST = 6.0  # beyond it the Gaussian's growth in the strip outweighs the gain
_ENTRIES = 1 << 21
# Stated error of the probability to be the largest: a hundred times the measured error.
QUADRATURE = 1e-9
SMALLEST = 1e-12  # smallest variance per unit s: smaller ones are rounding


@dataclass(frozen=True, eq=False)
class SoftmaxMoments:
    """Expectations of the softmax for B Gaussians.

    Attributes:
        mean: p_c = E softmax_c, [B, C].
        product: E softmax_c softmax_j, [B, C, C]. dp_c / dm_j = delta_cj p_c - product_cj.
        error: bound of the error of every entry of both, [B].
        proved: whether the error is a bound. Otherwise it is statistical, from scrambled Sobol points.
        tilt: bound of the errors of product_cj summed over j != c, for every c, [B]. It also bounds half the errors of
            the gradient of p_c - p_j in the means.
        by_rule: whether all values are from the trapezoidal rule.
    """

    mean: FloatArray
    product: FloatArray
    error: FloatArray
    proved: bool
    tilt: FloatArray
    by_rule: bool


MomentsOf = Callable[[FloatArray, FloatArray], SoftmaxMoments]
"""From means and roots, as `softmax_moments`."""


def centred_root(covariance: FloatArray) -> FloatArray:
    """Return L [B, C, C - 1] with L L' the covariance [B, C, C] of the latent values less their average.

    Negative eigenvalues, from rounding, count as zero.
    """
    C = covariance.shape[-1]
    centring = np.eye(C) - 1.0 / C
    values, vectors = np.linalg.eigh(centring @ covariance @ centring)
    # The direction of equal values has eigenvalue zero: the first eigenvalue is as small, up to rounding. The largest
    # are put first: there Sobol points are best.
    values, vectors = values[:, :0:-1], vectors[:, :, :0:-1]
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def softmax_moments(mean: FloatArray, root: FloatArray, otherwise: MomentsOf | None = None) -> SoftmaxMoments:
    """Return E softmax(f) and E softmax(f) softmax(f)', f = mean [B, C] + root [B, C, C - 1] z, z standard normal.

    Args:
        mean: [B, C].
        root: [B, C, C - 1].
        otherwise: method if the trapezoidal rule takes too many nodes. Default: scrambled Sobol points.

    Raises:
        ValueError: if shapes disagree or a value is not finite.
    """
    B, C = mean.shape
    if root.shape != (B, C, C - 1) or C < 2:
        raise ValueError(f"means [B, C] and roots [B, C, C-1] are needed, got {mean.shape} and {root.shape}")
    if not (np.isfinite(mean).all() and np.isfinite(root).all()):
        raise ValueError("means and covariances must be finite")
    arrays = np.empty((B, C)), np.empty((B, C, C)), np.empty(B), np.empty(B)
    spread = root.max(axis=1) - root.min(axis=1)
    # Similar spreads are grouped: the widest of a group fixes its steps.
    order = np.argsort(spread.max(axis=1))
    proved = by_rule = True
    for rows in _groups(spread[order]) if B else ():
        part = order[rows]
        rule = _trapezoid(spread[part].max(axis=0))
        found = (
            (otherwise or _scrambled)(mean[part], root[part]) if rule is None else _ruled(mean[part], root[part], rule)
        )
        proved, by_rule = proved and found.proved, by_rule and found.by_rule
        for whole, each in zip(arrays, (found.mean, found.product, found.error, found.tilt), strict=True):
            whole[part] = each
    first, second, error, tilt = arrays
    return SoftmaxMoments(first, second, error, proved, tilt, by_rule)


@dataclass(frozen=True)
class _Rule:
    nodes: FloatArray
    weights: FloatArray
    error: float


def _groups(spread: FloatArray) -> list[slice]:
    largest, runs, start = spread.max(axis=1), [], 0
    for end in range(1, len(largest) + 1):
        if end == len(largest) or largest[end] > 1.5 * max(largest[start], 0.1):
            runs.append(slice(start, end))
            start = end
    return runs


def _trapezoid(spread: FloatArray) -> _Rule | None:
    """Return the product rule for columns of at most these spreads [K], or None if it has too many nodes."""
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


def _ruled(mean: FloatArray, root: FloatArray, rule: _Rule) -> SoftmaxMoments:
    B, C = mean.shape
    return SoftmaxMoments(*_sums(mean, root, rule), np.full(B, rule.error), True, np.full(B, C * rule.error), True)


def _sums(mean: FloatArray, root: FloatArray, rule: _Rule) -> tuple[FloatArray, FloatArray]:
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
    return first, second


def _scrambled(mean: FloatArray, root: FloatArray) -> SoftmaxMoments:
    B, C = mean.shape
    weights = np.full(1 << POWER, 0.5**POWER)
    first, second = np.empty((REPETITIONS, B, C)), np.empty((REPETITIONS, B, C, C))
    for index, nodes in enumerate(_sobol_nodes(C - 1)):
        first[index], second[index] = _sums(mean, root, _Rule(nodes, weights, 0.0))
    spread = np.maximum(first.std(axis=0, ddof=1).max(axis=1), second.std(axis=0, ddof=1).max(axis=(1, 2)))
    error = DEVIATIONS * spread / math.sqrt(REPETITIONS) + ROUNDING
    return SoftmaxMoments(first.mean(axis=0), second.mean(axis=0), error, False, C * error, False)


@lru_cache(maxsize=16)
def _sobol_nodes(directions: int) -> tuple[FloatArray, ...]:
    """Return normal points [2^POWER, K] of every scrambling. They are the same in every run."""
    found = []
    for seed in range(REPETITIONS):
        unit = qmc.Sobol(directions, rng=np.random.default_rng([20201, seed])).random_base2(POWER)
        found.append(np.asarray(ndtri(np.clip(unit, 1e-12, 1.0 - 1e-12))))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class MultiClassPosterior(KernelPosterior):
    """Latent posterior f(x) ~ N(m(x), S(x)) of C functions with one kernel. Class probabilities by the softmax.

    With k_i = s kappa(|(x - X_i) / l|): m_c = k' alpha_c and S_cj = s delta_cj + sum_r w_r (F_rc k)(F_rj k).

    Attributes:
        weights: w, shape [R], -1 for Laplace, eigenvalues minus 1 for variational posteriors.
        operator_bound: g with S <= g s I everywhere: 1 for Laplace.

    Raises:
        UserError, ValueError: as `KernelPosterior`. ValueError also for fewer than two classes.
    """

    def _shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        if self.alpha.ndim != 2 or len(self.alpha) < 2:
            raise ValueError(f"weights [C, N], C >= 2, are needed, got shape {self.alpha.shape}")
        C, n = len(self.alpha), len(self.X)
        return {"alpha": (C, n), "root": (rank, C, n)}

    @property
    def n_classes(self) -> int:
        return len(self.alpha)

    def latent(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean vectors [B, C] and covariance matrices [B, C, C]. ValueError unless `Xnew` is finite."""
        scaled = self._scaled(Xnew)
        C = self.n_classes
        mean, covariance = np.empty((len(scaled), C)), np.empty((len(scaled), C, C))
        for part in self._parts(len(scaled), len(self._stacked)):
            k = self.variance * kappa(str(self.kernel), squared_distances(scaled[part], self._inputs))
            mean[part] = k @ self.alpha.T
            features = (k @ self._stacked.T).reshape(len(k), len(self.weights), C)
            covariance[part] = (features * self.weights[:, None]).transpose(0, 2, 1) @ features
        covariance[:, np.arange(C), np.arange(C)] += self.variance
        return mean, covariance

    def moments(self, Xnew: FloatArray) -> SoftmaxMoments:
        """Return the class probabilities [B, C] with the cubature's error, and E softmax softmax' [B, C, C]."""
        mean, covariance = self.latent(Xnew)
        return softmax_moments(mean, centred_root(covariance))

    def probabilities(self, Xnew: FloatArray) -> FloatArray:
        return self.moments(Xnew).mean

    def probability_ends(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the class probabilities [B, C] less and plus the error that their cubature states."""
        found = self.moments(Xnew)
        return found.mean - found.error[:, None], found.mean + found.error[:, None]

    def mean_with_gradient(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the latent means [B, C] and their gradients in the inputs, [B, C, D]."""
        scaled = self._scaled(Xnew)
        k, slope = kappa_and_slope(str(self.kernel), squared_distances(scaled, self._inputs))
        weights = self.variance * slope[:, None, :] * self.alpha
        moved = weights @ self._inputs - weights.sum(axis=2)[:, :, None] * scaled[:, None, :]
        return np.asarray(self.variance * k @ self.alpha.T), np.asarray(moved / self.lengthscales)

    def difference(self, i: int, j: int) -> GPCPosterior:
        """Return f_i - f_j as the latent function of a binary classifier with kernel 2 k and the logistic link.

        For two classes its class probability is that of class i. If there are more rows than data, an orthogonal
        transformation combines them.

        Raises:
            ValueError: if the classes are the same or out of range.
        """
        if i == j or not (0 <= i < self.n_classes and 0 <= j < self.n_classes):
            raise ValueError(f"classes {i} and {j}: two distinct ones of {self.n_classes} are needed")
        root, weights = 0.5 * (self.root[:, i] - self.root[:, j]), self.weights
        used = np.abs(root).max(axis=1, initial=0.0) > 0.0
        root, weights = root[used], weights[used]
        if len(root) > len(self.X) and len(np.unique(weights)) == 1:
            root, weights = np.asarray(np.linalg.qr(root, mode="r")), weights[: len(self.X)]
        return GPCPosterior(
            self.X,
            self.kernel,
            2.0 * self.variance,
            self.lengthscales,
            0.5 * (self.alpha[i] - self.alpha[j]),
            np.ascontiguousarray(root),
            weights,
            self.operator_bound,
            LINKS.get("logistic"),
        )

    def function(self, c: int) -> GPCPosterior:
        """Return f_c as a binary classifier with the logistic link. ValueError if c is out of range."""
        if not 0 <= c < self.n_classes:
            raise ValueError(f"class {c}: one of {self.n_classes} is needed")
        used = np.abs(self.root[:, c]).max(axis=1, initial=0.0) > 0.0
        return GPCPosterior(
            self.X,
            self.kernel,
            self.variance,
            self.lengthscales,
            self.alpha[c],
            np.ascontiguousarray(self.root[used, c]),
            self.weights[used],
            self.operator_bound,
            LINKS.get("logistic"),
        )

    @cached_property
    def _stacked(self) -> FloatArray:
        return np.ascontiguousarray(self.root.reshape(-1, self.root.shape[2]))


@dataclass(frozen=True, eq=False)
class RobustMaxPosterior(MultiClassPosterior):
    """C independent latent functions with one kernel. Class probabilities by the robust-max likelihood.

    Attributes:
        epsilon: probability that the label is not the class of the largest latent value, shared by the C - 1 others.

    Raises:
        ValueError: as `MultiClassPosterior`, unless 0 < epsilon < (C - 1) / C, or if the functions are correlated.
    """

    epsilon: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        C = self.n_classes
        if not 0.0 < self.epsilon < (C - 1) / C:
            raise ValueError(f"epsilon={self.epsilon}: must be between 0 and {(C - 1) / C:g}")
        if (np.count_nonzero(np.abs(self.root).max(axis=2, initial=0.0), axis=1) > 1).any():
            raise ValueError("the latent functions must be independent")

    def probabilities(self, Xnew: FloatArray) -> FloatArray:
        """Return the class probabilities [B, C], each within `QUADRATURE`."""
        mean, covariance = self.latent(Xnew)
        variance = np.maximum(np.einsum("bcc->bc", covariance), SMALLEST * self.variance)
        return predictive_probabilities(largest_probabilities(mean, variance), self.epsilon)

    def probability_ends(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = self.probabilities(Xnew)
        return found - QUADRATURE, found + QUADRATURE


# Posteriors of GPflow's sparse variational classifiers with the softmax or the robust maximum.
