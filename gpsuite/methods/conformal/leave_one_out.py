"""Gaussian processes without each of some rows, in closed form.

Equation: Rasmussen & Williams 2006, Eq. (5.12)
Equation: Jaber et al. 2025
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
        alpha: (K + noise)^-1 y of the model with all rows, [N].
        changes: change to subtract from alpha when row i is left out, [N, H].
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
    def fit(cls, X: FloatArray, y: FloatArray, rows: IntArray, kernel: str, found: Hyperparameters) -> LeaveOneOut:
        """Return the models without each of some rows.

        mu_-i(x) = k(x)'(alpha - (alpha_i / C_ii) C e_i), C = (K + noise)^-1.

        Raises:
            ValueError: if shapes disagree, a value is not finite, or `rows` are not different rows.
            NotPositiveDefiniteError: if K + noise cannot be factorised.
        """
        return _solved(X, y, rows, kernel, found)[0]

    def mean(self, Xnew: FloatArray) -> FloatArray:
        """Return the prediction [B] of the model with all rows. ValueError on another shape than [B, D]."""
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


@dataclass(frozen=True, eq=False)
class LeaveOneOutSpread:
    """The models of `LeaveOneOut` with their standard deviations of a new target, noise included.

    Attributes:
        models: models without each of H rows.
        root: inverse of the factor of K + noise, [N, N].
        columns: C e_i / sqrt(C_ii), C = (K + noise)^-1, [N, H].
        noise: variance of the noise.
        scores: absolute errors of the model without row i at row i, in its deviations, [H].
    """

    models: LeaveOneOut
    root: FloatArray
    columns: FloatArray
    noise: float
    scores: FloatArray

    @classmethod
    def fit(
        cls, X: FloatArray, y: FloatArray, rows: IntArray, kernel: str, found: Hyperparameters
    ) -> LeaveOneOutSpread:
        """Return the models without each of some rows. Errors are as in `LeaveOneOut.fit`.

        sd_-i(x)^2 = k(x, x) + noise - k(x)'C k(x) + (k(x)'C e_i)^2 / C_ii, and 1 / C_ii at row i.
        """
        models, root, columns = _solved(X, y, rows, kernel, found)
        diagonal = columns[rows, np.arange(len(rows))]
        scores = models.errors * np.sqrt(diagonal)
        return cls(models, root, columns / np.sqrt(diagonal), found.noise_variance, scores)

    def deviation(self, Xnew: FloatArray) -> FloatArray:
        """Return the standard deviation [B] of the model with all rows at new inputs [B, D]."""
        k = self.models._covariance(Xnew)
        return np.asarray(np.sqrt(np.maximum(self._latent(k), 0.0) + self.noise))

    def deviations(self, Xnew: FloatArray) -> FloatArray:
        """Return sd_-i at new inputs [B, D], as [H, B]."""
        k = self.models._covariance(Xnew)
        return np.asarray(np.sqrt(np.maximum(self._latent(k)[:, None] + (k @ self.columns) ** 2, 0.0) + self.noise).T)

    def _latent(self, k: FloatArray) -> FloatArray:
        return np.asarray(self.models.variance - np.sum((k @ self.root.T) ** 2, axis=1))


def _solved(
    X: FloatArray, y: FloatArray, rows: IntArray, kernel: str, found: Hyperparameters
) -> tuple[LeaveOneOut, FloatArray, FloatArray]:
    """Return the models, the inverse of the factor of K + noise [N, N], and the columns C e_i [N, H]."""
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
    models = LeaveOneOut(X, kernel, found.variance, lengthscales, alpha, columns * weights, np.abs(weights))
    return models, root, columns
