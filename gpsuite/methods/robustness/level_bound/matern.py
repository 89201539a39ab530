"""Matérn 5/2 and 3/2 kernels as functions f of the squared distance q, and bounds of their directional derivatives.

Consider a line at distance r from a datum. Let z = sqrt(nu) r (nu = 5 or 3), and c the cosine between the line and the
direction to the datum. The k-th derivative of the kernel is exp(-z) N_k(c, z) / z^s with a polynomial N_k. Tables bound
sup |exp(-z') N_k(c, z')| over z' >= z and |c| <= 1. The derivative of order 5 (5/2) or 3 (3/2) jumps at the datum but
is bounded. So the expansion one order lower needs no special case for data inside the box.

Equation: derived, Matérn expansion in data space
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.robustness.level_bound.cubic import (
    Cubic,
    LatentModel,
    MomentModel,
    add_norm_times_linear,
    by_box,
    sum_slack,
    symmetric_part,
    third_order_sums,
    weighted_rows,
)
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice
from gpsuite.methods.robustness.level_bound.squared_exponential import distance_form, growth, squared, without_allowance
from gpsuite.methods.robustness.operators import PROFILES
from gpsuite.methods.robustness.rounding import TAIL, UNIT

_STEP, _LAST = 0.004, 64.0
_SMALLEST = 1e-100  # below this distance a datum counts as being at the point: the singular terms are zero there
_MARGIN = 1e-9

Polynomial = dict[tuple[int, int], float]
"""Coefficients by the powers of c and z."""


@dataclass(frozen=True)
class MaternKernel:
    """One Matérn kernel.

    Attributes:
        nu: 5 or 3, z^2 = nu q.
        curvature: lambda = -kappa''(0).
        derivatives: N_3, N_4, N_5.
        poles: s for each derivative.
    """

    nu: float
    curvature: float
    derivatives: tuple[Polynomial, Polynomial, Polynomial]
    poles: tuple[int, int, int]

    def bound(self, order: int, z: FloatArray) -> FloatArray:
        """Return the largest |k-th derivative| at z and beyond, k = order in 3, 4, 5. Infinite at a pole."""
        table = _table(self, order)
        place = place_in_table(z, table)
        pole = self.poles[order - 3]
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(table[place] / z**pole if pole else table[place])


_R3, _R5 = float(np.sqrt(3.0)), float(np.sqrt(5.0))
MATERN52 = MaternKernel(
    nu=5.0,
    curvature=5.0 / 3.0,
    derivatives=(
        {(1, 1): -25.0 / _R5, (3, 2): 25.0 / 3.0 / _R5},
        {(0, 0): 25.0, (2, 1): -50.0, (4, 1): 25.0 / 3.0, (4, 2): 25.0 / 3.0},
        {
            (1, 0): 625.0 / _R5,
            (3, 0): -1250.0 / 3.0 / _R5,
            (3, 1): -1250.0 / 3.0 / _R5,
            (5, 0): 125.0 / _R5,
            (5, 1): 125.0 / _R5,
            (5, 2): 125.0 / 3.0 / _R5,
        },
    ),
    poles=(0, 0, 0),
)
MATERN32 = MaternKernel(
    nu=3.0,
    curvature=3.0,
    derivatives=(
        {(1, 0): -9.0 * _R3, (3, 0): 3.0 * _R3, (3, 1): 3.0 * _R3},
        {(0, 0): 27.0, (2, 0): -54.0, (2, 1): -54.0, (4, 0): 27.0, (4, 1): 27.0, (4, 2): 9.0},
        {
            (1, 0): 405.0 / _R3,
            (1, 1): 405.0 / _R3,
            (3, 0): -810.0 / _R3,
            (3, 1): -810.0 / _R3,
            (3, 2): -270.0 / _R3,
            (5, 0): 405.0 / _R3,
            (5, 1): 405.0 / _R3,
            (5, 2): 162.0 / _R3,
            (5, 3): 27.0 / _R3,
        },
    ),
    poles=(0, 1, 2),
)
MATERN_KERNELS = {"matern52": MATERN52, "matern32": MATERN32}


def radial_derivatives(kernel: MaternKernel, q: FloatArray) -> tuple[FloatArray, ...]:
    """Return f, f', f'', f''', f'''' at squared distances q. Singular ones are 0 where q is 0."""
    z = np.sqrt(kernel.nu * q)
    apart = z > _SMALLEST
    over = np.where(apart, 1.0 / np.where(apart, z, 1.0), 0.0)
    decay = np.exp(-z)
    if kernel is MATERN52:
        second = (25.0 / 12.0) * decay
        third = -2.5 * second * over
        return (
            (1.0 + z + z * z / 3.0) * decay,
            -(5.0 / 6.0) * (1.0 + z) * decay,
            second,
            third,
            -2.5 * third * (1.0 + z) * over * over,
        )
    second = 2.25 * decay * over
    third = -1.5 * second * (1.0 + z) * over * over
    fourth = (81.0 / 16.0) * decay * (z * z + 3.0 * z + 3.0) * over**5
    return (1.0 + z) * decay, -1.5 * decay, second, third, fourth


@cache
def _table_of(name: str, order: int) -> FloatArray:
    """Return bounds of |exp(-z) N| from each grid point on: on the grid, between its points and beyond it."""
    return supremum_table(MATERN_KERNELS[name].derivatives[order - 3])


def supremum_table(polynomial: Polynomial, gaussian: bool = False) -> FloatArray:
    """Return bounds of |decay(z') N(c, z')| over |c| <= 1 and z' >= z for z = 0, STEP, 2 STEP...

    The decay is exp(-z), or exp(-z^2 / 2).
    """
    z = np.arange(0.0, _LAST + 2.0 * _STEP, _STEP)
    decay = np.exp(-0.5 * z * z) if gaussian else np.exp(-z)
    values = _largest(polynomial, z) * decay
    slope = np.zeros_like(z)
    for (_, power), factor in polynomial.items():
        slope += abs(factor) * ((z if gaussian else 1.0) * z**power + power * z ** max(0, power - 1))
    # On [z_i, z_i+1] the function exceeds its larger end by at most step/2 times its slope. Beyond z = k, e^-z z^k
    # falls.
    cells = np.maximum(values[:-1], values[1:]) + 0.5 * _STEP * decay[:-1] * slope[1:]
    cells[-1] += float(np.exp(-_LAST)) * sum(abs(each) * _LAST**k for (_, k), each in polynomial.items())
    return np.asarray(np.maximum.accumulate(cells[::-1])[::-1] * (1.0 + _MARGIN))


def place_in_table(z: FloatArray, table: FloatArray) -> IntArray:
    """Return the entries with suprema from z on: beyond the table the last one, for NaN the largest."""
    return np.minimum(np.nan_to_num(z, nan=0.0) / _STEP, len(table) - 1.0).astype(np.int64)


def _table(kernel: MaternKernel, order: int) -> FloatArray:
    return _table_of("matern52" if kernel is MATERN52 else "matern32", order)


def _largest(polynomial: Polynomial, z: FloatArray) -> FloatArray:
    """Return max |N(c, z)| over 0 <= c <= 1: at the ends or where dN/dc = 0, a quadratic in c^2."""
    terms = {power: np.zeros_like(z) for power in range(6)}
    for (power, k), factor in polynomial.items():
        terms[power] += factor * z**k
    odd = any(power % 2 for power, _ in polynomial)
    A, B, C = (terms[power + odd] for power in (0, 2, 4))
    a, b, c = (5.0 * C, 3.0 * B, A) if odd else (0.0 * C, 4.0 * C, 2.0 * B)
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
    # Stable roots of a w^2 + b w + c. If a root does not exist, its candidate does no harm.
    half = -0.5 * (b + np.copysign(root, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        candidates = [np.zeros_like(z), np.ones_like(z), half / a, c / half]
    best = np.zeros_like(z)
    for candidate in candidates:
        w = np.clip(np.nan_to_num(candidate, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        value = A + w * (B + w * C)
        best = np.maximum(best, np.abs(value) * (np.sqrt(w) if odd else 1.0))
    return best


# Weighted sums of Matérn kernels at the data, expanded in data space to degree 3 with one-sided remainders.
#
# sum_i w_i f(q_i), q_i = |D_i|^2 - 2 D_i x + |x|^2. The orders are f, -2 f' Dx, 2 f'' (Dx)^2 + f' |x|^2;
# -(4/3) f''' (Dx)^3 - 2 f'' Dx |x|^2; (2/3) f'''' (Dx)^4 + 2 f''' (Dx)^2 |x|^2 + f''/2 |x|^4. Every datum's expansion
# stops where its remainder is least: after order 2, 3 or 4. The sums of order 4 are bounded by eigenvalues.


