"""Mean of the latent posterior over boxes: a quadratic model with one-sided remainders, and three interval forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.methods.robustness.box_bounds import FloatArray
from gpsuite.methods.robustness.operator_form import OperatorForm
from gpsuite.methods.robustness.rkhs_taylor_quadratic import quadratic_range, quadratic_size
from gpsuite.methods.robustness.rounding import EXPONENTIAL, SHORT_SUM, TAIL, UNIT, outward_radius, short_sum


@dataclass(frozen=True)
class Boxes:
    """B boxes of the free inputs, and what depends on their size alone.

    Attributes:
        centre: a float in the box, in units of X, [B, d].
        radius: half-widths in lengthscales, rounded up, [B, d].
        square: rho^2 = sum_j r_j^2, [B].
        tail: squared norm left out by the expansion anywhere in the box, rounded up, [B].
        drop: 1 - kappa(rho), rounded up, [B].
        slope_drop: psi(0) - psi(rho), rounded up, [B].
        growth: 1 + R + R^2, R = sqrt(lambda) sum_j r_j: how rounding of coefficients adds up, [B].
    """

    centre: FloatArray
    radius: FloatArray
    square: FloatArray
    tail: FloatArray
    drop: FloatArray
    slope_drop: FloatArray
    growth: FloatArray


@dataclass(frozen=True)
class QuadraticModel:
    """value(c + x) in constant + b'x + x'Mx + [-below, above] over the box, and the interval [low, high].

    Attributes:
        constant: value at the centre, [B].
        linear: b, [B, d].
        matrix: M, symmetric, [B, d, d].
        below: how far the value may lie below the quadratic, [B].
        above: how far it may lie above, [B].
        low: lower bound over the box, [B].
        high: upper bound over the box, [B].
        rest: norm of the part beyond the expansion, for the choice of the split, [B].
    """

    constant: FloatArray
    linear: FloatArray
    matrix: FloatArray
    below: FloatArray
    above: FloatArray
    low: FloatArray
    high: FloatArray
    rest: FloatArray


def measure(form: OperatorForm, low: FloatArray, high: FloatArray, degree: int) -> Boxes:
    """Return the boxes [low, high] (units of X, free inputs) by centre and size."""
    centre = 0.5 * low + 0.5 * high
    radius = outward_radius(low, high, centre, form.lengthscales)
    square = np.einsum("bj,bj->b", radius, radius) * (1.0 + EXPONENTIAL + 2.0 * UNIT * radius.shape[1])
    rho = np.sqrt(square)
    total = np.sqrt(form.profile.curvature) * radius.sum(axis=1)
    return Boxes(
        centre=centre,
        radius=radius,
        square=square,
        tail=np.minimum(form.profile.tail(rho, degree) * (1.0 + TAIL), 1.0),
        drop=form.profile.drop(rho) * (1.0 + TAIL),
        slope_drop=form.profile.slope_drop(rho) * (1.0 + TAIL),
        growth=1.0 + total + total * total,
    )


def mean_model(form: OperatorForm, boxes: Boxes, coefficients: FloatArray) -> QuadraticModel:
    """Bound the latent mean over boxes.

    Args:
        form: the posterior.
        boxes: B boxes.
        coefficients: a_m, [B, T].
    """
    d = boxes.radius.shape[1]
    a0, a1 = coefficients[:, 0], coefficients[:, 1 : 1 + d]
    A2 = _second_order(coefficients[:, 1 + d :], d)
    size = np.maximum(0.0, np.abs(coefficients) - form.slack.coefficient)
    # Cauchy-Schwarz on the parts of h and phi beyond the expansion.
    eta = np.sqrt(np.maximum(0.0, form.norm2 - np.einsum("bt,bt->b", size, size)))
    rest = eta * np.sqrt(boxes.tail) * (1.0 + SHORT_SUM)
    build = _folded if form.profile.folds else _radial
    constant, linear, matrix, below, above, low, high = build(form, boxes, (a0, a1, A2), rest)
    low, high = _intersect_distance(form, boxes, a0, (low, high))
    s = form.variance
    return QuadraticModel(
        s * constant, s * linear, s * matrix, s * below, s * above, s * low, s * high, s * eta
    )


_Parts = tuple[FloatArray, FloatArray, FloatArray]
_Model = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


def _folded(form: OperatorForm, boxes: Boxes, parts: _Parts, rest: FloatArray) -> _Model:
    """Squared exponential: mu/s = exp(-D) q(x) + rest, D = |x|^2/2, multiplied out and as a product of ranges."""
    a0, a1, A2 = parts
    square, slack = boxes.square, form.slack.coefficient * boxes.growth
    size = quadratic_size(a1, A2, boxes.radius)
    matrix = A2 - 0.5 * a0[:, None, None] * np.eye(a1.shape[1])
    low, high = quadratic_range(a1, matrix, boxes.radius)
    scale = short_sum(a1.shape[1]) * (np.abs(a0) * (1.0 + square) + size)
    fourth = square * square / 8.0
    common = 0.5 * square * size + rest + slack * (1.0 + 0.5 * square + fourth) + scale
    below = common + fourth * np.maximum(0.0, size - a0)
    above = common + fourth * np.maximum(0.0, size + a0)
    q_low, q_high = quadratic_range(a1, A2, boxes.radius)
    wide = slack + scale
    least = (1.0 - boxes.drop) * (1.0 - EXPONENTIAL)
    product_low, product_high = _times(least, a0 + q_low - wide, a0 + q_high + wide, rest)
    return (
        a0,
        a1,
        matrix,
        below,
        above,
        np.fmax(a0 + low - below, product_low),
        np.fmin(a0 + high + above, product_high),
    )


def _times(
    least: FloatArray, low: FloatArray, high: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the range of E q + [-rest, rest] for E in [least, 1] and q in [low, high]."""
    factor = np.maximum(least, 0.0)
    product_low = np.where(low < 0.0, low, low * factor) - rest
    product_high = np.where(high > 0.0, high, high * factor) + rest
    return product_low, product_high


