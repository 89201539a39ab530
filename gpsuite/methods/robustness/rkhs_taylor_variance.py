"""Variance of the latent posterior over boxes: a quadratic model with one-sided remainders, and interval forms."""

from __future__ import annotations

import numpy as np

from gpsuite.methods.robustness.box_bounds import FloatArray
from gpsuite.methods.robustness.operator_form import OperatorForm
from gpsuite.methods.robustness.rkhs_taylor_features import Coefficients
from gpsuite.methods.robustness.rkhs_taylor_mean import Boxes, QuadraticModel
from gpsuite.methods.robustness.rkhs_taylor_quadratic import quadratic_range, quadratic_size
from gpsuite.methods.robustness.rounding import EXPONENTIAL, SHORT_SUM, TAIL, short_sum

_Form = tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]


def variance_model(form: OperatorForm, boxes: Boxes, terms: Coefficients) -> QuadraticModel:
    """Bound the latent variance over boxes.

    With y the expanded part of phi, H = G + nu >= 0 and Q = <y, H y>: sqrt(<phi, H phi>) lies in
    sqrt(Q) +- sqrt(g tail), by the triangle inequality in the seminorm of H, and Sigma/s = <phi, H phi> - nu since
    |phi| = 1. A variance that the stored floats make negative counts as zero.

    Args:
        form: the posterior.
        boxes: B boxes.
        terms: the expansion around the centres.
    """
    g0, short = _nonnegative(terms.gram[:, 0, 0])
    build = _folded if form.profile.folds else _radial
    linear, matrix, below, above, q_low, q_high = build(form, boxes, g0, terms)
    q_low, q_high = np.maximum(q_low - short, 0.0), np.maximum(q_high + short, 0.0)
    reach = np.sqrt(form.bound * boxes.tail) * (1.0 + SHORT_SUM)
    low = np.maximum(0.0, np.sqrt(q_low) - reach) ** 2 * (1.0 - SHORT_SUM)
    high = (np.sqrt(q_high) + reach) ** 2 * (1.0 + SHORT_SUM)
    low, high = _intersect_distance(form, boxes, g0 + short, (low, high))
    cross = 2.0 * np.sqrt(q_high) * reach * (1.0 + SHORT_SUM)
    s, nu = form.variance, form.allowance
    low, high = low - nu - form.dropped, np.maximum(high - nu, 0.0)
    # What is below zero is moved up to it, at the centre and wherever it may be.
    lift = np.maximum(nu - g0, 0.0)
    raised = np.where(low <= 0.0, nu, 0.0)
    scale = SHORT_SUM * (g0 + nu)
    return QuadraticModel(
        constant=s * np.maximum(g0 - nu, 0.0),
        linear=s * linear,
        matrix=s * matrix,
        below=s * (below + short + cross + form.dropped + lift + scale),
        above=s * (above + short + cross + reach * reach * (1.0 + SHORT_SUM) + raised + scale),
        low=s * np.maximum(0.0, low),
        high=s * high,
        rest=s * np.sqrt(g0),
    )


def _folded(form: OperatorForm, boxes: Boxes, g0: FloatArray, terms: Coefficients) -> _Form:
    """Squared exponential: Q = exp(-|x|^2) (g_0 + b'x + x'Mx + c_3 + c_4)."""
    linear, matrix, trace1 = _second_order(terms)
    radius, square = boxes.radius, boxes.square
    n_terms = 1 + radius.shape[1] + terms.mixed.shape[1]
    slack = form.slack.gram
    t1 = np.minimum(form.bound, trace1 + n_terms * slack)
    t2 = np.minimum(form.bound, terms.trace2 + n_terms * slack) if terms.mixed.shape[1] else 0.0
    third = np.sqrt(2.0) * square**1.5 * np.sqrt(t1 * t2) * (1.0 + SHORT_SUM)
    fourth = 0.5 * square * square * t2 * (1.0 + SHORT_SUM)
    size = quadratic_size(linear, matrix, radius)
    rounding = slack * boxes.growth**2
    scale = short_sum(radius.shape[1]) * (1.0 + g0 * square + size)
    common = third + square * size + rounding * (1.0 + square + 0.5 * square * square) + scale
    bent = 0.5 * square * square
    below = common + bent * np.maximum(0.0, size - g0)
    above = common + fourth + bent * (size + g0)
    model = matrix - g0[:, None, None] * np.eye(radius.shape[1])
    low, high = quadratic_range(linear, model, radius)
    plain_low, plain_high = quadratic_range(linear, matrix, radius)
    least = (np.maximum(0.0, 1.0 - boxes.drop) * (1.0 - EXPONENTIAL)) ** 2
    product_low = least * np.maximum(0.0, g0 + plain_low - third - rounding - scale)
    product_high = np.maximum(0.0, g0 + plain_high + third + fourth + rounding + scale)
    q_low = np.fmax(g0 + low - below, product_low)
    return linear, model, below, above, q_low, np.fmin(g0 + high + above, product_high)


