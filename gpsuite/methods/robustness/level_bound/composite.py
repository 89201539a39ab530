"""Sums and products of radial kernels: how large their derivatives and their features' remainders are over a box.

The m-th derivative of a product along a line, over m!, is the m-th coefficient of the product of its factors' series.
So sizes over a box multiply like truncated power series. In the RKHS phi = phi_a x phi_b has the same form. With T_m
the orders up to m and R_m = phi - T_m, R_m = R_a,m x phi_b + sum_i (order i of phi_a) x R_b,m-i.

Equation: derived, sums and products of kernels
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations_with_replacement, product
from math import factorial

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.robustness.level_bound.cubic import (
    Cubic,
    LatentModel,
    MomentModel,
    sum_slack,
    symmetric_part,
    third_order_sums,
    weighted_rows,
)
from gpsuite.methods.robustness.level_bound.matern import (
    MATERN_KERNELS,
    DataExpansion,
    Polynomial,
    place_in_table,
    radial_derivatives,
    second_remainder_52,
    supremum_table,
)
from gpsuite.methods.robustness.level_bound.posterior_slice import (
    CompositeSlice,
    FactorSlice,
    PosteriorSlice,
    TermSlice,
)
from gpsuite.methods.robustness.level_bound.squared_exponential import distance_form, growth, squared, without_allowance
from gpsuite.methods.robustness.operators import PROFILES
from gpsuite.methods.robustness.rounding import TAIL, UNDERFLOW
from gpsuite.models.composite import SQUARED_EXPONENTIAL

HIGHEST = 4  # highest order of the bounded derivatives
_R3, _R5 = float(np.sqrt(3.0)), float(np.sqrt(5.0))
# Derivatives of order 0, 1, 2 (and 3, 4) along a line, times exp(z) or exp(z^2 / 2), by the powers of c and z.
LOW_ORDERS: dict[str, tuple[Polynomial, ...]] = {
    SQUARED_EXPONENTIAL: (
        {(0, 0): 1.0},
        {(1, 1): -1.0},
        {(0, 0): -1.0, (2, 2): 1.0},
        {(1, 1): 3.0, (3, 3): -1.0},
        {(0, 0): 3.0, (2, 2): -6.0, (4, 4): 1.0},
    ),
    "matern52": (
        {(0, 0): 1.0, (0, 1): 1.0, (0, 2): 1.0 / 3.0},
        {(1, 1): -_R5 / 3.0, (1, 2): -_R5 / 3.0},
        {(0, 0): -5.0 / 3.0, (0, 1): -5.0 / 3.0, (2, 2): 5.0 / 3.0},
    ),
    "matern32": ({(0, 0): 1.0, (0, 1): 1.0}, {(1, 1): -_R3}, {(0, 0): -3.0, (2, 1): 3.0}),
}
_SCALES = {SQUARED_EXPONENTIAL: 1.0, "matern32": _R3, "matern52": _R5}  # z = scale r


@cache
def _table(name: str, order: int) -> FloatArray:
    return supremum_table(LOW_ORDERS[name][order], name == SQUARED_EXPONENTIAL) + UNDERFLOW


def derivative_bound(name: str, order: int, distance: FloatArray) -> FloatArray:
    """Return the largest |derivative| of an order up to 4, along any line at this distance or beyond."""
    z = _SCALES[name] * distance
    if order >= len(LOW_ORDERS[name]):
        return MATERN_KERNELS[name].bound(order, z)
    table = _table(name, order)
    return np.asarray(table[place_in_table(z, table)])


def derivatives_by_distance(name: str, q: FloatArray) -> tuple[FloatArray, ...]:
    """Return g, g', g'', g''' at squared distances q. Singular ones are 0 where q is 0."""
    if name != SQUARED_EXPONENTIAL:
        return radial_derivatives(MATERN_KERNELS[name], q)[:4]
    value = np.exp(-0.5 * q)
    return value, -0.5 * value, 0.25 * value, -0.125 * value


def _times(one: Sequence[FloatArray], other: Sequence[FloatArray]) -> list[FloatArray]:
    """Multiply two truncated series."""
    return [np.sum([_scaled(one[i], other[m - i]) for i in range(m + 1)], axis=0) for m in range(len(one))]


def _scaled(size: FloatArray, by: FloatArray) -> FloatArray:
    """Return the product with infinity times zero as zero: at radius zero nothing moves. NaN stays."""
    with np.errstate(invalid="ignore"):
        return np.where((size == 0.0) | (by == 0.0), 0.0, size * by)


def taylor_sizes(name: str, distance: FloatArray, rho: FloatArray) -> list[FloatArray]:
    """Return the largest |D^m g| rho^m / m! for m = 0 to 4, [B, n], at these distances or beyond, rho [B]."""
    powers = [rho[:, None] ** m / factorial(m) for m in range(HIGHEST + 1)]
    return [_scaled(derivative_bound(name, m, distance), power) for m, power in enumerate(powers)]


Norms = tuple[list[FloatArray], list[FloatArray]]
"""Norms of the orders 0 to 3 of phi and of what is left after each, [B] each. Infinite if they do not exist."""


def feature_norms(name: str, rho: FloatArray) -> Norms:
    """Bound the orders and remainders of a radial kernel's features at distance rho [B]."""
    never = np.full(rho.shape, np.inf)
    profile = PROFILES.get(name)
    drop = profile.drop(rho)
    first = np.sqrt(profile.tail(rho) + drop**2 + (rho * profile.slope_drop(rho)) ** 2)
    orders = [np.ones(rho.shape), np.sqrt(profile.curvature) * rho, never, never]
    left = [np.sqrt(2.0 * drop), first, never, never]
    if name == SQUARED_EXPONENTIAL:
        # |D^m phi|^2 = (2m - 1)!!, and |R_m| <= |D^(m+1) phi| rho^(m+1) / (m+1)!
        sizes = [np.sqrt(odd) * rho**m / factorial(m) for m, odd in ((2, 3.0), (3, 15.0), (4, 105.0))]
        orders[2:], left[2:] = sizes[:2], sizes[1:]
        left[1] = np.minimum(first, sizes[0])
    if name == "matern52":
        orders[2] = 2.5 * rho**2
        left[2] = np.minimum(second_remainder_52(rho, drop), first + orders[2])
    return orders, [each * (1.0 + TAIL) for each in left]


