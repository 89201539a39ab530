"""Homogeneous polynomials of few inputs by their monomials: exact sizes of orders 4 and 5 over a box.

Equation: derived, squared exponential variance of degree 3
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from gpsuite.arrays import FloatArray, IntArray


@cache
def monomials(n_inputs: int, order: int) -> tuple[FloatArray, IntArray]:
    """Return the map from tensor entries to monomials [d^q, M], and the monomials' exponents, [M, d]."""
    keys = [
        tuple(index.count(j) for j in range(n_inputs)) for index in product(range(n_inputs), repeat=order)
    ]
    exponents = sorted(set(keys))
    sums = np.zeros((len(keys), len(exponents)))
    sums[np.arange(len(keys)), [exponents.index(key) for key in keys]] = 1.0
    return sums, np.array(exponents, dtype=np.int64)


def coefficients(tensor: FloatArray, n_inputs: int, order: int) -> FloatArray:
    """Return the monomials' coefficients [B, M] of T[x, ..., x], T [B, ...] with d^q entries, not symmetric."""
    return np.asarray(tensor.reshape(len(tensor), -1) @ monomials(n_inputs, order)[0])


def homogeneous_range(
    coefficient: FloatArray, radius: FloatArray, order: int
) -> tuple[FloatArray, FloatArray]:
    """Bound sum_m coefficient_m x^m over |x_j| <= radius_j, [B] each; a product of squares has a sign."""
    exponents = monomials(radius.shape[1], order)[1]
    size = np.prod(radius[:, None, :] ** exponents, axis=2)
    even = np.all(exponents % 2 == 0, axis=1)
    low = np.where(even, np.minimum(coefficient, 0.0), -np.abs(coefficient))
    high = np.where(even, np.maximum(coefficient, 0.0), np.abs(coefficient))
    return np.einsum("bm,bm->b", low, size), np.einsum("bm,bm->b", high, size)
