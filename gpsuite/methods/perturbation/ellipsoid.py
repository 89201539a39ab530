"""Quadratic objectives in the form that the geometry of regions needs: Z_i as squared norms of affine functions.

With e = y - Phi alpha, a quadratic objective has the gradient P alpha - T e, and with the weighting M

    Z_i(alpha) = |A alpha - B G_i e|^2,   A = M^(1/2) P,  B = M^(1/2) T,

for any root of M. Let F = A + B Phi, D_i = B (I - G_i) Phi and r_i = B (I - G_i) e_hat. From the estimate, A
alpha_hat = B e_hat and

    Z_0 = |F d|^2,   Z_i = |(F - D_i) d + r_i|^2,   d = alpha - alpha_hat.

So Z_0 <= Z_i is one quadratic inequality in d. Its coefficients are formed from D_i without cancellation.

Equation: derived, objectives and gradients
Equation: derived, outer ellipsoid
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import qr, solve_triangular

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.perturbation.objectives import QuadraticObjective, valid_level
from gpsuite.methods.perturbation.ranks import TIE, Perturbations

# Largest number of entries of the matrices B G_i [chunk, R, N] handled at once (32 MB).
_CHUNK_NUMBERS = 4_000_000
# Relative size below which D_i and r_i are rounding: then G_i does not change any gradient.
_UNMOVED = 1e-13
# Relative widening of radii and bands to cover their rounding.
SLACK = 1e-9
# A's eigenvalues are at most 1 and known up to this many roundings times p and the condition number.
_ROUNDINGS = 8.0
# mu = Lambda_min / (1 + e^theta). At the ends mu equals Lambda_min or its objective exceeds e^80.
_THETA_END = 80.0
_STEPS, _THETA_TOLERANCE = 100, 1e-10


@dataclass(frozen=True, eq=False)
class PerturbedQuadratic:
    """The functions Z_0, Z_1, ..., Z_I of a quadratic objective, around its estimate.

    Attributes:
        penalty: A = M^(1/2) P, shape [R, p].
        response: B = M^(1/2) T, shape [R, N].
        design: Phi, shape [N, p].
        estimate: alpha_hat, the root of the gradient, shape [p].
        residuals: y - Phi alpha_hat, shape [N].
        perturbations: G_1..G_I, I = m - 1, and the tie-breaking permutation.

    Raises:
        ValueError: if shapes disagree or a number is not finite.
    """

    penalty: FloatArray
    response: FloatArray
    design: FloatArray
    estimate: FloatArray
    residuals: FloatArray
    perturbations: Perturbations

    def __post_init__(self) -> None:
        (rows, width), points = self.penalty.shape, len(self.residuals)
        expected = {"response": (rows, points), "design": (points, width), "estimate": (width,), "residuals": (points,)}
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")
        if self.perturbations.shape != (self.count, points):
            raise ValueError(f"perturbations must be of {points} residuals, without repetitions")
        for name in ("penalty", *expected):
            if not np.all(np.isfinite(getattr(self, name))):
                raise ValueError(f"{name} must be finite")

    @classmethod
    def of(cls, objective: QuadraticObjective, y: FloatArray, perturbations: Perturbations) -> PerturbedQuadratic:
        """Return the quadratic of an objective with outputs y [N] and the objective's weighting."""
        form, alpha = objective.form, objective.fit(y).alpha
        still = np.zeros((len(form.rest), form.pull.shape[1]))
        return cls(
            np.vstack([form.slope, form.rest]),
            np.vstack([form.pull, still]),
            objective.design,
            alpha,
            objective.residuals(y, alpha),
            perturbations,
        )

    @property
    def count(self) -> int:
        return self.perturbations.m - 1

    @property
    def tie_width(self) -> float:
        """Largest share by which Z_0 can exceed a tied Z_i: the tie may join them by steps between all Z."""
        return self.perturbations.m * TIE

    def in_basis(self, basis: FloatArray) -> PerturbedQuadratic:
        """Return the quadratic in c [k], alpha = alpha_hat + basis c, basis [p, k]. Its estimate is 0."""
        # A alpha_hat = B e_hat, so both may be subtracted from the gradient, which vanishes at c = 0
        return PerturbedQuadratic(
            self.penalty @ basis,
            self.response,
            self.design @ basis,
            np.zeros(basis.shape[1]),
            self.residuals,
            self.perturbations,
        )

    @cached_property
    def slope(self) -> FloatArray:
        """F = A + B Phi, the derivative of the weighted gradient, shape [R, p]. F'F is the region's metric."""
        return np.asarray(self.penalty + self.response @ self.design)

    @cached_property
    def shifts(self) -> FloatArray:
        """r_i = B (I - G_i) e_hat, shape [I, R]."""
        moved = self.residuals - self.perturbations.apply(self.residuals)
        return np.asarray(moved @ self.response.T)

    @cached_property
    def triangle(self) -> FloatArray:
        """Upper triangular root of the metric F'F, shape [p, p]. The Hessian's root if M is the inverse Hessian."""
        return np.asarray(qr(self.slope, mode="r")[0][: self.design.shape[1]])

    @cached_property
    def condition(self) -> float:
        if self.triangle.shape[0] < self.triangle.shape[1]:
            return np.inf
        return float(np.linalg.cond(self.triangle))

    def chunks(self, columns: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of the perturbations with B (I - G_i) E, shape [chunk, R, k].

        Args:
            columns: E [N, k]. With Phi the slices are D_i, with Phi times directions they are D_i along these
                directions.
        """
        step = max(1, _CHUNK_NUMBERS // self.response.size)
        for start in range(0, self.count, step):
            part = slice(start, start + step)
            moved = self.response - self.perturbations.pull_back(self.response, part)
            yield part, np.matmul(moved, columns)

    @cached_property
    def unmoved(self) -> BoolArray:
        """Perturbations that change no gradient (such as the identity): Z_i = Z_0 everywhere, shape [I]."""
        scale = np.abs(self.response).sum(axis=1).max()
        still = np.abs(self.shifts).max(axis=1) <= _UNMOVED * scale * np.abs(self.residuals).max()
        limit = _UNMOVED * scale * np.abs(self.design).max()
        if np.any(still):
            for part, D in self.chunks(self.design):
                still[part] &= np.abs(D).max(axis=(1, 2)) <= limit
        return np.asarray(still, dtype=np.bool_)


def largest(values: FloatArray, q: int) -> FloatArray:
    """Return the q-th largest along the first axis, of length m - 1. Infinities allowed, NaN not.

    Raises:
        ValueError: unless 0 < q < m.
    """
    valid_level(q, len(values) + 1)
    return np.asarray(np.partition(values, len(values) - q, axis=0)[len(values) - q])


# Ellipsoidal outer approximation of a region with a quadratic objective, by one scalar root per perturbation.
#
# In u = R (alpha - alpha_hat), R'R = F'F, the set Z_0 <= Z_i is u'Au + 2b'u + c <= 0 with c <= 0. By the S-lemma the
# largest |u|^2 on it is the optimum of a semidefinite program in two unknowns. With A = V Lambda V', bh = V'b it is
#
#     gamma_i = min over 0 < mu < Lambda_min of  [-c + sum_k bh_k^2 / (Lambda_k - mu)] / mu.
#
# It is finite only if A is positive definite. By weak duality every mu gives an upper bound, so stopping early is safe.
@dataclass(frozen=True)
class Inequalities:
    """The sets Z_0 <= Z_i as u'Au + 2b'u + c <= 0 for a chunk or all of the perturbations.

    Attributes:
        A: shape [I, p, p], symmetric. Positive semidefinite under inverse-Hessian weighting.
        b: shape [I, p].
        c: shape [I], <= 0.
    """

    A: FloatArray
    b: FloatArray
    c: FloatArray


@dataclass(frozen=True)
class Ellipsoid:
    """{alpha : |R (alpha - centre)|^2 <= radius} contains the region.

    Attributes:
        triangle: R, shape [p, p], upper triangular. R'R is the shape matrix, the objective's Hessian under
            inverse-Hessian weighting.
        radius: the q-th largest of `gammas`, widened by SLACK. Infinite if the region has no bounded ellipsoid.
        gammas: largest |R (alpha - centre)|^2 with Z_0 <= Z_i, shape [I]. Infinite if unbounded.
        q: the region's q.
    """

    centre: FloatArray
    triangle: FloatArray
    radius: float
    gammas: FloatArray
    q: int

    def contains(self, alphas: FloatArray) -> BoolArray:
        """Return whether each row of `alphas` [J, p] is in the ellipsoid, shape [J]."""
        u = (alphas - self.centre) @ self.triangle.T
        return np.asarray(np.einsum("jp,jp->j", u, u) <= self.radius)

    def half_widths(self, features: FloatArray) -> FloatArray:
        """Return sqrt(radius phi(x)' (R'R)^-1 phi(x)) for rows phi(x) [J, p], shape [J], widened by SLACK.

        They are infinite for an infinite radius if phi(x) is not zero.
        """
        if not np.isfinite(self.radius):
            return np.where(np.any(features != 0.0, axis=1), np.inf, 0.0)
        root = solve_triangular(self.triangle.T, features.T, lower=True)
        squares = np.einsum("pj,pj->j", root, root)
        return np.asarray(np.sqrt(self.radius * squares) * (1.0 + SLACK))


def outer_ellipsoid(quadratic: PerturbedQuadratic, q: int) -> Ellipsoid:
    """Return the ellipsoid around the estimate that contains the region of p = 1 - q/m.

    A member has Z_0 <= Z_i for at least q perturbations. So |u|^2 is at most the q-th largest gamma_i. Identity
    perturbations count as unbounded. This is outward for every way of breaking ties.

    Raises:
        ValueError: unless 0 < q < m.
    """
    gammas = outer_radii(quadratic)
    radius = float(largest(gammas, q)) * (1.0 + SLACK)
    return Ellipsoid(quadratic.estimate, quadratic.triangle, radius, gammas, q)


def outer_radii(quadratic: PerturbedQuadratic) -> FloatArray:
    """Return gamma_i for every perturbation, shape [I]. Inf if {Z_0 <= Z_i} is unbounded or rounding cannot decide."""
    gammas = np.full(quadratic.count, np.inf)
    if not np.isfinite(quadratic.condition):
        return gammas
    scaled, rounding = in_metric(quadratic)
    for part, inequalities in inequality_chunks(scaled):
        eigenvalues, vectors = np.linalg.eigh(inequalities.A)
        turned = np.einsum("ipk,ip->ik", vectors, inequalities.b)
        lowered = eigenvalues - rounding
        bounded = lowered[:, 0] > 0.0
        values = np.full(len(bounded), np.inf)
        values[bounded] = _smallest_dual(lowered[bounded], turned[bounded] ** 2, -inequalities.c[bounded])
        gammas[part] = values
    return gammas


def inequality_chunks(quadratic: PerturbedQuadratic) -> Iterator[tuple[slice, Inequalities]]:
    """Yield A = F'D + D'F - D'D, b = -(F - D)'r, c = -|r|^2 in d = alpha - alpha_hat, by slices of the perturbations.

    This is F'F - (F - D)'(F - D) without its cancellation.
    """
    F = quadratic.slope
    for part, D in quadratic.chunks(quadratic.design):
        r = quadratic.shifts[part]
        half = np.matmul(F.T, D)
        A = half + half.transpose(0, 2, 1) - np.matmul(D.transpose(0, 2, 1), D)
        b = np.matmul(D.transpose(0, 2, 1), r[:, :, None])[:, :, 0] - r @ F
        yield part, Inequalities(A, b, -np.einsum("ir,ir->i", r, r))


def in_metric(quadratic: PerturbedQuadratic) -> tuple[PerturbedQuadratic, float]:
    """Return the quadratic in u = R (alpha - alpha_hat), and the amount by which to lower the eigenvalues of its A.

    Z_0 = |u|^2. So lowering them by the width of ties keeps the members with Z_0 = Z_i up to this width. The remaining
    amount is for rounding.

    Raises:
        ValueError: if the metric F'F is singular.
    """
    if not np.isfinite(quadratic.condition):
        raise ValueError("the metric of the region is singular: the design lacks full column rank")
    width = quadratic.estimate.size
    inverse = solve_triangular(quadratic.triangle, np.eye(width))
    rounding = _ROUNDINGS * float(np.finfo(np.float64).eps) * width * quadratic.condition
    return quadratic.in_basis(np.asarray(inverse)), quadratic.tie_width + rounding


def _smallest_dual(eigenvalues: FloatArray, squares: FloatArray, constant: FloatArray) -> FloatArray:
    """Return min over mu of [constant + sum squares/(eigenvalues - mu)]/mu, all rows at once."""
    result = np.zeros(len(constant))  # without constant and slope the set is only the estimate
    open_ = (constant > 0.0) | (squares.sum(axis=1) > 0.0)
    lam, sq, const = eigenvalues[open_], squares[open_], constant[open_]
    low, high = np.full(len(lam), -_THETA_END), np.full(len(lam), _THETA_END)
    theta = np.zeros(len(lam))
    for _ in range(_STEPS):
        excess, slope = _log_balance(theta, lam, sq, const)
        low, high = np.where(excess > 0.0, theta, low), np.where(excess > 0.0, high, theta)
        newton = theta - excess / slope
        # every mu gives an upper bound: bisection where Newton leaves the bracket only takes more steps
        inside = (newton > low) & (newton < high)
        moved = np.where(inside, newton, 0.5 * (low + high))
        done = np.all(np.abs(moved - theta) <= _THETA_TOLERANCE * (1.0 + np.abs(theta)))
        theta = moved
        if done:
            break
    result[open_] = _dual(theta, lam, sq, const)
    return result


def _gaps(theta: FloatArray, lam: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mu [I] and Lambda - mu [I, p] at mu = Lambda_min/(1 + e^theta), both to full relative precision."""
    mu = lam[:, 0] / (1.0 + np.exp(theta))
    gap = lam[:, 0] / (1.0 + np.exp(-theta))
    return mu, (lam - lam[:, :1]) + gap[:, None]


def _dual(theta: FloatArray, lam: FloatArray, sq: FloatArray, const: FloatArray) -> FloatArray:
    mu, gaps = _gaps(theta, lam)
    return np.asarray((const + np.sum(sq / gaps, axis=1)) / mu)


def _log_balance(
    theta: FloatArray, lam: FloatArray, sq: FloatArray, const: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ln(mu sum sq/gap^2) - ln(const + sum sq/gap) and its derivative in theta.

    It is zero if the dual is stationary. It falls in theta with a slope between about -2 and 0, so Newton takes few
    steps.
    """
    mu, gaps = _gaps(theta, lam)
    # mu' = -mu gap_0 / Lambda_min, and each gap grows as mu falls
    rate = mu * gaps[:, 0] / lam[:, 0]
    first = np.maximum(np.sum(sq / gaps, axis=1), np.finfo(np.float64).tiny)
    second = np.maximum(np.sum(sq / gaps**2, axis=1), np.finfo(np.float64).tiny)
    third = np.sum(sq / gaps**3, axis=1)
    excess = np.log(mu) + np.log(second) - np.log(const + first)
    slope = -rate / mu - 2.0 * rate * third / second + rate * second / (const + first)
    return excess, np.minimum(slope, -1e-8)
