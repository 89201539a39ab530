"""Sums over the data of products of offsets: the degree-3 coefficients without a packed copy of all pairs.

Equation: derived, squared exponential mean of degree 3
Equation: derived, squared exponential variance of degree 3
Equation: derived, upper bound of a cubic
Equation: derived, level function
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Protocol

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.rounding import UNIT


def third_order_sums(rows: FloatArray, offset: FloatArray) -> FloatArray:
    """Return sum_i rows[..., b, r, i] offset[b, j, i] offset[b, k, i], [..., B, R, d, d].

    One slice of pairs (j, k >= j) is filled and multiplied at a time: it stays in the cache.

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


# Homogeneous polynomials of few inputs by their monomials: exact sizes of orders 4 and 5 over a box.


@cache
def monomials(n_inputs: int, order: int) -> tuple[FloatArray, IntArray]:
    """Return the map from tensor entries to monomials [d^q, M], and the monomials' exponents, [M, d]."""
    keys = [tuple(index.count(j) for j in range(n_inputs)) for index in product(range(n_inputs), repeat=order)]
    exponents = sorted(set(keys))
    sums = np.zeros((len(keys), len(exponents)))
    sums[np.arange(len(keys)), [exponents.index(key) for key in keys]] = 1.0
    return sums, np.array(exponents, dtype=np.int64)


def coefficients(tensor: FloatArray, n_inputs: int, order: int) -> FloatArray:
    """Return the monomials' coefficients [B, M] of T[x, ..., x], T [B, ...] with d^q entries, not symmetric."""
    return np.asarray(tensor.reshape(len(tensor), -1) @ monomials(n_inputs, order)[0])


