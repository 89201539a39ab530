"""The radial kernels of the plain bound in any precision: values, derivatives and bounds of Taylor remainders.

A kernel is f(q), q = |D - x|^2 with D the offset of a datum from the centre, in lengthscales. Along any line its second
to fifth derivatives are, with c the cosine between line and offset, those in `derivative_bound`.

Equation: derived, stationary kernels to degree 1
"""

from __future__ import annotations

from typing import Any

import numpy as np

Long = np.longdouble


UNIT = Long(np.finfo(Long).eps)  # in its own precision: 1 + UNIT is not 1
CURVATURE = {"squared_exponential": 1.0, "matern32": 3.0, "matern52": 5 / 3}
NU = {"matern32": 3, "matern52": 5}
NEAREST = 1e-50  # below it a datum lies at the centre, and derivatives that are infinite there count as 0
FARTHEST = 1e4  # lengthscales; every kernel is zero in 64 bits from there on
FEATURES = {2: 0.8660255, 3: 0.6454973, 4: 0.4269563}
"""sqrt((2k - 1)!!) / k! rounded up: |phi(c + x) - its Taylor sum below order k| <= that |x|^k, squared exponential."""


def kappa(kernel: str, r: Any) -> Any:
    """Return the kernel at distance r (any shape), in lengthscales and in units of its variance."""
    return derivatives(kernel, np.minimum(r, FARTHEST) ** 2, 0)[0]


def derivatives(kernel: str, q: Any, order: int = 3) -> tuple[Any, ...]:
    """Return f(q) and its derivatives in q up to `order`, at most 4 (3 for the squared exponential).

    Those that are infinite at 0 are 0 there: they come with offsets of that datum as factors, of a higher power.
    """
    if kernel == "squared_exponential":
        value = np.exp(-q / 2)
        return tuple(value * factor for factor in (1.0, -0.5, 0.25, -0.125)[: order + 1])
    nu = NU[kernel]
    z = np.sqrt(nu * np.minimum(q, FARTHEST**2))
    decay = np.exp(-z)
    if kernel == "matern32":
        found = [(1 + z) * decay, -1.5 * decay]
    else:
        found = [(1 + z + z**2 / 3) * decay, -5 * (1 + z) * decay / 6, 25 * decay / 12]
    if order >= len(found):
        inverse = np.divide(1.0, z, out=np.zeros_like(decay), where=z > NEAREST)
        # df/dq = (nu / (2 z)) df/dz, of e^-z / z^k in turn
        factor = -found[-1] * (nu / 2) * inverse
        found.append(factor)
        found.append(-factor * (nu / 2) * (1 + z) * inverse**2)
        found.append(factor * (nu / 2) ** 2 * (3 + 3 * z + z**2) * inverse**4)
    return tuple(found[: order + 1])


def derivative_bound(kernel: str, order: int, r: Any) -> Any:
    """Bound the kernel's derivative of this order along any line, at distances of at least r; for Matérn kernels.

    5/2, z = sqrt(5) r: order 2 = (5/3) e^-z (c^2 z^2 - 1 - z), order 3 = 5 sqrt 5 e^-z (c z - c^3 z^2 / 3),
    order 4 = 25 e^-z (1 - 2 c^2 z + c^4 z (z + 1) / 3),
    order 5 = (25/3) sqrt 5 e^-z (-15 c + 10 c^3 (z + 1) - c^5 (z^2 + 3 z + 3));
    3/2, z = sqrt(3) r: order 2 = 3 e^-z (c^2 z - 1), order 3 = 9 sqrt 3 e^-z (c^3 (1 + z)/3 - c),
    order 4 = (9/z) e^-z (3 (1 - c^2)^2 - 6 c^2 z + 3 c^4 z + c^4 z^2),
    order 5 = (9 sqrt 3 / z^2) e^-z (15 c (1 + z) (1 - c^2)^2 - 10 c^3 z^2 + 6 c^5 z^2 + c^5 z^3).
    The bounds fall with z from where they are taken, and are infinite at 0 where the derivatives are.
    """
    z = np.sqrt(NU[kernel]) * r
    if kernel == "matern32":
        return _bound_of_matern32(order, z) * np.exp(-z)
    if order == 5:
        return (
            25
            / 3
            * np.sqrt(5)
            * np.maximum(np.maximum(8 - 2.7 * z, 5.1 + 0.22 * z), z**2 - 7 * z + 8)
            * np.exp(-z)
        )
    if order == 4:
        return 25 * np.maximum(np.maximum(1, z / 2), 1 - 5 * z / 3 + z**2 / 3) * np.exp(-z)
    z = np.maximum(z, 1)
    if order == 3:
        return 5 * np.sqrt(5) * np.maximum(0.91 * np.sqrt(z), z**2 / 3 - z) * np.exp(-z)
    return 5 / 3 * (1 + z + z**2) * np.exp(-z)


def _bound_of_matern32(order: int, z: Any) -> Any:
    """Return the bounds without the factor e^-z."""
    if order == 2:
        return 3 * (1 + z)
    if order == 3:
        return 3 * np.sqrt(3) * np.maximum(2 / np.sqrt(1 + z), z - 2)
    with np.errstate(divide="ignore"):
        if order == 4:
            inside = z * (3 + 2 * z) / (3 + 3 * z + z**2)
            return 9 * np.maximum(np.maximum(3, 3 * inside), z**2 - 3 * z) / z
        flat = 4.3 * (1 + z) + z**2 * np.maximum(z - 4, 0)
        return 9 * np.sqrt(3) * np.maximum(flat, 4 * z**2 * (6 / (z + 6)) ** 1.5) / z**2


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
