"""Posteriors in plain numpy. The squared-exponential kernel takes one thin matrix product and one exponential.

If inputs are so far from 0 that the product would lose digits (`gpsuite.models.radial.FAR`), it takes differences.

Equation: Rasmussen & Williams 2006, Eq. (5.1)
Equation: Reeb et al. 2018, Eq. (6), Eq. (8)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray
from gpsuite.certificates.risk import FULL, Predictor
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.radial import is_far, squared_distances

EPSILON = 2.0**-52
LARGEST_SHARE = 1e-3  # largest share for which a change by rounding is known to first order
LARGEST = 1e100  # sums of squares of values up to this are finite, also after division by the smallest lengthscales


def check_logarithms(theta: FloatArray, count: int) -> None:
    if len(theta) != count:
        raise ValueError(f"theta must have {count} entries, got {len(theta)}")


def log_kernel_factors(scaled: FloatArray, log_variance: float) -> tuple[FloatArray, FloatArray]:
    """Return factors A, B [N, D+2] with A_i . B_j = ln sigma_f^2 - |x_i - x_j|^2 / 2. Inputs are centred near 0."""
    half_square = -0.5 * np.einsum("ij,ij->i", scaled, scaled)[:, None]
    one = np.ones_like(half_square)
    return np.hstack([scaled, one, half_square + log_variance]), np.hstack([scaled, half_square, one])


def se_kernel(X: FloatArray, other: FloatArray, hyperparameters: Hyperparameters) -> FloatArray:
    """Return k(x, x') = sigma_f^2 exp(-sum_j ((x_j - x'_j)/l_j)^2 / 2) as a matrix [N, N']."""
    lengthscales = np.asarray(hyperparameters.lengthscales)
    centre = other.mean(axis=0)
    log_variance = math.log(hyperparameters.variance)
    exponent = log_kernel((X - centre) / lengthscales, (other - centre) / lengthscales, log_variance)
    # rounding may leave the exponent of equal points above its limit
    np.minimum(exponent, log_variance, out=exponent)
    return np.asarray(np.exp(exponent, out=exponent))


def se_kernel_by_differences(X: FloatArray, hyperparameters: Hyperparameters) -> tuple[FloatArray, float]:
    """Return k(X, X) [N, N] and the error of its entries in ulps of sigma_f^2: slower than `se_kernel`, and closer.

    A scaled difference has the ulps of the scaled inputs. A difference of squares has the ulps of the squares. To first
    order the error moves exp(-r^2/2) by at most 0.61 of its size. Relative rounding adds less than an ulp.
    """
    scaled = (X - X.mean(axis=0)) / np.asarray(hyperparameters.lengthscales)
    matrix = cdist(scaled, scaled, "sqeuclidean")
    matrix *= -0.5
    matrix += math.log(hyperparameters.variance)
    return np.exp(matrix, out=matrix), 1.0 + math.sqrt(float(np.einsum("ij,ij->i", scaled, scaled).max()))


def log_kernel(A: FloatArray, B: FloatArray, log_variance: float) -> FloatArray:
    """Return ln sigma_f^2 - |a_i - b_k|^2 / 2 [N, N'] for inputs [N, D], [N', D] divided by the lengthscales."""
    if is_far(A, B):
        exponent = squared_distances(A, B)
        exponent *= -0.5
        exponent += log_variance
        return exponent
    left, _ = log_kernel_factors(A, log_variance)
    _, right = log_kernel_factors(B, log_variance)
    return np.asarray(left @ right.T)


@dataclass(frozen=True)
class RiskAndKL:
    """The two numbers behind a bound: Gibbs risk on the training points and KL(Q||P) in nats."""

    risk: float
    kl: float


class Posterior(Protocol):
    """A Gaussian posterior over functions, for certificates and metrics. Arrays [N] are at the training inputs."""

    @property
    def hyperparameters(self) -> Hyperparameters: ...

    @property
    def y(self) -> FloatArray: ...

    @property
    def kl(self) -> float: ...

    @property
    def train_mean(self) -> FloatArray: ...

    @property
    def train_variance(self) -> FloatArray: ...

    @property
    def predictor(self) -> Predictor:
        """Description of the posterior in a certificate."""

    def predict(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and latent variance at new inputs [N', D]."""

    def rounding(self, loss: Loss) -> RiskAndKL:
        """Return the largest changes of the Gibbs risk of a loss and of the KL by rounding."""


def predictor_of(
    kind: str, prior: Hyperparameters, alpha: float = 0.0, jitter: float = 0.0, **arrays: FloatArray
) -> Predictor:
    """Return a posterior's description for a certificate. `kind` and arrays are as in `certificates.risk.ARRAYS`."""
    arrays = {"lengthscales": np.array(prior.lengthscales), **arrays}
    return Predictor(kind, prior.variance, prior.noise_variance, alpha, jitter, arrays)


@dataclass(frozen=True)
class FullGPPosterior:
    """The exact GP posterior at fixed hyperparameters. Build it with `fit`.

    Attributes:
        kl: KL(Q||P) in nats, at the training inputs and hence on functions.
        factor: lower Cholesky factor of K + sigma^2 I [N, N].
        alpha: (K + sigma^2 I)^-1 y [N].
        ulps: error of an entry of K, in ulps of sigma_f^2.

    Equation: Reeb et al. 2018, Eq. (6), Eq. (8)
    """

    hyperparameters: Hyperparameters
    X: FloatArray
    y: FloatArray
    kl: float
    train_mean: FloatArray
    train_variance: FloatArray
    factor: FloatArray
    alpha: FloatArray
    ulps: float

    @classmethod
    def fit(cls, hyperparameters: Hyperparameters, X: FloatArray, y: FloatArray) -> FullGPPosterior:
        """Compute the posterior, without jitter.

        Raises:
            ValueError: if shapes disagree or values are not finite.
            NotPositiveDefiniteError: if K + sigma^2 I cannot be factorised in float64.
        """
        X, y = checked_data(X, y)
        if len(hyperparameters.lengthscales) not in (1, X.shape[1]):
            raise ValueError(f"{len(hyperparameters.lengthscales)} lengthscales for {X.shape[1]} inputs")
        n, s = len(y), hyperparameters.noise_variance
        matrix, ulps = se_kernel_by_differences(X, hyperparameters)
        matrix[np.diag_indices(n)] = hyperparameters.variance + s
        # in place: with large data only two matrices fit, the factor and its inverse
        factor, info = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
        if info != 0:
            raise NotPositiveDefiniteError(f"K + {s:g} I is not positive definite (pivot {info} of {n})")
        inverse_factor, _ = dtrtri(factor, lower=1)
        alpha = inverse_factor.T @ (inverse_factor @ y)
        h = np.einsum("ij,ij->j", inverse_factor, inverse_factor)
        mean = y - s * alpha
        log_ratio = 2.0 * float(np.log(np.diagonal(factor)).sum()) - n * math.log(s)
        kl = 0.5 * (log_ratio - n + s * float(h.sum()) + float(alpha @ mean))
        # a KL is not negative, but rounding can leave it an ulp below 0
        variance = np.maximum(s - s * s * h, 0.0)
        return cls(hyperparameters, X, y, max(kl, 0.0), mean, variance, factor, alpha, ulps)

    @property
    def predictor(self) -> Predictor:
        """Description of the posterior in a certificate."""
        return predictor_of(FULL, self.hyperparameters)

    def predict(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean [N'] and latent variance [N'] at new inputs [N', D]. No observation noise added.

        Raises:
            ValueError: if the inputs are not [N', D].
        """
        cross = se_kernel(self.X, checked_inputs(Xnew, self.X.shape[1]), self.hyperparameters)
        mean = cross.T @ self.alpha
        half = solve_triangular(self.factor, cross, lower=True, overwrite_b=True, check_finite=False)
        variance = self.hyperparameters.variance - np.einsum("ij,ij->j", half, half)
        return mean, np.maximum(variance, 0.0)

    def gibbs_risk(self, loss: Loss) -> float:
        return gibbs_risk(self, loss)

    def rounding(self, loss: Loss) -> RiskAndKL:
        """Return the largest changes of Gibbs risk and KL by rounding of K + sigma^2 I, to first order.

        A factor is exact for a matrix that differs by E, |E| <= c eps (N sigma_f^2 + sigma^2) (Higham 2002, Theorem
        10.3). The value c = 1 is from experiments, not proved. The entries of K add `ulps` eps N sigma_f^2. Log
        determinant and trace move by at most |E| N / sigma^2, the quadratic term by |E| |alpha|^2. The means
        y - sigma^2 alpha together move by |E| |alpha|, each variance by |E|.

        The first order is not enough if the KL moves by more than `LARGEST_SHARE` of 1 + KL. The same holds if |E| is
        more than that share of sigma_f^2, the largest latent variance. Then the result is infinite.
        """
        h, n = self.hyperparameters, len(self.y)
        matrix = EPSILON * (n * h.variance * (1.0 + self.ulps) + h.noise_variance)
        if matrix > LARGEST_SHARE * h.variance:
            return RiskAndKL(math.inf, math.inf)
        moved = matrix * (float(self.alpha @ self.alpha) + n / h.noise_variance)
        _, d_mean, d_variance = loss.expected_with_gradient(self.y, self.train_mean, self.train_variance)
        slope = float(np.linalg.norm(d_mean) * np.linalg.norm(self.alpha) + np.abs(d_variance).sum()) / n
        return RiskAndKL(matrix * slope, moved if moved < LARGEST_SHARE * (1.0 + self.kl) else math.inf)


def gibbs_risk(posterior: Posterior, loss: Loss) -> float:
    expected = loss.expected(posterior.y, posterior.train_mean, posterior.train_variance)
    return min(float(expected.mean()), 1.0)


def checked_data(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return X [N, D] and y [N] as new contiguous float64 arrays. The certified values do not change later.

    Raises:
        ValueError: if the shapes disagree, there are no rows or columns, or a value is not finite or so large that
            its square might not be.
    """
    X, y = (np.array(part, dtype=np.float64, order="C") for part in (X, y))
    if X.ndim != 2 or y.shape != X.shape[:1] or X.size == 0:
        raise ValueError(f"expected X [N, D] and y [N] with N, D >= 1, got {X.shape} and {y.shape}")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError("X and y must be finite")
    largest = max(float(np.abs(X).max()), float(np.abs(y).max()))
    if largest > LARGEST:
        raise ValueError(f"X and y must not exceed {LARGEST:g}, got {largest:g}. Standardise them first")
    return X, y


def checked_inputs(Xnew: FloatArray, dimension: int) -> FloatArray:
    """Return new inputs as a float64 array [N', D]. ValueError if they are not a matrix with `dimension` columns."""
    Xnew = np.asarray(Xnew, dtype=np.float64)
    if Xnew.ndim != 2 or Xnew.shape[1] != dimension:
        raise ValueError(f"expected new inputs [N', {dimension}], got {Xnew.shape}")
    return Xnew