def product_norms(parts: Sequence[Norms], n_boxes: int) -> Norms:
    """Bound the orders and remainders of a product's features. Without a factor they are those of a constant."""
    zero = np.zeros(n_boxes)
    orders, left = [np.ones(n_boxes), zero, zero, zero], [zero] * 4
    for other, remainder in parts:
        left = [own + mixed for own, mixed in zip(left, _times(orders, remainder), strict=True)]
        orders = _times(orders, other)
    return orders, left


# Mean and variance around B centres, in data space as for the Matérn kernels, with remainders by data or by norms.
#
# kappa_i(c + x) is expanded up to order 2 or 3, from derivatives of the factors by their squared distances. These are
# q_f = q_f(c) - 2 D_f x + x'A_f x, D_f = a_f D. Let B = I - G, u = R V_0 and U_1 = R V_1. Then the variance is
# 1 + V_0 u - x V_1 U_1 x - 2 sum_i u_i kappa_i(x) - 2 sum_i (U_1i x) (order 2 and more of kappa_i) - <R_1, B R_1>.


# Up to here order 3 is kept (d^3 numbers per box).
MOST_CUBIC_INPUTS = 16
# Orders of a factor and their changes with the data are at most this large, per unit length.
_ORDERS = 8.0


@dataclass(frozen=True)
class TermExpansion:
    """One product at B centres: g to g''' of its factors by their squared distances, [B, n] each."""

    term: TermSlice
    g: tuple[tuple[FloatArray, ...], ...]
    offset: FloatArray

    @property
    def count(self) -> int:
        """Return the number of factors."""
        return len(self.term.factors)

    @property
    def smooth(self) -> bool:
        """Whether features have all orders."""
        return all(each.name == SQUARED_EXPONENTIAL for each in self.term.factors)

    def rates(self, *factors: int) -> list[FloatArray]:
        """Return a of some factors."""
        return [self.term.factors[each].rates for each in factors]

    def derivative(self, *factors: int) -> FloatArray:
        """Return w times the derivative by the squared distances of these factors, which may repeat, [B, n]."""
        value = np.full(self.offset[:, 0].shape, self.term.weight)
        for number, own in enumerate(self.g):
            value = value * own[factors.count(number)]
        return value

    def quadratic(self, weights: FloatArray) -> Cubic:
        """Return orders 0 to 2 of sum_i w_i kappa_i, weights [B, n]."""
        n_boxes, d, _ = self.offset.shape
        linear, quadratic = np.zeros((n_boxes, d)), np.zeros((n_boxes, d, d))
        for f in range(self.count):
            weighted = weights * self.derivative(f)
            (rates,) = self.rates(f)
            linear -= 2.0 * rates * np.matmul(self.offset, weighted[:, :, None])[:, :, 0]
            np.einsum("bjj->bj", quadratic)[...] += rates * weighted.sum(axis=1)[:, None]
        for f, g in product(range(self.count), repeat=2):
            one, other = self.rates(f, g)
            weighted = self.offset * (2.0 * weights * self.derivative(f, g))[:, None]
            quadratic += one[:, None] * other * np.matmul(weighted, self.offset.transpose(0, 2, 1))
        return Cubic(np.einsum("bn,bn->b", weights, self.derivative()), linear, quadratic, None)

    def cubic(self, weights: FloatArray) -> FloatArray:
        """Return order 3 of sum_i w_i kappa_i, not symmetric, [B, d, d, d]."""
        n_boxes, d, _ = self.offset.shape
        total = np.zeros((n_boxes, d, d, d))
        for chosen in combinations_with_replacement(range(self.count), 3):
            times = factorial(3) // np.prod([factorial(chosen.count(f)) for f in set(chosen)])
            a, b, c = self.rates(*chosen)
            rows = self.offset * (-8.0 / 6.0 * times * weights * self.derivative(*chosen))[:, None]
            sums = third_order_sums(rows, self.offset)
            total += a[:, None, None] * b[:, None] * c * sums
        for f, g in product(range(self.count), repeat=2):
            a, b = self.rates(f, g)
            slope = -2.0 * a * np.einsum("bjn,bn->bj", self.offset, weights * self.derivative(f, g))
            np.einsum("bjkk->bjk", total)[...] += slope[:, :, None] * b
        return total

    def slopes_times_second(self, slopes: FloatArray) -> FloatArray:
        """Return sum_i (S_i x) (order 2 of kappa_i), not symmetric, slopes [B, d, n]."""
        n_boxes, d, _ = self.offset.shape
        total = np.zeros((n_boxes, d, d, d))
        for f, g in product(range(self.count), repeat=2):
            a, b = self.rates(f, g)
            sums = third_order_sums(slopes * (2.0 * self.derivative(f, g))[:, None], self.offset)
            total += a[:, None] * b * sums
        for f in range(self.count):
            (a,) = self.rates(f)
            moved = np.einsum("bjn,bn->bj", slopes, self.derivative(f))
            np.einsum("bjkk->bjk", total)[...] += moved[:, :, None] * a
        return total


