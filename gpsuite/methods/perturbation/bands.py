"""Confidence bands in function space, and the ball of functions with a known RKHS norm.

The ball bounds every region and extends beyond the data. A region is about the ideal representation f_0. It equals the
true f_* only at the data. If |f_*|_H <= B, then alpha_*'K alpha_* <= B^2 and |f_* - f_0|(x) <= sqrt(k(x,x) - k_x'K^-1
k_x) sqrt(B^2 - alpha_*'K alpha_*).

Equation: derived, ideal representation and norm ball
Equation: derived, outer ellipsoid
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.perturbation.ellipsoid import (
    SLACK,
    Ellipsoid,
    Inequalities,
    PerturbedQuadratic,
    in_metric,
    inequality_chunks,
    largest,
)
from gpsuite.methods.perturbation.objectives import finite, positive, spectrum
from gpsuite.methods.perturbation.rays import Members

BandKind = Literal["ellipsoid", "pointwise", "norm ball", "members"]
# Tried weights of the ball's inequality, relative to the mean eigenvalue of a perturbation's inequality: each gives a
# bound.
_WEIGHTS = 10.0 ** np.arange(-6.0, 3.1, 1.0 / 3.0)


@dataclass(frozen=True, eq=False)
class NormBall:
    """Coefficients (b, a) with a'K a <= B^2.

    Attributes:
        gram: K of the inputs, or of the centres of a sparse model, shape [k, k].
        bound: B > 0.
        free: number of leading coefficients outside the norm: 1 with a bias, otherwise 0. p = free + k.

    Raises:
        ValueError: if K is not a finite square matrix or B is not positive and finite.
    """

    gram: FloatArray
    bound: float
    free: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", finite("gram", self.gram, 2))
        if self.gram.shape[0] != self.gram.shape[1]:
            raise ValueError(f"gram must be square, got shape {self.gram.shape}")
        positive("bound", self.bound)

    def norms(self, alphas: FloatArray) -> FloatArray:
        """Return sqrt(a'K a) for rows (b, a) [J, p], shape [J]."""
        kernel = alphas[:, self.free :]
        squares = np.einsum("jk,jk->j", kernel @ self.gram, kernel)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)))

    def contains(self, alphas: FloatArray) -> BoolArray:
        return np.asarray(self.norms(alphas) <= self.bound)

    def steps(self, centre: FloatArray, directions: FloatArray) -> FloatArray:
        """Return the largest t with centre + t direction in the ball, shape [J]. Inf along a direction of norm zero.

        Raises:
            ValueError: if the centre [p] is outside: the rays would not start in the set.
        """
        norm = float(self.norms(centre[None])[0])
        if not norm <= self.bound:
            raise ValueError(f"the estimate's RKHS norm {norm:g} exceeds the bound B={self.bound:g}")
        along = directions[:, self.free :]
        a = self.norms(directions) ** 2
        b = along @ self.gram @ centre[self.free :]
        c = (norm - self.bound) * (norm + self.bound)
        root = np.sqrt(b**2 - a * c)
        bounded = a > 0.0
        safe = np.where(bounded, a, 1.0)
        # the form without cancellation on either side. If b > 0, then b + root > 0
        near = -c / np.where(b > 0.0, b + root, 1.0)
        return np.where(bounded, np.where(b > 0.0, near, (root - b) / safe), np.inf)

    @cached_property
    def basis(self) -> FloatArray:
        """W [p, free + r]: alpha = W (b, c) is in the ball iff |c| <= B. It omits directions of K below rounding."""
        values, vectors = spectrum(self.gram)
        W = np.zeros((self.free + len(self.gram), self.free + len(values)))
        W[: self.free, : self.free] = np.eye(self.free)
        W[self.free :, self.free :] = vectors.T / np.sqrt(values)
        return W

    def powers(self, features: FloatArray, variances: FloatArray) -> FloatArray:
        """Return sqrt(k(x,x) - k_x'K^-1 k_x), shape [J]: the largest f(x) with |f|_H = 1 and f = 0 at the data.

        The directions of K below rounding are left out. This can only enlarge the result.
        """
        turned = features @ self.basis[:, self.free :]
        rest = variances - np.einsum("jr,jr->j", turned, turned)
        rounding = 8.0 * np.finfo(np.float64).eps * len(self.gram) * variances
        return np.asarray(np.sqrt(np.maximum(rest, 0.0) + rounding))


