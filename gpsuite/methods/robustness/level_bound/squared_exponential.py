"""Squared exponential expansion, with orders 4 and 5 for few inputs, where they take almost no time.

Orders 4 and 5 are explicit but not part of the cubic models. Their ranges over the box replace the tails' worst cases.
With E = 1 - D + D^2/2 - w, 0 <= w <= D^3/6, orders 4 and 5 of E A are A_4 - D A_2 + D^2 a_0/2 and A_5 - D A_3 + D^2
a_1/2. Here D = |x|^2/2. Those of E^2 P have the same form with D = |x|^2.

Equation: derived, squared exponential mean of degree 3
Equation: derived, squared exponential variance of degree 3
Equation: derived, squared exponential expansion and tail
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import comb, factorial

import numpy as np
from scipy.special import gammainc

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.cubic import (
    Cubic,
    LatentModel,
    MomentModel,
    add_norm_times_linear,
    by_box,
    coefficients,
    homogeneous_range,
    sum_slack,
    symmetric_part,
    third_order_sums,
)
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice
from gpsuite.methods.robustness.rounding import SHORT_SUM, TAIL

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
        slopes: S, [..., B, d, n]. None for zero.
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


def high_remainders(
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
    # The part above order 5 is -D (orders 4, 5) + D^2/2 (orders 2 to 5) - w (all). It is bounded by sizes.
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


# Orders 2 and 3 of the squared exponential expansion for many functions at once: the monomials are formed once.
#
# For one function it is cheaper to weight the offsets and multiply them by pairs of offsets (`tensors`). With F
# functions that needs F copies of all offsets. Here the monomials e D_j D_k and e D_j D_k D_l are on one side of the
# products. The weights of all functions are on the other side.


def second_orders(alpha: FloatArray, u: FloatArray, values: FloatArray, offset: FloatArray) -> FloatArray:
    """Return sum_i (alpha_i / 2) e_i D_i D_i' and - sum_i u_i e_i D_i D_i', [F, B, 2, d, d].

    Args:
        alpha: weights of the means, [F, 1, n].
        u: the reductions times the values, [F, B, n].
        values: e, [B, n].
        offset: D, [B, d, n].
    """
    n_boxes, d, _ = offset.shape
    weights = _weights(alpha, u, 0.5, -1.0)
    found = np.empty((n_boxes, d, d, weights.shape[2]))
    for j in range(d):
        part = (offset[:, j:] * (offset[:, j : j + 1] * values[:, None])) @ weights
        found[:, j, j:] = part
        found[:, j:, j] = part
    return np.ascontiguousarray(_by_function(found, len(alpha)).transpose(1, 2, 0, 3, 4))


def third_orders(
    alpha: FloatArray, reduced: FloatArray, values: FloatArray, offset: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return A_3 and q_C, [F B, d, d, d], from R V = [u, U_1], [F, B, 1 + d, n]. See `second_orders`."""
    n_boxes, d, n = offset.shape
    weights = _weights(alpha, reduced[:, :, 0], 1.0 / 6.0, -1.0 / 3.0)
    own = np.empty((*reduced.shape[:2], d, d, d))
    sums, filled = np.empty((n_boxes, d * (d + 1) * (d + 2) // 6, weights.shape[2])), 0
    cubes = np.empty((n_boxes, d * (d + 1) // 2, n))
    for j in range(d):
        squares = offset[:, j:] * (offset[:, j : j + 1] * values[:, None])
        part = reduced[:, :, 1:] @ -squares.transpose(0, 2, 1)
        own[..., j, j:] = part
        own[..., j:, j] = part
        end = 0
        for k in range(j, d):
            start, end = end, end + d - k
            np.multiply(squares[:, k - j :], offset[:, k : k + 1], out=cubes[:, start:end])
        sums[:, filled : filled + end] = cubes[:, :end] @ weights
        filled += end
    mean, variance = _by_function(sums[:, _places(d)], len(alpha))
    return by_box(mean, 3), symmetric_part(by_box(own, 3)) + by_box(variance, 3)


def _weights(alpha: FloatArray, u: FloatArray, of_mean: float, of_variance: float) -> FloatArray:
    """Return the weights of all means, then of all variances, [B, n, 2 F]."""
    count, n_boxes, n = u.shape
    weights = np.empty((n_boxes, n, 2 * count))
    weights[:, :, :count] = of_mean * alpha[:, 0].T
    weights[:, :, count:] = of_variance * u.transpose(1, 2, 0)
    return weights


def _by_function(sums: FloatArray, count: int) -> FloatArray:
    """Return sums [B, ..., 2 F] as [2, F, B, ...]."""
    parts = sums.reshape(*sums.shape[:-1], 2, count)
    return np.ascontiguousarray(np.moveaxis(parts, (-2, -1), (0, 1)))


@cache
def _places(n_inputs: int) -> IntArray:
    """Return the place of x_j x_k x_l among the monomials j <= k <= l, [d, d, d]."""
    places = np.empty((n_inputs,) * 3, dtype=np.int64)
    number = 0
    for j in range(n_inputs):
        for k in range(j, n_inputs):
            for m in range(k, n_inputs):
                for a, b, c in ((j, k, m), (j, m, k), (k, j, m), (k, m, j), (m, j, k), (m, k, j)):
                    places[a, b, c] = number
                number += 1
    return places


# Remainders of the squared exponential expansion over a box: one-sided, with ranges of mean and variance.
#
# tau_p = P(Poisson(rho^2) > p) is the squared norm of the part of phi above degree p at distance rho.


def tail(radius: FloatArray, degree: int) -> FloatArray:
    """Return tau_degree for half-widths [B, d], rounded up."""
    return np.asarray(gammainc(degree + 1.0, squared(radius)) * (1.0 + TAIL))


def squared(radius: FloatArray) -> FloatArray:
    """Return rho^2 = |r|^2, rounded up, [B]."""
    return np.asarray(np.einsum("bj,bj->b", radius, radius) * (1.0 + SHORT_SUM))


def growth(radius: FloatArray, degree: int = 3) -> FloatArray:
    """Return the growth of coefficient errors over the box: 1 + R + ... + R^degree, R = sum_j r_j, [B]."""
    total = radius.sum(axis=1)
    sums = np.ones_like(total)
    for _ in range(degree):
        sums = 1.0 + total * sums
    return np.asarray(sums)


def mean_model(form: PosteriorSlice, A: Cubic, radius: FloatArray, high: HighOrders | None = None) -> MomentModel:
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

    With H = G + nu >= 0, Sigma/s = <phi, H phi> - nu and <phi, H phi> = E^2 P + remainder_1. The remainder has three
    parts. It is in [-k, k + g tau_1]. The product of y_1 with the part above the kept degrees is bounded by
    Cauchy-Schwarz. So is the product of degree 1 with the highest degree. The third part is the square of the part
    above degree 1, which is not negative.

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

    exp(-D) = 1 - D + w with 0 <= w <= D^2/2, D = rate |x|^2. So the model leaves out -D (orders 2 and 3) + w (all). At
    degree 2 these are orders 1 and 2.
    """
    if high is not None:
        return high_remainders(polynomial, high, radius, rho2, rate)
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


def distance_form(form: PosteriorSlice, constant: FloatArray, drop: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound <phi, H phi> by its value at the centre: its root changes by sqrt(g 2 (1 - kappa)) at most."""
    reach = np.sqrt(2.0 * form.bound * drop) * (1.0 + TAIL)
    low = np.sqrt(np.maximum(0.0, constant - form.gram_error))
    high = np.sqrt(np.maximum(0.0, constant) + form.gram_error)
    near = np.maximum(0.0, low - reach) ** 2 * (1.0 - SHORT_SUM)
    return near, np.minimum((high + reach) ** 2 * (1.0 + SHORT_SUM), form.bound)


def without_allowance(found: MomentModel, nu: float | FloatArray, s: float) -> MomentModel:
    """Return the variance's model from the model of <phi, H phi> = Sigma/s + nu. Negative variances count as zero."""
    low, high = found.low - nu, np.maximum(found.high - nu, 0.0)
    model = replace(found.model, constant=found.model.constant - nu).scaled(s)
    # The stored floats may give a variance as low as -nu. It is raised to zero.
    above = found.above + np.where(low <= 0.0, nu, 0.0)
    slack = SHORT_SUM * (1.0 + nu)
    return MomentModel(
        model, s * (found.below + slack), s * (above + slack), s * np.maximum(0.0, low - slack), s * (high + slack)
    )


def cross_terms(
    form: PosteriorSlice, P: Cubic, block: FloatArray, radius: FloatArray, high: HighOrders | None = None
) -> FloatArray:
    """Return k = 2 sqrt(Q_1 g tau_p) + 2 rho sqrt(l) sqrt(g) rho^p/sqrt(p!), sqrt(Q_1) <= sqrt(q_0) + rho sqrt(l).

    l is at least the largest eigenvalue of the degree-1 block. p is the highest kept degree.
    """
    degree, g, rho = _degree(P, high), form.bound, np.sqrt(squared(radius))
    slope = rho * np.sqrt(np.minimum(g, _largest_eigenvalue(block) + radius.shape[1] * form.gram_error))
    linear = np.sqrt(np.maximum(0.0, P.constant) + form.gram_error) + slope
    cross = 2.0 * linear * np.sqrt(g * tail(radius, degree))
    highest = 2.0 * slope * np.sqrt(g / factorial(degree)) * rho**degree
    return np.asarray((cross + highest) * (1.0 + SHORT_SUM))


def _largest_eigenvalue(block: FloatArray) -> FloatArray:
    """Return max(0, largest eigenvalue) of symmetric matrices [B, d, d], rounded up. Infinite if not finite."""
    finite = np.isfinite(block).all(axis=(1, 2))
    sound = np.where(finite[:, None, None], block, 0.0)
    slack = TAIL * np.abs(sound).sum(axis=(1, 2))
    return np.where(finite, np.maximum(0.0, np.linalg.eigvalsh(sound)[:, -1]) + slack, np.inf)


def mean_remainder(form: PosteriorSlice, A: Cubic, radius: FloatArray, high: HighOrders | None = None) -> FloatArray:
    """Return eta sqrt(tau_p) >= |mu/s - E A| over the boxes. eta is the norm of h without its part of degree <= p."""
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


# Squared exponential kernel: expansion of mean and variance in the orthonormal basis of its RKHS.
#
# With D_i = U_i - c, e_i = exp(-|D_i|^2/2) and E = exp(-|x|^2/2), exp(-|x - D_i|^2/2) = E e_i exp(D_i x). The mean is
# kept to degree 3. In the variance <phi, G phi> the part y_1 of degree <= 1 is paired with everything up to degree 3.
# This needs only the product of the reduction with 1 + d columns. The square of the remainder is one-sided. Above
# `MANY_INPUTS` free inputs everything stops at degree 2.


MANY_INPUTS = 64


@dataclass(frozen=True)
class SquaredExponentialExpansion:
    """Coefficients around B centres, in units of s and without the factor E (mean) or E^2 (variance).

    Attributes:
        form: the posterior over the free inputs.
        centre: the centres in units of X, [B, d].
        A: mean coefficients up to degree 2, a_0 + a_1 x + A_2[xx].
        P: coefficients up to degree 2 of the explicit part of <phi, H phi>, q_0 + q_b x + q_M[xx], H = G + nu.
        block: degree-1 block <e_j, H e_k>, [B, d, d].
        offset: D, [B, d, n].
        values: w_i e_i, [B, n].
        reduced: R V = [u, U_1] for the columns w e and w e D of V, [B, 1 + d, n].
        rows: rows with sums 3 A_3 and q_C over the data with D_k D_l, [B, 2 d, n]. None for a stack.

    Of a stack of F functions the coefficients have F B rows, function by function, and `reduced` a leading axis.
    """

    form: PosteriorSlice
    centre: FloatArray
    A: Cubic
    P: Cubic
    block: FloatArray
    offset: FloatArray
    values: FloatArray
    reduced: FloatArray
    rows: FloatArray | None

    @property
    def mean(self) -> FloatArray:
        """The latent mean at the centres, [B]."""
        return self.form.variance * self.A.constant

    @property
    def variance(self) -> FloatArray:
        """The latent variance at the centres, [B]."""
        return self.form.variance * np.maximum(self.P.constant - self.form.allowance, 0.0)

    def taylor(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return gradient [B, d] and half Hessian [B, d, d] of the mean, then of the variance, by lengthscales."""
        s, identity = self.form.variance, np.eye(self.centre.shape[1])
        mean = self.A.quadratic - 0.5 * self.A.constant[:, None, None] * identity
        variance = self.P.quadratic - self.P.constant[:, None, None] * identity
        return (s * self.A.linear, s * mean), (s * self.P.linear, s * variance)

    def over(self, radius: FloatArray, cheap: bool = False) -> LatentModel:
        """Return the models over |x - centre| <= radius in lengthscales, [B, d]. Cheap ones have no degree 3."""
        A, P = self.A, self.P
        form, radius = self.form.for_boxes(radius)
        high: tuple[HighOrders | None, HighOrders | None] = (None, None)
        if radius.shape[1] <= FEW_INPUTS and not cheap:
            high = self._high_orders
        if radius.shape[1] <= MANY_INPUTS and not cheap:
            A3, q_C = self._degree_three
            A, P = replace(A, cubic=A3), replace(P, cubic=q_C)
        return LatentModel(
            radius, mean_model(form, A, radius, high[0]), variance_model(form, P, self.block, radius, high[1])
        )

    @cached_property
    def _high_orders(self) -> tuple[HighOrders, HighOrders]:
        """Orders 4 and 5 of A and P."""
        mean = self.form.alpha * self.values
        variance = -2.0 * self.reduced[..., 0, :] * self.values
        slopes = -2.0 * self.reduced[..., 1:, :] * self.values[:, None]
        return high_orders(mean, None, self.offset), high_orders(variance, slopes, self.offset)

    @cached_property
    def _degree_three(self) -> tuple[FloatArray, FloatArray]:
        """A_3 and q_C, [B, d, d, d]."""
        d = self.offset.shape[1]
        if self.rows is None:
            return third_orders(self.form.alpha, self.reduced, self.values, self.offset)
        sums = third_order_sums(self.rows, self.offset)
        return sums[:, :d] / 3.0, symmetric_part(sums[:, d:])


def expand_squared_exponential(form: PosteriorSlice, centre: FloatArray) -> SquaredExponentialExpansion:
    """Expand mean and variance around centres [B, d] in units of X."""
    n_boxes, d = centre.shape
    offset = form.offsets(centre)
    e = form.weight * np.exp(-0.5 * np.einsum("bjn,bjn->bn", offset, offset))
    V = np.empty((n_boxes, 1 + d, e.shape[1]))
    V[:, 0] = e
    np.multiply(offset, e[:, None], out=V[:, 1:])
    W, first = form.reduced(V), form.sums(V, form.alpha)
    gram = np.matmul(W[..., 1:, :], V[:, 1:].transpose(0, 2, 1))
    # Row 0 of both products pairs the degrees 0 and 1 of the variance.
    low = np.matmul(V, W[..., 0, :, None])[..., 0]
    if W.ndim > V.ndim:
        rows, pairs = None, second_orders(form.alpha, W[:, :, 0], e, offset)
    else:
        weighted = np.stack([0.5 * form.alpha * V[:, 1:], -W[:, :1] * V[:, 1:]], axis=1)
        pairs = np.matmul(weighted, offset[:, None].transpose(0, 1, 3, 2))
        rows = np.concatenate([weighted[:, 0], weighted[:, 1] / 3.0 - W[:, 1:] * e[:, None]], axis=1)
    # H = G + nu adds nu to the diagonal of the degrees 0 and 1.
    own = np.asarray(1.0 + form.allowance)
    block = own[..., None, None] * np.eye(d) - 0.5 * (gram + gram.swapaxes(-1, -2))
    return SquaredExponentialExpansion(
        form,
        centre,
        A=Cubic(by_box(first[..., 0]), by_box(first[..., 1:], 1), by_box(pairs[..., 0, :, :], 2), None),
        P=Cubic(
            by_box(own - low[..., 0]), by_box(-2.0 * low[..., 1:], 1), by_box(block + pairs[..., 1, :, :], 2), None
        ),
        block=by_box(block, 2),
        offset=offset,
        values=e,
        reduced=W,
        rows=rows,
    )