def homogeneous_range(coefficient: FloatArray, radius: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Bound sum_m coefficient_m x^m over |x_j| <= radius_j, [B] each. A product of squares has a sign."""
    exponents = monomials(radius.shape[1], order)[1]
    size = np.prod(radius[:, None, :] ** exponents, axis=2)
    even = np.all(exponents % 2 == 0, axis=1)
    low = np.where(even, np.minimum(coefficient, 0.0), -np.abs(coefficient))
    high = np.where(even, np.maximum(coefficient, 0.0), np.abs(coefficient))
    return np.einsum("bm,bm->b", low, size), np.einsum("bm,bm->b", high, size)


# Cubic polynomials in the offset from a box's centre, for many boxes at once.


@dataclass(frozen=True)
class Cubic:
    """constant + linear'x + x'quadratic x + cubic[x, x, x] for B boxes.

    Attributes:
        constant: [B].
        linear: [B, d].
        quadratic: symmetric, [B, d, d].
        cubic: symmetric, [B, d, d, d]. None for zero.
    """

    constant: FloatArray
    linear: FloatArray
    quadratic: FloatArray
    cubic: FloatArray | None

    def combined(self, factor: float, other: Cubic, weight: FloatArray) -> Cubic:
        """Return factor self + weight other, weight [B]."""
        cubic = None
        if self.cubic is not None and other.cubic is not None:
            cubic = factor * self.cubic + weight[:, None, None, None] * other.cubic
        return Cubic(
            factor * self.constant + weight * other.constant,
            factor * self.linear + weight[:, None] * other.linear,
            factor * self.quadratic + weight[:, None, None] * other.quadratic,
            cubic,
        )

    def scaled(self, factor: float) -> Cubic:
        """Return factor self."""
        cubic = None if self.cubic is None else factor * self.cubic
        return Cubic(factor * self.constant, factor * self.linear, factor * self.quadratic, cubic)

    def take(self, rows: IntArray) -> Cubic:
        """Return the polynomials of these rows. A row may repeat."""
        cubic = None if self.cubic is None else self.cubic[rows]
        return Cubic(self.constant[rows], self.linear[rows], self.quadratic[rows], cubic)

    def followed_by(self, *others: Cubic) -> Cubic:
        """Return the polynomials of all, one after another. All have cubic parts, or none."""
        parts = (self, *others)
        cubics = [each.cubic for each in parts if each.cubic is not None]
        return Cubic(
            np.concatenate([each.constant for each in parts]),
            np.concatenate([each.linear for each in parts]),
            np.concatenate([each.quadratic for each in parts]),
            np.concatenate(cubics) if cubics else None,
        )

    def at(self, x: FloatArray) -> FloatArray:
        """Return the values of a single polynomial, B = 1, at points [K, d]."""
        value = self.constant + x @ self.linear[0] + np.einsum("kj,ji,ki->k", x, self.quadratic[0], x)
        if self.cubic is not None:
            value = value + np.einsum("kj,ki,kl,jil->k", x, x, x, self.cubic[0])
        return np.asarray(value)

    def range(self, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound the polynomial over |x_j| <= radius_j, [B, d], from below and above, up to rounding.

        Off-diagonal terms go to the diagonal by |x_j x_k| <= (x_j^2 r_k/r_j + x_k^2 r_j/r_k) / 2, then every input
        is optimised exactly. The cubic part counts by its size.
        """
        diagonal = np.einsum("bjj->bj", self.quadratic)
        others = weighted_rows(self.quadratic, radius) - np.abs(diagonal) * radius
        others = np.maximum(others, 0.0)
        size = cubic_size(self.cubic, radius)
        slope = np.abs(self.linear)
        low = _separable_minimum(slope, diagonal, others, radius)
        high = -_separable_minimum(slope, -diagonal, others, radius)
        return self.constant + low - size, self.constant + high + size

    def magnitude(self, radius: FloatArray) -> FloatArray:
        """Return a bound of the sum of the absolute terms over |x_j| <= radius_j, [B], for rounding."""
        rows = np.abs(self.linear) + weighted_rows(self.quadratic, radius)
        return np.abs(self.constant) + _dot(rows, radius) + cubic_size(self.cubic, radius)


def by_box(values: FloatArray, kept: int = 0) -> FloatArray:
    """Return values with all axes before the last `kept` ones merged into one, function after function."""
    return values.reshape(-1, *values.shape[values.ndim - kept :])


def sum_slack(n_inputs: int) -> float:
    """Return the relative slack of double and triple sums over `n_inputs` inputs, computed a few times in a row."""
    return 1e-12 + 4.0 * UNIT * float(n_inputs) ** 2


def weighted_rows(matrix: FloatArray, radius: FloatArray) -> FloatArray:
    """Return sum_k |M_jk| r_k, [B, d]."""
    return np.asarray(np.matmul(np.abs(matrix), radius[:, :, None])[:, :, 0])


def cubic_rows(sizes: FloatArray | None, radius: FloatArray) -> FloatArray:
    """Return sum_kl |C_jkl| r_k r_l, [B, d], for `sizes` = |C|."""
    if sizes is None:
        return np.zeros(radius.shape)
    n_boxes, d = radius.shape
    pairs = (radius[:, :, None] * radius[:, None, :]).reshape(n_boxes, d * d, 1)
    return np.asarray(np.matmul(sizes.reshape(n_boxes, d, d * d), pairs)[:, :, 0])


def cubic_size(cubic: FloatArray | None, radius: FloatArray) -> FloatArray:
    """Return sum_jkl |C_jkl| r_j r_k r_l, [B]."""
    return np.zeros(len(radius)) if cubic is None else _dot(cubic_rows(np.abs(cubic), radius), radius)


def symmetric_part(tensor: FloatArray) -> FloatArray:
    """Return the symmetric part of tensors [B, d, d, d] that are symmetric in their last two indices."""
    return np.asarray(tensor + tensor.transpose(0, 2, 1, 3) + tensor.transpose(0, 2, 3, 1)) / 3.0


def add_norm_times_linear(cubic: FloatArray, linear: FloatArray) -> None:
    """Add |x|^2 linear'x to the tensors [B, d, d, d] in place, linear [B, d]."""
    share = linear / 3.0
    for j in range(linear.shape[1]):
        cubic[:, j, j, :] += share
        cubic[:, j, :, j] += share
        cubic[:, :, j, j] += share


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("bj,bj->b", a, b))


def _separable_minimum(slope: FloatArray, diagonal: FloatArray, others: FloatArray, radius: FloatArray) -> FloatArray:
    """Minimise sum_j -slope_j |x_j| + (diagonal_j - others_j / r_j) x_j^2 over |x_j| <= r_j."""
    # All is multiplied by r: a zero width needs no division.
    bent = diagonal * radius - others
    inside = (bent > 0.0) & (slope <= 2.0 * bent)
    corner = bent * radius - slope * radius
    # The ratio first, at most 2: the square of a tiny slope would underflow.
    vertex = -0.25 * slope * radius * (slope / np.where(inside, bent, 1.0))
    return np.asarray(np.where(inside, vertex, corner).sum(axis=1))