# Up to this number the order-4 sums keep all pairs of inputs (d^4/4 numbers per box). Above, they keep bounds of
# traces.
MOST_PAIRED_INPUTS = 12
_EIGENVALUE = 1e-10


@dataclass(frozen=True)
class KernelOrders:
    """Terms of the sums over the data around B centres for one radius each.

    Attributes:
        offset: D, [B, d, n].
        f: f to f'''' at the centre, [B, n] each.
        third: data whose order 3 is kept, [B, n].
        fourth: data whose order 4 is kept, [B, n].
        remainder: bound of each kernel's remainder over the box, [B, n].
        slope_remainder: the same after order 2 only, [B, n].
        rho: radius of the box, [B].
    """

    offset: FloatArray
    f: tuple[FloatArray, ...]
    third: BoolArray
    fourth: BoolArray
    remainder: FloatArray
    slope_remainder: FloatArray
    rho: FloatArray


def kernel_orders(
    kernel: MaternKernel,
    offset: FloatArray,
    distance: FloatArray,
    f: tuple[FloatArray, ...],
    rho: FloatArray,
    most: int,
) -> KernelOrders:
    """Choose the order at which each datum's expansion stops.

    Args:
        kernel: Matérn 5/2 or 3/2, with the bounds of its derivatives.
        offset: D, [B, d, n].
        distance: distances of the data from the centres over all inputs, [B, n].
        f: derivatives at the centres.
        rho: radii of the boxes, rounded up, [B].
        most: largest order that may be kept, 2 or 4.
    """
    # Distances have relative errors. For the kept orders these are part of the rounding of all sums.
    wide = rho[:, None] * (1.0 + TAIL)
    z = np.sqrt(kernel.nu) * np.maximum(0.0, distance * (1.0 - TAIL) - wide)
    second = kernel.bound(3, z) * wide**3 / 6.0
    third = kernel.bound(4, z) * wide**4 / 24.0
    fourth = kernel.bound(5, z) * wide**5 / 120.0
    keeps_third = (third < second) & (most > 2)
    keeps_fourth = keeps_third & (fourth < 0.5 * third)
    left = np.where(keeps_fourth, fourth, np.where(keeps_third, third, second))
    return KernelOrders(offset, f, keeps_third, keeps_fourth, left, second, rho)


