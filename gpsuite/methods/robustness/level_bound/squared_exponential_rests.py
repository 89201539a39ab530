"""What the squared exponential expansion leaves out over a box: one-sided rests and ranges of mean and variance.

tau_p = P(Poisson(rho^2) > p) is the squared norm of the part of phi above degree p at distance rho.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
from scipy.special import gammainc

from gpsuite.methods.robustness.box_bounds import FloatArray
from gpsuite.methods.robustness.level_bound.cubic import Cubic, add_norm_times_linear, sum_slack
from gpsuite.methods.robustness.level_bound.latent_model import MomentModel
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice
from gpsuite.methods.robustness.rounding import SHORT_SUM, TAIL


def tail(radius: FloatArray, degree: int) -> FloatArray:
    """Return tau_degree for half-widths [B, d], rounded up."""
    return np.asarray(gammainc(degree + 1.0, squared(radius)) * (1.0 + TAIL))


def squared(radius: FloatArray) -> FloatArray:
    """Return rho^2 = |r|^2, rounded up, [B]."""
    return np.asarray(np.einsum("bj,bj->b", radius, radius) * (1.0 + SHORT_SUM))


def growth(radius: FloatArray) -> FloatArray:
    """Return 1 + R + R^2 + R^3, R = sum_j r_j: how coefficient errors grow over the box, [B]."""
    total = radius.sum(axis=1)
    return np.asarray(1.0 + total * (1.0 + total * (1.0 + total)))


def mean_model(form: PosteriorSlice, A: Cubic, radius: FloatArray) -> MomentModel:
    """Return the model of the mean.

    mu/s = E A + rem, |rem| <= eta sqrt(tau_p), eta^2 = |h|^2 - (squares of the coefficients). E = 1 - D + w with
    D = |x|^2/2 and 0 <= w <= D^2/2, so E A is a_0 + a_1 x + (A_2 - a_0 I/2)[xx] + A_3[xxx] - D a_1 x, plus
    -D (A_2 + A_3) + w A. At degree 2 the term -D a_1 x is part of the rest.
    """
    s, rho2 = form.variance, squared(radius)
    error = form.mean_error
    remainder = mean_remainder(form, A, radius)
    left_out = replace(A, constant=0.0 * A.constant, linear=A.linear * float(A.cubic is None))
    small, large = left_out.range(radius)
    bottom, top = A.range(radius)
    rounding = error * growth(radius) * (1.0 + rho2 + rho2**2) + sum_slack(radius.shape[1]) * A.magnitude(
        radius
    )
    slack = remainder + rounding * (1.0 + 0.5 * rho2 + 0.125 * rho2**2)
    above = 0.5 * rho2 * np.maximum(0.0, -small) + 0.125 * rho2**2 * np.maximum(0.0, top) + slack
    below = 0.5 * rho2 * np.maximum(0.0, large) + 0.125 * rho2**2 * np.maximum(0.0, -bottom) + slack
    model = _times_gaussian(A, 0.5).scaled(s)
    least, most = model.range(radius)
    # Product form: E lies in [exp(-rho^2/2), 1].
    fade = np.exp(-0.5 * rho2) * (1.0 - SHORT_SUM)
    near, far = form.mean_range(A.constant, -np.expm1(-0.5 * rho2))
    high = np.where(top >= 0.0, top, top * fade) + slack
    low = np.where(bottom <= 0.0, bottom, bottom * fade) - slack
    return MomentModel(
        model,
        s * below,
        s * above,
        np.fmax(np.fmax(least - s * below, s * low), s * near),
        np.fmin(np.fmin(most + s * above, s * high), s * far),
    )


def variance_model(form: PosteriorSlice, P: Cubic, block: FloatArray, radius: FloatArray) -> MomentModel:
    """Return the model of the variance.

    With H = G + nu >= 0, Sigma/s = <phi, H phi> - nu and <phi, H phi> = E^2 P + rest_1 with rest_1 in
    [-k, k + g tau_1]: <y_1, H y_3> by Cauchy-Schwarz, degree 1 against the highest degree likewise, and the square of
    what is above degree 1, which is not negative. E^2 = 1 - |x|^2 + w with 0 <= w <= |x|^4/2, so E^2 P is
    q_0 + q_b x + (q_M - q_0 I)[xx] + q_C[xxx] - |x|^2 q_b x, plus -|x|^2 (q_M + q_C) + w P. At degree 2 the term
    -|x|^2 q_b x is part of the rest.
    """
    s, nu, rho2, error = form.variance, form.allowance, squared(radius), form.gram_error
    cross = cross_terms(form, P, block, radius)
    rounding = error * growth(radius) ** 2 * (1.0 + rho2 + rho2**2)
    rounding += sum_slack(radius.shape[1]) * P.magnitude(radius)
    # A negative q_0 is rounding: the exact one is at least zero.
    slack = rounding * (1.0 + rho2 + 0.5 * rho2**2) + np.maximum(0.0, -P.constant)
    left_out = replace(P, constant=0.0 * P.constant, linear=P.linear * float(P.cubic is None))
    small, large = left_out.range(radius)
    bottom, top = P.range(radius)
    beyond = form.bound * tail(radius, 1)
    above = rho2 * np.maximum(0.0, -small) + 0.5 * rho2**2 * np.maximum(0.0, top) + cross + beyond + slack
    below = rho2 * np.maximum(0.0, large) + 0.5 * rho2**2 * np.maximum(0.0, -bottom) + cross + slack
    model = _times_gaussian(P, 1.0)
    least, most = model.range(radius)
    # Product form: E^2 lies in [exp(-rho^2), 1].
    fade = np.exp(-rho2) * (1.0 - SHORT_SUM)
    high = np.where(top >= 0.0, top, top * fade) + cross + beyond + slack
    low = np.where(bottom <= 0.0, bottom, bottom * fade) - cross - slack
    near, far = distance_form(form, P.constant, -np.expm1(-0.5 * rho2))
    low = np.fmax(np.fmax(least - below, low), near)
    high = np.fmin(np.fmin(most + above, high), far)
    return without_allowance(MomentModel(model, below, above, low, high), nu, s)


def distance_form(
    form: PosteriorSlice, constant: FloatArray, drop: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bound <phi, H phi> by its value at the centre: its root changes by sqrt(g 2 (1 - kappa)) at most."""
    reach = np.sqrt(2.0 * form.bound * drop) * (1.0 + TAIL)
    low = np.sqrt(np.maximum(0.0, constant - form.gram_error))
    high = np.sqrt(np.maximum(0.0, constant) + form.gram_error)
    near = np.maximum(0.0, low - reach) ** 2 * (1.0 - SHORT_SUM)
    return near, np.minimum((high + reach) ** 2 * (1.0 + SHORT_SUM), form.bound)