@dataclass(frozen=True)
class TermRemainders:
    """Remainders of one product over boxes.

    Attributes:
        after: remainder per datum after orders 0 to 3, [B, n] each.
        third: data whose order 3 is kept, [B, n].
        norms: w^1/2 |R_m| after orders 0 to 3, [B] each.
        kept: remainder per datum after the orders that the sums keep, [B, n].
        kept_norm: w^1/2 times the norm of the remainder if the same orders are kept for all data, [B].
    """

    after: list[FloatArray]
    third: BoolArray
    norms: list[FloatArray]
    kept: FloatArray
    kept_norm: FloatArray


def term_remainders(own: TermExpansion, radius: FloatArray, cubic: bool) -> TermRemainders:
    """Bound the remainders of a product over |x| <= radius, [B, d]. `cubic` if order 3 may be kept."""
    n_boxes, _, n = own.offset.shape
    sizes = [np.ones((n_boxes, n))] + [np.zeros((n_boxes, n))] * HIGHEST
    parts = []
    for factor in own.term.factors:
        rho = np.sqrt(np.square(radius) @ factor.rates) * (1.0 + TAIL)
        sizes = _times(sizes, taylor_sizes(factor.name, _nearest(factor, own.offset, radius), rho))
        parts.append(feature_norms(factor.name, rho))
    after = [own.term.weight * each * (1.0 + TAIL) for each in sizes[1:]]
    norms = [np.sqrt(own.term.weight) * each for each in product_norms(parts, n_boxes)[1]]
    third = np.full((n_boxes, n), cubic) if own.smooth else (after[3] < after[2]) & cubic
    kept = np.where(third, after[3], after[2])
    beyond = np.full(n_boxes, np.inf) if cubic and not own.smooth else norms[3 if cubic else 2]
    return TermRemainders(after, third, norms, kept, beyond)


