"""Sparse multi-output regression: the optimal variational posterior mean for given hyperparameters.

See Titsias 2009, Eq. (6). Each of M (input, output) pairs has an inducing variable. The outputs share these through the
covariance of the multi-output model. Every output has its own noise.

Equation: Titsias 2009, Eq. (6)
Equation: Li et al. 2022, Eq. (5), Eq. (6)
Equation: derived, predictions of the pool by one more row
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations

INDUCING_BLOCK = 1000  # number of observations or inputs with covariances with the inducing pairs held at once
LOG_2PI = math.log(2.0 * math.pi)
# Numbers per block of work: a block and its results fit in a core's cache.
BLOCK = 120_000
# Numbers per group of hyperparameter vectors. A model computes the shared parts of a group at once.
GROUP = 8 * BLOCK


class SparseMultiOutput:
    """Posterior mean of all outputs at one u [d], by inducing pairs of inputs Z [M, D] and outputs p [M].

    Raises:
        NotPositiveDefiniteError: if the covariance of the inducing variables cannot be factorised.
    """

    def __init__(
        self, model: MultiOutputModel, u: FloatArray, observations: Observations, Z: FloatArray, p: IntArray
    ) -> None:
        self._model, self._u, self._Z, self._p = model, u[None], Z, p
        lower = stable_cholesky(model.covariance(self._u, Z, p, Z, p)[0]).lower
        precision = 1.0 / model.noise(self._u)[0]
        inner, right = np.eye(len(Z)), np.zeros(len(Z))
        for begin in range(0, len(observations), INDUCING_BLOCK):
            part = slice(begin, begin + INDUCING_BLOCK)
            own = observations.p[part]
            cross = model.covariance(self._u, Z, p, observations.X[part], own)[0]
            half = solve_triangular(lower, cross, lower=True)  # L^-1 K_uf
            inner += (half * precision[own]) @ half.T
            right += half @ (precision[own] * observations.y[part])
        weights = stable_cholesky(inner).solve(right)
        self._weights: FloatArray = solve_triangular(lower.T, weights, lower=False)

    def mean(self, X: FloatArray) -> FloatArray:
        """Return the posterior mean of every output, [n, P]."""
        blocks = [
            self._model.cross_covariance(self._u, self._Z, self._p, X[begin : begin + INDUCING_BLOCK])[0]
            for begin in range(0, len(X), INDUCING_BLOCK)
        ]
        return np.vstack([np.tensordot(self._weights, block, axes=1) for block in blocks])


# Predictions at a fixed pool of inputs for many hyperparameter vectors, kept up to date as observations
# arrive.
#
# Let K be the covariance of the N observations and L Lᵀ = K + noise its factorisation. V = L⁻¹ K(X, pool) and w = L⁻¹ y
# give the posterior of the noise-free f at the pool: mean Vᵀ w, covariance k(x, x) − Vᵀ V. A further observation adds
# one row to L, w and V. The other rows do not change. So it takes O(N · pool) in place of O(N² · pool) operations. The
# new row is the exact block Cholesky step of Rasmussen and Williams (2006), A.3.
class PoolPredictions:
    """Posterior of the noise-free outputs at a pool of inputs, one for each of S hyperparameter vectors.

    The buffers are allocated once. `recompute` and `extend` write into them, also into `mean`, `variance` and
    `covariance`. Copy arrays that are needed after the next change.

    Args:
        capacity: largest N. V takes 8 S capacity n P bytes. None keeps no V: the predictions can be recomputed, not
            extended.
        covariances: whether to keep the covariances between the outputs at each input.
        dtype: type of V. With float32 it needs half the memory and extensions of large pools are about 1.5 times as
            fast. The error of the mean (variance) is about 1e-6 of the prior standard deviation (variance).

    Attributes:
        mean: posterior means [S, n, P].
        variance: posterior variances of the noise-free f, [S, n, P].
        covariance: posterior covariances between the outputs at each input, [S, n, P, P], or None.
        jitter: numbers added to the diagonal of each covariance of the observations to factorise it, [S], 0 if none is
            needed.

    Raises:
        ValueError: if there are more observations than the capacity, or none.
        NotPositiveDefiniteError: if a covariance of the observations cannot be factorised.
    """

    def __init__(
        self,
        model: MultiOutputModel,
        u: FloatArray,
        observations: Observations,
        X_pool: FloatArray,
        *,
        capacity: int | None = None,
        covariances: bool = False,
        dtype: type[np.floating[Any]] = np.float64,
    ) -> None:
        self.model = model
        self.X_pool = X_pool
        self.capacity = capacity
        S, n, P, kept = len(u), len(X_pool), model.n_outputs, capacity or 0
        self.mean = np.empty((S, n, P))
        self.covariance = np.empty((S, n, P, P)) if covariances else None
        # Both share memory: the variances are the diagonals.
        self.variance = np.empty((S, n, P)) if self.covariance is None else np.einsum("snpp->snp", self.covariance)
        # filled, so all its memory is allocated now and not later, row by row
        self._V = np.full((S, kept, n * P), 0.0, dtype=dtype)
        self._lower = np.zeros((S, kept, kept))
        self._whitened = np.empty((S, kept))
        self.jitter = np.zeros(S)
        self.recompute(u, observations)

    def recompute(self, u: FloatArray, observations: Observations) -> None:
        """Update the predictions in place, given the observations and new hyperparameters u [S, d].

        Raises:
            ValueError: on another number of hyperparameter vectors, too many observations or none.
            NotPositiveDefiniteError: if a covariance of the observations cannot be factorised.
        """
        N, n = len(observations), len(self.X_pool)
        if len(u) != len(self.mean):
            raise ValueError(f"{len(u)} hyperparameter vectors for buffers of {len(self.mean)}")
        if N == 0:
            raise ValueError("at least one observation is needed")
        if self.capacity is not None:
            self._require_room(N)
        self.u, self.observations = u, observations
        per_input = N * self.model.n_outputs
        width = min(n, max(1, BLOCK // per_input))
        for members in _blocks(len(u), GROUP // (per_input * width)):
            lower, whitened = self._factorise(members)
            for columns in _blocks(n, width):
                self._solve(members, columns, lower, whitened)

    def extend(self, X: FloatArray, p: IntArray, y: FloatArray) -> FloatArray:
        """Update the predictions in place by further values [m] of outputs p [m] at inputs X [m, D], one or a few.

        Returns:
            log N(y | mean, covariance + noise), the joint log density of the values as predicted without them, [S].

        Raises:
            ValueError: if the capacity does not suffice or a value is not finite.
            LinAlgError: if the predictive covariance of the values is not positive definite. Then nothing has changed.
        """
        seen, N, m = self.observations, len(self.observations), len(y)
        self._require_room(N + m)
        longer = seen.extended(X, p, y)
        if not m:
            return np.zeros(len(self.u))
        # L's new rows are [half, factor]: half is k(new, X) L⁻ᵀ, factor is the factor of the remainder of k(new, new).
        half = self.model.covariance(self.u, X, p, seen.X, seen.p)
        for lower, right in zip(self._lower, half, strict=True):
            right[:] = lapack.dtrtrs(lower[:N, :N].T, right.T, lower=0, trans=1)[0].T
        left = self.model.covariance(self.u, X, p, X, p) - half @ half.swapaxes(1, 2)
        left[:, range(m), range(m)] += self.model.noise(self.u)[:, p]
        factor = np.linalg.cholesky(left)
        missed = y - np.einsum("smn,sn->sm", half, self._whitened[:, :N])
        whitened = np.linalg.solve(factor, missed[:, :, None])[:, :, 0]
        self._lower[:, N : N + m, :N] = half
        self._lower[:, N : N + m, N : N + m] = factor
        self._whitened[:, N : N + m] = whitened
        for members in _blocks(len(self.u), BLOCK // self.mean[0].size):
            self._add_rows(members, X, p)
        self.observations = longer
        log_determinants = 2.0 * np.log(np.einsum("sii->si", factor)).sum(axis=1)
        return np.asarray(-0.5 * ((whitened**2).sum(axis=1) + log_determinants + m * LOG_2PI))

    def select(self, particles: IntArray) -> None:
        """Replace the hyperparameter vectors by those with these indices [S], as in resampling without a move."""
        self.u = self.u[particles]
        # If covariances are kept, the variances are part of them.
        spread = self.variance if self.covariance is None else self.covariance
        for buffer in (self.mean, spread, self.jitter, self._lower, self._whitened):
            buffer[:] = buffer[particles]
        for row in range(self._V.shape[1]):  # row by row: the temporary copy stays small
            self._V[:, row] = self._V[particles, row]

    def _require_room(self, N: int) -> None:
        if self.capacity is None:
            raise ValueError("predictions without a capacity cannot be extended")
        if self.capacity < N:
            raise ValueError(f"{N} observations exceed the capacity {self.capacity}")

    def _factorise(self, members: slice) -> tuple[list[FloatArray], FloatArray]:
        """Return the members' Cholesky factors, [N, N] each, and L⁻¹ y [members, N]. Keep them if there is room."""
        seen, u, N = self.observations, self.u[members], len(self.observations)
        K = self.model.covariance(u, seen.X, seen.p, seen.X, seen.p)
        K[:, range(N), range(N)] += self.model.noise(u)[:, seen.p]
        factors = [stable_cholesky(matrix) for matrix in K]
        self.jitter[members] = [factor.jitter for factor in factors]
        lower = [factor.lower for factor in factors]
        whitened = np.stack([factor.half_solve(seen.y) for factor in factors])
        if self.capacity is not None:
            self._lower[members, :N, :N] = lower
            self._whitened[members, :N] = whitened
        return lower, whitened

    def _solve(self, members: slice, columns: slice, lower: list[FloatArray], whitened: FloatArray) -> None:
        """Compute V, mean and (co)variance of some members at some inputs of the pool."""
        u, seen, N, P = self.u[members], self.observations, len(self.observations), self.model.n_outputs
        prior = self.model.prior_covariance(u)
        K = self.model.cross_covariance(u, seen.X, seen.p, self.X_pool[columns])
        flat_columns = slice(columns.start * P, columns.stop * P)
        for i, s in enumerate(range(members.start, members.stop)):
            # V = L⁻¹ K as Vᵀ = Kᵀ L⁻ᵀ: a transposed view has BLAS's order, and the solve happens in place.
            right = K[i].reshape(N, -1).T
            V = blas.dtrsm(1.0, lower[i], right, side=1, lower=1, trans_a=1, overwrite_b=1).T
            if self.capacity is not None:
                self._V[s, :N, flat_columns] = V
            self.mean[s, columns] = (whitened[i] @ V).reshape(-1, P)
            if self.covariance is None:
                explained = np.einsum("im,im->m", V, V).reshape(-1, P)
                self.variance[s, columns] = prior[i].diagonal() - explained
            else:
                self.covariance[s, columns] = prior[i] - _sum_of_outer_products(V.reshape(N, -1, P))

    def _add_rows(self, members: slice, X: FloatArray, p: IntArray) -> None:
        """Append the rows of V of new observations and update some members. Their rows of L and w must exist."""
        N, m = len(self.observations), len(p)
        u, V = self.u[members], self._V[members]
        half, factor = self._lower[members, N : N + m, :N], self._lower[members, N : N + m, N : N + m]
        K = self.model.cross_covariance(u, X, p, self.X_pool)
        rows = K.reshape(len(u), m, -1)
        rows -= half.astype(V.dtype) @ V[:, :N]
        for j in range(m):  # forward substitution: rows become factor⁻¹ rows
            for i in range(j):
                rows[:, j] -= factor[:, j, i, None] * rows[:, i]
            rows[:, j] /= factor[:, j, j, None]
            row = rows[:, j].reshape(K[:, j].shape)
            self.mean[members] += self._whitened[members, N + j, None, None] * row
            if self.covariance is None:
                self.variance[members] -= row**2
            else:
                self.covariance[members] -= row[..., :, None] * row[..., None, :]
        V[:, N : N + m] = rows


def _blocks(total: int, size: int) -> Iterator[slice]:
    size = max(1, size)
    for start in range(0, total, size):
        yield slice(start, min(start + size, total))


def _sum_of_outer_products(rows: FloatArray) -> FloatArray:
    """Return sum over i of rows_inp rows_inq, [n, P, P], by pairs of outputs: several times faster than all at once."""
    n, P = rows.shape[1:]
    total = np.empty((n, P, P))
    for p in range(P):
        for q in range(p + 1):
            total[:, p, q] = total[:, q, p] = np.einsum("in,in->n", rows[:, :, p], rows[:, :, q])
    return total
