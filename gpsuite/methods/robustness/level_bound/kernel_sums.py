"""Weighted sums of Matérn kernels at the data, expanded in data space to degree 3 with one-sided rests.

sum_i w_i f(q_i), q_i = |D_i|^2 - 2 D_i x + |x|^2. The orders are f; -2 f' Dx; 2 f'' (Dx)^2 + f' |x|^2;
-(4/3) f''' (Dx)^3 - 2 f'' Dx |x|^2; (2/3) f'''' (Dx)^4 + 2 f''' (Dx)^2 |x|^2 + f''/2 |x|^4. Every datum stops where
its remainder is least: after order 2, 3 or 4; the sums of order 4 are bounded by eigenvalues.

Equation: derived, Matérn expansion in data space
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.robustness.level_bound.matern_derivatives import MaternKernel
from gpsuite.methods.robustness.rounding import TAIL

# Up to here the order-4 sums keep all pairs of inputs (d^4/4 numbers a box); above, only their traces' bounds.
MOST_PAIRED_INPUTS = 12
_EIGENVALUE = 1e-10


@dataclass(frozen=True)
class KernelOrders:
    """What the sums over the data need around B centres for one radius each.

    Attributes:
        offset: D, [B, d, n].
        f: f to f'''' at the centre, [B, n] each.
        third: data whose order 3 is kept, [B, n].
        fourth: data whose order 4 is kept, [B, n].
        remainder: bound of what is left out of each kernel over the box, [B, n].
        slope_remainder: the same after order 2 only, [B, n].
        rho: radius of the box, [B].
    """

    offset: FloatArray
    f: tuple[FloatArray, ...]
    third: BoolArray
    fourth: BoolArray
    remainder: FloatArray
    slope_remainder: FloatArray
    rho: FloatArray


def kernel_orders(
    kernel: MaternKernel,
    offset: FloatArray,
    distance: FloatArray,
    f: tuple[FloatArray, ...],
    rho: FloatArray,
    most: int,
) -> KernelOrders:
    """Choose the order at which each datum's expansion stops.

    Args:
        kernel: Matérn 5/2 or 3/2, with the bounds of its derivatives.
        offset: D, [B, d, n].
        distance: of the data from the centres over all inputs, [B, n].
        f: derivatives at the centres.
        rho: radii of the boxes, rounded up, [B].
        most: largest order that may be kept, 2 or 4.
    """
    # Distances have relative errors; those of the orders that are kept are in the rounding of all sums.
    wide = rho[:, None] * (1.0 + TAIL)
    z = np.sqrt(kernel.nu) * np.maximum(0.0, distance * (1.0 - TAIL) - wide)
    second = kernel.bound(3, z) * wide**3 / 6.0
    third = kernel.bound(4, z) * wide**4 / 24.0
    fourth = kernel.bound(5, z) * wide**5 / 120.0
    keeps_third = (third < second) & (most > 2)
    keeps_fourth = keeps_third & (fourth < 0.5 * third)
    left = np.where(keeps_fourth, fourth, np.where(keeps_third, third, second))
    return KernelOrders(offset, f, keeps_third, keeps_fourth, left, second, rho)


def order_four(orders: KernelOrders, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the kept order-4 terms of sum_i w_i f(q_i), w [..., B, n], from below and above, [..., B] each."""
    _, _, second, third, fourth = orders.f
    kept = np.where(orders.fourth, weights, 0.0)
    if not orders.fourth.any():
        return np.zeros(kept.shape[:-1]), np.zeros(kept.shape[:-1])
    flat = 0.5 * np.einsum("...n,...n->...", kept, second)
    squares = _eigenvalues(2.0 * kept * third, orders.offset)
    low, high = _quartic(2.0 / 3.0 * kept * fourth, orders.offset)
    low, high = low + squares[0] + np.minimum(flat, 0.0), high + squares[1] + np.maximum(flat, 0.0)
    power = orders.rho**4
    return low * power, high * power


def _quartic(weights: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound sum_i w_i (D_i x)^4 over |x| <= 1."""
    d = offset.shape[1]
    if d <= MOST_PAIRED_INPUTS:
        rows, columns = np.triu_indices(d)
        pairs = offset[:, rows] * offset[:, columns]
        pairs[:, rows < columns] *= np.sqrt(2.0)
        return _eigenvalues(weights, pairs)
    # (Dx)^4 <= |D|^2 (Dx)^2, separately for both signs of the weights.
    size = weights * np.einsum("bjn,bjn->bn", offset, offset)
    return _eigenvalues(np.minimum(size, 0.0), offset)[0], _eigenvalues(np.maximum(size, 0.0), offset)[1]


def _eigenvalues(weights: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return min(0, least) and max(0, largest) eigenvalue of sum_i w_i v_i v_i', rounded outwards, [..., B] each."""
    matrix = np.matmul(vectors * weights[..., None, :], vectors.transpose(0, 2, 1))
    sound = np.isfinite(matrix).all(axis=(-1, -2))
    values = np.linalg.eigvalsh(np.where(sound[..., None, None], matrix, 0.0))
    # Rounding of the sums and of the decomposition, by the sum of the absolute terms.
    size = np.einsum("...n,...jn,...jn->...", np.abs(weights), vectors, vectors)
    slack = np.where(sound, _EIGENVALUE * size, np.inf)
    return np.minimum(0.0, values[..., 0]) - slack, np.maximum(0.0, values[..., -1]) + slack
