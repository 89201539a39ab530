"""The radial kernels of the plain bound in any precision: values, slopes and tails of the first-order expansion."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Long = np.longdouble

LongArray = npt.NDArray[np.longdouble]

UNIT = Long(np.finfo(Long).eps)  # in its own precision: 1 + UNIT is not 1


def kappa(kernel: str, r: Any) -> Any:
    """Return the kernel at distance r (any shape), in lengthscales and in units of its variance."""
    if kernel == "squared_exponential":
        return np.exp(-(r**2) / 2)
    if kernel == "matern32":
        z = np.sqrt(Long(3)).astype(r.dtype) * r
        return (1 + z) * np.exp(-z)
    z = np.sqrt(Long(5)).astype(r.dtype) * r
    return (1 + z + z**2 / 3) * np.exp(-z)


def psi(kernel: str, r: Any) -> Any:
    """Return -kappa'(r) / (r sqrt(lambda)), lambda = -kappa''(0)."""
    if kernel == "squared_exponential":
        return np.exp(-(r**2) / 2)
    if kernel == "matern32":
        root = np.sqrt(Long(3)).astype(r.dtype)
        return root * np.exp(-root * r)
    z = np.sqrt(Long(5)).astype(r.dtype) * r
    return np.sqrt(Long(5) / 3).astype(r.dtype) * (1 + z) * np.exp(-z)


def tail_bound(kernel: str, r: LongArray) -> LongArray:
    """Return an upper bound of 1 - kappa^2 - kappa'^2 / lambda up to r, by its series' first terms."""
    if kernel == "squared_exponential":
        series = r**4 / 2
    elif kernel == "matern32":
        series = 4 * (np.sqrt(Long(3)) * r) ** 3 / 3
    else:
        z = np.sqrt(Long(5)) * r
        series = 2 * z**4 / 9 + (2 * z) ** 5 / 120
    direct = 1 - kappa(kernel, r) ** 2 - (r * psi(kernel, r)) ** 2
    bound = np.minimum(series * (1 + 64 * UNIT), np.maximum(direct, 0) + 64 * UNIT)
    return np.asarray(np.minimum(bound, Long(1)))


def gram(points: Any, scale: Any, kernel: str) -> Any:
    """Return kappa between all points [N, D], in their precision, from differences in units of `scale` [D]."""
    squared = np.zeros((len(points), len(points)), dtype=points.dtype)
    for column, unit in zip(points.T, scale, strict=True):
        squared += ((column[:, None] - column) / unit) ** 2
    return kappa(kernel, np.sqrt(squared))
