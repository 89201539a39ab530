"""Gaussian latent posterior in the form that prediction and certification need, of classifiers and regressions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.kernel_posterior import KernelPosterior
from gpsuite.models.radial import kappa, kappa_and_slope, squared_distances

SMALLEST_VARIANCE = float(np.finfo(np.float64).eps)
"""Latent variances are kept above this share of the prior's: below it the difference is rounding."""


@dataclass(frozen=True, eq=False)
class LatentPosterior(KernelPosterior):
    """Gaussian latent posterior f(x) ~ N(mu(x), Sigma(x)).

    With k_i = s kappa(|(x - X_i) / l|): mu = k' alpha and Sigma = s + sum_k c_k (F k)_k^2.

    Attributes:
        X: training or inducing inputs, shape [N, D].
        kernel: name in `gpsuite.models.config.KERNEL_NAMES`.
        variance: s, prior variance of the latent function.
        lengthscales: l, shape [D], positive, in units of X (one per input also without ARD).
        alpha: weights of the mean, shape [N].
        root: F, shape [r, N]; for Laplace and EP (K + W^-1)^-1 = F'F, for exact regression (K + noise)^-1.
        weights: c, shape [r]; -1 for Laplace, EP and exact regression, eigenvalues of the whitened covariance minus 1
            for variational posteriors.
        operator_bound: g with Sigma <= g s everywhere: 1 for Laplace and EP, else max(1, largest eigenvalue).

    Raises:
        UserError, ValueError: as `KernelPosterior`.
    """

    def _shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        return {"alpha": (len(self.X),), "root": (rank, len(self.X))}

    def latent(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean [B] and the variance [B] of the latent function.

        The variance is clipped to [`SMALLEST_VARIANCE` s, g s], which only removes rounding.

        Args:
            Xnew: inputs, shape [B, D].

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        scaled = self._scaled(Xnew)
        mean, variance = np.empty(len(scaled)), np.empty(len(scaled))
        for part in self._parts(len(scaled), max(self.root.shape)):
            k = self.variance * kappa(self.kernel, squared_distances(scaled[part], self._inputs))
            mean[part] = k @ self.alpha
            features = k @ self.root.T
            variance[part] = self._clipped(np.square(features, out=features) @ self.weights)
        return mean, variance

    def latent_with_gradient(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return mean [B], variance [B] and their gradients in the inputs, [B, D] each.

        Where the variance is clipped its gradient is that of the unclipped function.

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        scaled = self._scaled(Xnew)
        mean, variance = np.empty(len(scaled)), np.empty(len(scaled))
        d_mean, d_variance = np.empty(scaled.shape), np.empty(scaled.shape)
        for part in self._parts(len(scaled), max(self.root.shape)):
            k, slope = kappa_and_slope(self.kernel, squared_distances(scaled[part], self._inputs))
            k, slope = self.variance * k, self.variance * slope
            features = k @ self.root.T
            mean[part] = k @ self.alpha
            variance[part] = self._clipped(np.square(features) @ self.weights)
            outer = (features * (2.0 * self.weights)) @ self.root
            d_mean[part] = self._pulled_back(slope * self.alpha, scaled[part])
            d_variance[part] = self._pulled_back(slope * outer, scaled[part])
        return mean, variance, d_mean, d_variance

    def _clipped(self, reduction: FloatArray) -> FloatArray:
        low, high = SMALLEST_VARIANCE * self.variance, self.operator_bound * self.variance
        return np.clip(self.variance + reduction, low, high)

    def _pulled_back(self, weights: FloatArray, scaled: FloatArray) -> FloatArray:
        """Return sum_i w_bi d(kappa_i)/dx_b / slope_i: -sum_i w_bi (u_b - U_i) / l, shape [B, D]."""
        moved = weights @ self._inputs - weights.sum(axis=1)[:, None] * scaled
        return np.asarray(moved / self.lengthscales)
