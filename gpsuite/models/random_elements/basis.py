"""Whitened inducing features of a fixed prior kernel: what sparse kernels and kernel means are made of."""

from __future__ import annotations

from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.models.linalg import stable_cholesky

JITTER = 1e-6
"""Added to the diagonal of K_ZZ, as a share of its mean."""
_ROWS = 2000


class InducingBasis:
    """Features A(x) = L^-1 k(Z, x), K_ZZ + jitter I = L L', of a kernel whose parameters stay as they are.

    Args:
        kernel: the prior's, k.
        Z: inducing inputs [M, D].
        jitter: added to the diagonal, in units of the kernel; None: `JITTER` times the diagonal's mean.

    Raises:
        ValueError: if Z is not a finite matrix with a row.
        NotPositiveDefiniteError: if the inducing covariance cannot be factorised.
    """

    def __init__(self, kernel: gpflow.kernels.Kernel, Z: FloatArray, jitter: float | None = None) -> None:
        Z = np.array(Z, dtype=np.float64)
        if Z.ndim != 2 or 0 in Z.shape or not np.isfinite(Z).all():
            raise ValueError(f"Z must be finite, [M, D] with M >= 1, got shape {Z.shape}")
        self.kernel, self.Z = kernel, Z
        K = np.asarray(kernel(Z).numpy())
        added = JITTER * float(np.mean(np.diagonal(K))) if jitter is None else jitter
        self.factor = stable_cholesky(K + added * np.eye(len(Z))).lower
        self._inducing, self._lower = tf.constant(Z), tf.constant(self.factor)

    @property
    def size(self) -> int:
        """Number M of inducing inputs."""
        return len(self.Z)

    def features(self, X: Any) -> Any:
        """Return A(X), shape [M, N]; A'A is the prior covariance that Z explains."""
        return tf.linalg.triangular_solve(self._lower, self.kernel(self._inducing, X))

    def gram(self, X: FloatArray, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return A(X) A(X)' [M, M] and A(X) Y [M, P] for targets [N, P], in blocks of rows."""
        total, moment = np.zeros((self.size, self.size)), np.zeros((self.size, Y.shape[1]))
        for start in range(0, len(X), _ROWS):
            rows = slice(start, start + _ROWS)
            features = self.features(tf.constant(X[rows], tf.float64)).numpy()
            total += features @ features.T
            moment += features @ Y[rows]
        return total, moment

    def regression(
        self, X: FloatArray, Y: FloatArray, noise_variance: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return weights b [M, P] and whitened covariance S [M, M] of sparse regression on Y [N, P].

        S = (I + A A' / sigma^2)^-1, b = S A Y / sigma^2 (Titsias 2009 in whitened form); in the kernel's own terms
        LL' = (K_ZZ + K_ZX K_XZ / sigma^2)^-1.

        Raises:
            ValueError: if the noise variance is not positive.
        """
        if not noise_variance > 0.0:
            raise ValueError(f"noise_variance={noise_variance}: must be positive")
        gram, moment = self.gram(X, Y)
        precision = stable_cholesky(np.eye(self.size) + gram / noise_variance)
        return precision.solve(moment) / noise_variance, precision.solve(np.eye(self.size))
