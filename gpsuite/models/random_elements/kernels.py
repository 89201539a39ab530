"""Variational kernels r_j of C independent Gaussian measures: sparse ones around the prior, and wide networks'."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.nngp import NNGP
from gpsuite.models.random_elements.basis import InducingBasis

SMALLEST_SHARE = 1e-10
"""Variances are kept above this share of the prior's: below it the difference is rounding."""


class VariationalKernel(Protocol):
    """What a Gaussian measure asks of its kernel."""

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        ...

    def evaluate(self, X: Any, features: Any, chosen: int) -> tuple[Any, Any]:
        """Return r_j(x, x) [N, C] and r_j over the first `chosen` rows [C, S, S].

        Args:
            X: inputs [N, D].
            features: A(X) of the measure's basis [M, N]; None if there is no basis.
            chosen: S, at most N; 0 where only the variances are needed.
        """
        ...


class SparseKernel:
    """r(x, x') = k(x, x') - k_xZ K_ZZ^-1 k_Zx' + k_xZ L L' k_Zx', whitened: k - A'A + A'B B'A with B lower triangular.

    L = L_Z^-T B for K_ZZ = L_Z L_Z'.

    Args:
        basis: kernel and inducing inputs.
        factors: lower triangular B to start from [C, M, M].

    Raises:
        ValueError: if the factors' shape does not fit.
    """

    def __init__(self, basis: InducingBasis, factors: FloatArray) -> None:
        if factors.ndim != 3 or factors.shape[1:] != (basis.size, basis.size):
            raise ValueError(f"factors [C, {basis.size}, {basis.size}] are needed, got {factors.shape}")
        self.basis = basis
        self.factors = tf.Variable(np.tril(factors), dtype=tf.float64)

    @classmethod
    def from_covariance(cls, basis: InducingBasis, covariance: FloatArray, classes: int) -> SparseKernel:
        """Build from one whitened covariance S = B B' [M, M] for every class."""
        lower = stable_cholesky(covariance).lower
        return cls(basis, np.broadcast_to(lower, (classes, *lower.shape)))

    @classmethod
    def from_plain(cls, basis: InducingBasis, factors: FloatArray) -> SparseKernel:
        """Build from L [C, M, M] of r = k - k_xZ K_ZZ^-1 k_Zx' + k_xZ L L' k_Zx'."""
        whitened = basis.factor.T @ factors
        # W' = QR: R' is lower triangular with R'R = WW', where L is singular too
        triangles = np.asarray(np.linalg.qr(whitened.transpose(0, 2, 1), mode="r"))
        return cls(basis, triangles.transpose(0, 2, 1))

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        return [self.factors]

    def evaluate(self, X: Any, features: Any, chosen: int) -> tuple[Any, Any]:
        """Return r_j(x, x) [N, C] and r_j over the first `chosen` rows [C, S, S]; see `VariationalKernel`."""
        prior = self.basis.kernel(X, full_cov=False)
        left_over = tf.maximum(prior - tf.reduce_sum(features * features, axis=0), SMALLEST_SHARE * prior)
        # B'A of every class, [C, M, N]
        rotated = tf.matmul(tf.linalg.band_part(self.factors, -1, 0), features[None], transpose_a=True)
        variance = left_over[:, None] + tf.transpose(tf.reduce_sum(rotated * rotated, axis=1))
        few, few_rotated = features[:, :chosen], rotated[:, :, :chosen]
        base = self.basis.kernel(X[:chosen]) - tf.matmul(few, few, transpose_a=True)
        return variance, base[None] + tf.matmul(few_rotated, few_rotated, transpose_a=True)


class NetworkKernel:
    """r_j = an infinitely wide network's kernel, its variances and scale trained for each class.

    Args:
        kernels: one for each class; their parameters are trained.

    Raises:
        ValueError: if there is none.
    """

    def __init__(self, kernels: list[NNGP]) -> None:
        if not kernels:
            raise ValueError("at least one kernel is needed")
        self.kernels = kernels

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        return [p.unconstrained_variable for kernel in self.kernels for p in kernel.trainable_parameters]

    def evaluate(self, X: Any, features: Any, chosen: int) -> tuple[Any, Any]:
        """Return r_j(x, x) [N, C] and r_j over the first `chosen` rows [C, S, S]; see `VariationalKernel`."""
        variance = tf.stack([kernel(X, full_cov=False) for kernel in self.kernels], axis=1)
        return variance, tf.stack([kernel(X[:chosen]) for kernel in self.kernels])
