"""Orders 2 and 3 of the squared exponential expansion for many functions at once: the monomials are formed once.

For one function it is cheaper to weigh the offsets and to multiply them by the offsets' pairs (`tensors`); with F
functions that weighing costs F copies of all offsets. Here the monomials e D_j D_k and e D_j D_k D_l stand on one side
of the products, and the weights of all functions on the other.

Equation: derived, squared exponential mean of degree 3
Equation: derived, squared exponential variance of degree 3
"""

from __future__ import annotations

from functools import cache

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.cubic import by_box, symmetric_part


def second_orders(alpha: FloatArray, u: FloatArray, values: FloatArray, offset: FloatArray) -> FloatArray:
    """Return sum_i (alpha_i / 2) e_i D_i D_i' and - sum_i u_i e_i D_i D_i', [F, B, 2, d, d].

    Args:
        alpha: weights of the means, [F, 1, n].
        u: the reductions times the values, [F, B, n].
        values: e, [B, n].
        offset: D, [B, d, n].
    """
    n_boxes, d, _ = offset.shape
    weights = _weights(alpha, u, 0.5, -1.0)
    found = np.empty((n_boxes, d, d, weights.shape[2]))
    for j in range(d):
        part = (offset[:, j:] * (offset[:, j : j + 1] * values[:, None])) @ weights
        found[:, j, j:] = part
        found[:, j:, j] = part
    return np.ascontiguousarray(_by_function(found, len(alpha)).transpose(1, 2, 0, 3, 4))


def third_orders(
    alpha: FloatArray, reduced: FloatArray, values: FloatArray, offset: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return A_3 and q_C, [F B, d, d, d], from R V = [u, U_1], [F, B, 1 + d, n]; other arguments as above."""
    n_boxes, d, n = offset.shape
    weights = _weights(alpha, reduced[:, :, 0], 1.0 / 6.0, -1.0 / 3.0)
    own = np.empty((*reduced.shape[:2], d, d, d))
    sums, filled = np.empty((n_boxes, d * (d + 1) * (d + 2) // 6, weights.shape[2])), 0
    cubes = np.empty((n_boxes, d * (d + 1) // 2, n))
    for j in range(d):
        squares = offset[:, j:] * (offset[:, j : j + 1] * values[:, None])
        part = reduced[:, :, 1:] @ -squares.transpose(0, 2, 1)
        own[..., j, j:] = part
        own[..., j:, j] = part
        end = 0
        for k in range(j, d):
            start, end = end, end + d - k
            np.multiply(squares[:, k - j :], offset[:, k : k + 1], out=cubes[:, start:end])
        sums[:, filled : filled + end] = cubes[:, :end] @ weights
        filled += end
    mean, variance = _by_function(sums[:, _places(d)], len(alpha))
    return by_box(mean, 3), symmetric_part(by_box(own, 3)) + by_box(variance, 3)


def _weights(alpha: FloatArray, u: FloatArray, of_mean: float, of_variance: float) -> FloatArray:
    """Return the weights of all means, then of all variances, [B, n, 2 F]."""
    count, n_boxes, n = u.shape
    weights = np.empty((n_boxes, n, 2 * count))
    weights[:, :, :count] = of_mean * alpha[:, 0].T
    weights[:, :, count:] = of_variance * u.transpose(1, 2, 0)
    return weights


def _by_function(sums: FloatArray, count: int) -> FloatArray:
    """Return sums [B, ..., 2 F] as [2, F, B, ...]."""
    parts = sums.reshape(*sums.shape[:-1], 2, count)
    return np.ascontiguousarray(np.moveaxis(parts, (-2, -1), (0, 1)))


@cache
def _places(n_inputs: int) -> IntArray:
    """Return the place of x_j x_k x_l among the monomials j <= k <= l, [d, d, d]."""
    places = np.empty((n_inputs,) * 3, dtype=np.int64)
    number = 0
    for j in range(n_inputs):
        for k in range(j, n_inputs):
            for m in range(k, n_inputs):
                for a, b, c in ((j, k, m), (j, m, k), (k, j, m), (k, m, j), (m, j, k), (m, k, j)):
                    places[a, b, c] = number
                number += 1
    return places
