"""The radial kernels of the plain bound in any precision: values, derivatives and bounds of Taylor remainders.

A kernel is f(q), q = |D - x|^2 with D the offset of a datum from the centre, in lengthscales. Let c be the cosine
between a line and the offset. Along any line the second to fifth derivatives are those in `derivative_bound`.

Equation: derived, stationary kernels to degree 1
Equation: derived, upper bound of a cubic, quadratic form over a box
Equation: derived, Matérn expansion in data space
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray

Long = np.longdouble
UNIT = Long(np.finfo(Long).eps)  # the unit of each precision: 1 + UNIT is not 1
CURVATURE = {"squared_exponential": 1.0, "matern32": 3.0, "matern52": 5 / 3}
NU = {"matern32": 3, "matern52": 5}
NEAREST = 1e-50  # below it a datum counts as at the centre, and derivatives that are infinite there count as 0
FARTHEST = 1e4  # distance in lengthscales. Beyond it every kernel is zero in 64 bits
FEATURES = {2: 0.8660255, 3: 0.6454973, 4: 0.4269563}
"""sqrt((2k - 1)!!) / k! rounded up: |phi(c + x) - its Taylor sum below order k| <= that |x|^k, squared exponential."""


def kappa(kernel: str, r: Any) -> Any:
    """Return the kernel at distance r (any shape), in lengthscales and in units of its variance."""
    return derivatives(kernel, np.minimum(r, FARTHEST) ** 2, 0)[0]


def derivatives(kernel: str, q: Any, order: int = 3) -> tuple[Any, ...]:
    """Return f(q) and its derivatives in q up to `order`, at most 4 (3 for the squared exponential).

    Derivatives that are infinite at 0 are returned as 0 there: their factors are offsets of that datum, of a higher
    power.
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
        # df/dq = (nu / (2 z)) df/dz, applied to e^-z / z^k in turn
        factor = -found[-1] * (nu / 2) * inverse
        found.append(factor)
        found.append(-factor * (nu / 2) * (1 + z) * inverse**2)
        found.append(factor * (nu / 2) ** 2 * (3 + 3 * z + z**2) * inverse**4)
    return tuple(found[: order + 1])


def derivative_bound(kernel: str, order: int, r: Any) -> Any:
    """Bound a Matérn kernel's derivative of this order along any line, at distances of at least r.

    5/2, z = sqrt(5) r: order 2 = (5/3) e^-z (c^2 z^2 - 1 - z), order 3 = 5 sqrt 5 e^-z (c z - c^3 z^2 / 3),
    order 4 = 25 e^-z (1 - 2 c^2 z + c^4 z (z + 1) / 3),
    order 5 = (25/3) sqrt 5 e^-z (-15 c + 10 c^3 (z + 1) - c^5 (z^2 + 3 z + 3)),
    3/2, z = sqrt(3) r: order 2 = 3 e^-z (c^2 z - 1), order 3 = 9 sqrt 3 e^-z (c^3 (1 + z)/3 - c),
    order 4 = (9/z) e^-z (3 (1 - c^2)^2 - 6 c^2 z + 3 c^4 z + c^4 z^2),
    order 5 = (9 sqrt 3 / z^2) e^-z (15 c (1 + z) (1 - c^2)^2 - 10 c^3 z^2 + 6 c^5 z^2 + c^5 z^3).
    The bounds fall with z from their first point, and are infinite at 0 if the derivatives are.
    """
    z = np.sqrt(NU[kernel]) * r
    if kernel == "matern32":
        return _bound_of_matern32(order, z) * np.exp(-z)
    if order == 5:
        return 25 / 3 * np.sqrt(5) * np.maximum(np.maximum(8 - 2.7 * z, 5.1 + 0.22 * z), z**2 - 7 * z + 8) * np.exp(-z)
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