def order_four(orders: KernelOrders, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the kept order-4 terms of sum_i w_i f(q_i), w [..., B, n], from below and above, [..., B] each."""
    _, _, second, third, fourth = orders.f
    kept = np.where(orders.fourth, weights, 0.0)
    if not orders.fourth.any():
        return np.zeros(kept.shape[:-1]), np.zeros(kept.shape[:-1])
    flat = 0.5 * np.einsum("...n,...n->...", kept, second)
    squares = _eigenvalues(2.0 * kept * third, orders.offset)
    low, high = _quartic(2.0 / 3.0 * kept * fourth, orders.offset)
    low, high = low + squares[0] + np.minimum(flat, 0.0), high + squares[1] + np.maximum(flat, 0.0)
    power = orders.rho**4
    return low * power, high * power


def _quartic(weights: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound sum_i w_i (D_i x)^4 over |x| <= 1."""
    d = offset.shape[1]
    if d <= MOST_PAIRED_INPUTS:
        rows, columns = np.triu_indices(d)
        pairs = offset[:, rows] * offset[:, columns]
        pairs[:, rows < columns] *= np.sqrt(2.0)
        return _eigenvalues(weights, pairs)
    # (Dx)^4 <= |D|^2 (Dx)^2, separately for both signs of the weights.
    size = weights * np.einsum("bjn,bjn->bn", offset, offset)
    return _eigenvalues(np.minimum(size, 0.0), offset)[0], _eigenvalues(np.maximum(size, 0.0), offset)[1]


def _eigenvalues(weights: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return min(0, least) and max(0, largest) eigenvalue of sum_i w_i v_i v_i', rounded outwards, [..., B] each."""
    matrix = np.matmul(vectors * weights[..., None, :], vectors.transpose(0, 2, 1))
    sound = np.isfinite(matrix).all(axis=(-1, -2))
    values = np.linalg.eigvalsh(np.where(sound[..., None, None], matrix, 0.0))
    # Rounding of the sums and of the decomposition, by the sum of the absolute terms.
    size = np.einsum("...n,...jn,...jn->...", np.abs(weights), vectors, vectors)
    slack = np.where(sound, _EIGENVALUE * size, np.inf)
    return np.minimum(0.0, values[..., 0]) - slack, np.maximum(0.0, values[..., -1]) + slack


# Matérn 5/2 and 3/2: expansion of mean and variance in data space.
#
# The features of these kernels are only twice (once) differentiable, so tails in the RKHS are long. But mean and
# variance depend on them only through finitely many data, and most data are far away. With y_1 = phi(c) + D phi(c) x
# and B = I - G, Sigma/s = 1 - <phi, B phi> = 1 - <y_1, B y_1> - 2 <y_1, B (phi - y_1)> - <phi - y_1, B (phi - y_1)>.
# The last term is one-sided. Let u = R V_0 and U_1 = R V_1. The other terms are 1 + V_0 u - x V_1 U_1 x - 2 sum_i u_i
# k_i(x) - 2 sum_i (U_1i x) (order 2 and more of k_i).


MANY_INPUTS = 64
# Orders 0 to 3 of a kernel and their changes with the data are at most this large, per unit length.
_ORDERS = 8.0


def second_remainder_52(rho: FloatArray, drop: FloatArray) -> FloatArray:
    """Return |R_2| of the Matérn 5/2 kernel: 2 (1 - kappa) + 2 r kappa' - r^2 kappa'' + 25 r^4 / 4 under the root."""
    z = np.sqrt(5.0) * rho
    decay = np.exp(-z)
    slope, bend = -(5.0 / 3.0) * rho * (1.0 + z) * decay, -(5.0 / 3.0) * (1.0 + z - z * z) * decay
    square = 2.0 * drop + 6.25 * rho**4 + 2.0 * rho * slope - rho * rho * bend
    return np.asarray(np.sqrt(np.maximum(0.0, square + 64.0 * UNIT * (1.0 + rho**4))))


@dataclass(frozen=True)
class DataExpansion(ABC):
    """An expansion by sums over the data, for kernels whose features are not folded.

    Attributes:
        V: values and slopes of the kernels, [B, 1 + d, n].
        W: R V, [..., B, 1 + d, n].
        form: the posterior over the free inputs.
    """

    V: FloatArray
    W: FloatArray
    form: PosteriorSlice

    @property
    @abstractmethod
    def _to_degree_two(self) -> tuple[Cubic, Cubic]:
        """Mean and variance in units of s, without the terms of order 3."""

    @property
    def variance(self) -> FloatArray:
        """The latent variance at the centres, [B]."""
        reduced = np.einsum("bn,bn->b", self.V[:, 0], self.W[:, 0])
        return np.asarray(self.form.variance * np.maximum(1.0 - reduced, 0.0))

    def taylor(self) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return gradient [B, d] and half Hessian [B, d, d] of the mean, then of the variance, by lengthscales."""
        s = self.form.variance
        mean, variance = self._to_degree_two
        return (s * mean.linear, s * mean.quadratic), (s * variance.linear, s * variance.quadratic)


@dataclass(frozen=True)
class MaternExpansion(DataExpansion):
    """Products around B centres.

    Attributes:
        kernel: the Matérn kernel.
        centre: the centres in units of X, [B, d].
        offset: (X - c) / l, [B, d, n].
        f: f to f'''' at the centres, [B, n] each.
        distance: distances of the data over all inputs, [B, n].

    Of a stack of F functions the models have F B rows, function by function.
    """

    kernel: MaternKernel
    centre: FloatArray
    offset: FloatArray
    f: tuple[FloatArray, ...]
    distance: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The latent mean at the centres, [B]."""
        return np.asarray(self.form.variance * (self.f[0] @ self.form.alpha))

    @cached_property
    def _to_degree_two(self) -> tuple[Cubic, Cubic]:
        """Mean and variance in units of s, without the terms of order 3."""
        u = self.W[..., 0, :]
        mean = self._sum(np.broadcast_to(self.form.alpha, u.shape))
        data = self._sum(-2.0 * u)
        gram = self._gram
        constant = 1.0 + by_box(np.einsum("...n,...n->...", self.V[:, 0], u)) + data.constant
        quadratic = data.quadratic - 0.5 * (gram + gram.transpose(0, 2, 1))
        return mean, Cubic(constant, data.linear, quadratic, None)

    @property
    def _gram(self) -> FloatArray:
        """V_1' R V_1, one matrix for each row of the models."""
        return by_box(np.matmul(self.W[..., 1:, :], self.V[:, 1:].transpose(0, 2, 1)), 2)

    def _sum(self, weights: FloatArray) -> Cubic:
        """Return orders 0 to 2 of sum_i w_i k_i, weights [..., B, n]."""
        value, first, second = self.f[:3]
        weighted = self.offset * (2.0 * weights * second)[..., None, :]
        quadratic = by_box(np.matmul(weighted, self.offset.transpose(0, 2, 1)), 2)
        np.einsum("bjj->bj", quadratic)[...] += self._dots(weights, first)[:, None]
        return Cubic(self._dots(weights, value), self._slopes(weights * first), quadratic, None)

    def _dots(self, weights: FloatArray, values: FloatArray) -> FloatArray:
        return by_box(np.einsum("...n,...n->...", weights, values))

    def _slopes(self, weights: FloatArray) -> FloatArray:
        """Return -2 sum_i w_i D_i, one row for each of the models."""
        return by_box(-2.0 * np.einsum("bjn,...bn->...bj", self.offset, weights), 1)

    def over(self, radius: FloatArray, cheap: bool = False) -> LatentModel:
        """Return the models over |x - centre| <= radius in lengthscales, [B, d]. Cheap ones are the same."""
        rho = np.sqrt(squared(radius))
        most = 4 if radius.shape[1] <= MANY_INPUTS else 2
        orders = kernel_orders(self.kernel, self.offset, self.distance, self.f, rho, most)
        mean, variance = self._to_degree_two
        if most > 2:
            third = self._order_three(orders)
            mean, variance = replace(mean, cubic=third[0]), replace(variance, cubic=third[1])
        form, radius = self.form.for_boxes(radius)
        return LatentModel(
            radius, self._mean_model(form, mean, orders, radius), self._variance_model(form, variance, orders, radius)
        )

    def _order_three(self, orders: KernelOrders) -> tuple[FloatArray, FloatArray]:
        """Return the order-3 tensors of mean and variance, [B, d, d, d]."""
        _, first, second, third, _ = self.f
        d, slopes = self.offset.shape[1], self.W[..., 1:, :]
        mean = np.where(orders.third, self.form.alpha, 0.0)
        data = np.where(orders.third, -2.0 * self.W[..., 0, :], 0.0)
        rows = np.concatenate(
            [
                self.offset * (-4.0 / 3.0 * mean * third)[..., None, :],
                self.offset * (-4.0 / 3.0 * data * third)[..., None, :] - 4.0 * second[:, None] * slopes,
            ],
            axis=-2,
        )
        sums = by_box(third_order_sums(rows, self.offset), 3)
        tensors = np.ascontiguousarray(sums[:, :d]), symmetric_part(sums[:, d:])
        add_norm_times_linear(tensors[0], self._slopes(mean * second))
        moved = 2.0 * by_box(np.einsum("...bjn,bn->...bj", slopes, first), 1)
        add_norm_times_linear(tensors[1], self._slopes(data * second) - moved)
        return tensors

    def _mean_model(self, form: PosteriorSlice, mean: Cubic, orders: KernelOrders, radius: FloatArray) -> MomentModel:
        s, alpha = form.variance, self.form.alpha
        weights = np.broadcast_to(alpha, self.W[..., 0, :].shape)
        low, high = (by_box(each) for each in order_four(orders, weights))
        error = _ORDERS * form.mean_error * growth(radius) + sum_slack(radius.shape[1]) * mean.magnitude(radius)
        left = by_box(self.form.sums(orders.remainder, np.abs(alpha))) * (1.0 + TAIL) + error
        near, far = form.mean_range(mean.constant, self._drop(np.sqrt(squared(radius))))
        model, below, above = mean.scaled(s), s * (left - low), s * (left + high)
        least, most = model.range(radius)
        return MomentModel(model, below, above, np.fmax(least - below, s * near), np.fmin(most + above, s * far))

    def _variance_model(
        self, form: PosteriorSlice, variance: Cubic, orders: KernelOrders, radius: FloatArray
    ) -> MomentModel:
        data, rho = -2.0 * self.W[..., 0, :], np.sqrt(squared(radius))
        low, high = (by_box(each) for each in order_four(orders, data))
        error = _ORDERS * form.gram_error * growth(radius) ** 2
        error += sum_slack(radius.shape[1]) * variance.magnitude(radius)
        left = self._dots(orders.remainder, np.abs(data)) + self._slopes_left_out(form, orders, radius, rho)
        left = left * (1.0 + TAIL) + error
        # The remainder of phi after degree 1: its square under B = I - G, with -nu <= G <= g.
        square = self._beyond_degree_one(rho)
        below = left - low + (1.0 + form.allowance) * square
        above = left + high + (form.above - 1.0) * square
        least, most = variance.range(radius)
        # Bounds of <phi, H phi> = Sigma/s + nu.
        nu = form.allowance
        near, far = distance_form(form, variance.constant + nu, self._drop(rho))
        shifted = replace(variance, constant=variance.constant + nu)
        low, high = np.fmax(least - below + nu, near), np.fmin(most + above + nu, far)
        return without_allowance(MomentModel(shifted, below, above, low, high), nu, form.variance)

    def _slopes_left_out(
        self, form: PosteriorSlice, orders: KernelOrders, radius: FloatArray, rho: FloatArray
    ) -> FloatArray:
        """Bound 2 |sum_i (U_1i x) (k_i - its kept orders)|: by the data, or by Cauchy-Schwarz in the RKHS."""
        shared = radius[: len(orders.rho)]
        sizes = np.einsum("...bjn,bj->...bn", np.abs(self.W[..., 1:, :]), shared)
        if radius.shape[1] > MANY_INPUTS:
            # Not even order 2 is kept. The second derivative is at most lambda.
            return by_box(sizes.sum(axis=-1)) * self.kernel.curvature * rho**2
        by_data = 2.0 * self._dots(sizes, orders.slope_remainder)
        if self.kernel is not MATERN52:
            return np.asarray(by_data)
        size = np.einsum("bj,bj->b", weighted_rows(self._gram, radius), radius)
        size += _ORDERS * form.gram_error * growth(radius)
        # B + t >= 0 with t = g - 1: Cauchy-Schwarz there, and t times the norms.
        excess = form.above - 1.0
        slopes = self.kernel.curvature * rho**2
        most = 1.0 + form.allowance + excess
        by_norm = np.sqrt((size + excess * slopes) * most) + excess * np.sqrt(slopes)
        return np.asarray(np.minimum(by_data, 2.0 * by_norm * second_remainder_52(rho, self._drop(rho))))

    def _drop(self, rho: FloatArray) -> FloatArray:
        """Return 1 - kappa(rho)."""
        return np.asarray(PROFILES.get(str(self.form.kernel)).drop(rho))

    def _beyond_degree_one(self, rho: FloatArray) -> FloatArray:
        """Return |phi(x) - phi(c) - D phi(c) x|^2 at distance rho: tau + (1 - kappa)^2 + rho^2 (psi(0) - psi)^2."""
        profile = PROFILES.get(str(self.form.kernel))
        parts = profile.tail(rho) + profile.drop(rho) ** 2 + (rho * profile.slope_drop(rho)) ** 2
        return np.asarray(parts * (1.0 + TAIL))


def expand_matern(form: PosteriorSlice, centre: FloatArray) -> MaternExpansion:
    """Expand mean and variance around centres [B, d] in units of X."""
    n_boxes, d = centre.shape
    kernel = MATERN_KERNELS[str(form.kernel)]
    offset = form.offsets(centre)
    q = np.einsum("bjn,bjn->bn", offset, offset) + form.fixed
    f = radial_derivatives(kernel, q)
    V = np.empty((n_boxes, 1 + d, q.shape[1]))
    V[:, 0] = f[0]
    np.multiply(offset, -2.0 * f[1][:, None], out=V[:, 1:])
    return MaternExpansion(V, form.reduced(V), form, kernel, centre, offset, f, np.sqrt(q))
