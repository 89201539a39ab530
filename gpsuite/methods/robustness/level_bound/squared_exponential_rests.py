"""What the squared exponential expansion leaves out over a box: one-sided rests and ranges of mean and variance.

tau_p = P(Poisson(rho^2) > p) is the squared norm of the part of phi above degree p at distance rho.

Equation: derived, squared exponential expansion and tail
Equation: derived, squared exponential variance of degree 3
"""

from __future__ import annotations

from dataclasses import replace
from math import comb, factorial

import numpy as np
from scipy.special import gammainc

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.cubic import Cubic, add_norm_times_linear, sum_slack
from gpsuite.methods.robustness.level_bound.latent_model import MomentModel
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice
from gpsuite.methods.robustness.level_bound.squared_exponential_few import (
    HighOrders,
    high_rests,
    high_size,
)
from gpsuite.methods.robustness.rounding import SHORT_SUM, TAIL


def tail(radius: FloatArray, degree: int) -> FloatArray:
    """Return tau_degree for half-widths [B, d], rounded up."""
    return np.asarray(gammainc(degree + 1.0, squared(radius)) * (1.0 + TAIL))


def squared(radius: FloatArray) -> FloatArray:
    """Return rho^2 = |r|^2, rounded up, [B]."""
    return np.asarray(np.einsum("bj,bj->b", radius, radius) * (1.0 + SHORT_SUM))


def growth(radius: FloatArray, degree: int = 3) -> FloatArray:
    """Return 1 + R + ... + R^degree, R = sum_j r_j: how coefficient errors grow over the box, [B]."""
    total = radius.sum(axis=1)
    sums = np.ones_like(total)
    for _ in range(degree):
        sums = 1.0 + total * sums
    return np.asarray(sums)


def mean_model(
    form: PosteriorSlice, A: Cubic, radius: FloatArray, high: HighOrders | None = None
) -> MomentModel:
    """Return the model of the mean.

    mu/s = E A + rem, |rem| <= eta sqrt(tau_p), eta^2 = |h|^2 - (squares of the coefficients).

    Args:
        form: the posterior.
        A: orders 0 to 2 or 3.
        radius: half-widths, [B, d].
        high: orders 4 and 5.
    """
    s, rho2, error = form.variance, squared(radius), form.mean_error
    rounding = error * growth(radius, _degree(A, high)) * (1.0 + rho2 + rho2**2)
    rounding += sum_slack(radius.shape[1]) * A.magnitude(radius)
    slack = mean_remainder(form, A, radius, high) + rounding * (1.0 + 0.5 * rho2 + 0.125 * rho2**2)
    model = _times_gaussian(A, 0.5).scaled(s)
    under, over = _beyond_model(A, high, radius, rho2, 0.5)
    below, above = slack - under, slack + over
    least, most = model.range(radius)
    low, top = _product_range(A, high, radius, np.exp(-0.5 * rho2))
    near, far = form.mean_range(A.constant, -np.expm1(-0.5 * rho2))
    return MomentModel(
        model,
        s * below,
        s * above,
        np.fmax(np.fmax(least - s * below, s * (low - slack)), s * near),
        np.fmin(np.fmin(most + s * above, s * (top + slack)), s * far),
    )


def variance_model(
    form: PosteriorSlice, P: Cubic, block: FloatArray, radius: FloatArray, high: HighOrders | None = None
) -> MomentModel:
    """Return the model of the variance.

    With H = G + nu >= 0, Sigma/s = <phi, H phi> - nu and <phi, H phi> = E^2 P + rest_1 with rest_1 in
    [-k, k + g tau_1]: y_1 against what is above the kept degrees by Cauchy-Schwarz, degree 1 against the highest
    degree likewise, and the square of what is above degree 1, which is not negative.

    Args:
        form: the posterior.
        P: orders 0 to 2 or 3.
        block: degree-1 block of H, [B, d, d].
        radius: half-widths, [B, d].
        high: orders 4 and 5.
    """
    rho2, error = squared(radius), form.gram_error
    cross = cross_terms(form, P, block, radius, high)
    rounding = error * growth(radius, _degree(P, high)) ** 2 * (1.0 + rho2 + rho2**2)
    rounding += sum_slack(radius.shape[1]) * P.magnitude(radius)
    # A negative q_0 is rounding: the exact one is at least zero.
    slack = cross + rounding * (1.0 + rho2 + 0.5 * rho2**2) + np.maximum(0.0, -P.constant)
    beyond = form.bound * tail(radius, 1)
    model = _times_gaussian(P, 1.0)
    under, over = _beyond_model(P, high, radius, rho2, 1.0)
    below, above = slack - under, slack + beyond + over
    least, most = model.range(radius)
    low, top = _product_range(P, high, radius, np.exp(-rho2))
    near, far = distance_form(form, P.constant, -np.expm1(-0.5 * rho2))
    low = np.fmax(np.fmax(least - below, low - slack), near)
    top = np.fmin(np.fmin(most + above, top + beyond + slack), far)
    return without_allowance(MomentModel(model, below, above, low, top), form.allowance, form.variance)


def _degree(polynomial: Cubic, high: HighOrders | None) -> int:
    return 5 if high is not None else 2 if polynomial.cubic is None else 3


