"""Upper bound of a cubic over a box by a concave overestimator, with the point that attains it nearly.

Inputs in which the polynomial is monotone are fixed at their better end. Then, in z = x / r, |z| <= 1, the cubic part
goes to the diagonal, C[xxx] <= sum_j nu_j z_j^2 with nu_j = r_j sum_kl |C_jkl| r_k r_l, and
z'Hz <= z'(H - A)z + tr A for a diagonal A >= 0 with A >= H; the right side is concave, so its value and gradient at
any point bound its maximum.

Equation: derived, upper bound of a cubic
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.cubic import (
    Cubic,
    cubic_rows,
    sum_slack,
    weighted_rows,
)

STEPS = 12
ROUNDS = 2
# Relative slack of eigenvalues against the matrix's size, far above d u.
EIGENVALUE = 1e-12
_SMALLEST_SCALE = 1e-3


@dataclass(frozen=True)
class CubicMaximum:
    """Bounds of B cubics over their boxes.

    Attributes:
        bound: upper bound of the polynomial, [B].
        point: where the relaxation is largest, in the polynomial's units, inside the box, [B, d].
        share: how much each input adds to the relaxation's gap, [B, d].
    """

    bound: FloatArray
    point: FloatArray
    share: FloatArray


def cubic_maximum(polynomial: Cubic, radius: FloatArray) -> CubicMaximum:
    """Bound cubics from above over |x_j| <= radius_j, [B, d]."""
    size = polynomial.magnitude(radius)
    shift, left, moved = _fix_monotone_inputs(polynomial, radius)
    nu = left * cubic_rows(moved.cubic, left)
    H = moved.quadratic * (left[:, :, None] * left[:, None, :])
    np.einsum("bjj->bj", H)[...] += nu
    A = dominating_diagonal(H)
    linear = moved.linear * left
    concave = H.copy()
    np.einsum("bjj->bj", concave)[...] -= A
    z = _climb(linear, concave)
    # Concavity: f(x) <= f(z) + g(z)'(x - z), and |x| <= 1.
    curved = np.matmul(concave, z[:, :, None])[:, :, 0]
    slope = linear + 2.0 * curved
    gap = np.abs(slope) - slope * z
    value = moved.constant + np.einsum("bj,bj->b", linear + curved, z)
    added = A.sum(axis=1)
    bound = value + added + gap.sum(axis=1) + sum_slack(radius.shape[1]) * (size + added)
    return CubicMaximum(bound, shift + left * z, A * (1.0 - z * z) + gap)


def dominating_diagonal(H: FloatArray) -> FloatArray:
    """Return diagonals A >= 0 with A - H positive semidefinite, the least trace of three, [B, d].

    Row sums; the largest eigenvalue times I; the largest eigenvalue of H scaled by the norms of its rows.
    """
    d = H.shape[1]
    diagonal = np.einsum("bjj->bj", H)
    rows: FloatArray = np.maximum(0.0, diagonal + np.abs(H).sum(axis=2) - np.abs(diagonal)) * (
        1.0 + sum_slack(d)
    )
    if d == 1:
        return rows
    norms = np.sqrt(np.einsum("bjk,bjk->bj", H, H))
    scale = np.maximum(norms, _SMALLEST_SCALE * norms.max(axis=1, keepdims=True))
    scale = np.where(scale > 0.0, scale, 1.0)
    root = np.sqrt(scale)
    both = np.stack([H, H / (root[:, :, None] * root[:, None, :])])
    finite = np.isfinite(both).all(axis=(0, 2, 3))
    largest = np.linalg.eigvalsh(np.where(finite[:, None, None], both, 0.0))[..., -1]
    sizes = np.sqrt(np.einsum("abjk,abjk->ab", both, both))
    largest = np.maximum(0.0, largest + EIGENVALUE * sizes)
    candidates = np.stack([rows, largest[0][:, None] * np.ones(d), largest[1][:, None] * scale])
    candidates[1:, ~finite] = np.inf
    best = np.argmin(candidates.sum(axis=2), axis=0)
    return np.asarray(candidates[best, np.arange(len(H))])


def _fix_monotone_inputs(polynomial: Cubic, radius: FloatArray) -> tuple[FloatArray, FloatArray, Cubic]:
    """Move inputs of constant slope to their better end; return the shift, the radii left and the polynomial there."""
    shift, left = np.zeros(radius.shape), radius
    for _ in range(ROUNDS):
        curvature = 2.0 * weighted_rows(polynomial.quadratic, left) + 3.0 * cubic_rows(polynomial.cubic, left)
        monotone = (np.abs(polynomial.linear) > curvature * (1.0 + sum_slack(radius.shape[1]))) & (left > 0.0)
        if not monotone.any():
            break
        step = np.where(monotone, np.copysign(left, polynomial.linear), 0.0)
        polynomial = _shifted(polynomial, step)
        shift, left = shift + step, np.where(monotone, 0.0, left)
    return shift, left, polynomial


def _shifted(polynomial: Cubic, step: FloatArray) -> Cubic:
    """Return the polynomial in the offset from `step`, [B, d]."""
    column = step[:, :, None]
    turned = np.matmul(polynomial.quadratic, column)[:, :, 0]
    constant = polynomial.constant + np.einsum("bj,bj->b", polynomial.linear + turned, step)
    linear, quadratic = polynomial.linear + 2.0 * turned, polynomial.quadratic
    if polynomial.cubic is not None:
        bent = np.matmul(polynomial.cubic, column[:, None])[..., 0]
        twice = np.matmul(bent, column)[:, :, 0]
        constant = constant + np.einsum("bj,bj->b", twice, step)
        linear, quadratic = linear + 3.0 * twice, quadratic + 3.0 * bent
    return Cubic(constant, linear, quadratic, polynomial.cubic)


def _climb(linear: FloatArray, concave: FloatArray) -> FloatArray:
    """Return points |z| <= 1 near the maximum of linear'z + z'concave z, by accelerated projected gradients."""
    steepest = 2.0 * np.abs(concave).sum(axis=2).max(axis=1)
    rate = (1.0 / np.where(steepest > 0.0, steepest, 1.0))[:, None]
    flat = steepest[:, None] == 0.0
    z = np.where(flat, np.sign(linear), 0.0)
    ahead, momentum = z, 1.0
    for _ in range(STEPS):
        slope = linear + 2.0 * np.matmul(concave, ahead[:, :, None])[:, :, 0]
        step = np.where(flat, z, np.clip(ahead + rate * slope, -1.0, 1.0))
        if np.array_equal(step, z):
            break
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
        ahead, z = step + ((momentum - 1.0) / following) * (step - z), step
        momentum = following
    return z
