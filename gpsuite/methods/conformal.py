"""Intervals from the sizes of errors on rows that a model was not trained on.

Equation: Vovk et al. 2005, Prop. 4.1
Equation: Barber et al. 2021, Theorem 1
Equation: Rasmussen & Williams 2006, Eq. (5.12)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import stable_cholesky
from gpsuite.models.radial import expanded, kappa, squared_distances

__all__ = ["LeaveOneOut", "jackknife_bounded", "jackknife_plus", "split_radius"]


def split_radius(errors: FloatArray, coverage: float) -> float:
    """Return r such that a new target is within r of its prediction with this probability or more.

    The ceil((n + 1) coverage)-th smallest error; infinite where n rows are too few for the coverage.

    Args:
        errors: absolute errors [n] on rows that the model was not trained on.
        coverage: in (0, 1), over the rows and the new one together.

    Raises:
        ValueError: if there are no errors, one is not a number, or the coverage is outside (0, 1).
    """
    ordered = np.sort(_checked(errors, coverage))
    rank = math.ceil((len(ordered) + 1) * _exact(coverage))
    return float(ordered[rank - 1]) if rank <= len(ordered) else math.inf


def jackknife_plus(errors: FloatArray, predictions: FloatArray, coverage: float) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends [B] of intervals that hold a new target with this probability or more.

    With a = (1 - coverage) / 2: the floor(a (n + 1))-th smallest of mu_-i(x) - R_i and the
    ceil((1 - a)(n + 1))-th smallest of mu_-i(x) + R_i; in practice they hold 1 - a of the targets.

    Args:
        errors: R_i, absolute leave-one-out errors [n]; infinite of a row that is to count as lost.
        predictions: mu_-i(x), of the models without row i at the new inputs, [n, B].

    Raises:
        ValueError: if the shapes disagree, an error is not a number or a prediction not finite, or the coverage is
            outside (0, 1).
    """
    R = _checked(errors, coverage)
    if predictions.ndim != 2 or len(predictions) != len(R) or not np.isfinite(predictions).all():
        raise ValueError(f"predictions [{len(R)}, B] are needed, got {predictions.shape}")
    n = len(R)
    if not jackknife_bounded(n, coverage):
        width = predictions.shape[1]
        return np.full(width, -np.inf), np.full(width, np.inf)
    a = (1 - _exact(coverage)) / 2
    low, high = math.floor(a * (n + 1)), math.ceil((1 - a) * (n + 1))
    lower = np.sort(predictions - R[:, None], axis=0)[low - 1]
    return lower, np.sort(predictions + R[:, None], axis=0)[high - 1]


def jackknife_bounded(n: int, coverage: float, lost: int = 0) -> bool:
    """Return whether jackknife+ intervals of n rows have finite ends, with `lost` errors counted as infinite."""
    return math.floor((1 - _exact(coverage)) / 2 * (n + 1)) > lost


def _exact(coverage: float) -> Fraction:
    """Return the coverage as it is written: 0.9 (n + 1) must not round up to the next rank."""
    return Fraction(repr(float(coverage)))


def _checked(errors: FloatArray, coverage: float) -> FloatArray:
    values = np.asarray(errors, dtype=np.float64)
    if values.ndim != 1 or not len(values) or np.isnan(values).any() or (values < 0.0).any():
        raise ValueError("errors must be numbers of 0 or more, [n] with n >= 1")
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must lie in (0, 1), got {coverage!r}")
    return values


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Exact GPs with fixed hyperparameters, one without each of H rows.

    Attributes:
        X: training inputs [N, D].
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
    def fit(cls, X: FloatArray, y: FloatArray, rows: IntArray, kernel: str, found: Hyperparameters) -> LeaveOneOut:
        """Compute the models without each of some rows.

        mu_-i(x) = k(x)'(alpha - (alpha_i / C_ii) C e_i), C = (K + noise)^-1.

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
        """Return the prediction [B] of the model with all rows; ValueError on another shape than [B, D]."""
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
