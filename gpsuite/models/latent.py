"""Common part of Gaussian latent posteriors: kernel, inputs, weights of means and of covariances."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.errors import unknown_name
from gpsuite.models.composite import CompositeKernel, single_kernel
from gpsuite.models.config import KERNEL_NAMES
from gpsuite.models.radial import kappa, kappa_and_slope, squared_distances

# Entries of the largest temporary matrix of a prediction (32 MB).
_BLOCK = 1 << 22
# Latent variances are at least this share of the prior's: smaller differences are rounding.
SMALLEST_VARIANCE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class KernelPosterior(ABC):
    """Parameters of a latent posterior: means are linear, covariances quadratic in k_i = s kappa(|(x - X_i) / l|).

    Attributes:
        variance: s, prior variance of a latent function.
        lengthscales: l, shape [D], positive, in units of X (one per input also without ARD).
        alpha: weights of the means, [..., N].
        root: F, shape [R, ..., N], features of the covariances.
        weights: weights of the features, shape [R].
        operator_bound: g >= 1 with no variance above g s.

    Raises:
        UserError: if the kernel is unknown.
        ValueError: if shapes do not fit or a value is not finite or not in its range.
    """

    X: FloatArray
    kernel: str | CompositeKernel
    variance: float
    lengthscales: FloatArray
    alpha: FloatArray
    root: FloatArray
    weights: FloatArray
    operator_bound: float

    takes_composite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # bounds account for float64 rounding. Values in a narrower type are kept exactly
        for name in ("X", "lengthscales", "alpha", "root", "weights"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        object.__setattr__(self, "variance", float(self.variance))
        if not self.takes_composite:
            single_kernel(self.kernel, "a classifier of several classes")
        if isinstance(self.kernel, str) and self.kernel not in KERNEL_NAMES:
            raise unknown_name("kernel", self.kernel, KERNEL_NAMES)
        if self.X.ndim != 2 or 0 in self.X.shape:
            raise ValueError(f"inputs [N, D] are needed, got shape {self.X.shape}")
        rank = len(self.weights) if self.weights.ndim == 1 else -1
        for name, wanted in {"lengthscales": self.X.shape[1:], **self._shapes(rank)}.items():
            if getattr(self, name).shape != wanted:
                raise ValueError(f"{name}: shape {getattr(self, name).shape}, expected {wanted}")
        for name in ("X", "lengthscales", "alpha", "root", "weights"):
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} has non-finite values")
        if not (math.isfinite(self.variance) and self.variance > 0.0 and (self.lengthscales > 0.0).all()):
            raise ValueError("variance and lengthscales must be positive")
        if not (math.isfinite(self.operator_bound) and self.operator_bound >= 1.0):
            raise ValueError(f"operator_bound={self.operator_bound}: must be at least 1")

    @abstractmethod
    def _shapes(self, rank: int) -> Mapping[str, tuple[int, ...]]: ...

    @cached_property
    def _centre(self) -> FloatArray:
        return np.asarray(self.X.mean(axis=0))

    @cached_property
    def _inputs(self) -> FloatArray:
        return (self.X - self._centre) / self.lengthscales

    def _scaled(self, Xnew: FloatArray) -> FloatArray:
        Xnew = np.asarray(Xnew, dtype=np.float64)
        if Xnew.ndim != 2 or Xnew.shape[1] != self.X.shape[1] or not np.isfinite(Xnew).all():
            raise ValueError(f"finite inputs [B, {self.X.shape[1]}] are needed, got shape {Xnew.shape}")
        return (Xnew - self._centre) / self.lengthscales

    @staticmethod
    def _parts(count: int, width: int) -> list[slice]:
        """Return slices of `count` rows. A slice's matrix of this width has at most `_BLOCK` entries."""
        rows = max(1, _BLOCK // max(1, width))
        return [slice(start, start + rows) for start in range(0, count, rows)]


@dataclass(frozen=True, eq=False)
class LatentPosterior(KernelPosterior):
    """Gaussian latent posterior f(x) ~ N(mu(x), Sigma(x)).

    With k_i = s kappa(|(x - X_i) / l|): mu = k' alpha and Sigma = s + sum_k c_k (F k)_k^2.

    Attributes:
        alpha: weights of the mean, shape [N].
        root: F, shape [r, N]. For Laplace and EP (K + W^-1)^-1 = F'F, for exact regression (K + noise)^-1.
        weights: c, shape [r], -1 for Laplace, EP and exact regression, eigenvalues of the whitened covariance minus 1
            for variational posteriors.
        operator_bound: g with Sigma <= g s everywhere: 1 for Laplace and EP, otherwise max(1, largest eigenvalue).

    Raises:
        UserError, ValueError: as `KernelPosterior`.
    """

    takes_composite: ClassVar[bool] = True

    def _shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        return {"alpha": (len(self.X),), "root": (rank, len(self.X))}

    def latent(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean [B] and the variance [B] of the latent function.

        The variance is clipped to [`SMALLEST_VARIANCE` s, g s], which only removes rounding.

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        scaled = self._scaled(Xnew)
        mean, variance = np.empty(len(scaled)), np.empty(len(scaled))
        for part in self._parts(len(scaled), max(self.root.shape)):
            k = self.variance * self._kappa(scaled[part])
            mean[part] = k @ self.alpha
            features = k @ self.root.T
            variance[part] = self._clipped(np.square(features, out=features) @ self.weights)
        return mean, variance

    def latent_with_gradient(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return mean [B], variance [B] and their gradients in the inputs, [B, D] each.

        If the variance is clipped, its gradient is that of the unclipped function.

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        scaled = self._scaled(Xnew)
        mean, variance = np.empty(len(scaled)), np.empty(len(scaled))
        d_mean, d_variance = np.empty(scaled.shape), np.empty(scaled.shape)
        for part in self._parts(len(scaled), max(self.root.shape)):
            k, slopes = self._kappa_and_slopes(scaled[part])
            k = self.variance * k
            features = k @ self.root.T
            mean[part] = k @ self.alpha
            variance[part] = self._clipped(np.square(features) @ self.weights)
            outer = (features * (2.0 * self.weights)) @ self.root
            d_mean[part] = self._pulled_back(slopes, self.alpha, scaled[part])
            d_variance[part] = self._pulled_back(slopes, outer, scaled[part])
        return mean, variance, d_mean, d_variance

    def _kappa(self, scaled: FloatArray) -> FloatArray:
        if isinstance(self.kernel, CompositeKernel):
            return self.kernel.values_and_slopes(scaled, self._inputs)[0]
        return kappa(self.kernel, squared_distances(scaled, self._inputs))

    def _kappa_and_slopes(self, scaled: FloatArray) -> tuple[FloatArray, list[tuple[FloatArray | float, FloatArray]]]:
        """Return kappa and (a, slope) with dkappa_i / du_j = - sum a_j slope_i (u_j - U_ij)."""
        if isinstance(self.kernel, CompositeKernel):
            value, slopes = self.kernel.values_and_slopes(scaled, self._inputs)
            return value, [*slopes]
        k, slope = kappa_and_slope(self.kernel, squared_distances(scaled, self._inputs))
        return k, [(1.0, slope)]

    def _clipped(self, reduction: FloatArray) -> FloatArray:
        low, high = SMALLEST_VARIANCE * self.variance, self.operator_bound * self.variance
        return np.clip(self.variance + reduction, low, high)

    def _pulled_back(
        self, slopes: list[tuple[FloatArray | float, FloatArray]], weights: FloatArray, scaled: FloatArray
    ) -> FloatArray:
        """Return the gradient of s sum_i w_bi kappa_i: -s sum a_j w_bi slope_bi (u_bj - U_ij) / l_j, shape [B, D]."""
        moved = np.zeros(scaled.shape)
        for rates, slope in slopes:
            own = self.variance * slope * weights
            moved += rates * (own @ self._inputs - own.sum(axis=1)[:, None] * scaled)
        return np.asarray(moved / self.lengthscales)
