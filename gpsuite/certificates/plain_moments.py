"""Mean and variance of a stored latent function over boxes: cubics in the offset from the centre, with remainders.

Every datum's kernel is expanded in the offset x, kappa_i = T_3 kappa_i + remainder. Let k = kappa(x), p its part of
order 0 and 1, u = R kappa(c) and U x = R (p - kappa(c)). Then Sigma/s = 1 - k'Rk and k'Rk = p'Rp + 2 u'(k - p) + 2 (U
x)'(k - p) + (k - p)'R(k - p).

For the squared exponential |phi - T phi| of the feature map is known at every order (`FEATURES`). Let H = G + nu >= 0.
The remainders <phi(c), H (phi - T_3 phi)> and <D phi x, H (phi - T_2 phi)> are bounded by Cauchy-Schwarz in H. The
third one is the square of phi - T_1 phi, which is not negative. Matérn kernels have few derivatives. Their remainders
are sums over the data of bounds (`Remainders`), and the square in R, which also has a sign.

Sums over the data are in the precision of `PlainSlice`, everything else in double precision. Rounding is bounded and
added.

Equation: derived, squared exponential mean of degree 3, squared exponential variance of degree 3
Equation: derived, Matérn expansion in data space
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.certificates.plain_kernel import (
    CURVATURE,
    EIGENVALUE,
    FEATURES,
    UNIT64,
    Remainders,
    derivatives,
    first_order_remainder,
    fourth_order,
    kappa,
    quadratic_range,
    remainders,
)
from gpsuite.certificates.plain_model import PlainSlice

MOST_CUBED = 64  # free inputs up to which cubic terms are kept
ORDERS = 8.0  # upper bound of the entries of orders 0 to 3 of a kernel, and of their change by rounding of offsets


@dataclass(frozen=True)
class Moment:
    """Mean or variance over B boxes in units of s: a cubic in the offset with its remainders, and a range.

    Arrays are [B], except `linear` [B, d], `square` [B, d, d] and `cubic` [B, d, d, d]. `cubic` is symmetric, or None
    if it is not kept.
    """

    constant: FloatArray
    linear: FloatArray
    square: FloatArray
    cubic: FloatArray | None
    below: FloatArray
    above: FloatArray
    low: FloatArray
    high: FloatArray

    def take(self, rows: npt.NDArray[np.int64]) -> Moment:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value[rows] for name, value in values.items() if value is not None})


@dataclass(frozen=True)
class Expansion:
    """Mean and variance over B boxes of these half-widths in lengthscales, [B, d]."""

    radius: FloatArray
    mean: Moment
    variance: Moment

    def take(self, rows: npt.NDArray[np.int64]) -> Expansion:
        return Expansion(self.radius[rows], self.mean.take(rows), self.variance.take(rows))


@dataclass(frozen=True)
class Surroundings:
    """The kernels around B centres, regardless of the weights of the data.

    Attributes:
        f: derivatives of the kernels in the squared distance, folded, [B, N] each.
        D: offsets, [B, d, N].
        V: values and slopes of the kernels, [B, 1 + d, N].
        r: half-widths, [B, d].
        rho: norm of the half-widths, [B].
        left: remainders of each datum's kernel. None for the squared exponential.
    """

    f: tuple[Any, ...]
    D: Any
    V: Any
    r: FloatArray
    rho: FloatArray
    left: Remainders | None


@dataclass(frozen=True)
class _Sums(Surroundings):
    """Factors of the sums over the data: W = R V and the kernels."""

    W: Any


@dataclass(frozen=True)
class Expander:
    """Expands mean and variance of a latent function over its free inputs.

    Attributes:
        form: the function.
    """

    form: PlainSlice

    @property
    def degree(self) -> int:
        """The highest kept order of the kernels."""
        return 3 if len(self.form.scale) <= MOST_CUBED else 2

    def expand(self, lo: FloatArray, hi: FloatArray) -> Expansion:
        """Return mean and variance over boxes [B, d]."""
        return self.expand_in(self.surroundings(lo, hi))

    def surroundings(self, lo: FloatArray, hi: FloatArray) -> Surroundings:
        """Return the kernels over boxes [B, d]. Functions of the same data and free inputs share them."""
        form = self.form
        c = 0.5 * lo + 0.5 * hi
        r = np.maximum(hi - c, c - lo) / form.scale * (1 + 16 * UNIT64)
        work = form.reduction.dtype
        D = (form.points.T.astype(work) - c[:, :, None]) / form.scale.astype(work)[:, None]
        q = np.einsum("bjn,bjn->bn", D, D) + form.fixed
        matern = form.kernel != "squared_exponential"
        f = tuple(each * form.fold for each in derivatives(form.kernel, q, 4 if matern else 3))
        V = np.concatenate([f[0][:, None], -2 * f[1][:, None] * D], axis=1)
        rho = np.sqrt(np.sum(r**2, axis=1)) * (1 + (8 + r.shape[1]) * UNIT64)
        left = remainders(form.kernel, q, rho, self.degree) if matern else None
        return Surroundings(f, D, V, r, rho, left)

    def expand_in(self, around: Surroundings) -> Expansion:
        """Return mean and variance over boxes with known kernels."""
        V = around.V
        sums = _Sums(**vars(around), W=(V.reshape(-1, V.shape[2]) @ self.form.reduction).reshape(V.shape))
        return Expansion(around.r, self._mean(sums), self._variance(sums))

    def at(self, points: FloatArray) -> tuple[FloatArray, FloatArray, tuple[float, float]]:
        """Return mean and variance [B] at points [B, d], in units of s, and bounds of their rounding."""
        apart = (self.form.points.astype(self.form.fold.dtype) - points[:, None]) / self.form.scale
        k = derivatives(self.form.kernel, np.sum(apart**2, axis=2) + self.form.fixed, 0)[0] * self.form.fold
        mean, variance = k @ self.form.alpha, 1 - np.sum((k @ self.form.reduction) * k, axis=1)
        errors = ORDERS * self.form.slack_mean, ORDERS * self.form.slack_gram + 16 * UNIT64
        return np.asarray(mean, dtype=float), np.asarray(variance, dtype=float), errors

    def _mean(self, sums: _Sums) -> Moment:
        r, rho, alpha, norm = sums.r, sums.rho, self.form.alpha, np.sqrt(self.form.norm2)
        weights = np.broadcast_to(alpha, sums.f[0].shape)
        first = np.asarray(sums.V @ alpha, dtype=float)
        square, cubic = self._second_order(sums, weights), None
        rounding = ORDERS * self.form.slack_mean * _growth(r)
        if self.degree > 2:
            cubic = self._third_order(sums, weights, None)
        if sums.left is not None:
            below, above = _left_out(sums, sums.left, weights)
        else:
            below = norm * FEATURES[self.degree + 1] * rho ** (self.degree + 1)
            below = np.minimum(below, self._projected_remainder(first, square, r, rho))
            above = below
        below, above = below + rounding, above + rounding
        low, high = _range(first[:, 1:], square, cubic, r)
        reach = norm * _distance(self.form.kernel, rho) + rounding
        return Moment(
            first[:, 0], first[:, 1:], square, cubic, below, above,
            np.maximum(first[:, 0] + np.maximum(low - below, -reach), -norm),
            np.minimum(first[:, 0] + np.minimum(high + above, reach), norm),
        )  # fmt: skip

    def _variance(self, sums: _Sums) -> Moment:
        nu, r, rho, u, U = self.form.below, sums.r, sums.rho, sums.W[:, 0], sums.W[:, 1:]
        first: FloatArray = np.asarray(np.einsum("bjn,bn->bj", sums.V, -u), dtype=np.float64)
        block = np.asarray(np.matmul(U, sums.V[:, 1:].transpose(0, 2, 1)), dtype=float)
        block = (block + block.transpose(0, 2, 1)) / 2
        square = self._second_order(sums, -2 * u) - block
        cubic = self._third_order(sums, -2 * u, -2 * U) if self.degree > 2 else None
        constant, linear = 1.0 + first[:, 0], 2.0 * first[:, 1:]
        rounding = ORDERS * self.form.slack_gram * _growth(r) + 16 * UNIT64 * (1 + rho**3)
        below, above = self._variance_remainders(constant, block, sums, rounding)
        low, high = _range(linear, square, cubic, r)
        reach = np.sqrt(self.form.above + nu) * _distance(self.form.kernel, rho)
        nearest, farthest = (np.sqrt(np.maximum(constant + nu + sign * rounding, 0)) + sign * reach for sign in (-1, 1))
        bottom = np.maximum(constant + low - below, np.maximum(nearest, 0) ** 2 - nu)
        top = np.minimum(np.minimum(constant + high + above, farthest**2 - nu), self.form.above)
        slack = 1e-13 * (1 + np.abs(top))
        # the variance counts as zero if the stored numbers make it negative, at most by nu
        above = above + np.where(bottom - slack <= 0, nu, 0)
        bottom, top = np.maximum(bottom - slack, 0), np.maximum(top + slack, 0)
        return Moment(constant, linear, square, cubic, below, above, bottom, top)

    def _second_order(self, sums: _Sums, weights: Any) -> FloatArray:
        """Return the symmetric form [B, d, d] of sum_i w_i (2 f_2 (Dx)^2 + f_1 |x|^2)."""
        square = np.matmul(sums.D * (2 * weights * sums.f[2])[:, None], sums.D.transpose(0, 2, 1))
        np.einsum("bjj->bj", square)[...] += np.sum(weights * sums.f[1], axis=1)[:, None]
        return np.asarray(square, dtype=float)

    def _third_order(self, sums: _Sums, weights: Any, slopes: Any) -> FloatArray:
        """Return the symmetric form [B, d, d, d] of sum_i w_i (order 3 of kappa_i) + (S_i x) (order 2 of it).

        Order 3 is -(4/3) f_3 (Dx)^3 - 2 f_2 Dx |x|^2, for the data that keep order 3.
        """
        D, (f1, f2, f3) = sums.D, sums.f[1:4]
        if sums.left is not None:
            weights = np.where(sums.left.third, weights, 0)
        rows, bent = D * (-4 / 3 * weights * f3)[:, None], -2 * D * (weights * f2)[:, None]
        if slopes is not None:
            rows, bent = rows + 2 * slopes * f2[:, None], bent + slopes * f1[:, None]
        boxes, d, _ = D.shape
        cubic = np.empty((boxes, d, d, d))
        for j in range(d):
            cubic[:, :, j] = np.matmul(rows, (D * D[:, j : j + 1]).transpose(0, 2, 1))
        cubic = (cubic + cubic.transpose(0, 2, 1, 3) + cubic.transpose(0, 2, 3, 1)) / 3
        third = np.asarray(np.sum(bent, axis=2), dtype=float) / 3
        for j in range(d):
            cubic[:, :, j, j] += third
            cubic[:, j, :, j] += third
            cubic[:, j, j, :] += third
        return cubic

    def _projected_remainder(self, first: FloatArray, square: FloatArray, r: FloatArray, rho: FloatArray) -> FloatArray:
        """Bound the mean's omitted orders by its degrees up to 2 in the orthonormal basis, [B].

        phi = E sum_m x^m / sqrt(m!) e_m, E = exp(-|x|^2/2). In phi - T_3 phi the degrees 0 and 1 are those of phi / E
        times (E - 1 + |x|^2/2), which is at most |x|^4/8. The degrees 2 and 3 are those of phi / E times (E - 1). The
        norm above degree 3 is at most |x|^4 / sqrt(24). In phi - T_2 phi the degree 0 is the same. The degrees 1 and 2
        are those of phi / E times (E - 1). The norm above degree 2 is at most |x|^3 / sqrt(6).
        """
        d = r.shape[1]
        second = square + 0.5 * first[:, :1, None] * np.eye(d)
        known = first[:, 0] ** 2 + np.sum(first[:, 1:] ** 2, axis=1) + 2 * np.sum(second**2, axis=(1, 2))
        error = ORDERS * self.form.slack_mean * np.sqrt((d + 1) * (d + 2) / 2)
        known = np.maximum(np.sqrt(known) * (1 - 1e-12) - error, 0) ** 2
        left = np.sqrt(np.maximum(self.form.norm2 - known * (1 - 1e-12), 0))
        value, slope = np.abs(first[:, 0]), np.sum(np.abs(first[:, 1:]) * r, axis=1)
        bent = np.einsum("bj,bjk,bk->b", r, np.abs(second), r)
        if self.degree > 2:
            beyond = left * rho**4 * np.sqrt((1 + rho**2) / 24) + rho**4 / 8 * slope
        else:
            beyond = left * rho**3 / np.sqrt(6) + rho**2 / 2 * slope
        return np.asarray((beyond + rho**4 / 8 * value + rho**2 / 2 * bent) * (1 + 1e-11))

    def _variance_remainders(
        self, constant: FloatArray, block: FloatArray, sums: _Sums, rounding: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the largest distances of the variance below and above the kept orders, [B] each."""
        rho, degree = sums.rho, self.degree
        square = first_order_remainder(self.form.kernel, rho)
        if self.form.kernel == "squared_exponential":
            g = self.form.above + self.form.below
            value = np.sqrt(np.maximum(constant + self.form.below, 0) + rounding)
            slope = np.sqrt(np.minimum(self._slope_size(block) + rounding, g))
            parts = value * FEATURES[degree + 1] + slope * FEATURES[degree]
            cross = 2 * np.sqrt(g) * parts * rho ** (degree + 1) * (1 + 1e-12)
            return cross + rounding, cross + g * square * (1 + 1e-12) + rounding
        assert sums.left is not None
        u, U = sums.W[:, 0], sums.W[:, 1:]
        size = np.einsum("bjn,bj->bn", np.abs(U), sums.r)
        slopes = 2 * np.asarray(np.sum(size * sums.left.slope, axis=1), dtype=float)
        below, above = _left_out(sums, sums.left, -2 * u)
        below = below + (slopes + (1 + self.form.below) * square) * (1 + 1e-12)
        above = above + (slopes + max(self.form.above - 1, 0) * square) * (1 + 1e-12)
        return below + rounding, above + rounding

    def _slope_size(self, block: FloatArray) -> FloatArray:
        """Return an upper bound of the largest eigenvalue of <D_j phi, H D_k phi> = (1 + nu) lambda I - block, [B]."""
        own = (1 + self.form.below) * CURVATURE[self.form.kernel] * np.eye(block.shape[1]) - block
        finite = np.isfinite(own).all(axis=(1, 2))
        sound = np.where(finite[:, None, None], own, 0)
        size = np.sqrt(np.sum(sound**2, axis=(1, 2)))
        return np.where(finite, np.maximum(np.linalg.eigvalsh(sound)[:, -1], 0) + EIGENVALUE * size, np.inf)


