"""Cubic polynomials in the offset from a box's centre, for many boxes at once.

Equation: derived, upper bound of a cubic
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.rounding import UNIT


@dataclass(frozen=True)
class Cubic:
    """constant + linear'x + x'quadratic x + cubic[x, x, x] for B boxes.

    Attributes:
        constant: [B].
        linear: [B, d].
        quadratic: symmetric, [B, d, d].
        cubic: symmetric, [B, d, d, d]; None for zero.
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
        """Return the polynomials of these rows, which may repeat."""
        cubic = None if self.cubic is None else self.cubic[rows]
        return Cubic(self.constant[rows], self.linear[rows], self.quadratic[rows], cubic)

    def followed_by(self, *others: Cubic) -> Cubic:
        """Return the polynomials of all, one after another; all have cubic parts, or none."""
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
        is optimised exactly; the cubic part counts by its size.
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
    """Return values [..., B] and `kept` axes behind with all leading axes made one: function after function."""
    return values.reshape(-1, *values.shape[values.ndim - kept :])


def sum_slack(n_inputs: int) -> float:
    """Return the relative slack of the double and triple sums over so many inputs, each a few times in a row."""
    return 1e-12 + 4.0 * UNIT * float(n_inputs) ** 2


def weighted_rows(matrix: FloatArray, radius: FloatArray) -> FloatArray:
    """Return sum_k |M_jk| r_k, [B, d]."""
    return np.asarray(np.matmul(np.abs(matrix), radius[:, :, None])[:, :, 0])


def cubic_rows(cubic: FloatArray | None, radius: FloatArray) -> FloatArray:
    """Return sum_kl |C_jkl| r_k r_l, [B, d]."""
    if cubic is None:
        return np.zeros(radius.shape)
    n_boxes, d = radius.shape
    pairs = (radius[:, :, None] * radius[:, None, :]).reshape(n_boxes, d * d, 1)
    return np.asarray(np.matmul(np.abs(cubic).reshape(n_boxes, d, d * d), pairs)[:, :, 0])


def cubic_size(cubic: FloatArray | None, radius: FloatArray) -> FloatArray:
    """Return sum_jkl |C_jkl| r_j r_k r_l, [B]."""
    return np.zeros(len(radius)) if cubic is None else _dot(cubic_rows(cubic, radius), radius)


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


def _separable_minimum(
    slope: FloatArray, diagonal: FloatArray, others: FloatArray, radius: FloatArray
) -> FloatArray:
    """Minimise sum_j -slope_j |x_j| + (diagonal_j - others_j / r_j) x_j^2 over |x_j| <= r_j."""
    # Multiplied by r, so that no division by a zero width is needed.
    bent = diagonal * radius - others
    inside = (bent > 0.0) & (slope <= 2.0 * bent)
    corner = bent * radius - slope * radius
    # The ratio first, at most 2: the square of a tiny slope would underflow.
    vertex = -0.25 * slope * radius * (slope / np.where(inside, bent, 1.0))
    return np.asarray(np.where(inside, vertex, corner).sum(axis=1))
