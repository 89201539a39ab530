"""Sparse multi-output regression: the optimal variational posterior mean for given hyperparameters.

Titsias 2009, Eq. (6), with an inducing variable for each of M (input, output) pairs: the outputs share them through the
covariance of the multi-output model, and every output has its own noise.

Equation: Titsias 2009, Eq. (6)
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.multi_output.observations import MultiOutputModel, Observations

BLOCK = 1000  # observations, or inputs, whose covariances with the inducing pairs are held at once


class SparseMultiOutput:
    """Posterior mean of all outputs from any number of observations, in O(N M^2) time and O(M^2) memory.

    Args:
        model: of P outputs.
        u: one vector of unconstrained hyperparameters [d].
        observations: what to condition on.
        Z: inputs of the inducing pairs [M, D].
        p: their outputs [M].

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
        for begin in range(0, len(observations), BLOCK):
            part = slice(begin, begin + BLOCK)
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
            self._model.cross_covariance(self._u, self._Z, self._p, X[begin : begin + BLOCK])[0]
            for begin in range(0, len(X), BLOCK)
        ]
        return np.vstack([np.tensordot(self._weights, block, axes=1) for block in blocks])