def _beyond_model(
    polynomial: Cubic, high: HighOrders | None, radius: FloatArray, rho2: FloatArray, rate: float
) -> tuple[FloatArray, FloatArray]:
    """Bound exp(-rate |x|^2) times the polynomial minus its cubic model (`_times_gaussian`), [B] each.

    exp(-D) = 1 - D + w with 0 <= w <= D^2/2, D = rate |x|^2: what the model leaves out is -D (orders 2 and 3, at
    degree 2 orders 1 and 2) + w (all).
    """
    if high is not None:
        return high_rests(polynomial, high, radius, rho2, rate)
    linear = polynomial.linear * float(polynomial.cubic is None)
    small, large = replace(polynomial, constant=0.0 * polynomial.constant, linear=linear).range(radius)
    bottom, top = polynomial.range(radius)
    D = rate * rho2
    under = D * np.maximum(0.0, large) + 0.5 * D**2 * np.maximum(0.0, -bottom)
    return -under, D * np.maximum(0.0, -small) + 0.5 * D**2 * np.maximum(0.0, top)


def _product_range(
    polynomial: Cubic, high: HighOrders | None, radius: FloatArray, least: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound a factor in [least, 1] times the polynomial over the box, [B] each."""
    bottom, top = polynomial.range(radius)
    if high is not None:
        size = high_size(high, radius)
        bottom, top = bottom - size, top + size
    fade = least * (1.0 - SHORT_SUM)
    return np.where(bottom <= 0.0, bottom, bottom * fade), np.where(top >= 0.0, top, top * fade)


def distance_form(
    form: PosteriorSlice, constant: FloatArray, drop: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound <phi, H phi> by its value at the centre: its root changes by sqrt(g 2 (1 - kappa)) at most."""
    reach = np.sqrt(2.0 * form.bound * drop) * (1.0 + TAIL)
    low = np.sqrt(np.maximum(0.0, constant - form.gram_error))
    high = np.sqrt(np.maximum(0.0, constant) + form.gram_error)
    near = np.maximum(0.0, low - reach) ** 2 * (1.0 - SHORT_SUM)
    return near, np.minimum((high + reach) ** 2 * (1.0 + SHORT_SUM), form.bound)


def without_allowance(found: MomentModel, nu: float | FloatArray, s: float) -> MomentModel:
    """Return the variance's model from that of <phi, H phi> = Sigma/s + nu; below zero it counts as zero."""
    low, high = found.low - nu, np.maximum(found.high - nu, 0.0)
    model = replace(found.model, constant=found.model.constant - nu).scaled(s)
    # The stored floats may make the variance as low as -nu, and that is moved up to zero.
    above = found.above + np.where(low <= 0.0, nu, 0.0)
    slack = SHORT_SUM * (1.0 + nu)
    return MomentModel(
        model,
        s * (found.below + slack),
        s * (above + slack),
        s * np.maximum(0.0, low - slack),
        s * (high + slack),
    )


def cross_terms(
    form: PosteriorSlice, P: Cubic, block: FloatArray, radius: FloatArray, high: HighOrders | None = None
) -> FloatArray:
    """Return k = 2 sqrt(Q_1 g tau_p) + 2 rho sqrt(l) sqrt(g) rho^p/sqrt(p!), sqrt(Q_1) <= sqrt(q_0) + rho sqrt(l).

    l is at least the largest eigenvalue of the degree-1 block, p the highest degree kept.
    """
    degree, g, rho = _degree(P, high), form.bound, np.sqrt(squared(radius))
    slope = rho * np.sqrt(np.minimum(g, _largest_eigenvalue(block) + radius.shape[1] * form.gram_error))
    linear = np.sqrt(np.maximum(0.0, P.constant) + form.gram_error) + slope
    cross = 2.0 * linear * np.sqrt(g * tail(radius, degree))
    highest = 2.0 * slope * np.sqrt(g / factorial(degree)) * rho**degree
    return np.asarray((cross + highest) * (1.0 + SHORT_SUM))


def _largest_eigenvalue(block: FloatArray) -> FloatArray:
    """Return max(0, largest eigenvalue) of symmetric matrices [B, d, d], rounded up; infinite if not finite."""
    finite = np.isfinite(block).all(axis=(1, 2))
    sound = np.where(finite[:, None, None], block, 0.0)
    slack = TAIL * np.abs(sound).sum(axis=(1, 2))
    return np.where(finite, np.maximum(0.0, np.linalg.eigvalsh(sound)[:, -1]) + slack, np.inf)


def mean_remainder(
    form: PosteriorSlice, A: Cubic, radius: FloatArray, high: HighOrders | None = None
) -> FloatArray:
    """Return eta sqrt(tau_p) >= |mu/s - E A| over the boxes, eta the norm of h without its part of degree <= p."""
    degree, d = _degree(A, high), A.linear.shape[1]
    total = A.constant**2 + np.einsum("bj,bj->b", A.linear, A.linear)
    total += 2.0 * np.einsum("bjk,bjk->b", A.quadratic, A.quadratic)
    if A.cubic is not None:
        total += 6.0 * np.einsum("bjkl,bjkl->b", A.cubic, A.cubic)
    if high is not None:
        total += high.norm2
    # The coefficients in the orthonormal basis are each off by the mean's error.
    known = np.maximum(0.0, np.sqrt(total) - np.sqrt(comb(d + degree, degree)) * form.mean_error)
    eta = np.sqrt(np.maximum(0.0, form.norm2 - known**2 * (1.0 - SHORT_SUM)))
    return np.asarray(eta * np.sqrt(tail(radius, degree)))


def _times_gaussian(polynomial: Cubic, rate: float) -> Cubic:
    """Return the part of exp(-rate |x|^2) times the polynomial that is kept as a cubic (or quadratic)."""
    identity = np.eye(polynomial.linear.shape[1])
    quadratic = polynomial.quadratic - rate * polynomial.constant[:, None, None] * identity
    cubic = polynomial.cubic
    if cubic is not None:
        cubic = cubic.copy()
        add_norm_times_linear(cubic, -rate * polynomial.linear)
    return Cubic(polynomial.constant, polynomial.linear, quadratic, cubic)
