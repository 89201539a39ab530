"""Upper bounds of cubic polynomials over the cube |z| <= 1, for the plain bound.

Equation: derived, upper bound of a cubic, quadratic form over a box
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray

UNIT64 = 2.0**-53
EIGENVALUE = 1e-11  # of a symmetric matrix, relative to its Frobenius norm: far above LAPACK's error
ROUNDS, STEPS = 2, 12


def cubic_maximum(
    constant: FloatArray, b: FloatArray, H: FloatArray, C: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Bound constant + b'z + z'Hz + C[z, z, z] from above over |z_j| <= 1.

    Inputs in which the slope cannot change its sign go to their better end. Then C[zzz] <= sum_jkl |C_jkl| z_j^2, and
    for a diagonal A >= 0 with A - H >= 0, z'Hz <= z'(H - A)z + tr A: what is left is concave, so its tangent at any
    point bounds it.

    Args:
        constant: [B].
        b: [B, d].
        H: symmetric, [B, d, d].
        C: symmetric, [B, d, d, d], or None for zero.

    Returns:
        the bounds [B], and how much each input adds to what they may be too large by, [B, d].
    """
    d = b.shape[1]
    terms = np.abs(constant) + np.abs(b).sum(axis=1) + np.abs(H).sum(axis=(1, 2))
    terms += 0.0 if C is None else np.abs(C).sum(axis=(1, 2, 3))
    constant, b, H, rows = _without_monotone(constant, b, H, C)
    H = H.copy()
    np.einsum("bjj->bj", H)[...] += rows
    A = dominating_diagonal(H)
    np.einsum("bjj->bj", H)[...] -= A
    z = _climb(b, H)
    bent = np.einsum("bjk,bk->bj", H, z)
    slope = b + 2 * bent
    gap = np.abs(slope) - slope * z
    value = constant + np.sum((b + bent) * z, axis=1) + A.sum(axis=1) + gap.sum(axis=1)
    slack = UNIT64 * (64 + 16 * d**2 + 4 * d**3) * (terms + A.sum(axis=1))
    return value + slack, A * (1 - z**2) + gap


def dominating_diagonal(H: FloatArray) -> FloatArray:
    """Return A >= 0 [B, d] with diag(A) - H positive semidefinite, H symmetric [B, d, d], of the least trace of three.

    Row sums; the largest eigenvalue; D times the largest eigenvalue of D^-1/2 H D^-1/2, D the norms of H's rows.
    """
    diagonal = np.einsum("bjj->bj", H)
    others = np.abs(H).sum(axis=2) - np.abs(diagonal)
    found: FloatArray = np.maximum(diagonal + others, 0) + UNIT64 * (16 + 4 * H.shape[1]) * (
        others + np.abs(diagonal)
    )
    norms = np.sqrt(np.sum(H**2, axis=2))
    D = np.maximum(norms, 1e-3 * norms.max(axis=1, keepdims=True))
    for scale in (np.ones_like(D), np.where(D > 0, D, 1)):
        root = np.sqrt(scale)
        scaled = H / (root[:, :, None] * root[:, None, :])
        finite = np.isfinite(scaled).all(axis=(1, 2))
        sound = np.where(finite[:, None, None], scaled, 0)
        largest = np.linalg.eigvalsh(sound)[:, -1] + EIGENVALUE * np.sqrt(np.sum(sound**2, axis=(1, 2)))
        other = np.where(finite, np.maximum(largest, 0), np.inf)[:, None] * scale
        found = np.where(other.sum(axis=1, keepdims=True) < found.sum(axis=1, keepdims=True), other, found)
    return found


def _without_monotone(
    constant: FloatArray, b: FloatArray, H: FloatArray, C: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Fix inputs of constant slope; return the polynomial without them, of C only sum_kl |C_jkl|, [B, d]."""
    left = np.ones(b.shape)
    for _ in range(ROUNDS):
        rows = np.zeros(b.shape) if C is None else np.abs(C).sum(axis=(2, 3))
        fixed = (np.abs(b) > (2 * np.abs(H).sum(axis=2) + 3 * rows) * (1 + 1e-9)) & (left > 0)
        if not fixed.any():
            break
        v, left = np.where(fixed, np.sign(b), 0.0), np.where(fixed, 0.0, left)
        turned = np.einsum("bjk,bk->bj", H, v)
        constant, b = constant + np.sum((b + turned) * v, axis=1), b + 2 * turned
        if C is not None:
            bent = np.einsum("bjkl,bl->bjk", C, v)
            twice = np.einsum("bjk,bk->bj", bent, v)
            constant, b, H = constant + np.sum(twice * v, axis=1), b + 3 * twice, H + 3 * bent
            C = C * left[:, :, None, None] * left[:, None, :, None] * left[:, None, None, :]
        b, H = b * left, H * left[:, :, None] * left[:, None, :]
    return constant, b, H, np.zeros(b.shape) if C is None else np.abs(C).sum(axis=(2, 3))


def _climb(b: FloatArray, concave: FloatArray) -> FloatArray:
    """Return points |z| <= 1 near the maximum of b'z + z'concave z, by accelerated projected gradients."""
    rate = 0.5 / np.maximum(np.abs(concave).sum(axis=2).max(axis=1, keepdims=True), 1e-300)
    z: FloatArray = np.sign(b) * np.minimum(1, np.abs(b) * rate)
    ahead = z
    momentum = 1.0
    for _ in range(STEPS):
        step = np.clip(ahead + rate * (b + 2 * np.einsum("bjk,bk->bj", concave, ahead)), -1, 1)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead, z, momentum = step + (momentum - 1) / following * (step - z), step, following
    return z


def quadratic_range(linear: FloatArray, square: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds [B] of b'x + x'Mx over |x_j| <= r_j, with |M_jk x_j x_k| split by AM-GM.

    Args:
        linear: b, [B, d].
        square: M, [B, d, d].
        r: [B, d].
    """
    return _quadratic_minimum(linear, square, r), -_quadratic_minimum(-linear, -square, r)


def _quadratic_minimum(linear: FloatArray, square: FloatArray, r: FloatArray) -> FloatArray:
    diagonal = np.einsum("bjj->bj", square)
    across = np.einsum("bjk,bk->bj", np.abs(square), r) - np.abs(diagonal) * r
    curve, slope = diagonal * r**2 - across * r, np.abs(linear) * r
    inside = (curve > 0) & (slope <= 2 * curve)
    least = np.where(inside, -(slope**2) / np.where(inside, 4 * curve, 1), curve - slope)
    size = slope + (across + 2 * np.abs(diagonal) * r) * r
    return np.asarray(np.sum(least, axis=1) - (64 + 8 * r.shape[1]) * UNIT64 * np.sum(size, axis=1))
