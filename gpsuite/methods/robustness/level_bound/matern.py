"""Matérn 5/2 and 3/2: expansion of mean and variance in data space.

The features of these kernels are only twice (once) differentiable, so tails in the RKHS are long; but mean and
variance see them through finitely many data, most of them far away. With y_1 = phi(c) + D phi(c) x and
B = I - G, Sigma/s = 1 - <phi, B phi> = 1 - <y_1, B y_1> - 2 <y_1, B (phi - y_1)> - <phi - y_1, B (phi - y_1)>; the
last term is one-sided. With u = R V_0 and U_1 = R V_1 the rest is 1 + V_0 u - x V_1 U_1 x - 2 sum_i u_i k_i(x)
- 2 sum_i (U_1i x) (order 2 and more of k_i).

Equation: derived, Matérn expansion in data space
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.cubic import (
    Cubic,
    add_norm_times_linear,
    by_box,
    sum_slack,
    symmetric_part,
    weighted_rows,
)
from gpsuite.methods.robustness.level_bound.kernel_sums import KernelOrders, kernel_orders, order_four
from gpsuite.methods.robustness.level_bound.latent_model import LatentModel, MomentModel
from gpsuite.methods.robustness.level_bound.matern_derivatives import (
    MATERN52,
    MATERN_KERNELS,
    MaternKernel,
    radial_derivatives,
)
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice
from gpsuite.methods.robustness.level_bound.squared_exponential_rests import (
    distance_form,
    growth,
    squared,
    without_allowance,
)
from gpsuite.methods.robustness.level_bound.tensors import third_order_sums
from gpsuite.methods.robustness.profiles import PROFILES
from gpsuite.methods.robustness.rounding import TAIL, UNIT

MANY_INPUTS = 64
# Orders 0 to 3 of a kernel and their changes with the data are at most this large, per unit length.
_ORDERS = 8.0


@dataclass(frozen=True)
class MaternExpansion:
    """Products around B centres.

    Attributes:
        form: the posterior over the free inputs.
        kernel: which Matérn kernel.
        centre: in units of X, [B, d].
        offset: (X - c) / l, [B, d, n].
        f: f to f'''' at the centres, [B, n] each.
        distance: of the data over all inputs, [B, n].
        V: values and slopes of the kernels, [B, 1 + d, n].
        W: R V, [..., B, 1 + d, n].

    Of a stack of F functions the models have F B rows, function by function.
    """

    form: PosteriorSlice
    kernel: MaternKernel
    centre: FloatArray
    offset: FloatArray
    f: tuple[FloatArray, ...]
    distance: FloatArray
    V: FloatArray
    W: FloatArray

    @property
    def mean(self) -> FloatArray:
        """The latent mean at the centres, [B]."""
        return np.asarray(self.form.variance * (self.f[0] @ self.form.alpha))

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

    def over(self, radius: FloatArray) -> LatentModel:
        """Return the models over |x - centre| <= radius in lengthscales, [B, d]."""
        rho = np.sqrt(squared(radius))
        most = 4 if radius.shape[1] <= MANY_INPUTS else 2
        orders = kernel_orders(self.kernel, self.offset, self.distance, self.f, rho, most)
        mean, variance = self._to_degree_two
        if most > 2:
            third = self._order_three(orders)
            mean, variance = replace(mean, cubic=third[0]), replace(variance, cubic=third[1])
        form, radius = self.form.for_boxes(radius)
        return LatentModel(
            radius,
            self._mean_model(form, mean, orders, radius),
            self._variance_model(form, variance, orders, radius),
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

    def _mean_model(
        self, form: PosteriorSlice, mean: Cubic, orders: KernelOrders, radius: FloatArray
    ) -> MomentModel:
        s, alpha = form.variance, self.form.alpha
        weights = np.broadcast_to(alpha, self.W[..., 0, :].shape)
        low, high = (by_box(each) for each in order_four(orders, weights))
        error = _ORDERS * form.mean_error * growth(radius) + sum_slack(radius.shape[1]) * mean.magnitude(
            radius
        )
        left = by_box(self.form.sums(orders.remainder, np.abs(alpha))) * (1.0 + TAIL) + error
        near, far = form.mean_range(mean.constant, self._drop(np.sqrt(squared(radius))))
        model, below, above = mean.scaled(s), s * (left - low), s * (left + high)
        least, most = model.range(radius)
        return MomentModel(
            model,
            below,
            above,
            np.fmax(least - below, s * near),
            np.fmin(most + above, s * far),
        )

    def _variance_model(
        self, form: PosteriorSlice, variance: Cubic, orders: KernelOrders, radius: FloatArray
    ) -> MomentModel:
        data, rho = -2.0 * self.W[..., 0, :], np.sqrt(squared(radius))
        low, high = (by_box(each) for each in order_four(orders, data))
        error = _ORDERS * form.gram_error * growth(radius) ** 2
        error += sum_slack(radius.shape[1]) * variance.magnitude(radius)
        left = self._dots(orders.remainder, np.abs(data)) + self._slopes_left_out(form, orders, radius, rho)
        left = left * (1.0 + TAIL) + error
        # What is left of phi after degree 1: its square under B = I - G, with -nu <= G <= g.
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
            # Not even order 2 is kept; the second derivative is at most lambda.
            return by_box(sizes.sum(axis=-1)) * self.kernel.curvature * rho**2
        by_data = 2.0 * self._dots(sizes, orders.slope_remainder)
        if self.kernel is not MATERN52:
            return np.asarray(by_data)
        drop = self._drop(rho)
        z = np.sqrt(5.0) * rho
        decay = np.exp(-z)
        slope, bend = -(5.0 / 3.0) * rho * (1.0 + z) * decay, -(5.0 / 3.0) * (1.0 + z - z * z) * decay
        square = 2.0 * drop + 6.25 * rho**4 + 2.0 * rho * slope - rho * rho * bend
        square += 64.0 * UNIT * (1.0 + rho**4)
        size = np.einsum("bj,bj->b", weighted_rows(self._gram, radius), radius)
        size += _ORDERS * form.gram_error * growth(radius)
        # B + t >= 0 with t = g - 1: Cauchy-Schwarz there, and t times the norms.
        excess = form.above - 1.0
        slopes = self.kernel.curvature * rho**2
        most = 1.0 + form.allowance + excess
        by_norm = np.sqrt((size + excess * slopes) * most) + excess * np.sqrt(slopes)
        return np.asarray(np.minimum(by_data, 2.0 * by_norm * np.sqrt(np.maximum(0.0, square))))

    def _drop(self, rho: FloatArray) -> FloatArray:
        """Return 1 - kappa(rho)."""
        return np.asarray(PROFILES.get(self.form.kernel).drop(rho))

    def _beyond_degree_one(self, rho: FloatArray) -> FloatArray:
        """Return |phi(x) - phi(c) - D phi(c) x|^2 at distance rho: tau + (1 - kappa)^2 + rho^2 (psi(0) - psi)^2."""
        profile = PROFILES.get(self.form.kernel)
        parts = profile.tail(rho) + profile.drop(rho) ** 2 + (rho * profile.slope_drop(rho)) ** 2
        return np.asarray(parts * (1.0 + TAIL))


def expand_matern(form: PosteriorSlice, centre: FloatArray) -> MaternExpansion:
    """Expand mean and variance around centres [B, d] in units of X."""
    n_boxes, d = centre.shape
    kernel = MATERN_KERNELS[form.kernel]
    offset = form.offsets(centre)
    q = np.einsum("bjn,bjn->bn", offset, offset) + form.fixed
    f = radial_derivatives(kernel, q)
    V = np.empty((n_boxes, 1 + d, q.shape[1]))
    V[:, 0] = f[0]
    np.multiply(offset, -2.0 * f[1][:, None], out=V[:, 1:])
    return MaternExpansion(form, kernel, centre, offset, f, np.sqrt(q), V, form.reduced(V))