def without_allowance(found: MomentModel, nu: float, s: float) -> MomentModel:
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


def cross_terms(form: PosteriorSlice, P: Cubic, block: FloatArray, radius: FloatArray) -> FloatArray:
    """Return k = 2 sqrt(Q_1 g tau_p) + 2 rho sqrt(l) sqrt(g) rho^p/sqrt(p!), sqrt(Q_1) <= sqrt(q_0) + rho sqrt(l).

    l is at least the largest eigenvalue of the degree-1 block.
    """
    degree, factorial = (2, 2.0) if P.cubic is None else (3, 6.0)
    g, rho = form.bound, np.sqrt(squared(radius))
    slope = rho * np.sqrt(np.minimum(g, _largest_eigenvalue(block) + radius.shape[1] * form.gram_error))
    linear = np.sqrt(np.maximum(0.0, P.constant) + form.gram_error) + slope
    cross = 2.0 * linear * np.sqrt(g * tail(radius, degree))
    highest = 2.0 * slope * np.sqrt(g / factorial) * rho**degree
    return np.asarray((cross + highest) * (1.0 + SHORT_SUM))


def _largest_eigenvalue(block: FloatArray) -> FloatArray:
    """Return max(0, largest eigenvalue) of symmetric matrices [B, d, d], rounded up; infinite if not finite."""
    finite = np.isfinite(block).all(axis=(1, 2))
    sound = np.where(finite[:, None, None], block, 0.0)
    slack = TAIL * np.abs(sound).sum(axis=(1, 2))
    return np.where(finite, np.maximum(0.0, np.linalg.eigvalsh(sound)[:, -1]) + slack, np.inf)


def mean_remainder(form: PosteriorSlice, A: Cubic, radius: FloatArray) -> FloatArray:
    """Return eta sqrt(tau_p) >= |mu/s - E A| over the boxes."""
    return np.asarray(_orthogonal_norm(form, A) * np.sqrt(tail(radius, 2 if A.cubic is None else 3)))


def _orthogonal_norm(form: PosteriorSlice, A: Cubic) -> FloatArray:
    """Return an upper bound of the norm of h without its part of degree <= p."""
    total = A.constant**2 + np.einsum("bj,bj->b", A.linear, A.linear)
    total += 2.0 * np.einsum("bjk,bjk->b", A.quadratic, A.quadratic)
    degree, d = 2, A.linear.shape[1]
    if A.cubic is not None:
        degree, flat = 3, A.cubic.reshape(len(total), -1)
        total += 6.0 * np.einsum("bk,bk->b", flat, flat)
    # The coefficients in the orthonormal basis are each off by the mean's error.
    known = np.maximum(0.0, np.sqrt(total) - np.sqrt(comb(d + degree, degree)) * form.mean_error)
    return np.asarray(np.sqrt(np.maximum(0.0, form.norm2 - known**2 * (1.0 - SHORT_SUM))))


def _times_gaussian(polynomial: Cubic, rate: float) -> Cubic:
    """Return the part of exp(-rate |x|^2) times the polynomial that is kept as a cubic (or quadratic)."""
    identity = np.eye(polynomial.linear.shape[1])
    quadratic = polynomial.quadratic - rate * polynomial.constant[:, None, None] * identity
    cubic = polynomial.cubic
    if cubic is not None:
        cubic = cubic.copy()
        add_norm_times_linear(cubic, -rate * polynomial.linear)
    return Cubic(polynomial.constant, polynomial.linear, quadratic, cubic)
