"""Quadratic objectives in the form their region geometry needs: Z_i as squared norms of affine functions.

With e = y - Phi alpha, a quadratic objective has the gradient P alpha - T e, and with the weighting M

    Z_i(alpha) = |A alpha - B G_i e|^2,   A = M^(1/2) P,  B = M^(1/2) T,

for any root of M. Written from the estimate (A alpha_hat = B e_hat), with F = A + B Phi, D_i = B (I - G_i) Phi and
r_i = B (I - G_i) e_hat,

    Z_0 = |F d|^2,   Z_i = |(F - D_i) d + r_i|^2,   d = alpha - alpha_hat,

so that Z_0 <= Z_i is one quadratic inequality in d, whose coefficients are formed from D_i without cancellation.

Equation: derived, objectives and gradients
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import qr

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.perturbation.checks import valid_level
from gpsuite.methods.perturbation.objectives.base import QuadraticObjective
from gpsuite.methods.perturbation.ranks.groups import Perturbations
from gpsuite.methods.perturbation.ranks.ranks import TIE

# Perturbations handled at once: their matrices B G_i [chunk, R, N] stay below this many numbers (32 MB).
_CHUNK_NUMBERS = 4_000_000
# Relative size below which D_i and r_i are rounding: G_i then leaves every gradient as it is.
_UNMOVED = 1e-13


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
        expected = {
            "response": (rows, points),
            "design": (points, width),
            "estimate": (width,),
            "residuals": (points,),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")
        if self.perturbations.shape != (self.count, points):
            raise ValueError(f"perturbations must be of {points} residuals, without repetitions")
        for name in ("penalty", *expected):
            if not np.all(np.isfinite(getattr(self, name))):
                raise ValueError(f"{name} must be finite")

    @classmethod
    def of(
        cls, objective: QuadraticObjective, y: FloatArray, perturbations: Perturbations
    ) -> PerturbedQuadratic:
        """Return the quadratic of an objective with outputs y [N], in the objective's own weighting."""
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
        """I = m - 1."""
        return self.perturbations.m - 1

    @property
    def tie_width(self) -> float:
        """By which share of it Z_0 can exceed a Z_i that it is tied with: by steps between all of them."""
        return self.perturbations.m * TIE

    def in_basis(self, basis: FloatArray) -> PerturbedQuadratic:
        """Return the quadratic in c [k], alpha = alpha_hat + basis c, basis [p, k]; its estimate is 0."""
        # A alpha_hat = B e_hat: both may be taken from the gradient, which vanishes at c = 0
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
        """F = A + B Phi, the derivative of the weighted gradient, shape [R, p]; F'F is the region's metric."""
        return np.asarray(self.penalty + self.response @ self.design)

    @cached_property
    def shifts(self) -> FloatArray:
        """r_i = B (I - G_i) e_hat, shape [I, R]."""
        moved = self.residuals - self.perturbations.apply(self.residuals)
        return np.asarray(moved @ self.response.T)

    @cached_property
    def triangle(self) -> FloatArray:
        """Upper triangular root of the metric F'F, shape [p, p]; the Hessian's own when M is its inverse."""
        return np.asarray(qr(self.slope, mode="r")[0][: self.design.shape[1]])

    @cached_property
    def condition(self) -> float:
        """Condition number of `triangle`; infinite when the metric is singular or R < p."""
        if self.triangle.shape[0] < self.triangle.shape[1]:
            return np.inf
        return float(np.linalg.cond(self.triangle))

    def chunks(self, columns: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of the perturbations with B (I - G_i) E, shape [chunk, R, k].

        Args:
            columns: E [N, k]; Phi gives D_i, Phi times directions gives D_i along them.
        """
        step = max(1, _CHUNK_NUMBERS // self.response.size)
        for start in range(0, self.count, step):
            part = slice(start, start + step)
            moved = self.response - self.perturbations.pull_back(self.response, part)
            yield part, np.matmul(moved, columns)

    @cached_property
    def unmoved(self) -> BoolArray:
        """Perturbations that leave every gradient as it is (the identity, say): Z_i = Z_0 everywhere, shape [I]."""
        scale = np.abs(self.response).sum(axis=1).max()
        still = np.abs(self.shifts).max(axis=1) <= _UNMOVED * scale * np.abs(self.residuals).max()
        limit = _UNMOVED * scale * np.abs(self.design).max()
        if np.any(still):
            for part, D in self.chunks(self.design):
                still[part] &= np.abs(D).max(axis=(1, 2)) <= limit
        return np.asarray(still, dtype=np.bool_)


def largest(values: FloatArray, q: int) -> FloatArray:
    """Return the q-th largest along the first axis, of length m - 1; infinities allowed, NaN not.

    Raises:
        ValueError: unless 0 < q < m.
    """
    valid_level(q, len(values) + 1)
    return np.asarray(np.partition(values, len(values) - q, axis=0)[len(values) - q])
