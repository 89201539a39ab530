"""Sums over the data of products of offsets: the degree-3 coefficients without a packed copy of all pairs.

Equation: derived, squared exponential mean of degree 3
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray


def third_order_sums(rows: FloatArray, offset: FloatArray) -> FloatArray:
    """Return sum_i rows[..., b, r, i] offset[b, j, i] offset[b, k, i], [..., B, R, d, d].

    One slice of pairs (j, k >= j) is filled and multiplied at a time, so that it stays in the cache.

    Args:
        rows: [..., B, R, n].
        offset: [B, d, n].
    """
    n_boxes, d, n = offset.shape
    sums = np.empty((*rows.shape[:-1], d, d))
    pairs = np.empty((n_boxes, d, n))
    for j in range(d):
        piece = pairs[:, : d - j]
        np.multiply(offset[:, j:], offset[:, j : j + 1], out=piece)
        part = np.matmul(rows, piece.transpose(0, 2, 1))
        sums[..., j, j:] = part
        sums[..., j:, j] = part
    return sums