def _radial(form: OperatorForm, boxes: Boxes, g0: FloatArray, terms: Coefficients) -> _Form:
    """Any kernel, degree 1: Q = kappa^2 g_0 + kappa psi b'x + psi^2 x'G_11x."""
    slope, block, _ = _second_order(terms)
    curvature, radius = form.profile.curvature, boxes.radius
    root = np.sqrt(curvature)
    linear, matrix = root * slope, curvature * (block - g0[:, None, None] * np.eye(radius.shape[1]))
    length = quadratic_size(slope, None, radius)
    inner = np.minimum(quadratic_size(None, block, radius), form.bound * boxes.square)
    least = 1.0 - boxes.drop
    # psi(0) - kappa psi and lambda - psi^2 at rho, without cancellation.
    first = root * boxes.drop + np.maximum(least, 0.0) * boxes.slope_drop + SHORT_SUM * root * boxes.drop
    second = boxes.slope_drop * np.maximum(2.0 * root - boxes.slope_drop, 0.0)
    square = curvature * boxes.square
    excess = (
        np.maximum(0.0, square - boxes.drop * (2.0 - boxes.drop))
        + 2.0 * TAIL * boxes.drop
        + SHORT_SUM * square
    )
    rounding = form.slack.gram * boxes.growth**2
    scale = short_sum(radius.shape[1]) * (1.0 + g0 * square + root * length + curvature * inner)
    common = first * length + rounding * (1.0 + square) + scale
    below = common + second * inner
    above = common + g0 * excess
    low, high = quadratic_range(linear, matrix, radius)
    interval = g0 + root * length + curvature * inner + rounding + scale
    return linear, matrix, below, above, g0 + low - below, np.fmin(g0 + high + above, interval)


def _second_order(terms: Coefficients) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return b, M of Q_2 = g_0 + b'x + x'Mx and the trace of the degree-1 block."""
    block = terms.gram[:, 1:, 1:]
    matrix = np.array(block)
    if terms.mixed.shape[1]:
        rows, columns = np.triu_indices(block.shape[1])
        added = terms.mixed * np.where(rows == columns, np.sqrt(2.0), 1.0)
        matrix[:, rows, columns] += added
        off = rows != columns
        matrix[:, columns[off], rows[off]] += added[:, off]
    return 2.0 * terms.gram[:, 0, 1:], matrix, np.maximum(np.einsum("bjj->b", block), 0.0)


def _nonnegative(g0: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return max(0, g_0) and what that added."""
    return np.maximum(g0, 0.0), np.maximum(-g0, 0.0)


def _intersect_distance(
    form: OperatorForm, boxes: Boxes, g0: FloatArray, interval: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Intersect with |sqrt(Sigma(x)) - sqrt(Sigma(c))| <= sqrt(2 g s (1 - kappa)) and Sigma <= g s."""
    reach = np.sqrt(2.0 * form.bound * np.minimum(boxes.drop, 1.0)) * (1.0 + SHORT_SUM)
    error = form.slack.gram + SHORT_SUM
    low = np.maximum(0.0, np.sqrt(np.maximum(g0 - error, 0.0)) - reach) ** 2 * (1.0 - SHORT_SUM)
    high = (np.sqrt(g0 + error) + reach) ** 2 * (1.0 + SHORT_SUM)
    return np.fmax(interval[0], low), np.fmin(np.fmin(interval[1], high), form.bound * (1.0 + SHORT_SUM))
