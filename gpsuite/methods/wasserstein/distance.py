"""Squared 2-Wasserstein distance of two Gaussian measures on L2(rho), with rho estimated by the data.

W2^2 = |m_P - m_Q|^2 + tr C_P + tr C_Q - 2 tr (C_P^1/2 C_Q C_P^1/2)^1/2 (Sec. 2.1.2 of the notes on Wild et al. 2022).
Let rho be the empirical measure of points X_S. Then this is exact linear algebra on their matrices K and R divided by
N_S. The last trace is the nuclear norm |sqrt(R) sqrt(K)|_*. The paper's estimate takes the eigenvalues of r(X_S, X)
k(X, X_S) instead. If X_S is smaller than X, that is biased towards large distances. This module does not import
TensorFlow.

Equation: Wild et al. 2022, Notes Sec. 2.1.2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpstrf

from gpsuite.arrays import FloatArray

# In the slope of a square root, eigenvalues below this share of the largest one count as this share.
RELATIVE_FLOOR = 1e-12


@dataclass(frozen=True)
class WassersteinTerms:
    """The terms of W2^2, in squared units of the functions.

    Attributes:
        mean: mean squared difference of the mean functions.
        trace_prior: mean of k(x, x).
        trace_variational: mean of r(x, x).
        cross: 2 tr (C_P^1/2 C_Q C_P^1/2)^1/2.
    """

    mean: float
    trace_prior: float
    trace_variational: float
    cross: float

    @property
    def squared_distance(self) -> float:
        """W2^2. An estimate by eigenvalues may be negative by its error."""
        return self.mean + self.trace_prior + self.trace_variational - self.cross


def wasserstein_by_eigenvalues(
    prior_mean: FloatArray,
    mean: FloatArray,
    prior_diagonal: FloatArray,
    diagonal: FloatArray,
    r: FloatArray,
    k: FloatArray,
) -> WassersteinTerms:
    """Return the paper's estimate from means and diagonals [N], r(X_S, X) [N_S, N] and k(X, X_S) [N, N_S].

    Rounding can make eigenvalues of the product negative or complex. Their real parts are taken, negative ones as 0.

    Raises:
        ValueError: if shapes disagree or a value is not finite.
    """
    count, chosen = len(prior_mean), len(r)
    vectors = (prior_mean, mean, prior_diagonal, diagonal)
    if any(np.shape(v) != (count,) for v in vectors) or r.shape != (chosen, count) or k.shape != r.T.shape:
        raise ValueError(f"expected four vectors [{count}], r [N_S, {count}] and k [{count}, N_S]")
    eigenvalues = np.maximum(np.linalg.eigvals(_finite(r) @ _finite(k)).real, 0.0)
    cross = 2.0 * float(np.sum(np.sqrt(eigenvalues))) / np.sqrt(count * chosen)
    return _terms(*vectors, cross)


def wasserstein_on_points(prior_mean: FloatArray, mean: FloatArray, K: FloatArray, R: FloatArray) -> WassersteinTerms:
    """Return the exact W2^2 for rho the empirical measure of N points: means [N], kernel matrices K and R [N, N].

    Raises:
        ValueError: if shapes disagree or a value is not finite.
    """
    count = len(prior_mean)
    if np.shape(mean) != (count,) or K.shape != (count, count) or R.shape != K.shape:
        raise ValueError(f"expected m_Q [{count}], K and R [{count}, {count}]")
    # not by `root_trace`: roots of eigenvalues of a product of singular matrices keep only half of the digits
    cross = 2.0 * float(np.linalg.svd(_root(_finite(R)) @ _root(_finite(K)), compute_uv=False).sum()) / count
    return _terms(prior_mean, mean, np.diagonal(K), np.diagonal(R), cross)


def root_trace(K: FloatArray, R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return tr (K^1/2 R_j K^1/2)^1/2 = |sqrt(R_j) sqrt(K)|_* [J] and its slopes in R [J, S, S]. K is [S, S].

    With K = F F' it is tr P^1/2 for P = F' R F, which has the same non-zero eigenvalues. An eigenvalue 0 adds the root
    of its rounding, 1e-8 of the largest.

    Training uses the slope 1/2 F P^-1/2 F', which is symmetric. Eigenvalues near 0 are floored in it, since the square
    root has no slope at 0.
    """
    factor = _pivoted_cholesky(K)
    eigenvalues, vectors = np.linalg.eigh(_symmetric(factor.T @ R @ factor))
    kept = np.maximum(eigenvalues, 0.0)
    floor = RELATIVE_FLOOR * np.maximum(eigenvalues[:, -1:], np.finfo(np.float64).tiny)
    half = factor @ vectors / np.maximum(kept, floor)[:, None, :] ** 0.25
    return np.sqrt(kept).sum(axis=1), 0.5 * half @ half.transpose(0, 2, 1)


def _pivoted_cholesky(K: FloatArray) -> FloatArray:
    """Return F [S, rank] with F F' = K up to rounding. An eigendecomposition would take ten times as long."""
    lower, pivots, rank, _ = dpstrf(_finite(K), lower=1)
    factor = np.empty((len(K), rank))
    factor[pivots - 1] = np.tril(lower)[:, :rank]
    return factor


def _root(K: FloatArray) -> FloatArray:
    eigenvalues, vectors = np.linalg.eigh(_symmetric(K))
    return np.asarray((vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T)


def _symmetric(matrices: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (matrices + np.swapaxes(matrices, -1, -2)))


def _terms(
    prior_mean: FloatArray, mean: FloatArray, prior_diagonal: FloatArray, diagonal: FloatArray, cross: float
) -> WassersteinTerms:
    _finite(prior_mean), _finite(mean)
    difference = np.asarray(prior_mean) - np.asarray(mean)
    return WassersteinTerms(
        mean=float(np.mean(difference**2)),
        trace_prior=float(np.mean(_finite(prior_diagonal))),
        trace_variational=float(np.mean(_finite(diagonal))),
        cross=cross,
    )


def _finite(values: FloatArray) -> FloatArray:
    if not np.isfinite(values).all():
        raise ValueError("means and kernels must be finite")
    return values