# Confidence bands in function space: the values phi(x)'alpha over a region.
#
# All bands of a region hold under one event: the region contains the ideal coefficients. So an outer band covers the
# ideal representation at all x at once with at least the region's probability. The ellipsoid band bounds all x by one
# radius. The pointwise band takes the extremes at each x separately. A member satisfies at least q of the inequalities
# Z_0 <= Z_i, each an ellipsoid. So phi(x)'alpha is at most the q-th largest of their maxima. This band is never wider.
# A band of sampled members is an inner one. With |f_*|_H <= B bands extend beyond the data and are always finite.
@dataclass(frozen=True, eq=False)
class Band:
    """Lower and upper values of functions at J inputs.

    Attributes:
        lower: shape [J], rounded outward. Minus infinity where unbounded.
        upper: shape [J], rounded outward. Infinite if unbounded.
        kind: origin of the band. Kinds with members are inner bands, the others outer ones.
        target: the ideal representation, equal to the true function only at the data, or the true function.
        sampler: method that found the members. Empty for outer bands.
    """

    centre: FloatArray
    lower: FloatArray
    upper: FloatArray
    kind: BandKind
    target: Literal["ideal representation", "true function"]
    sampler: str = ""


def ellipsoid_band(ellipsoid: Ellipsoid, features: FloatArray) -> Band:
    """Return f_hat(x) +- sqrt(r phi(x)'H^-1 phi(x)) for rows phi(x) [J, p]: simultaneous, from one radius.

    Equation: derived, outer ellipsoid
    """
    centre = features @ ellipsoid.centre
    half = ellipsoid.half_widths(features)
    return Band(centre, centre - half, centre + half, "ellipsoid", "ideal representation")


def pointwise_band(quadratic: PerturbedQuadratic, q: int, features: FloatArray) -> Band:
    """Return the band of the extremes at each x, from one ellipsoid per perturbation. Valid at all x at once.

    It is infinite unless at least m - q of the inequalities are bounded sets.

    Raises:
        ValueError: unless 0 < q < m.
    """
    centre = features @ quadratic.estimate
    highs, lows = np.full((2, quadratic.count, len(features)), np.inf)
    if np.isfinite(quadratic.condition):
        _fill_supports(quadratic, features, highs, lows)
    upper, lower = _outward(centre, largest(highs, q)), -_outward(-centre, largest(lows, q))
    return Band(centre, lower, upper, "pointwise", "ideal representation")


def _fill_supports(quadratic: PerturbedQuadratic, features: FloatArray, highs: FloatArray, lows: FloatArray) -> None:
    """Write the maxima of +-phi'(alpha - alpha_hat), shape [I, J], where A is safely positive definite."""
    scaled, rounding = in_metric(quadratic)
    turned = np.asarray(solve_triangular(quadratic.triangle.T, features.T, lower=True)).T
    for part, inequalities in inequality_chunks(scaled):
        values, vectors = np.linalg.eigh(inequalities.A)
        bounded = values[:, 0] > rounding
        kept = Inequalities(inequalities.A[bounded], inequalities.b[bounded], inequalities.c[bounded])
        for sign, target in ((1.0, highs), (-1.0, lows)):
            supports = _supports(values[bounded] - rounding, vectors[bounded], kept.b, kept.c, sign * turned)
            target[np.arange(quadratic.count)[part][bounded]] = supports


