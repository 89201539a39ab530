"""Ranges of quadratic forms over centred boxes, for many boxes at once."""

from __future__ import annotations

import numpy as np

from gpsuite.methods.robustness.box_bounds import FloatArray


def quadratic_range(
    linear: FloatArray, matrix: FloatArray, radius: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound b'x + x'Mx over |x_j| <= r_j from below and above.

    Off-diagonal terms go to the diagonal by M_jk x_j x_k >= -|M_jk| (x_j^2 r_k/r_j + x_k^2 r_j/r_k) / 2, then every
    dimension is minimised exactly; exact for d = 1 and for a diagonal matrix.

    Args:
        linear: b, [B, d].
        matrix: M, symmetric, [B, d, d].
        radius: r >= 0, [B, d].
    """
    diagonal = np.einsum("bjj->bj", matrix)
    size = np.abs(matrix)
    others = np.matmul(size, radius[:, :, None])[:, :, 0] - np.abs(diagonal) * radius
    others = np.maximum(others, 0.0)
    low = _separable_minimum(linear, diagonal, others, radius)
    return low, -_separable_minimum(linear, -diagonal, others, radius)


def quadratic_size(linear: FloatArray | None, matrix: FloatArray | None, radius: FloatArray) -> FloatArray:
    """Return the largest |b'x + x'Mx| that intervals allow: sum |b_j| r_j + r'|M|r, [B]; None means zero."""
    size = np.zeros(len(radius))
    if linear is not None:
        size += np.einsum("bj,bj->b", np.abs(linear), radius)
    if matrix is not None:
        size += np.einsum("bj,bj->b", np.matmul(np.abs(matrix), radius[:, :, None])[:, :, 0], radius)
    return size


def _separable_minimum(
    linear: FloatArray, diagonal: FloatArray, others: FloatArray, radius: FloatArray
) -> FloatArray:
    slope = np.abs(linear)
    # Multiplied by r, so that no division by a zero width is needed.
    bent = diagonal * radius - others
    inside = (bent > 0.0) & (slope <= 2.0 * bent)
    corner = bent * radius - slope * radius
    # the ratio first, at most 2: the square of a tiny slope would underflow
    vertex = -0.25 * slope * radius * (slope / np.where(inside, bent, 1.0))
    total: FloatArray = np.where(inside, vertex, corner).sum(axis=1)
    return total
