"""What Matérn kernels leave out beyond the orders that are kept of them, datum by datum, for the plain bound.

Few derivatives of these kernels exist at a datum, but most data are far: every datum stops after order 2, 3 or 4,
where its remainder is least. Order 4, (2/3) f_4 (Dx)^4 + 2 f_3 (Dx)^2 |x|^2 + f_2 |x|^4 / 2, is bounded as a whole.

Equation: derived, Matérn expansion in data space
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.certificates.plain_kernel import derivative_bound

MOST_PAIRED = 12  # free inputs up to which the fourth powers are bounded together
SUMMED = 1e-10  # rounding of sums over the data and of eigenvalues, relative to the terms' sizes
WORTH = 0.5  # order 4 is kept where that takes away half of the remainder


@dataclass(frozen=True)
class Remainders:
    """Of N data around B centres; [B, N] each.

    Attributes:
        third: whether order 3 is kept.
        fourth: whether order 4 is bounded by itself.
        value: bound of |kappa_i - its orders that are kept| over the box.
        slope: the same after one order less than the polynomial's, for the data's products with slopes.
    """

    third: BoolArray
    fourth: BoolArray
    value: FloatArray
    slope: FloatArray


def remainders(kernel: str, q: Any, rho: FloatArray, degree: int) -> Remainders:
    """Choose where each datum's expansion stops.

    Args:
        kernel: a Matérn one.
        q: squared distances of the data from the centres, [B, N].
        rho: radii of the boxes, [B].
        degree: of the polynomials, 2 or 3.
    """
    nearest = np.maximum(0.0, np.sqrt(q) * (1 - 1e-12) - rho[:, None]).astype(float)
    first, second, third, fourth = (
        derivative_bound(kernel, order + 1, nearest) * rho[:, None] ** (order + 1) / factor
        for order, factor in ((1, 2), (2, 6), (3, 24), (4, 120))
    )
    if degree < 3:
        none = np.zeros(second.shape, dtype=bool)
        return Remainders(none, none, second, first)
    keeps_third = third < second
    keeps_fourth = keeps_third & (fourth < WORTH * third)
    value = np.where(keeps_fourth, fourth, np.where(keeps_third, third, second))
    return Remainders(keeps_third, keeps_fourth, value, second)


def fourth_order(
    weights: Any, f: tuple[Any, ...], offsets: Any, left: Remainders, rho: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound sum_i w_i (order 4 of kappa_i) over |x| <= rho, of those data that keep it: at most and at least 0, [B].

    Args:
        weights: w, [B, N].
        f: derivatives of the kernels, [B, N] each.
        offsets: D, [B, d, N].
        left: which data.
        rho: [B].
    """
    kept = np.where(left.fourth, weights, 0).astype(float)
    if not left.fourth.any():
        return np.zeros(len(rho)), np.zeros(len(rho))
    D = offsets.astype(float)
    flat, bent, steep = (
        factor * kept * np.where(left.fourth, each, 0).astype(float)
        for factor, each in ((0.5, f[2]), (2.0, f[3]), (2 / 3, f[4]))
    )
    low, high = _quartic_range(steep, D)
    least, most = _form_range(bent, D)
    level, slack = flat.sum(axis=1), SUMMED * np.abs(flat).sum(axis=1)
    power = rho**4 * (1 + 1e-12)
    low = low + least + np.minimum(level - slack, 0)
    high = high + most + np.maximum(level + slack, 0)
    return low * power, high * power


def _quartic_range(weights: FloatArray, D: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound sum_i w_i (D_i x)^4 over |x| <= 1; (Dx)^2 is linear in the products x_j x_k, of norm |x|^2."""
    d = D.shape[1]
    if d > MOST_PAIRED:  # (Dx)^4 <= |D|^2 (Dx)^2, for the weights of either sign
        wide = weights * np.sum(D**2, axis=1)
        return _form_range(np.minimum(wide, 0), D)[0], _form_range(np.maximum(wide, 0), D)[1]
    j, k = np.triu_indices(d)
    return _form_range(weights, D[:, j] * D[:, k] * np.where(j < k, np.sqrt(2), 1.0)[:, None])


def _form_range(weights: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound sum_i w_i (v_i x)^2 over |x| <= 1 by eigenvalues, v [B, m, N]; at most and at least 0, [B] each."""
    form = np.matmul(vectors * weights[:, None], vectors.transpose(0, 2, 1))
    size = SUMMED * np.sum(np.abs(weights) * np.sum(vectors**2, axis=1), axis=1)
    known = np.isfinite(form).all(axis=(1, 2)) & np.isfinite(size)
    ends = np.linalg.eigvalsh(np.where(known[:, None, None], form, 0))
    slack = np.where(known, size, np.inf)
    return np.minimum(ends[:, 0], 0) - slack, np.maximum(ends[:, -1], 0) + slack
