"""SafeOpt, Real-beta-SafeOpt and LoSBO on a pool of settings: safe optimisation with given constants.

Two Gaussian processes with given lengthscale model the objective f and the safety value h (safe where h <= 0). They
have confidence intervals of half-width beta sd. The next setting has the widest interval of two sets. Possible
minimisers have a lower end at most the least upper end among safe settings. Possible expanders would make another
setting count as safe if h were at its lower end there. The safe set follows from the upper ends of h, in LoSBO from a
Lipschitz constant.

Source: Sui et al., "Safe exploration for optimization with Gaussian processes", 2015
Source: Berkenkamp et al., "Bayesian optimization with safety constraints", 2021
Source: Fiedler et al., "On safety in safe Bayesian optimization", 2024

Equation: Sui et al. 2015, Algorithm 1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from gpsuite.arrays import BoolArray, FloatArray, IntArray

LENGTHSCALES = np.geomspace(0.05, 1.5, 12)  # tried lengthscales, in the unit cube
JITTER = 1e-6  # jitter of the noise-free kernel matrix
LOSBO_BETA = 2.0  # LoSBO's intervals only choose, they do not decide on safety
LOSBO_NOISE = 2.0  # standard deviations that LoSBO counts as the largest noise

Variant = Literal["safeopt", "real_beta", "losbo"]
VARIANTS: tuple[Variant, ...] = ("safeopt", "real_beta", "losbo")


@dataclass(frozen=True)
class Constants:
    """Constants of a function, which the methods take as given.

    Attributes:
        lengthscale: lengthscale of its squared exponential kernel of unit variance.
        norm: norm of the function in the kernel's RKHS.
        lipschitz: largest slope between two settings of the pool.
        noise: standard deviation of a measured value.
    """

    lengthscale: float
    norm: float
    lipschitz: float
    noise: float


def true_constants(X: FloatArray, f: FloatArray, noise: float) -> Constants:
    """Return the constants of a function with known values f [n] at the pool X [n, D].

    The lengthscale has the largest marginal likelihood of these values. The norm is that of their interpolant.
    """
    best, found = -math.inf, (float(LENGTHSCALES[0]), 0.0)
    for lengthscale in LENGTHSCALES:
        lower = cho_factor(_kernel(X, X, lengthscale) + JITTER * np.eye(len(X)), lower=True)
        quadratic = float(f @ cho_solve(lower, f))
        # the variance is profiled out: it only scales the norm
        likelihood = -0.5 * len(X) * math.log(quadratic) - float(np.log(np.diag(lower[0])).sum())
        if likelihood > best:
            best, found = likelihood, (float(lengthscale), math.sqrt(quadratic))
    apart = cdist(X, X)
    np.fill_diagonal(apart, np.inf)
    return Constants(*found, float((np.abs(f[:, None] - f) / apart).max()), noise)


@dataclass(frozen=True, eq=False)
class Sets:
    """The sets of one step on a pool of n, and the intervals' widths, [n] each."""

    safe: BoolArray
    minimisers: BoolArray
    expanders: BoolArray
    width: FloatArray


