"""Posterior of a binary Gaussian process classifier in the form that prediction and certification need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack
from scipy.special import ndtri

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.links import Link
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.latent import SMALLEST_VARIANCE, LatentPosterior
from gpsuite.models.linalg import CholeskyFactor, stable_cholesky
from gpsuite.models.radial import expanded, kappa_and_slope, squared_distances

__all__ = ["SMALLEST_VARIANCE", "GPCPosterior"]


@dataclass(frozen=True, eq=False)
class GPCPosterior(LatentPosterior):
    """Gaussian latent posterior, `LatentPosterior`, and the link from the latent value to the class probability."""

    link: Link

    def probability(self, Xnew: FloatArray) -> FloatArray:
        """Return p(y=1|x) [B], the expectation of the link under the latent posterior. Errors as `latent`."""
        return self.link.probability(*self.latent(Xnew))

    def probability_with_gradient(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return p(y=1|x) [B] and its gradient in the inputs [B, D]. Errors as `latent`."""
        mean, variance, d_mean, d_variance = self.latent_with_gradient(Xnew)
        by_mean, by_variance = self.link.probability_gradient(mean, variance)
        gradient = by_mean[:, None] * d_mean + by_variance[:, None] * d_variance
        return self.link.probability(mean, variance), gradient


class NotConvergedError(ArithmeticError):
    """Raised if an approximate posterior is requested but its iteration did not converge."""


@dataclass(frozen=True, eq=False)
class BinaryProblem:
    """A binary classification problem and the model that is fitted to it.

    Attributes:
        y: labels -1 or +1, shape [N].
        link: log-concave link. The logistic's moments are by quadrature.

    Raises:
        TypeError: if the link is a name.
        ValueError: if shapes do not fit, an input is not finite, a label is not -1 or +1, or the link is not
            log-concave.
    """

    X: FloatArray
    y: FloatArray
    spec: ModelSpec
    link: Link

    def __post_init__(self) -> None:
        X, y = classification_data(self.X, self.y)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        if isinstance(self.link, str):
            raise TypeError(f"link={self.link!r}: a link is needed, LINKS.get({self.link!r})")
        if not self.link.log_concave:
            raise ValueError(f"link {self.link.name}: log p(y|f) is not concave. Use probit or logistic")


@dataclass(frozen=True, eq=False)
class GPCFit:
    """A Gaussian posterior approximation at fixed hyperparameters.

    Attributes:
        posterior: posterior of the last iteration. Call `require_converged` before relying on it.
        log_marginal_likelihood: the method's approximation of log p(y|X), in nats.
        gradient: its gradient in the logarithms of (variance, lengthscales...), shape [T].
        converged: whether the method's criterion was met.
        state: end of the iteration, a start for near hyperparameters (alpha [N] for Laplace, sites [2, N] for EP).
    """

    posterior: GPCPosterior
    log_marginal_likelihood: float
    gradient: FloatArray
    converged: bool
    iterations: int
    residual: float
    state: FloatArray

    def require_converged(self) -> GPCPosterior:
        """Return the posterior if the iteration converged.

        Raises:
            NotConvergedError: if the iteration did not converge or gave non-finite numbers.
        """
        if not self.converged:
            raise NotConvergedError(f"no convergence in {self.iterations} iterations, residual {self.residual:.1e}")
        return self.posterior


class WeightedSystem:
    """B = I + W^1/2 K W^1/2 for weights W >= 0, and quantities from its factor L L'.

    B's eigenvalues are at least 1, so no jitter is added. W_i = 0 is allowed.

    Raises:
        NonFiniteMatrixError, NotPositiveDefiniteError: if K or W is not finite or too large.
    """

    def __init__(self, K: FloatArray, weights: FloatArray) -> None:
        self.K = K
        self.root_weights = np.sqrt(weights)
        B = K * self.root_weights
        B *= self.root_weights[:, None]
        B.flat[:: len(K) + 1] += 1.0
        self.factor: CholeskyFactor = stable_cholesky(B, jitters=(0.0,))

    def smoothed(self, v: FloatArray) -> FloatArray:
        """Return (I + W K)^-1 v = v - R K v."""
        inner = self.factor.solve(self.root_weights * (self.K @ v))
        return np.asarray(v - self.root_weights * inner)

    @cached_property
    def _inverse(self) -> FloatArray:
        return np.asarray(lapack.dtrtri(self.factor.lower, lower=1)[0])

    @cached_property
    def root(self) -> FloatArray:
        """F = L^-1 W^1/2 with (K + W^-1)^-1 = F'F, shape [N, N]."""
        return np.asarray(np.ascontiguousarray(self._inverse) * self.root_weights)

    @cached_property
    def inverse_diagonal(self) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->j", self._inverse, self._inverse))

    def precision(self) -> FloatArray:
        """Return R = (K + W^-1)^-1 = W^1/2 B^-1 W^1/2, shape [N, N]."""
        lower = lapack.dlauum(self._inverse, lower=1)[0]
        full = np.tril(lower) + np.tril(lower, -1).T
        full *= self.root_weights
        full *= self.root_weights[:, None]
        return np.asarray(full)