def _radial(form: OperatorForm, boxes: Boxes, parts: _Parts, rest: FloatArray) -> _Model:
    """Any kernel, degree 1: mu/s = kappa a_0 + psi a_1'x + rest, kappa = 1 - lambda r^2/2 + [0, E_1]."""
    a0, a1, _ = parts
    curvature = form.profile.curvature
    d = a1.shape[1]
    root = np.sqrt(curvature)
    linear = root * a1
    matrix = -0.5 * curvature * a0[:, None, None] * np.eye(d)
    length = quadratic_size(a1, None, boxes.radius)
    square = curvature * boxes.square
    excess = np.maximum(0.0, 0.5 * square - boxes.drop) + TAIL * boxes.drop + SHORT_SUM * square
    slack = form.slack.coefficient * boxes.growth
    scale = short_sum(d) * (np.abs(a0) * (1.0 + square) + root * length)
    common = boxes.slope_drop * length + rest + slack * (1.0 + square) + scale
    below = common + np.maximum(0.0, -a0) * excess
    above = common + np.maximum(0.0, a0) * excess
    low, high = quadratic_range(linear, matrix, boxes.radius)
    least = np.maximum(0.0, 1.0 - boxes.drop - EXPONENTIAL)
    wide = root * length + rest + slack + scale
    product_low = np.where(a0 < 0.0, a0, a0 * least) - wide
    product_high = np.where(a0 > 0.0, a0, a0 * least) + wide
    return (
        a0,
        linear,
        matrix,
        below,
        above,
        np.fmax(a0 + low - below, product_low),
        np.fmin(a0 + high + above, product_high),
    )


def _intersect_distance(
    form: OperatorForm, boxes: Boxes, a0: FloatArray, interval: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Intersect with |mu(x) - mu(c)| <= s |h| sqrt(2 (1 - kappa)), |mu| <= s |h| and the sums of one sign."""
    norm = np.sqrt(form.norm2) * (1.0 + SHORT_SUM)
    reach = (
        norm * np.sqrt(2.0 * np.minimum(boxes.drop, 1.0)) + form.slack.coefficient + SHORT_SUM * np.abs(a0)
    )
    low = np.fmax(interval[0], np.fmax(a0 - reach, max(-norm, form.floor)))
    return low, np.fmin(interval[1], np.fmin(a0 + reach, min(norm, form.ceiling)))


def _second_order(values: FloatArray, d: int) -> FloatArray:
    """Return A_2 with q = a_0 + a_1'x + x'A_2x: a_{2e_j}/sqrt(2) on, a_{e_j+e_k}/2 off the diagonal, [B, d, d]."""
    matrix = np.zeros((len(values), d, d))
    if values.shape[1]:
        rows, columns = np.triu_indices(d)
        matrix[:, rows, columns] = values * np.where(rows == columns, np.sqrt(0.5), 0.5)
        matrix[:, columns, rows] = matrix[:, rows, columns]
    return matrix