class SafeOpt:
    """One of the three methods on a pool X [n, D].

    Args:
        objective: constants of f.
        safety: constants of h.
        starts: settings known to be safe.
        most: largest number of measurements.
    """

    def __init__(
        self,
        variant: Variant,
        X: FloatArray,
        objective: Constants,
        safety: Constants,
        starts: IntArray,
        delta: float,
        most: int,
    ) -> None:
        self._variant, self._X, self._delta, self._starts = variant, X, delta, starts
        self._constants = (objective, safety)
        self._K = [_kernel(X, X, each.lengthscale) for each in self._constants]
        published = variant == "safeopt"
        self._gain = [
            _greatest_gain(K, each.noise**2, most) if published else np.zeros(most + 1)
            for K, each in zip(self._K, self._constants, strict=True)
        ]

    def propose(self, rows: IntArray, y: FloatArray, z: FloatArray) -> int | None:
        """Return the next row, given values y, z [N] measured at rows [N], or None if nothing is safe."""
        sets = self.sets(rows, y, z)
        asked = np.flatnonzero(sets.minimisers | sets.expanders)
        return int(asked[np.argmax(sets.width[asked])]) if len(asked) else None

    def sets(self, rows: IntArray, y: FloatArray, z: FloatArray) -> Sets:
        """Return the sets of the step after these measurements."""
        (f, sd_f, _), (h, sd_h, covariance) = (self._posterior(i, rows, values) for i, values in enumerate((y, z)))
        beta_f, beta_h = self._beta(0, rows), self._beta(1, rows)
        safe = self._safe(rows, z, h + beta_h * sd_h)
        minimisers = safe & (f - beta_f * sd_f <= np.min((f + beta_f * sd_f)[safe], initial=np.inf))
        if self._variant == "losbo":
            expanders = self._lipschitz_expanders(safe, h - beta_h * sd_h)
        else:
            expanders = self._expanders(safe, h, sd_h, covariance, beta_h)
        return Sets(safe, minimisers, expanders, 2.0 * np.maximum(beta_f * sd_f, beta_h * sd_h))

    def _posterior(self, i: int, rows: IntArray, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean, standard deviation [n] and covariance [n, n] of function i."""
        K = self._K[i]
        factor = cho_factor(K[np.ix_(rows, rows)] + self._constants[i].noise ** 2 * np.eye(len(rows)))
        weights = cho_solve(factor, K[rows])
        covariance = K - K[:, rows] @ weights
        return weights.T @ values, np.sqrt(np.maximum(covariance.diagonal(), 0.0)), covariance

    def _beta(self, i: int, rows: IntArray) -> float:
        """Return the half-width in standard deviations.

        Equation: Berkenkamp et al. 2021
        Equation: Fiedler et al. 2024
        """
        constants, log_delta = self._constants[i], math.log(1.0 / self._delta)
        if self._variant == "losbo":
            return LOSBO_BETA
        if self._variant == "safeopt":
            return constants.norm + 4.0 * math.sqrt(float(self._gain[i][len(rows)]) + 1.0 + log_delta)
        K = self._K[i][np.ix_(rows, rows)] / constants.noise**2
        return constants.norm + math.sqrt(float(np.linalg.slogdet(np.eye(len(rows)) + K)[1]) + 2.0 * log_delta)

    def _safe(self, rows: IntArray, z: FloatArray, upper: FloatArray) -> BoolArray:
        if self._variant == "losbo":
            safety = self._constants[1]
            bound = z + LOSBO_NOISE * safety.noise + safety.lipschitz * cdist(self._X, self._X[rows])
            upper = bound.min(axis=1)
        safe = upper <= 0.0
        safe[self._starts] = True
        return np.asarray(safe)

    def _expanders(
        self, safe: BoolArray, mean: FloatArray, sd: FloatArray, covariance: FloatArray, beta: float
    ) -> BoolArray:
        """Return which safe settings would make another one safe if h there were at the lower end of its interval."""
        inside, outside = np.flatnonzero(safe), np.flatnonzero(~safe)
        noise = self._constants[1].noise ** 2
        told = covariance[np.ix_(outside, inside)] / (sd[inside] ** 2 + noise)
        moved = mean[outside, None] - told * (beta * sd[inside])
        left = sd[outside, None] ** 2 - told * covariance[np.ix_(outside, inside)]
        found = np.zeros(len(safe), dtype=np.bool_)
        found[inside] = (moved + beta * np.sqrt(np.maximum(left, 0.0)) <= 0.0).any(axis=0)
        return found

    def _lipschitz_expanders(self, safe: BoolArray, lower: FloatArray) -> BoolArray:
        inside, outside = np.flatnonzero(safe), np.flatnonzero(~safe)
        safety, found = self._constants[1], np.zeros(len(safe), dtype=np.bool_)
        reach = lower[inside] + safety.lipschitz * cdist(self._X[outside], self._X[inside])
        found[inside] = (reach + LOSBO_NOISE * safety.noise <= 0.0).any(axis=0)
        return found


def _greatest_gain(K: FloatArray, noise: float, most: int) -> FloatArray:
    """Return the information of the 0 to `most` most informative settings, chosen greedily, in nats."""
    left, gain = K.copy(), [0.0]
    for _ in range(most):
        at = int(np.argmax(left.diagonal()))
        variance = max(float(left[at, at]), 0.0)
        gain.append(gain[-1] + 0.5 * math.log1p(variance / noise))
        left -= np.outer(left[at], left[at]) / (variance + noise)
    return np.array(gain)


def _kernel(X: FloatArray, X2: FloatArray, lengthscale: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * cdist(X / lengthscale, X2 / lengthscale, "sqeuclidean")))
