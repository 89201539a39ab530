"""Predictions of a Gaussian process without one of its rows, for many rows at once, in closed form.

Equation: Rasmussen & Williams 2006, Eq. (5.12)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.radial import expanded, kappa, squared_distances


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Exact GPs with fixed hyperparameters, one without each of H rows.

    Attributes:
        X: training inputs [N, D].
        kernel: name in `gpsuite.models.config.KERNEL_NAMES`.
        variance: of the kernel.
        lengthscales: [D].
        alpha: (K + noise)^-1 y, of the model with all rows, [N].
        changes: what leaving row i out takes from alpha, [N, H].
        errors: absolute errors of the model without row i at row i, [H].
    """

    X: FloatArray
    kernel: str
    variance: float
    lengthscales: FloatArray
    alpha: FloatArray
    changes: FloatArray
    errors: FloatArray

    @classmethod
    def fit(
        cls, X: FloatArray, y: FloatArray, rows: IntArray, kernel: str, found: Hyperparameters
    ) -> LeaveOneOut:
        """Compute the models without each of some rows.

        mu_-i(x) = k(x)'(alpha - (alpha_i / C_ii) C e_i), C = (K + noise)^-1.

        Args:
            X: inputs [N, D].
            y: targets [N].
            rows: numbers [H] of the rows that are left out, one at a time.
            kernel: its name.
            found: hyperparameters, chosen without these rows.

        Raises:
            ValueError: if shapes disagree, a value is not finite, or `rows` are not different rows.
            NotPositiveDefiniteError: if K + noise cannot be factorised.
        """
        X, y, rows = np.array(X, dtype=np.float64), np.asarray(y, dtype=np.float64), np.asarray(rows)
        if X.ndim != 2 or y.shape != X.shape[:1] or not (np.isfinite(X).all() and np.isfinite(y).all()):
            raise ValueError(f"finite inputs [N, D] and targets [N] are needed, got {X.shape} and {y.shape}")
        known = rows.ndim == 1 and rows.dtype.kind in "iu" and len(np.unique(rows)) == len(rows)
        if not known or rows.min(initial=0) < 0 or rows.max(initial=0) >= len(X):
            raise ValueError(f"rows: different numbers from 0 to {len(X) - 1} are needed, got {rows}")
        lengthscales = np.asarray(expanded(found.lengthscales, X.shape[1]))
        scaled = X / lengthscales
        K = found.variance * kappa(kernel, squared_distances(scaled, scaled))
        root = np.linalg.inv(stable_cholesky(K + found.noise_variance * np.eye(len(X))).lower)
        alpha, columns = root.T @ (root @ y), root.T @ root[:, rows]
        diagonal = columns[rows, np.arange(len(rows))]
        weights = alpha[rows] / diagonal
        return cls(X, kernel, found.variance, lengthscales, alpha, columns * weights, np.abs(weights))

    def mean(self, Xnew: FloatArray) -> FloatArray:
        """Return the prediction [B] of the model with all rows, at new inputs [B, D].

        Raises:
            ValueError: if they have another shape; likewise below.
        """
        return np.asarray(self._covariance(Xnew) @ self.alpha)

    def predictions(self, Xnew: FloatArray) -> FloatArray:
        """Return mu_-i at new inputs [B, D], as [H, B]."""
        k = self._covariance(Xnew)
        return np.asarray((k @ self.alpha)[None] - (k @ self.changes).T)

    def _covariance(self, Xnew: FloatArray) -> FloatArray:
        Xnew = np.asarray(Xnew, dtype=np.float64)
        if Xnew.ndim != 2 or Xnew.shape[1] != self.X.shape[1]:
            raise ValueError(f"inputs [B, {self.X.shape[1]}] are needed, got {Xnew.shape}")
        q = squared_distances(Xnew / self.lengthscales, self.X / self.lengthscales)
        return np.asarray(self.variance * kappa(self.kernel, q))
