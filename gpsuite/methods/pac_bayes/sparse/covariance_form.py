"""The alpha = 0 posterior in terms of K_ZX itself: a third cheaper than whitening every block, for a benign K_ZZ.

With constant noise no point needs its own |V_i|^2, so V = L^-1 K_ZX is never formed: what is small (M x M) moves to
the other side. The error grows with the condition number of K_ZZ, hence `is_accurate`.

Equation: derived, sweeps over the data
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dgemm, dtrmm, dtrsm
from scipy.linalg.lapack import dpocon, dpotrf

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.sparse.algebra import InducingKernel, WhitenedPosterior, WhitenedSums

# Condition number of K_ZZ times max(1, sigma_f^2 / s) up to which bounds agree with the whitened form to about 1e-13.
_MAX_CONDITION = 1e5
# Keeps I - S positive definite where the data say nothing about a direction.
_SHIFT = 1e-14


def is_accurate(inducing: InducingKernel, noise_variance: float) -> bool:
    """Return whether K_ZZ is conditioned well enough for the covariance form."""
    norm = float(inducing.matrix.sum(axis=0).max())  # all entries are positive: the 1-norm
    reciprocal, _ = dpocon(inducing.factor, norm, uplo="L")
    return float(reciprocal) * _MAX_CONDITION >= max(1.0, inducing.variance / noise_variance)


def whitened_matrix(inducing: InducingKernel, matrix: FloatArray) -> FloatArray:
    """Return L^-1 A L^-T of a symmetric A [M, M], symmetric."""
    half = dtrsm(1.0, inducing.factor, matrix, side=0, lower=1)
    whole = dtrsm(1.0, inducing.factor, half, side=1, lower=1, trans_a=1, overwrite_b=1)
    return np.asarray(0.5 * (whole + whole.T))


def whitened_vector(inducing: InducingKernel, vector: FloatArray) -> FloatArray:
    """Return L^-1 a [M]."""
    return np.asarray(dtrsm(1.0, inducing.factor, vector[:, None], side=0, lower=1)[:, 0])


@dataclass(frozen=True)
class CovarianceForm:
    """Mean K'mean and variance sigma_f^2 - |factor' K_i|^2 of the posterior; build it with `derive`.

    Attributes:
        factor: T_K [M, M], upper triangular, Fortran order, with T_K T_K' = L^-T (I - S) L^-1.
        mean: L^-T b [M].
    """

    factor: FloatArray
    mean: FloatArray

    @classmethod
    def derive(
        cls, inducing: InducingKernel, sums: WhitenedSums, posterior: WhitenedPosterior
    ) -> CovarianceForm | None:
        """Return the form of a whitened posterior, or None if I - S cannot be factorised.

        Args:
            inducing: K_ZZ and its factor.
            sums: those that the posterior was conditioned on, with the whole symmetric gram matrix.
            posterior: N(b, S).
        """
        inverse = posterior.inverse_factor
        shrinkage = inverse.T @ (inverse @ sums.gram)  # I - S = S (V Lambda^-1 V') without cancellation
        shrinkage = 0.5 * (shrinkage + shrinkage.T)
        shrinkage[np.diag_indices_from(shrinkage)] += _SHIFT
        # reversed rows and columns turn the lower Cholesky factor into an upper triangular one
        lower, info = dpotrf(shrinkage[::-1, ::-1], lower=1, clean=1)
        if info != 0:
            return None
        upper = np.asfortranarray(lower[::-1, ::-1])
        factor = dtrsm(1.0, inducing.factor, upper, side=0, lower=1, trans_a=1, overwrite_b=1)
        return cls(factor, inducing.unwhitened_vector(posterior.mean))

    def half_reduction(self, K: FloatArray, out: FloatArray) -> FloatArray:
        """Write U = T_K' K [M, rows] to `out` and return it."""
        out[...] = K
        dtrmm(1.0, self.factor, out.T, side=1, lower=0, trans_a=0, overwrite_b=1)
        return out

    def adjoint(
        self, U: FloatArray, d_variance: FloatArray, K: FloatArray, weights: FloatArray, out: FloatArray
    ) -> FloatArray:
        """Write -2 T_K U diag(d_variance) + weights K [M, rows] to `out` and return it; weights is symmetric."""
        np.multiply(U, -2.0 * d_variance, out=out)
        dtrmm(1.0, self.factor, out.T, side=1, lower=0, trans_a=1, overwrite_b=1)
        dgemm(1.0, K.T, weights, beta=1.0, c=out.T, overwrite_c=1)
        return out
