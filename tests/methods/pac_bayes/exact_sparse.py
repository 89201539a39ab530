"""Sparse posteriors with 50 decimal digits, by the definitions: what float64 is held against."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np

from gpsuite.models.config import Hyperparameters

Decimals = np.ndarray[Any, np.dtype[np.object_]]
DIGITS = Context(prec=50)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097")

_exp = np.frompyfunc(lambda value: value.exp(), 1, 1)


def decimals(values: Any) -> Decimals:
    """Return float64 numbers as they are, exactly."""
    return np.asarray(np.frompyfunc(lambda value: Decimal(float(value)), 1, 1)(np.asarray(values, dtype=float)))


def normal_cdf(x: Decimal) -> Decimal:
    """Return Phi(x) by a series without cancellation."""
    if x < 0:
        return 1 - normal_cdf(-x)
    if x > 16:
        return Decimal(1)
    term, total, k = x, x, 1
    while term > total * Decimal(10) ** -48:
        term = term * x * x / (2 * k + 1)
        total, k = total + term, k + 1
    return Decimal("0.5") + (-x * x / 2).exp() / (2 * PI).sqrt() * total


def cholesky(matrix: Decimals) -> Decimals:
    """Return the lower factor."""
    lower = np.full(matrix.shape, Decimal(0), dtype=object)
    for j in range(len(matrix)):
        lower[j, j] = (matrix[j, j] - sum(lower[j, :j] ** 2)).sqrt()
        for i in range(j + 1, len(matrix)):
            lower[i, j] = (matrix[i, j] - sum(lower[i, :j] * lower[j, :j])) / lower[j, j]
    return lower


def half_solve(lower: Decimals, right: Decimals) -> Decimals:
    """Return L^-1 B."""
    solution = right.copy()
    for i in range(len(lower)):
        for k in range(i):
            solution[i] = solution[i] - lower[i, k] * solution[k]
        solution[i] = solution[i] / lower[i, i]
    return solution


@dataclass(frozen=True)
class Exact:
    """V = L^-1 K_ZX of exact K_ZZ + jitter sigma_f^2 I, and what the posteriors need of it."""

    V: Decimals
    spare: Decimals
    y: Decimals

    @classmethod
    def of(cls, h: Hyperparameters, X: Any, y: Any, Z: Any, jitter: float) -> Exact:
        """Return the whitened cross-covariances at these float64 numbers, taken as exact."""
        with localcontext(DIGITS):
            variance, lengthscales = (Decimal(h.variance), decimals(np.broadcast_to(h.lengthscales, X.shape[1])))
            inputs, inducing = decimals(X) / lengthscales, decimals(Z) / lengthscales

            def kernel(left: Decimals, right: Decimals) -> Decimals:
                squares = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=-1)
                return np.asarray(variance * _exp(-squares / 2))

            K = kernel(inducing, inducing)
            K[np.diag_indices(len(K))] = variance * (1 + Decimal(jitter))
            V = half_solve(cholesky(K), kernel(inducing, inputs))
            return cls(V, variance - (V**2).sum(axis=0), decimals(y))

    def fitc_or_vfe(self, noise: float, alpha: float) -> tuple[Decimal, Decimals, Decimals]:
        """Return KL, means and variances at the training inputs of the posterior between FITC and VFE."""
        with localcontext(DIGITS):
            scale, identity = Decimal(noise) + Decimal(alpha) * self.spare, decimals(np.eye(len(self.V)))
            factor = cholesky(identity + (self.V / scale).dot(self.V.T))
            inverse = half_solve(factor, identity)
            mean = inverse.T.dot(inverse.dot(self.V.dot(self.y / scale)))
            log_determinant = sum(factor[i, i].ln() for i in range(len(factor)))
            kl = log_determinant + ((inverse**2).sum() - len(factor) + (mean**2).sum()) / 2
            return kl, mean.dot(self.V), self.spare + (inverse.dot(self.V) ** 2).sum(axis=0)

    def free_form(self, mean: Any, factor: Any) -> tuple[Decimal, Decimals, Decimals]:
        """Return the same of a whitened posterior N(m, T T')."""
        with localcontext(DIGITS):
            m, T = decimals(mean), decimals(factor)
            log_determinant = sum(abs(T[i, i]).ln() for i in range(len(T)))
            kl = ((T**2).sum() - len(T) + (m**2).sum()) / 2 - log_determinant
            return kl, m.dot(self.V), self.spare + (T.T.dot(self.V) ** 2).sum(axis=0)

    def band_risk(self, mean: Decimals, variance: Decimals, epsilon: float) -> Decimal:
        """Return the Gibbs risk of the 0-1 band."""
        with localcontext(DIGITS):
            e = Decimal(epsilon)
            losses = [
                normal_cdf((y - e - m) / v.sqrt()) + normal_cdf((m - y - e) / v.sqrt())
                for y, m, v in zip(self.y, mean, variance, strict=True)
            ]
            return Decimal(sum(losses)) / len(losses)
