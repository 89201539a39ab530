"""Confidence bands in function space: the values phi(x)'alpha over a region.

All bands of a region rest on one event, that it holds the ideal coefficients: an outer band covers the ideal
representation at all x at once with at least the region's probability. The ellipsoid band bounds all x by one
radius. The pointwise band takes the extremes at each x of its own: a member satisfies at least q of the inequalities
Z_0 <= Z_i, each an ellipsoid, so phi(x)'alpha is at most the q-th largest of their maxima; it is never wider.
A band of sampled members is an inner one. With |f_*|_H <= B bands reach beyond the data and are always finite.

Equation: derived, outer ellipsoid
Equation: derived, ideal representation and norm ball
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import solve_triangular

from gpsuite.arrays import FloatArray
from gpsuite.methods.perturbation.geometry.ellipsoid import (
    SLACK,
    Ellipsoid,
    Inequalities,
    in_metric,
    inequality_chunks,
)
from gpsuite.methods.perturbation.geometry.norm_ball import NormBall
from gpsuite.methods.perturbation.geometry.quadratics import PerturbedQuadratic, largest
from gpsuite.methods.perturbation.geometry.sampling import Members

BandKind = Literal["ellipsoid", "pointwise", "norm ball", "members"]
# Weights of the ball's inequality tried, relative to the mean eigenvalue of a perturbation's own: each is a bound.
_WEIGHTS = 10.0 ** np.arange(-6.0, 3.1, 1.0 / 3.0)


@dataclass(frozen=True, eq=False)
class Band:
    """Lower and upper values of functions at J inputs.

    Attributes:
        centre: the estimate's function, shape [J].
        lower: shape [J], rounded outward; minus infinity where unbounded.
        upper: shape [J], rounded outward; infinite where unbounded.
        kind: where it comes from; the kinds of members are inner bands, the others outer ones.
        target: the ideal representation, equal to the true function at the data only, or the true function.
        sampler: how members were found; empty for outer bands.
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
    """Return the band of each x's own extremes, from one ellipsoid a perturbation; valid at all x at once.

    Infinite unless at least m - q of the inequalities are bounded sets.

    Args:
        quadratic: the objective and its perturbations.
        q: 0 < q < m.
        features: rows phi(x), shape [J, p].

    Raises:
        ValueError: unless 0 < q < m.
    """
    centre = features @ quadratic.estimate
    highs, lows = np.full((2, quadratic.count, len(features)), np.inf)
    if np.isfinite(quadratic.condition):
        _fill_supports(quadratic, features, highs, lows)
    upper, lower = _outward(centre, largest(highs, q)), -_outward(-centre, largest(lows, q))
    return Band(centre, lower, upper, "pointwise", "ideal representation")


def _fill_supports(
    quadratic: PerturbedQuadratic, features: FloatArray, highs: FloatArray, lows: FloatArray
) -> None:
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

    In coefficients c with |c| the RKHS norm, and beta the norm of what vanishes at the data, f_*(x) is
    phi(x)'alpha + P(x) beta with P the power function and |c|^2 + beta^2 <= B^2. Each perturbation's inequality plus a
    multiple of the ball's is an ellipsoid containing their intersection; the best of some multiples is taken. So the
    coefficients' share of B is accounted for, and the band lies within +-B sqrt(k(x,x)) (without a bias).

    Args:
        quadratic: the objective and its perturbations.
        q: 0 < q < m.
        features: rows k_x or (1, k_x), shape [J, p].
        ball: the norm bound; the model's own Gram matrix.
        variances: k(x, x), shape [J].

    Raises:
        ValueError: unless 0 < q < m.

    Equation: derived, ideal representation and norm ball
    """
    inner = quadratic.in_basis(ball.basis)
    turned, powers = features @ ball.basis, ball.powers(features, variances)
    start = ball.basis[ball.free :].T @ ball.gram @ quadratic.estimate[ball.free :]
    # lowering the eigenvalues covers ties and rounding, as in the ellipsoid
    rounding = (quadratic.tie_width + 2e-15 * inner.estimate.size) * float(
        np.linalg.norm(inner.slope, 2)
    ) ** 2
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
    return Band(
        centre, values.min(axis=0), values.max(axis=0), "members", "ideal representation", members.sampler
    )


def _supports(
    values: FloatArray,
    vectors: FloatArray,
    b: FloatArray,
    c: FloatArray,
    targets: FloatArray,
    extra: FloatArray | float = 0.0,
) -> FloatArray:
    """Return max phi'u over u'Au + 2b'u + c <= 0, shape [I, J], A = V diag(values) V' positive definite.

    It is -phi'A^-1 b + sqrt((b'A^-1 b - c)(phi'A^-1 phi + extra)).

    Args:
        values: eigenvalues, shape [I, p].
        vectors: V, shape [I, p, p].
        b: shape [I, p].
        c: shape [I].
        targets: rows phi, shape [J, p].
        extra: what a further coordinate adds, shape [J].
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
    """Return the smallest over the weights of the maxima on inequality + weight x ball, shape [I, J].

    Args:
        inequalities: in coordinates d = (b, c) - (b_hat, c_hat).
        targets: rows of the linear functional, shape [J, free + r].
        powers: the functional's part on what vanishes at the data, shape [J].
        ball: the norm bound.
        start: (0, c_hat), shape [free + r].
        rounding: by how much to lower the eigenvalues.
    """
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
            (tilted - rounding)[bounded],
            vectors[bounded],
            b[bounded],
            c[bounded],
            targets,
            powers**2 / weight,
        )
        best[bounded] = np.minimum(best[bounded], found)
    return best


def _outward(centre: FloatArray, height: FloatArray) -> FloatArray:
    """Return centre + height, widened by SLACK of both sizes."""
    return np.asarray(centre + height + SLACK * (np.abs(height) + np.abs(centre)))