# Upper bound of a cubic over a box by a concave overestimator, with a point that nearly attains it.
#
# Inputs in which the polynomial is monotone are fixed at their better end. Let z = x / r, |z| <= 1. The cubic part goes
# to the diagonal: C[xxx] <= sum_j nu_j z_j^2 with nu_j = r_j sum_kl |C_jkl| r_k r_l. For a diagonal A >= 0 with A >= H,
# z'Hz <= z'(H - A)z + tr A. The right side is concave. So its value and gradient at any point bound its maximum.


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
        point: maximum of the relaxation, in the polynomial's units, inside the box, [B, d].
        share: part of the relaxation's gap from each input, [B, d].
    """

    bound: FloatArray
    point: FloatArray
    share: FloatArray


def cubic_maximum(polynomial: Cubic, radius: FloatArray) -> CubicMaximum:
    """Bound cubics from above over |x_j| <= radius_j, [B, d]."""
    size = polynomial.magnitude(radius)
    sizes = None if polynomial.cubic is None else np.abs(polynomial.cubic)  # a shift does not change them
    shift, left, moved = _fix_monotone_inputs(polynomial, sizes, radius)
    nu = left * cubic_rows(sizes, left)
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

    The three are the row sums, the largest eigenvalue times I, and the largest eigenvalue of H scaled by the norms of
    its rows.
    """
    d = H.shape[1]
    diagonal = np.einsum("bjj->bj", H)
    rows: FloatArray = np.maximum(0.0, diagonal + np.abs(H).sum(axis=2) - np.abs(diagonal)) * (1.0 + sum_slack(d))
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


def _fix_monotone_inputs(
    polynomial: Cubic, sizes: FloatArray | None, radius: FloatArray
) -> tuple[FloatArray, FloatArray, Cubic]:
    """Move inputs with a slope of constant sign to their better end. Return shift, radii left and polynomial there."""
    shift, left = np.zeros(radius.shape), radius
    for _ in range(ROUNDS):
        curvature = 2.0 * weighted_rows(polynomial.quadratic, left) + 3.0 * cubic_rows(sizes, left)
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


# Local models of the latent mean and variance over boxes: cubics with one-sided remainders, and ranges.


@dataclass(frozen=True)
class MomentModel:
    """One moment over B boxes: model - below <= moment <= model + above, low <= moment <= high, [B] each.

    Attributes:
        model: cubic in the offset from the centre, in lengthscales.
        below: largest distance of the moment below the model, with rounding.
        above: largest distance above, with rounding.
        low: lower bound over the box.
        high: upper bound over the box.
    """

    model: Cubic
    below: FloatArray
    above: FloatArray
    low: FloatArray
    high: FloatArray

    def take(self, rows: IntArray) -> MomentModel:
        """Return the boxes of these rows, which may repeat."""
        ends = (each[rows] for each in (self.below, self.above, self.low, self.high))
        return MomentModel(self.model.take(rows), *ends)


@dataclass(frozen=True)
class LatentModel:
    """Mean and variance over B boxes.

    Attributes:
        radius: half-widths in lengthscales, rounded up, [B, d].
        mean: model of the latent mean.
        variance: model of the latent variance.
    """

    radius: FloatArray
    mean: MomentModel
    variance: MomentModel

    def take(self, rows: IntArray) -> LatentModel:
        """Return the boxes of these rows, which may repeat."""
        return LatentModel(self.radius[rows], self.mean.take(rows), self.variance.take(rows))


class Expansion(Protocol):
    """Derivatives of mean and variance at B centres, from which a model over any radius follows."""

    @property
    def centre(self) -> FloatArray:
        """Centres in units of X, [B, d]."""

    @property
    def mean(self) -> FloatArray:
        """The latent mean at the centres, [B]."""

    @property
    def variance(self) -> FloatArray:
        """The latent variance at the centres, [B]."""

    def taylor(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return gradient [B, d] and half Hessian [B, d, d] of the mean, then of the variance, by lengthscales."""

    def over(self, radius: FloatArray, cheap: bool = False) -> LatentModel:
        """Return the models over |x - centre| <= radius in lengthscales, [B, d]. Cheap ones may lack degree 3."""