def norm_ball_band(
    quadratic: PerturbedQuadratic, q: int, features: FloatArray, ball: NormBall, variances: FloatArray
) -> Band:
    """Return a band of the true function, on and off the data, given its norm: |f_*|_H <= B.

    Let c be coefficients with |c| the RKHS norm, and beta the norm of the part that vanishes at the data. Then f_*(x)
    is phi(x)'alpha + P(x) beta with P the power function and |c|^2 + beta^2 <= B^2. Each perturbation's inequality plus
    a multiple of the ball's is an ellipsoid that contains their intersection. The best of some multiples is taken. So
    the coefficients' share of B counts. The band is within +-B sqrt(k(x,x)) (without a bias).

    Raises:
        ValueError: unless 0 < q < m.

    Equation: derived, ideal representation and norm ball
    """
    inner = quadratic.in_basis(ball.basis)
    turned, powers = features @ ball.basis, ball.powers(features, variances)
    start = ball.basis[ball.free :].T @ ball.gram @ quadratic.estimate[ball.free :]
    # lowering the eigenvalues covers ties and rounding, as in the ellipsoid
    rounding = (quadratic.tie_width + 2e-15 * inner.estimate.size) * float(np.linalg.norm(inner.slope, 2)) ** 2
    highs, lows = np.empty((2, quadratic.count, len(features)))
    for part, inequalities in inequality_chunks(inner):
        for sign, target in ((1.0, highs), (-1.0, lows)):
            target[part] = _ball_supports(inequalities, sign * turned, powers, ball, start, rounding)
    centre = features @ quadratic.estimate
    whole = np.full(len(features), np.inf) if ball.free else ball.bound * np.sqrt(variances)
    upper = np.minimum(_outward(centre, largest(highs, q)), whole)
    lower = np.maximum(-_outward(-centre, largest(lows, q)), -whole)
    return Band(centre, lower, upper, "norm ball", "true function")


def members_band(members: Members, estimate: FloatArray, features: FloatArray) -> Band:
    """Return the range over sampled members and the estimate of phi(x)'alpha, rows phi(x) [J, p]: an inner band."""
    centre = features @ estimate
    values = np.vstack([centre[None], members.alphas @ features.T])
    return Band(centre, values.min(axis=0), values.max(axis=0), "members", "ideal representation", members.sampler)


def _supports(
    values: FloatArray,
    vectors: FloatArray,
    b: FloatArray,
    c: FloatArray,
    targets: FloatArray,
    extra: FloatArray | float = 0.0,
) -> FloatArray:
    """Return max phi'u over u'Au + 2b'u + c <= 0, shape [I, J], A = V diag(values) V' positive definite.

    It is -phi'A^-1 b + sqrt((b'A^-1 b - c)(phi'A^-1 phi + extra)). A further coordinate adds `extra`.
    """
    turned = np.matmul(targets, vectors)
    offset = np.einsum("ipk,ip->ik", vectors, b)
    weighted = offset / values
    size = np.maximum(np.einsum("ik,ik->i", offset, weighted) - c, 0.0)
    squares = np.matmul(turned**2, (1.0 / values)[:, :, None])[:, :, 0]
    centre = np.matmul(turned, weighted[:, :, None])[:, :, 0]
    return np.asarray(np.sqrt(size[:, None] * (squares + extra)) - centre)


def _ball_supports(
    inequalities: Inequalities,
    targets: FloatArray,
    powers: FloatArray,
    ball: NormBall,
    start: FloatArray,
    rounding: float,
) -> FloatArray:
    """Return the smallest over the weights of the maxima on inequality + weight x ball, shape [I, J]."""
    width = targets.shape[1]
    inside = np.concatenate([np.zeros(ball.free), np.ones(width - ball.free)])
    best = np.full((len(inequalities.c), len(targets)), np.inf)
    values, vectors = np.linalg.eigh(inequalities.A)
    unit = max(float(np.mean(np.abs(values))), 1e-300)
    for weight in unit * _WEIGHTS:
        if ball.free:
            tilted, vectors = np.linalg.eigh(inequalities.A + weight * np.diag(inside))
        else:
            tilted = values + weight
        bounded = tilted[:, 0] > 2.0 * rounding
        b = inequalities.b + weight * start
        c = inequalities.c + weight * (start @ start - ball.bound**2)
        found = _supports(
            (tilted - rounding)[bounded], vectors[bounded], b[bounded], c[bounded], targets, powers**2 / weight
        )
        best[bounded] = np.minimum(best[bounded], found)
    return best


def _outward(centre: FloatArray, height: FloatArray) -> FloatArray:
    """Return centre + height, widened by SLACK of both sizes."""
    return np.asarray(centre + height + SLACK * (np.abs(height) + np.abs(centre)))
