"""Convergence of entropy-driven queries at fixed hyperparameters: Lemma 1 and Theorems 2, 3, 9 of Li et al. 2022.

A pool of n inputs with P outputs is a Gaussian vector of n P entries, in the order x * P + p. Queries condition it on
noisy entries. An input may be queried again: every query has its own noise.

Equation: Li et al. 2022, Lemma 1, Theorem 2, Theorem 3, Theorem 9
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import BoolArray, FloatArray, IntArray

Kernel: TypeAlias = Literal["se", "matern52", "convolution"]
MATERN_SMOOTHNESS = 2.5
# Greedy choice reaches at least this share of the maximum information gain (submodularity; Srinivas et al.
# 2012).
GREEDY_SHARE = 1.0 - np.exp(-1.0)
_ROUNDING = 1e-12  # relative slack. Lemma 1 is an equality in the limit of large noise


class NothingAllowedError(ValueError):
    """Raised if no input of the pool may be queried."""


class AllowedRegion(Protocol):
    """Inputs that may be queried. They may change with every query."""

    def allowed(self) -> BoolArray:
        """Return the mask of inputs that may be queried now, [n]."""

    def observe(self, x: int) -> None:
        """Record a query at input number x."""


class ConditionedVector:
    """A zero-mean Gaussian vector, conditioned on noisy observations of its entries one by one.

    An observation takes O(m k) operations for m entries and k earlier observations: a new row of L^-1 K.
    """

    def __init__(self, covariance: FloatArray, capacity: int) -> None:
        self._covariance = covariance
        self._rows = np.empty((capacity, len(covariance)))
        self._observed = 0
        self.variance: FloatArray = np.diagonal(covariance).copy()

    def observe(self, entry: int, noise: float) -> FloatArray:
        """Update the moments by an observation of one entry with a noise variance above 0.

        Returns:
            r [m]: the posterior covariance falls by r r^T. `variance` [m] is the new variance.
        """
        earlier = self._rows[: self._observed]
        row: FloatArray = self._rows[self._observed]
        np.subtract(self._covariance[entry], earlier[:, entry] @ earlier, out=row)
        # one more row of a Cholesky factorisation. The earlier rows do not change
        row /= np.sqrt(self.variance[entry] + noise)
        self.variance -= row**2
        self._observed += 1
        return row


class SafeRegion:
    """Inputs that are safe by a Gaussian process of the safety value h at fixed hyperparameters.

    S = {x: P(h(x) > limit | data) > 1 - delta} (Eq. 9). Every query also measures z = h + noise.

    Args:
        noise: noise variance of z, above 0.
        measure: function of an input number that returns z.
        limit: lower limit of h.

    Equation: Li et al. 2022, Eq. (9), Theorem 3
    """

    def __init__(
        self,
        covariance: FloatArray,
        noise: float,
        measure: Callable[[int], float],
        limit: float,
        delta: float,
        capacity: int,
    ) -> None:
        self._vector = ConditionedVector(covariance, capacity)
        self._mean = np.zeros(len(covariance))
        self._noise, self._measure, self._limit = noise, measure, limit
        self._quantile = float(ndtri(1.0 - delta))

    def allowed(self) -> BoolArray:
        # rounding may leave the variance of a known value below 0
        deviation = np.sqrt(np.maximum(self._vector.variance, 0.0))
        safe: BoolArray = self._mean - self._quantile * deviation > self._limit
        return safe

    def observe(self, x: int) -> None:
        surprise = self._measure(x) - self._mean[x]
        scale = np.sqrt(self._vector.variance[x] + self._noise)
        self._mean += self._vector.observe(x, self._noise) * (surprise / scale)


@dataclass(frozen=True, eq=False)
class QueryRun:
    """Result of n queries.

    Attributes:
        entries: queried entries x * P + p in their order, [n], or [n * P] with all outputs of an input at a time.
        maximal: largest predictive variance (or determinant of the covariance) among the allowed queries, before each
            query, [n]. The queried point attains it.
        average: mean of the same quantity over the allowed queries, [n].
        information: mutual information of the observations and the noise-free values after each query, in nats,
            by the chain rule (Lemma 7), [n].
        allowed: share of the pool that was allowed before each query, [n].
    """

    entries: IntArray
    maximal: FloatArray
    average: FloatArray
    information: FloatArray
    allowed: FloatArray

    @property
    def mean_maximal(self) -> FloatArray:
        """Largest left side of Lemma 1: mean over the first k queries of `maximal`, [n]."""
        return _running_mean(self.maximal)

    @property
    def mean_average(self) -> FloatArray:
        """Left side of Theorems 2, 3, 9 in expectation over random allowed inputs, [n]."""
        return _running_mean(self.average)

    def bound(self, constant: float) -> FloatArray:
        """Return (2 C / k) I_k of Lemma 1, [n]."""
        bounds: FloatArray = 2.0 * constant * self.information / np.arange(1, len(self.information) + 1)
        return bounds

    def violations(self, constant: float) -> int:
        return int(np.sum(self.mean_maximal > self.bound(constant) * (1.0 + _ROUNDING)))


def _running_mean(values: FloatArray) -> FloatArray:
    means: FloatArray = np.cumsum(values) / np.arange(1, len(values) + 1)
    return means


def query_single_outputs(
    covariance: FloatArray, noise: FloatArray, n: int, region: AllowedRegion | None = None
) -> QueryRun:
    """Query n times the allowed (x, p) of largest predictive entropy, that is variance (Eq. 7, 9, partial outputs).

    Args:
        covariance: prior covariance of the noise-free outputs over the pool, [n_x * P, n_x * P].
        noise: noise variances [P], above 0.
        region: allowed inputs. None: all.

    Raises:
        NothingAllowedError: if the region is empty at some query.

    Equation: Li et al. 2022, Eq. (7), Eq. (9)
    """
    outputs = len(noise)
    vector = ConditionedVector(covariance, n)
    entries = np.empty(n, dtype=np.int64)
    trace = np.empty((4, n))
    for k in range(n):
        allowed = _allowed(region, len(covariance) // outputs)
        variance = np.where(np.repeat(allowed, outputs), vector.variance, -np.inf)
        entry = int(np.argmax(variance))
        x, p = divmod(entry, outputs)
        average = vector.variance.reshape(-1, outputs)[allowed].mean()
        gained = 0.5 * np.log1p(variance[entry] / noise[p])
        entries[k], trace[:, k] = entry, (variance[entry], average, gained, allowed.mean())
        vector.observe(entry, float(noise[p]))
        if region is not None:
            region.observe(x)
    return QueryRun(entries, trace[0], trace[1], np.cumsum(trace[2]), trace[3])


def query_all_outputs(
    covariance: FloatArray, noise: FloatArray, n: int, region: AllowedRegion | None = None
) -> QueryRun:
    """Query n times all outputs of the allowed x of largest entropy, that is determinant |Sigma(x)| (Eq. 7, 9, full).

    Equation: Li et al. 2022, Eq. (7), Eq. (9)
    """
    outputs = len(noise)
    vector = ConditionedVector(covariance, n * outputs)
    blocks = _diagonal_blocks(covariance, outputs)
    entries = np.empty((n, outputs), dtype=np.int64)
    trace = np.empty((4, n))
    for k in range(n):
        allowed = _allowed(region, len(blocks))
        determinants: FloatArray = np.linalg.det(blocks)
        x = int(np.argmax(np.where(allowed, determinants, -np.inf)))
        gained = 0.5 * np.linalg.slogdet(np.eye(outputs) + blocks[x] / noise[:, None])[1]
        entries[k] = x * outputs + np.arange(outputs)
        trace[:, k] = determinants[x], determinants[allowed].mean(), gained, allowed.mean()
        for p in range(outputs):
            row = vector.observe(int(entries[k, p]), float(noise[p])).reshape(-1, outputs)
            blocks -= row[:, :, None] * row[:, None, :]
        if region is not None:
            region.observe(x)
    return QueryRun(entries.ravel(), trace[0], trace[1], np.cumsum(trace[2]), trace[3])


def _allowed(region: AllowedRegion | None, n: int) -> BoolArray:
    mask = np.ones(n, dtype=np.bool_) if region is None else region.allowed()
    if not mask.any():
        raise NothingAllowedError("no input of the pool may be queried")
    return mask


def _diagonal_blocks(covariance: FloatArray, outputs: int) -> FloatArray:
    n = len(covariance) // outputs
    blocks = covariance.reshape(n, outputs, n, outputs)
    return np.ascontiguousarray(blocks[np.arange(n), :, np.arange(n), :])


def mutual_information(covariance: FloatArray, noise: FloatArray) -> float:
    """Return I(y, f) = 1/2 log |I + diag(noise)^-1 K| in nats (supplement E.1), for observed entries.

    Args:
        covariance: K, prior covariance of the observed noise-free entries [k, k].
        noise: noise variance of each observation [k].
    """
    scale = np.sqrt(noise)
    scaled = covariance / scale[:, None] / scale
    return 0.5 * float(np.linalg.slogdet(np.eye(len(noise)) + scaled)[1])


def information_gain(covariance: FloatArray, noise: float, n: int) -> FloatArray:
    """Return the greedy estimate of the maximum information gain of one output for 1..n observations, [n], in nats.

    The maximum gamma_k (Srinivas et al. 2012, Eq. 7) is between the value and the value / `GREEDY_SHARE`.

    Args:
        covariance: prior covariance of the output over the pool [n_x, n_x].
        noise: noise variance, above 0.

    Equation: Srinivas et al. 2012, Eq. (7)
    """
    return query_single_outputs(covariance, np.array([noise]), n).information


def summed_information_gain(covariance: FloatArray, noise: FloatArray, run: QueryRun) -> FloatArray:
    """Return sum_p gamma_p^(N_p) after each query of a run, with greedy estimates (Theorem 2), [n], in nats.

    N_p is the number of observations of output p in the run. By Fischer's inequality the run's information is at most
    the sum of the true maxima.

    Equation: Li et al. 2022, Theorem 2
    """
    outputs, n = len(noise), len(run.information)
    seen = (run.entries[:, None] % outputs == np.arange(outputs)).cumsum(axis=0)
    counts = seen[len(run.entries) // n - 1 :: len(run.entries) // n]
    total = np.zeros(n)
    for p in range(outputs):
        own = covariance[p::outputs, p::outputs]
        gains = information_gain(own, float(noise[p]), int(counts[-1, p]))
        total += np.concatenate([[0.0], gains])[counts[:, p]]
    return total


def lemma_constant(variance: float, noise: float, outputs: int = 1) -> float:
    """Return C_1 of Lemma 1, or C_2 if all `outputs` P are observed at a time.

    C_2 = b^P / log(1 + (b / psi)^P) with b = L w^2 v. C_1 is the case P = 1.

    Args:
        variance: b, an upper bound of every output's prior variance, above 0: `variance_bound`.
        noise: psi, the largest noise variance, above 0.

    Equation: Li et al. 2022, Lemma 1
    """
    return float(variance**outputs / np.log1p((variance / noise) ** outputs))


def variance_bound(W: FloatArray, variances: FloatArray) -> float:
    """Return b = L w^2 v of Lemma 5, with w the largest |W_pl| [P, L] and v the largest latent variance [L].

    Equation: Li et al. 2022, Lemma 5
    """
    return float(W.shape[1] * np.max(np.abs(W)) ** 2 * np.max(variances))


def rate(kernel: Kernel, inputs: int, n: FloatArray) -> FloatArray:
    """Return the rate that bounds the mean predictive variance after n queries, without its constant, for n > 1.

    Matern: n^(-2 nu / (2 nu + D (D + 1))) log n, nu = 5/2. Squared exponential and Gaussian convolution process:
    (log n)^(D + 1) / n (Theorems 2, 3, 9).

    Equation: Li et al. 2022, Theorem 2, Theorem 3, Theorem 9
    """
    values: FloatArray
    if kernel == "matern52":
        values = n ** matern_exponent(inputs) * np.log(n)
        return values
    values = np.log(n) ** (inputs + 1) / n
    return values


def matern_exponent(inputs: int) -> float:
    """Return -2 nu / (2 nu + D (D + 1)), nu = 5/2, for D inputs."""
    return -2.0 * MATERN_SMOOTHNESS / (2.0 * MATERN_SMOOTHNESS + inputs * (inputs + 1))


def log_slope(n: FloatArray, values: FloatArray) -> float:
    """Return the least-squares slope of log(values) against log(n), both [k] with k >= 2 and positive."""
    x, y = np.log(n), np.log(values)
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))


def slope_points(first: int, last: int, points: int = 60) -> IntArray:
    """Return about `points` different query counts, equally spaced in log n, from first to last, both included."""
    counts: IntArray = np.unique(np.round(np.geomspace(first, last, points)).astype(np.int64))
    return counts
