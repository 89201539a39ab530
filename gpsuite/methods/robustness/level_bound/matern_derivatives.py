"""Matérn 5/2 and 3/2 kernels as functions f of the squared distance q, and bounds of their directional derivatives.

Along a line at distance r from a datum, with z = sqrt(nu) r (nu = 5 or 3) and c the cosine between the line and the
direction to the datum, the k-th derivative of the kernel is exp(-z) N_k(c, z) / z^s with a polynomial N_k. Tables
bound sup |exp(-z') N_k(c, z')| over z' >= z and |c| <= 1. The derivative of order 5 (5/2) or 3 (3/2) jumps at
the datum but is bounded, so the expansion one order lower needs no case for data inside the box.

Equation: derived, Matérn expansion in data space
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gpsuite.arrays import FloatArray

_STEP, _LAST = 0.004, 64.0
_SMALLEST = 1e-100  # below it a datum counts as lying at the point: the singular terms are zero there
_MARGIN = 1e-9

Polynomial = dict[tuple[int, int], float]
"""Coefficients by the powers of c and z."""


@dataclass(frozen=True)
class MaternKernel:
    """One Matérn kernel.

    Attributes:
        nu: 5 or 3, z^2 = nu q.
        curvature: lambda = -kappa''(0).
        derivatives: N_3, N_4, N_5.
        poles: s for each of them.
    """

    nu: float
    curvature: float
    derivatives: tuple[Polynomial, Polynomial, Polynomial]
    poles: tuple[int, int, int]

    def bound(self, order: int, z: FloatArray) -> FloatArray:
        """Return the largest |k-th derivative| at z and beyond, k = order in 3, 4, 5; infinite at a pole."""
        table = _table(self, order)
        # Beyond the table the last entry counts; NaN becomes 0, the largest value.
        place = np.minimum(np.nan_to_num(z, nan=0.0) / _STEP, len(table) - 1.0).astype(np.int64)
        pole = self.poles[order - 3]
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(table[place] / z**pole if pole else table[place])


_R3, _R5 = float(np.sqrt(3.0)), float(np.sqrt(5.0))
MATERN52 = MaternKernel(
    nu=5.0,
    curvature=5.0 / 3.0,
    derivatives=(
        {(1, 1): -25.0 / _R5, (3, 2): 25.0 / 3.0 / _R5},
        {(0, 0): 25.0, (2, 1): -50.0, (4, 1): 25.0 / 3.0, (4, 2): 25.0 / 3.0},
        {
            (1, 0): 625.0 / _R5,
            (3, 0): -1250.0 / 3.0 / _R5,
            (3, 1): -1250.0 / 3.0 / _R5,
            (5, 0): 125.0 / _R5,
            (5, 1): 125.0 / _R5,
            (5, 2): 125.0 / 3.0 / _R5,
        },
    ),
    poles=(0, 0, 0),
)
MATERN32 = MaternKernel(
    nu=3.0,
    curvature=3.0,
    derivatives=(
        {(1, 0): -9.0 * _R3, (3, 0): 3.0 * _R3, (3, 1): 3.0 * _R3},
        {(0, 0): 27.0, (2, 0): -54.0, (2, 1): -54.0, (4, 0): 27.0, (4, 1): 27.0, (4, 2): 9.0},
        {
            (1, 0): 405.0 / _R3,
            (1, 1): 405.0 / _R3,
            (3, 0): -810.0 / _R3,
            (3, 1): -810.0 / _R3,
            (3, 2): -270.0 / _R3,
            (5, 0): 405.0 / _R3,
            (5, 1): 405.0 / _R3,
            (5, 2): 162.0 / _R3,
            (5, 3): 27.0 / _R3,
        },
    ),
    poles=(0, 1, 2),
)
MATERN_KERNELS = {"matern52": MATERN52, "matern32": MATERN32}


def radial_derivatives(kernel: MaternKernel, q: FloatArray) -> tuple[FloatArray, ...]:
    """Return f, f', f'', f''', f'''' at squared distances q; singular ones are 0 where q is 0."""
    z = np.sqrt(kernel.nu * q)
    apart = z > _SMALLEST
    over = np.where(apart, 1.0 / np.where(apart, z, 1.0), 0.0)
    decay = np.exp(-z)
    if kernel is MATERN52:
        second = (25.0 / 12.0) * decay
        third = -2.5 * second * over
        return (
            (1.0 + z + z * z / 3.0) * decay,
            -(5.0 / 6.0) * (1.0 + z) * decay,
            second,
            third,
            -2.5 * third * (1.0 + z) * over * over,
        )
    second = 2.25 * decay * over
    third = -1.5 * second * (1.0 + z) * over * over
    fourth = (81.0 / 16.0) * decay * (z * z + 3.0 * z + 3.0) * over**5
    return (1.0 + z) * decay, -1.5 * decay, second, third, fourth


@cache
def _table_of(name: str, order: int) -> FloatArray:
    """Return bounds of |exp(-z) N| from each grid point on: maxima on the grid, what lies between, and beyond it."""
    polynomial = MATERN_KERNELS[name].derivatives[order - 3]
    z = np.arange(0.0, _LAST + 2.0 * _STEP, _STEP)
    values = _largest(polynomial, z) * np.exp(-z)
    slope = np.zeros_like(z)
    for (_, power), factor in polynomial.items():
        slope += abs(factor) * (z**power + power * z ** max(0, power - 1))
    # On [z_i, z_i+1] the function exceeds its larger end by step/2 times its slope; e^-z z^k falls beyond z = k.
    cells = np.maximum(values[:-1], values[1:]) + 0.5 * _STEP * np.exp(-z[:-1]) * slope[1:]
    cells[-1] += float(np.exp(-_LAST)) * sum(abs(each) * _LAST**k for (_, k), each in polynomial.items())
    return np.asarray(np.maximum.accumulate(cells[::-1])[::-1] * (1.0 + _MARGIN))


def _table(kernel: MaternKernel, order: int) -> FloatArray:
    return _table_of("matern52" if kernel is MATERN52 else "matern32", order)


def _largest(polynomial: Polynomial, z: FloatArray) -> FloatArray:
    """Return max |N(c, z)| over 0 <= c <= 1: at the ends or where dN/dc = 0, a quadratic in c^2."""
    terms = {power: np.zeros_like(z) for power in range(6)}
    for (power, k), factor in polynomial.items():
        terms[power] += factor * z**k
    odd = any(power % 2 for power, _ in polynomial)
    A, B, C = (terms[power + odd] for power in (0, 2, 4))
    a, b, c = (5.0 * C, 3.0 * B, A) if odd else (0.0 * C, 4.0 * C, 2.0 * B)
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
    # Stable roots of a w^2 + b w + c; where one does not exist the candidate is harmless.
    half = -0.5 * (b + np.copysign(root, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        candidates = [np.zeros_like(z), np.ones_like(z), half / a, c / half]
    best = np.zeros_like(z)
    for candidate in candidates:
        w = np.clip(np.nan_to_num(candidate, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        value = A + w * (B + w * C)
        best = np.maximum(best, np.abs(value) * (np.sqrt(w) if odd else 1.0))
    return best