def _nearest(factor: FactorSlice, offset: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the smallest distances of the boxes from the data, rounded down, [B, n]."""
    apart = np.maximum(np.abs(offset) * (1.0 - TAIL) - radius[:, :, None], 0.0)
    return np.sqrt(factor.distance(apart)) * (1.0 - TAIL)


def least_remainder(norm: FloatArray, by_norm: Sequence[FloatArray], by_data: Sequence[FloatArray]) -> FloatArray:
    """Bound a sum over terms: some by data, the others together by Cauchy-Schwarz with one norm, [B]."""
    square, total = np.zeros(norm.shape), np.zeros(norm.shape)
    for size, data in zip(by_norm, by_data, strict=True):
        norms = norm * size < data
        square += np.where(norms, size, 0.0) ** 2
        total += np.where(norms, 0.0, data)
    return np.asarray(norm * np.sqrt(square) + total)


@dataclass(frozen=True)
class CompositeExpansion(DataExpansion):
    """Products around B centres.

    Attributes:
        form: the posterior over the free inputs.
        centre: the centres in units of X, [B, d].
        terms: expansions of the kernel's terms.
    """

    form: CompositeSlice
    centre: FloatArray
    terms: tuple[TermExpansion, ...]

    @property
    def mean(self) -> FloatArray:
        """The latent mean at the centres, [B]."""
        return np.asarray(self.form.variance * (self.V[:, 0] @ self.form.alpha))

    @cached_property
    def _gram(self) -> FloatArray:
        """V_1' R V_1, [B, d, d]."""
        found = np.matmul(self.W[:, 1:], self.V[:, 1:].transpose(0, 2, 1))
        return np.asarray(0.5 * (found + found.transpose(0, 2, 1)))

    @cached_property
    def _to_degree_two(self) -> tuple[Cubic, Cubic]:
        """Mean and variance in units of s, without the terms of order 3."""
        u = self.W[:, 0]
        mean, data = self._sum(np.broadcast_to(self.form.alpha, u.shape)), self._sum(-2.0 * u)
        constant = 1.0 + np.einsum("bn,bn->b", self.V[:, 0], u) + data.constant
        return mean, Cubic(constant, data.linear, data.quadratic - self._gram, None)

    def _sum(self, weights: FloatArray) -> Cubic:
        """Return orders 0 to 2 of sum_i w_i kappa_i, weights [B, n]."""
        first, *others = [term.quadratic(weights) for term in self.terms]
        one = np.ones(len(weights))
        for other in others:
            first = first.combined(1.0, other, one)
        return first

    def over(self, radius: FloatArray, cheap: bool = False) -> LatentModel:
        """Return the models over |x - centre| <= radius in lengthscales, [B, d]. Cheap ones are the same."""
        cubic = radius.shape[1] <= MOST_CUBIC_INPUTS
        remainders = [term_remainders(term, radius, cubic) for term in self.terms]
        mean, variance = self._to_degree_two
        if cubic:
            third = self._order_three(remainders)
            mean, variance = replace(mean, cubic=third[0]), replace(variance, cubic=third[1])
        return LatentModel(
            radius, self._mean_model(mean, remainders, radius), self._variance_model(variance, remainders, radius)
        )

    def _order_three(self, remainders: Sequence[TermRemainders]) -> tuple[FloatArray, FloatArray]:
        """Return the order-3 tensors of mean and variance, [B, d, d, d]."""
        u, slopes = self.W[:, 0], self.W[:, 1:]
        mean = variance = np.zeros(())
        for term, remainder in zip(self.terms, remainders, strict=True):
            mean = mean + term.cubic(np.where(remainder.third, self.form.alpha, 0.0))
            variance = variance - 2.0 * (
                term.cubic(np.where(remainder.third, u, 0.0)) + term.slopes_times_second(slopes)
            )
        return _symmetric(mean), _symmetric(variance)

    def _mean_model(self, mean: Cubic, remainders: Sequence[TermRemainders], radius: FloatArray) -> MomentModel:
        form = self.form
        size = np.abs(form.alpha)
        left = np.zeros(len(radius))
        for term, remainder in zip(self.terms, remainders, strict=True):
            left += np.fmin(remainder.kept @ size, np.sqrt(term.term.norm2) * remainder.kept_norm)
        error = form.mean_error * self._growth(radius) + sum_slack(radius.shape[1]) * mean.magnitude(radius)
        left, s = left * (1.0 + TAIL) + error, form.variance
        near, far = form.mean_range(mean.constant, self._drop(radius))
        model, beyond = mean.scaled(s), s * left
        least, most = model.range(radius)
        return MomentModel(model, beyond, beyond, np.fmax(least - beyond, s * near), np.fmin(most + beyond, s * far))

    def _variance_model(self, variance: Cubic, remainders: Sequence[TermRemainders], radius: FloatArray) -> MomentModel:
        form, nu = self.form, self.form.allowance
        error = form.gram_error * self._growth(radius) ** 2 + sum_slack(radius.shape[1]) * variance.magnitude(radius)
        # |B phi(c)| is at most the norm of B = I - G.
        size = np.full(len(radius), 2.0 * max(1.0 + float(nu), float(form.above) - 1.0))
        u = 2.0 * np.abs(self.W[:, 0])
        by_data = [np.einsum("bn,bn->b", u, remainder.kept) for remainder in remainders]
        left = least_remainder(
            size, [remainder.kept_norm for remainder in remainders], by_data
        ) + self._slopes_left_out(remainders, radius)
        left = left * (1.0 + TAIL) + error
        square = np.sum([remainder.norms[1] ** 2 for remainder in remainders], axis=0) * (1.0 + TAIL)
        below, above = left + (1.0 + nu) * square, left + (form.above - 1.0) * square
        least, most = variance.range(radius)
        near, far = distance_form(form, variance.constant + nu, self._drop(radius))
        shifted = replace(variance, constant=variance.constant + nu)
        low, high = np.fmax(least - below + nu, near), np.fmin(most + above + nu, far)
        return without_allowance(MomentModel(shifted, below, above, low, high), nu, form.variance)

    def _slopes_left_out(self, remainders: Sequence[TermRemainders], radius: FloatArray) -> FloatArray:
        """Bound 2 |sum_i (U_1i x) (kappa_i - its kept orders)|: by the data, or by Cauchy-Schwarz in the RKHS."""
        form, kept = self.form, 2 if radius.shape[1] <= MOST_CUBIC_INPUTS else 1
        sizes = 2.0 * np.einsum("bjn,bj->bn", np.abs(self.W[:, 1:]), radius)
        size = np.einsum("bj,bj->b", weighted_rows(self._gram, radius), radius)
        size += form.gram_error * self._growth(radius) ** 2
        # B + t >= 0 with t = g - 1: Cauchy-Schwarz there, and t times the norms. |D phi x| = |x|.
        excess, slopes = form.above - 1.0, squared(radius) * (1.0 + TAIL)
        by_norm = np.sqrt((size + excess * slopes) * (1.0 + form.allowance + excess)) + excess * np.sqrt(slopes)
        by_data = [np.einsum("bn,bn->b", sizes, remainder.after[kept]) for remainder in remainders]
        return least_remainder(2.0 * by_norm, [remainder.norms[kept] for remainder in remainders], by_data)

    def _growth(self, radius: FloatArray) -> FloatArray:
        """Return the factor by which rounding errors of the coefficients grow over the boxes, [B]."""
        total = np.zeros(len(radius))
        for own in self.terms:
            part = np.full(len(radius), own.term.weight * _ORDERS ** max(1, own.count))
            for factor in own.term.factors:
                part *= growth(radius * np.sqrt(factor.rates))
            total += part
        return total

    def _drop(self, radius: FloatArray) -> FloatArray:
        """Return 1 - kappa at the boxes' corners, [B], rounded up."""
        total = np.zeros(len(radius))
        for own in self.terms:
            alike = np.ones(len(radius))
            drop = np.zeros(len(radius))
            for factor in own.term.factors:
                fall = PROFILES.get(factor.name).drop(np.sqrt(np.square(radius) @ factor.rates) * (1.0 + TAIL))
                drop, alike = drop + alike * fall, alike * (1.0 - fall)
            total += own.term.weight * drop
        return total * (1.0 + TAIL)


def _symmetric(tensor: FloatArray) -> FloatArray:
    """Return the symmetric part of tensors [B, d, d, d]."""
    return symmetric_part(0.5 * (tensor + tensor.transpose(0, 1, 3, 2)))


def expand_composite(form: PosteriorSlice, centre: FloatArray) -> CompositeExpansion:
    """Expand mean and variance around centres [B, d] in units of X."""
    assert isinstance(form, CompositeSlice)
    offset = form.offsets(centre)
    terms = tuple(
        TermExpansion(
            term, tuple(derivatives_by_distance(each.name, each.distance(offset)) for each in term.factors), offset
        )
        for term in form.terms
    )
    V = np.zeros((len(centre), 1 + offset.shape[1], offset.shape[2]))
    for own in terms:
        V[:, 0] += own.derivative()
        for f in range(own.count):
            (rates,) = own.rates(f)
            V[:, 1:] -= 2.0 * rates[:, None] * offset * own.derivative(f)[:, None]
    return CompositeExpansion(V, form.reduced(V), form, centre, terms)
