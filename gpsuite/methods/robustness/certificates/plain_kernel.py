"""The radial kernels of the plain bound in any precision: values, derivatives and bounds of Taylor remainders.

A kernel is f(q), q = |D - x|^2 with D the offset of a datum from the centre, in lengthscales. Along any line its second
to fourth derivatives are, with c the cosine between line and offset, those in `derivative_bound`.

Equation: derived, stationary kernels to degree 1
"""

from __future__ import annotations

from typing import Any

import numpy as np

Long = np.longdouble


UNIT = Long(np.finfo(Long).eps)  # in its own precision: 1 + UNIT is not 1
CURVATURE = {"squared_exponential": 1.0, "matern32": 3.0, "matern52": 5 / 3}
NU = {"matern32": 3, "matern52": 5}
DEGREE = {"squared_exponential": 3, "matern32": 2, "matern52": 3}
"""Up to which order sums of kernels are kept: one less than the derivatives that are bounded at the datum itself."""

FARTHEST = 1e4  # lengthscales; every kernel is zero in 64 bits from there on
FEATURES = {2: 0.8660255, 3: 0.6454973, 4: 0.4269563}
"""sqrt((2k - 1)!!) / k! rounded up: |phi(c + x) - its Taylor sum below order k| <= that |x|^k, squared exponential."""


def kappa(kernel: str, r: Any) -> Any:
    """Return the kernel at distance r (any shape), in lengthscales and in units of its variance."""
    return derivatives(kernel, np.minimum(r, FARTHEST) ** 2, 0)[0]


def derivatives(kernel: str, q: Any, order: int = 3) -> tuple[Any, ...]:
    """Return f(q) and its derivatives in q up to `order`; those that are infinite at 0 are 0 there.

    They come with offsets of that datum as factors, of a higher power.
    """
    if kernel == "squared_exponential":
        value = np.exp(-q / 2)
        return tuple(value * factor for factor in (1.0, -0.5, 0.25, -0.125)[: order + 1])
    nu = NU[kernel]
    z = np.sqrt(nu * np.minimum(q, FARTHEST**2))
    decay = np.exp(-z)
    inverse = np.divide(decay, z, out=np.zeros_like(decay), where=z > 0)
    if kernel == "matern32":
        return ((1 + z) * decay, -1.5 * decay, 2.25 * inverse)[: order + 1]
    value = (1 + z + z**2 / 3) * decay
    return (value, -5 * (1 + z) * decay / 6, 25 * decay / 12, -125 * inverse / 24)[: order + 1]


def derivative_bound(kernel: str, order: int, r: Any) -> Any:
    """Bound the kernel's derivative of this order along any line, at distances of at least r; for Matérn kernels.

    5/2: k'' = (5/3) e^-z (c^2 z^2 - 1 - z), k''' = e^-z (z/sqrt 5) (25 c - (25/3) c^3 z),
    k'''' = e^-z (25 - 50 c^2 z + (25/3) c^4 z (z + 1)), z = sqrt(5) r;
    3/2: k'' = 3 e^-z (c^2 z - 1), k''' = 9 sqrt 3 e^-z (c^3 (1 + z)/3 - c), z = sqrt(3) r.
    The bounds fall with z from where they are taken.
    """
    z = np.sqrt(NU[kernel]) * r
    if kernel == "matern32":
        return {2: 3 * (1 + z), 3: 3 * np.sqrt(3) * (2 + z)}[order] * np.exp(-z)
    if order == 4:
        return 25 * (1 + z**2 / 3) * np.exp(-z)
    z = np.maximum(z, 1)
    if order == 3:
        return 25 / np.sqrt(5) * z * np.maximum(1, z / 3) * np.exp(-z)
    return 5 / 3 * (1 + z + z**2) * np.exp(-z)


def first_order_rest(kernel: str, rho: Any) -> Any:
    """Bound |phi(c + x) - phi(c) - D phi(c) x|^2 for |x| <= rho: 2 - 2 kappa + lambda rho^2 + 2 rho kappa'.

    Near 0, where that cancels, by the second derivative of phi (3/2: by z^3).
    """
    value, slope = derivatives(kernel, rho**2, 1)
    size = 1 + CURVATURE[kernel] * rho**2
    direct = 2 * (1 - value) + (CURVATURE[kernel] + 4 * slope) * rho**2 + 64 * 2.0**-53 * size
    if kernel == "squared_exponential":
        near = FEATURES[2] ** 2 * rho**4
    elif kernel == "matern32":
        near = 4 * (np.sqrt(3) * rho) ** 3 / 3
    else:
        near = 25 * rho**4 / 4
    return np.minimum(near, direct)


def gram(points: Any, scale: Any, kernel: str) -> Any:
    """Return kappa between all points [N, D], in their precision, from differences in units of `scale` [D]."""
    squared = np.zeros((len(points), len(points)), dtype=points.dtype)
    for column, unit in zip(points.T, scale, strict=True):
        squared += ((column[:, None] - column) / unit) ** 2
    return kappa(kernel, np.sqrt(squared))
