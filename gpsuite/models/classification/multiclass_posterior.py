"""Posterior of a softmax Gaussian process classifier in the form that prediction and certification need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.models.classification.softmax_expectation import (
    SoftmaxMoments,
    centred_root,
    softmax_moments,
)
from gpsuite.models.kernel_posterior import KernelPosterior
from gpsuite.models.radial import kappa, kappa_and_slope, squared_distances


@dataclass(frozen=True, eq=False)
class MultiClassPosterior(KernelPosterior):
    """Latent posterior f(x) ~ N(m(x), S(x)) of C functions with one kernel; class probabilities by the softmax.

    With k_i = s kappa(|(x - X_i) / l|): m_c = k' alpha_c and S_cj = s delta_cj + sum_r w_r (F_rc k)(F_rj k).

    Attributes:
        X: training or inducing inputs, shape [N, D].
        kernel: name in `gpsuite.models.config.KERNEL_NAMES`.
        variance: s, prior variance of every latent function.
        lengthscales: l, shape [D], positive, in units of X.
        alpha: weights of the means, shape [C, N].
        root: F, shape [R, C, N].
        weights: w, shape [R]; -1 for Laplace, eigenvalues minus 1 for variational posteriors.
        operator_bound: g with S <= g s I everywhere: 1 for Laplace.

    Raises:
        UserError, ValueError: as `KernelPosterior`; ValueError also for fewer than two classes.
    """

    def _shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        if self.alpha.ndim != 2 or len(self.alpha) < 2:
            raise ValueError(f"weights [C, N], C >= 2, are needed, got shape {self.alpha.shape}")
        C, n = len(self.alpha), len(self.X)
        return {"alpha": (C, n), "root": (rank, C, n)}

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.alpha)

    def latent(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean vectors [B, C] and covariance matrices [B, C, C] of the latent functions.

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        scaled = self._scaled(Xnew)
        C = self.n_classes
        mean, covariance = np.empty((len(scaled), C)), np.empty((len(scaled), C, C))
        for part in self._parts(len(scaled), len(self._stacked)):
            k = self.variance * kappa(self.kernel, squared_distances(scaled[part], self._inputs))
            mean[part] = k @ self.alpha.T
            features = (k @ self._stacked.T).reshape(len(k), len(self.weights), C)
            covariance[part] = (features * self.weights[:, None]).transpose(0, 2, 1) @ features
        covariance[:, np.arange(C), np.arange(C)] += self.variance
        return mean, covariance

    def moments(self, Xnew: FloatArray) -> SoftmaxMoments:
        """Return the class probabilities [B, C] with the cubature's error, and E softmax softmax' [B, C, C].

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        mean, covariance = self.latent(Xnew)
        return softmax_moments(mean, centred_root(covariance))

    def probabilities(self, Xnew: FloatArray) -> FloatArray:
        """Return the class probabilities [B, C] at inputs [B, D].

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        return self.moments(Xnew).mean

    def mean_with_gradient(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the latent means [B, C] and their gradients in the inputs, [B, C, D].

        Raises:
            ValueError: if `Xnew` is not finite or not of shape [B, D].
        """
        scaled = self._scaled(Xnew)
        k, slope = kappa_and_slope(self.kernel, squared_distances(scaled, self._inputs))
        weights = self.variance * slope[:, None, :] * self.alpha
        moved = weights @ self._inputs - weights.sum(axis=2)[:, :, None] * scaled[:, None, :]
        return np.asarray(self.variance * k @ self.alpha.T), np.asarray(moved / self.lengthscales)

    def difference(self, i: int, j: int) -> GPCPosterior:
        """Return f_i - f_j as the latent function of a binary classifier with kernel 2 k and the logistic link.

        For two classes its class probability is that of class i. More rows than data are put together by an
        orthogonal transformation.

        Raises:
            ValueError: if the classes are the same or out of range.
        """
        if i == j or not (0 <= i < self.n_classes and 0 <= j < self.n_classes):
            raise ValueError(f"classes {i} and {j}: two distinct ones of {self.n_classes} are needed")
        root, weights = 0.5 * (self.root[:, i] - self.root[:, j]), self.weights
        used = np.abs(root).max(axis=1, initial=0.0) > 0.0
        root, weights = root[used], weights[used]
        if len(root) > len(self.X) and len(np.unique(weights)) == 1:
            root, weights = np.asarray(np.linalg.qr(root, mode="r")), weights[: len(self.X)]
        return GPCPosterior(
            self.X,
            self.kernel,
            2.0 * self.variance,
            self.lengthscales,
            0.5 * (self.alpha[i] - self.alpha[j]),
            np.ascontiguousarray(root),
            weights,
            self.operator_bound,
            LINKS.get("logistic"),
        )

    def function(self, c: int) -> GPCPosterior:
        """Return f_c as the latent function of a binary classifier with the logistic link.

        Raises:
            ValueError: if the class is out of range.
        """
        if not 0 <= c < self.n_classes:
            raise ValueError(f"class {c}: one of {self.n_classes} is needed")
        used = np.abs(self.root[:, c]).max(axis=1, initial=0.0) > 0.0
        return GPCPosterior(
            self.X,
            self.kernel,
            self.variance,
            self.lengthscales,
            self.alpha[c],
            np.ascontiguousarray(self.root[used, c]),
            self.weights[used],
            self.operator_bound,
            LINKS.get("logistic"),
        )

    @cached_property
    def _stacked(self) -> FloatArray:
        return np.ascontiguousarray(self.root.reshape(-1, self.root.shape[2]))