def _left_out(sums: _Sums, left: Remainders, weights: Any) -> tuple[FloatArray, FloatArray]:
    """Return the largest distances of sum_i w_i kappa_i below and above its kept orders, [B] each."""
    remainder = np.asarray(np.sum(np.abs(weights) * left.value, axis=1), dtype=float) * (1 + 1e-12)
    low, high = fourth_order(weights, sums.f, sums.D, left, sums.rho)
    return remainder - low, remainder + high


def _growth(r: FloatArray) -> FloatArray:
    """Return 1 + R + R^2 + R^3, R = sum_j r_j, [B]."""
    total = np.sum(r, axis=1)
    return np.asarray(1 + total * (1 + total * (1 + total)))


def _range(
    linear: FloatArray, square: FloatArray, cubic: FloatArray | None, r: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return bounds [B] of the linear to cubic terms over |x_j| <= r_j. Cubic terms are bounded by their size."""
    low, high = quadratic_range(linear, square, r)
    if cubic is None:
        return low, high
    size = np.matmul(np.abs(cubic), r[:, None, :, None])[..., 0]
    size = np.einsum("bjk,bk,bj->b", size, r, r) * (1 + 1e-11)
    return low - size, high + size


def _distance(kernel: str, rho: FloatArray) -> FloatArray:
    """Return |phi(x) - phi(c)| at distance rho, rounded up, [B]."""
    return np.asarray(np.sqrt(np.maximum(2 * (1 - kappa(kernel, rho)), 0) + 32 * UNIT64))
