"""Orders 4 and 5 of the squared exponential expansion, for so few inputs that they cost next to nothing.

They are explicit, but not in the cubic models: their ranges over the box take the place of the tails' worst cases.
With E = 1 - D + D^2/2 - w, 0 <= w <= D^3/6, orders 4 and 5 of E A are A_4 - D A_2 + D^2 a_0/2 and
A_5 - D A_3 + D^2 a_1/2, D = |x|^2/2; those of E^2 P likewise with D = |x|^2.

Equation: derived, squared exponential mean of degree 3
Equation: derived, squared exponential variance of degree 3
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.cubic import Cubic, sum_slack
from gpsuite.methods.robustness.level_bound.monomials import coefficients, homogeneous_range
from gpsuite.methods.robustness.rounding import SHORT_SUM

FEW_INPUTS = 3


@dataclass(frozen=True)
class HighOrders:
    """Monomials' coefficients of two polynomials' orders 4 and 5, [B, M] each.

    Attributes:
        fourth: order 4 of the polynomial itself.
        fifth: order 5.
        norm2: sum of q! |T_q|^2 of both orders, [B].
    """

    fourth: FloatArray
    fifth: FloatArray
    norm2: FloatArray


def high_orders(weights: FloatArray, slopes: FloatArray | None, offset: FloatArray) -> HighOrders:
    """Return orders 4 and 5 of sum_i w_i (D_i x)^q / q! + (S_i x) (D_i x)^(q-1) / (q-1)!.

    Args:
        weights: w, [..., B, n].
        slopes: S, [..., B, d, n]; None for zero.
        offset: D, [B, d, n].
    """
    n_boxes, d, n = offset.shape
    square = (offset[:, :, None] * offset[:, None]).reshape(n_boxes, d * d, n)
    cube = (square[:, :, None] * offset[:, None]).reshape(n_boxes, d**3, n)
    weighted = square * weights[..., None, :]
    fourth = np.matmul(weighted, square.transpose(0, 2, 1)).reshape(-1, d**4) / 24.0
    fifth = np.matmul(weighted, cube.transpose(0, 2, 1)).reshape(-1, d**5) / 120.0
    norm2 = 24.0 * np.einsum("bk,bk->b", fourth, fourth) + 120.0 * np.einsum("bk,bk->b", fifth, fifth)
    if slopes is not None:
        mixed = (slopes[..., :, None, :] * offset[:, None]).reshape(*slopes.shape[:-2], d * d, n)
        fourth = fourth + np.matmul(slopes, cube.transpose(0, 2, 1)).reshape(-1, d**4) / 6.0
        fifth = fifth + np.matmul(mixed, cube.transpose(0, 2, 1)).reshape(-1, d**5) / 24.0
    return HighOrders(coefficients(fourth, d, 4), coefficients(fifth, d, 5), norm2)


def high_rests(
    polynomial: Cubic, high: HighOrders, radius: FloatArray, rho2: FloatArray, rate: float
) -> tuple[FloatArray, FloatArray]:
    """Bound exp(-rate |x|^2) (polynomial + its orders 4 and 5) minus the cubic model, from below and above, [B].

    Args:
        polynomial: orders 0 to 3.
        high: orders 4 and 5.
        radius: [B, d].
        rho2: |radius|^2, rounded up, [B].
        rate: 1/2 or 1.
    """
    d = radius.shape[1]
    squared_norm = _outer(np.broadcast_to(np.eye(d), polynomial.quadratic.shape), polynomial.quadratic)
    fourth_power = _outer(np.eye(d)[None], np.eye(d)[None])
    fourth = high.fourth - rate * coefficients(squared_norm, d, 4)
    fourth = fourth + 0.5 * rate**2 * polynomial.constant[:, None] * coefficients(fourth_power, d, 4)
    identity = np.broadcast_to(np.eye(d), (len(radius), d, d))
    assert polynomial.cubic is not None
    fifth = high.fifth - rate * coefficients(_outer(identity, polynomial.cubic), d, 5)
    powers = np.broadcast_to(fourth_power, (len(radius), d**4))
    fifth = fifth + 0.5 * rate**2 * coefficients(_outer(powers, polynomial.linear), d, 5)
    four, five = homogeneous_range(fourth, radius, 4), homogeneous_range(fifth, radius, 5)
    # What is above order 5: -D (orders 4, 5) + D^2/2 (orders 2 to 5) - w (all), by sizes.
    D = rate * rho2
    own = _size(high.fourth, radius, 4) + _size(high.fifth, radius, 5)
    lowest = np.abs(polynomial.constant) + np.einsum("bj,bj->b", np.abs(polynomial.linear), radius)
    middle = np.maximum(0.0, polynomial.magnitude(radius) - lowest)
    beyond = D * own + 0.5 * D**2 * (middle + own) + D**3 / 6.0 * (lowest + middle + own)
    size = _size(fourth, radius, 4) + _size(fifth, radius, 5) + beyond
    slack = beyond + (sum_slack(d) + SHORT_SUM) * (size + rho2 * (1.0 + rho2) * (lowest + middle + own))
    return four[0] + five[0] - slack, four[1] + five[1] + slack


def high_size(high: HighOrders, radius: FloatArray) -> FloatArray:
    """Return the largest |orders 4 and 5| over the box, [B], rounded up."""
    size = _size(high.fourth, radius, 4) + _size(high.fifth, radius, 5)
    return np.asarray(size * (1.0 + sum_slack(radius.shape[1])))


def _size(coefficient: FloatArray, radius: FloatArray, order: int) -> FloatArray:
    return homogeneous_range(np.abs(coefficient), radius, order)[1]


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the tensor products of B pairs of tensors, flat."""
    left, right = a.reshape(len(a), -1), b.reshape(len(b), -1)
    return np.asarray((left[:, :, None] * right[:, None, :]).reshape(max(len(a), len(b)), -1))
