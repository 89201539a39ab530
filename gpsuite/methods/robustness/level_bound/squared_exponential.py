"""Squared exponential kernel: expansion of mean and variance in the orthonormal basis of its RKHS.

With D_i = U_i - c, e_i = exp(-|D_i|^2/2) and E = exp(-|x|^2/2), exp(-|x - D_i|^2/2) = E e_i exp(D_i x). The mean is
kept to degree 3. In the variance <phi, G phi> the part y_1 of degree <= 1 is paired with everything up to degree 3,
which needs the product of the reduction with 1 + d columns only; the square of the rest is one-sided. Above
`MANY_INPUTS` free inputs everything stops at degree 2.

Equation: derived, squared exponential mean of degree 3
Equation: derived, squared exponential variance of degree 3
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.cubic import Cubic, by_box, symmetric_part
from gpsuite.methods.robustness.level_bound.latent_model import LatentModel
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice
from gpsuite.methods.robustness.level_bound.squared_exponential_few import (
    FEW_INPUTS,
    HighOrders,
    high_orders,
)
from gpsuite.methods.robustness.level_bound.squared_exponential_rests import mean_model, variance_model
from gpsuite.methods.robustness.level_bound.squared_exponential_shared import second_orders, third_orders
from gpsuite.methods.robustness.level_bound.tensors import third_order_sums

MANY_INPUTS = 64


@dataclass(frozen=True)
class SquaredExponentialExpansion:
    """Coefficients around B centres, in units of s and without the factor E (mean) or E^2 (variance).

    Attributes:
        form: the posterior over the free inputs.
        centre: in units of X, [B, d].
        A: mean coefficients up to degree 2, a_0 + a_1 x + A_2[xx].
        P: coefficients up to degree 2 of what is explicit of <phi, H phi>, q_0 + q_b x + q_M[xx], H = G + nu.
        block: degree-1 block <e_j, H e_k>, [B, d, d].
        offset: D, [B, d, n].
        values: w_i e_i, [B, n].
        reduced: R V = [u, U_1] for the columns w e and w e D of V, [B, 1 + d, n].
        rows: whose sums with D_k D_l are 3 A_3 and q_C, [B, 2 d, n]; None for a stack.

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

    def over(self, radius: FloatArray) -> LatentModel:
        """Return the models over |x - centre| <= radius in lengthscales, [B, d]."""
        A, P = self.A, self.P
        form, radius = self.form.for_boxes(radius)
        high: tuple[HighOrders | None, HighOrders | None] = (None, None)
        if radius.shape[1] <= FEW_INPUTS:
            high = self._high_orders
        if radius.shape[1] <= MANY_INPUTS:
            A3, q_C = self._degree_three
            A, P = replace(A, cubic=A3), replace(P, cubic=q_C)
        return LatentModel(
            radius,
            mean_model(form, A, radius, high[0]),
            variance_model(form, P, self.block, radius, high[1]),
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
            by_box(own - low[..., 0]),
            by_box(-2.0 * low[..., 1:], 1),
            by_box(block + pairs[..., 1, :, :], 2),
            None,
        ),
        block=by_box(block, 2),
        offset=offset,
        values=e,
        reduced=W,
        rows=rows,
    )
