"""First-order expansion of stationary kernels k = s kappa(r), r in lengthscales, in their RKHS.

phi(c + delta) = kappa e_0 + psi sum_j delta_j e_j + rest, with e_0 = phi(c) and e_j = d_j phi(c) / sqrt(lambda)
orthonormal, lambda = -kappa''(0), psi = -kappa'(r) / (r sqrt(lambda)) and |rest|^2 = 1 - kappa^2 - kappa'^2/lambda.
All differences are written without cancellation near r = 0. Every kappa here is convex in q = r^2.

Equation: derived, stationary kernels to degree 1
Equation: derived, squared exponential expansion and tail
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammainc

from gpsuite.arrays import FloatArray
from gpsuite.registry import Registry

_SQRT3 = float(np.sqrt(3.0))
_SQRT5 = float(np.sqrt(5.0))


class Profile(Protocol):
    """One kernel's radial differences; r >= 0 are arrays of any shape."""

    @property
    def curvature(self) -> float:
        """Return lambda = -kappa''(0); psi(0) is its root."""

    @property
    def folds(self) -> bool:
        """Whether fixed inputs factor out of the kernel."""

    def drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa(r)."""

    def slope_drop(self, r: FloatArray) -> FloatArray:
        """Return psi(0) - psi(r)."""

    def tail(self, r: FloatArray) -> FloatArray:
        """Return the squared norm of what the first-order expansion leaves out at distance r, increasing."""


PROFILES: Registry[Profile] = Registry("kernel")


@dataclass(frozen=True)
class SquaredExponential:
    """kappa = psi = exp(-r^2/2); the tail is a Poisson probability."""

    curvature: float = 1.0
    folds: bool = True

    def drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - exp(-r^2/2)."""
        return np.asarray(-np.expm1(-0.5 * r * r))

    def slope_drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - exp(-r^2/2)."""
        return self.drop(r)

    def tail(self, r: FloatArray) -> FloatArray:
        """Return P(Poisson(r^2) > 1)."""
        return np.asarray(gammainc(2.0, r * r))


@dataclass(frozen=True)
class Matern32:
    """kappa = (1 + z) exp(-z) and psi = sqrt(3) exp(-z), z = sqrt(3) r."""

    curvature: float = 3.0
    folds: bool = False

    def drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa as an incomplete gamma function."""
        return np.asarray(gammainc(2.0, _SQRT3 * r))

    def slope_drop(self, r: FloatArray) -> FloatArray:
        """Return sqrt(3) (1 - exp(-z))."""
        return np.asarray(-_SQRT3 * np.expm1(-_SQRT3 * r))

    def tail(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa^2 - kappa'^2/3 = 1 - (1 + 2 z + 2 z^2) exp(-2 z)."""
        return np.asarray(gammainc(3.0, 2.0 * _SQRT3 * r))


@dataclass(frozen=True)
class Matern52:
    """kappa = (1 + z + z^2/3) exp(-z) and psi = sqrt(5/3) (1 + z) exp(-z), z = sqrt(5) r."""

    curvature: float = 5.0 / 3.0
    folds: bool = False

    def drop(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa = gammainc(3, z) + z^2 exp(-z) / 6."""
        z = _SQRT5 * r
        return np.asarray(gammainc(3.0, z) + z * z * np.exp(-z) / 6.0)

    def slope_drop(self, r: FloatArray) -> FloatArray:
        """Return sqrt(5/3) gammainc(2, z)."""
        return np.asarray(np.sqrt(self.curvature) * gammainc(2.0, _SQRT5 * r))

    def tail(self, r: FloatArray) -> FloatArray:
        """Return 1 - kappa^2 - (3/5) kappa'^2 = (2/9) z^4 exp(-2 z) + gammainc(5, 2 z)."""
        z = _SQRT5 * r
        return np.asarray((2.0 / 9.0) * (z * z * np.exp(-z)) ** 2 + gammainc(5.0, 2.0 * z))


PROFILES.register("squared_exponential")(SquaredExponential())
PROFILES.register("matern32")(Matern32())
PROFILES.register("matern52")(Matern52())
