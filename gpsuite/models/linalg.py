"""The package's Cholesky factorisation: jitter only if needed, always reported. No TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack, solve_triangular

from gpsuite.arrays import FloatArray
from gpsuite.models.config import Hyperparameters

# Jitters tried in turn, relative to the mean of the diagonal.
JITTER_LADDER = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)


class NonFiniteMatrixError(ArithmeticError):
    """Raised if a matrix to factorise contains NaN or infinity."""


class NotPositiveDefiniteError(ArithmeticError):
    """Raised if a matrix cannot be factorised in float64, even with the largest allowed jitter."""

    @classmethod
    def of(
        cls, matrix: FloatArray, jitters: Sequence[float], hyperparameters: Hyperparameters | None = None
    ) -> NotPositiveDefiniteError:
        """Return the error for a matrix without jitter. Jitters are relative to its mean diagonal."""
        tried = ", ".join(f"{jitter:g}" for jitter in jitters)
        whose = "" if hyperparameters is None else f"; {hyperparameters}"
        return cls(
            f"matrix not positive definite: N={len(matrix)}, condition about {condition_estimate(matrix):.1e}, "
            f"jitters tried relative to the mean diagonal {np.mean(np.diagonal(matrix)):.3g}: {tried}{whose}"
        )


@dataclass(frozen=True)
class CholeskyFactor:
    """Lower Cholesky factor of `matrix + jitter I`.

    Attributes:
        lower: L, shape [N, N], zeros above the diagonal.
        jitter: number added to the diagonal, in the matrix's own units, 0 if none was needed.
    """

    lower: FloatArray
    jitter: float

    def half_solve(self, right: FloatArray) -> FloatArray:
        """Return L⁻¹ B for B of shape [N] or [N, K]."""
        return np.asarray(solve_triangular(self.lower, right, lower=True, check_finite=False))

    def solve(self, right: FloatArray) -> FloatArray:
        """Return (L Lᵀ)⁻¹ B for B of shape [N] or [N, K]."""
        half = self.half_solve(right)
        return np.asarray(solve_triangular(self.lower, half, lower=True, trans="T", check_finite=False))

    @cached_property
    def logdet(self) -> float:
        """Natural logarithm of the determinant of L Lᵀ."""
        return 2.0 * float(np.sum(np.log(np.diagonal(self.lower))))


def stable_cholesky(matrix: FloatArray, *, jitters: Sequence[float] = JITTER_LADDER) -> CholeskyFactor:
    """Factorise a symmetric matrix. Add the smallest jitter of the list that makes it possible.

    As in LAPACK only one triangle is read. The other counts as its mirror image.

    Args:
        matrix: symmetric, float64, shape [N, N], N >= 1. Not changed.
        jitters: tried in turn, relative to the mean of the diagonal.

    Raises:
        ValueError: if the matrix is not square or is empty.
        NonFiniteMatrixError: if it contains NaN or infinity.
        NotPositiveDefiniteError: if every jitter fails. Names N, condition and jitters.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"a square matrix is needed, got shape {matrix.shape}")
    _require_finite(matrix)
    # relative to the diagonal, so a scaled problem gets the scaled jitter
    scale = max(float(np.mean(np.diagonal(matrix))), 0.0)
    for relative in jitters:
        jitter = relative * scale
        attempt = np.array(matrix, order="C")
        attempt.flat[:: matrix.shape[0] + 1] += jitter
        # The transpose of a C-ordered copy is Fortran-ordered: LAPACK then works in place.
        lower, info = lapack.dpotrf(attempt.T, lower=1, clean=1, overwrite_a=1)
        if info == 0:
            return CholeskyFactor(lower=lower, jitter=jitter)
    raise NotPositiveDefiniteError.of(matrix, jitters)


def condition_estimate(matrix: FloatArray) -> float:
    """Return LAPACK's estimate of the 1-norm condition number of a square matrix. Infinity if singular."""
    factor, _, info = lapack.dgetrf(matrix)
    if info != 0:
        return float("inf")
    reciprocal, _ = lapack.dgecon(factor, float(np.linalg.norm(matrix, 1)), norm="1")
    return 1.0 / float(reciprocal) if reciprocal > 0.0 else float("inf")


def _require_finite(matrix: FloatArray) -> None:
    # A finite sum proves finite entries in a fraction of the time of a test of each.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(matrix.sum()):
            return
    bad = np.argwhere(~np.isfinite(matrix))
    if bad.size:
        row, column = bad[0]
        raise NonFiniteMatrixError(
            f"matrix of N={matrix.shape[0]} has {len(bad)} non-finite entries, "
            f"the first at row {row}, column {column}: {matrix[row, column]}"
        )