class KernelSystem:
    """Prior covariance of the training inputs and its derivatives in the log hyperparameters.

    Raises:
        ValueError: if X is not finite or of shape [N, D], or the number of lengthscales does not fit.
    """

    def __init__(self, X: FloatArray, spec: ModelSpec, hyperparameters: Hyperparameters) -> None:
        count, inputs = len(hyperparameters.lengthscales), X.shape[1]
        if count not in ({1, inputs} if spec.ard else {1}):
            raise ValueError(f"{count} lengthscales given for D={inputs} inputs with ard={spec.ard}")
        self.X, self.spec, self.variance = X, spec, hyperparameters.variance
        self.lengthscales = expanded(hyperparameters.lengthscales, inputs)
        self._per_input = spec.ard and count == inputs
        self._scaled = (X - X.mean(axis=0)) / self.lengthscales
        self._q = squared_distances(self._scaled, self._scaled)
        unit, self._slope = kappa_and_slope(spec.kernel, self._q)
        self.K = self.variance * unit

    def gradient(self, M: FloatArray) -> FloatArray:
        """Return sum_ik M_ik dK_ik / dlog(variance, lengthscales...), shape [T], for symmetric M [N, N].

        dk/dlog l_j = s slope (u_j - u'_j)^2 in scaled inputs u. The sum over pairs is one matrix product.
        """
        variance = np.vdot(M, self.K)
        pairs = M * self._slope
        pairs *= self.variance
        if not self._per_input:
            return np.array([variance, np.vdot(pairs, self._q)])
        squares = pairs.sum(axis=1) @ (self._scaled * self._scaled)
        crossed = np.einsum("ij,ij->j", self._scaled, pairs @ self._scaled)
        return np.concatenate([[variance], 2.0 * (squares - crossed)])

    def posterior(self, alpha: FloatArray, root: FloatArray, link: Link) -> GPCPosterior:
        """Return the posterior with mean weights alpha [N] and (K + W^-1)^-1 = root' root."""
        minus = np.full(len(root), -1.0)
        return GPCPosterior(self.X, self.spec.kernel, self.variance, self.lengthscales, alpha, root, minus, 1.0, link)


def classification_data(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return inputs [N, D] and labels [N] as new checked float64 arrays.

    Raises:
        ValueError: if shapes do not fit, an input is not finite, or a label is not -1 or +1.
    """
    X, y = (np.array(part, dtype=np.float64) for part in (X, y))
    if X.ndim != 2 or y.shape != X.shape[:1] or 0 in X.shape:
        raise ValueError(f"inputs [N, D] and labels [N] are needed, got {X.shape} and {y.shape}")
    if not np.isfinite(X).all():
        raise ValueError(f"X has {np.count_nonzero(~np.isfinite(X))} non-finite values")
    if not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError("labels must be -1 or +1")
    return X, y


# Distances of an approximate latent posterior from the gold standard, at test inputs.
#
# The paper (Blaas et al. 2020, Sec. 6.2) reports "empirical distances" without a definition. Here they are the mean
# over test inputs of the 2-Wasserstein distance between the latent marginals. The KL divergence is given next to it.
def gaussian_wasserstein(
    mean_a: FloatArray, variance_a: FloatArray, mean_b: FloatArray, variance_b: FloatArray
) -> FloatArray:
    """Return the 2-Wasserstein distance of one-dimensional normals, sqrt((m_a - m_b)^2 + (sd_a - sd_b)^2)."""
    return np.hypot(mean_a - mean_b, np.sqrt(variance_a) - np.sqrt(variance_b))


def gaussian_kl(mean_a: FloatArray, variance_a: FloatArray, mean_b: FloatArray, variance_b: FloatArray) -> FloatArray:
    """Return KL(a | b) of one-dimensional normals, in nats."""
    ratio = variance_a / variance_b
    return np.asarray(0.5 * (ratio - 1.0 - np.log(ratio) + (mean_a - mean_b) ** 2 / variance_b))


def wasserstein_to_draws(mean: FloatArray, variance: FloatArray, draws: FloatArray) -> FloatArray:
    """Return the 2-Wasserstein distance [B] of normals from the empirical distributions of draws [S, B].

    In one dimension the optimal plan pairs quantiles. Cells have probability 1/S. In each the normal distribution is
    replaced by its quantile in the middle of the cell.
    """
    count = draws.shape[0]
    quantiles = ndtri((np.arange(count) + 0.5) / count)
    gaps = np.sort(draws, axis=0) - (mean + np.sqrt(variance) * quantiles[:, None])
    return np.asarray(np.sqrt(np.mean(np.square(gaps), axis=0)))