def first_order_remainder(kernel: str, rho: Any) -> Any:
    """Bound |phi(c + x) - phi(c) - D phi(c) x|^2 for |x| <= rho: 2 - 2 kappa + lambda rho^2 + 2 rho kappa'.

    Near 0, where that cancels, the second derivative of phi gives the bound (for 3/2, z^3).
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


# Upper bounds of cubic polynomials over the cube |z| <= 1, for the plain bound.


UNIT64 = 2.0**-53
EIGENVALUE = 1e-11  # error of a symmetric matrix's eigenvalue, relative to its Frobenius norm: far above LAPACK's error
ROUNDS, STEPS = 2, 12


def cubic_maximum(
    constant: FloatArray, b: FloatArray, H: FloatArray, C: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Bound constant + b'z + z'Hz + C[z, z, z] from above over |z_j| <= 1.

    Inputs in which the slope cannot change its sign go to their better end. Then C[zzz] <= sum_jkl |C_jkl| z_j^2. For a
    diagonal A >= 0 with A - H >= 0, z'Hz <= z'(H - A)z + tr A. The result is concave, so its tangent at any point
    bounds it.

    Args:
        constant: [B].
        b: [B, d].
        H: symmetric, [B, d, d].
        C: symmetric, [B, d, d, d], or None for zero.

    Returns:
        the bounds [B], and each input's share of their looseness, [B, d].
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

    The three are row sums, the largest eigenvalue, and D times the largest eigenvalue of D^-1/2 H D^-1/2. D are the
    norms of H's rows.
    """
    diagonal = np.einsum("bjj->bj", H)
    others = np.abs(H).sum(axis=2) - np.abs(diagonal)
    found: FloatArray = np.maximum(diagonal + others, 0) + UNIT64 * (16 + 4 * H.shape[1]) * (others + np.abs(diagonal))
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
    """Fix inputs with a slope of constant sign. Return the polynomial without them, of C only sum_kl |C_jkl|."""
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


# Remainders of Matérn kernels beyond the kept orders, datum by datum, for the plain bound.
#
# Few derivatives of these kernels exist at a datum, but most data are far. Every datum's expansion stops after order 2,
# 3 or 4, where its remainder is least. Order 4, (2/3) f_4 (Dx)^4 + 2 f_3 (Dx)^2 |x|^2 + f_2 |x|^4 / 2, is bounded as a
# whole.


MOST_PAIRED = 12  # free inputs up to which the fourth powers are bounded together
SUMMED = 1e-10  # rounding of sums over the data and of eigenvalues, relative to the terms' sizes
WORTH = 0.5  # order 4 is kept if it halves the remainder


@dataclass(frozen=True)
class Remainders:
    """Remainders for N data around B centres, [B, N] each.

    Attributes:
        third: whether order 3 is kept.
        fourth: whether order 4 is bounded separately.
        value: bound of |kappa_i - its kept orders| over the box.
        slope: bound after one order less than the polynomial's, for the data's products with slopes.
    """

    third: BoolArray
    fourth: BoolArray
    value: FloatArray
    slope: FloatArray


def remainders(kernel: str, q: Any, rho: FloatArray, degree: int) -> Remainders:
    """Choose where each datum's expansion stops.

    Args:
        kernel: a Matérn kernel.
        q: squared distances of the data from the centres, [B, N].
        rho: radii of the boxes, [B].
        degree: degree of the polynomials, 2 or 3.
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
    """Bound sum_i w_i (order 4 of kappa_i) over |x| <= rho for the data that keep it: at most and at least 0, [B].

    Args:
        weights: w, [B, N].
        f: derivatives of the kernels, [B, N] each.
        offsets: D, [B, d, N].
        left: remainders. They name the data that keep order 4.
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
    """Bound sum_i w_i (D_i x)^4 over |x| <= 1. (Dx)^2 is linear in the products x_j x_k, of norm |x|^2."""
    d = D.shape[1]
    if d > MOST_PAIRED:  # (Dx)^4 <= |D|^2 (Dx)^2, separately for weights of both signs
        wide = weights * np.sum(D**2, axis=1)
        return _form_range(np.minimum(wide, 0), D)[0], _form_range(np.maximum(wide, 0), D)[1]
    j, k = np.triu_indices(d)
    return _form_range(weights, D[:, j] * D[:, k] * np.where(j < k, np.sqrt(2), 1.0)[:, None])


def _form_range(weights: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound sum_i w_i (v_i x)^2 over |x| <= 1 by eigenvalues, v [B, m, N]. At most and at least 0, [B] each."""
    form = np.matmul(vectors * weights[:, None], vectors.transpose(0, 2, 1))
    size = SUMMED * np.sum(np.abs(weights) * np.sum(vectors**2, axis=1), axis=1)
    known = np.isfinite(form).all(axis=(1, 2)) & np.isfinite(size)
    ends = np.linalg.eigvalsh(np.where(known[:, None, None], form, 0))
    slack = np.where(known, size, np.inf)
    return np.minimum(ends[:, 0], 0) - slack, np.maximum(ends[:, -1], 0) + slack
