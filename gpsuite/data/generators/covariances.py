"""Covariances of single- and multi-output Gaussian processes in NumPy, for sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from gpsuite.arrays import FloatArray

Kernel: TypeAlias = Callable[[FloatArray, FloatArray, float, float], FloatArray]

# Share of the variance added to the diagonal: smooth kernels are singular in floating point. The noise it adds has
# 1e-4 of the function's standard deviation.
RELATIVE_JITTER = 1e-8


def squared_exponential(X: FloatArray, X2: FloatArray, variance: float, lengthscale: float) -> FloatArray:
    """Return variance * exp(-r^2 / (2 l^2)), [N, M]: the usual form, and that of Li et al.'s code."""
    covariance: FloatArray = variance * np.exp(-0.5 * _squared_distances(X, X2) / lengthscale**2)
    return covariance


def squared_exponential_paper(
    X: FloatArray, X2: FloatArray, variance: float, lengthscale: float
) -> FloatArray:
    """Return variance * exp(-r^2 / l), [N, M]: as printed in Li et al. 2022, supplement A (l is their rho)."""
    covariance: FloatArray = variance * np.exp(-_squared_distances(X, X2) / lengthscale)
    return covariance


def matern52(X: FloatArray, X2: FloatArray, variance: float, lengthscale: float) -> FloatArray:
    """Return variance * (1 + a + a^2 / 3) exp(-a), a = sqrt(5) r / l, [N, M] (Li et al. 2022, supplement A)."""
    a = np.sqrt(5.0 * _squared_distances(X, X2)) / lengthscale
    covariance: FloatArray = variance * (1.0 + a + a**2 / 3.0) * np.exp(-a)
    return covariance


KERNELS: dict[str, Kernel] = {
    "squared_exponential": squared_exponential,
    "squared_exponential_paper": squared_exponential_paper,
    "matern52": matern52,
}


def lmc_covariance(latent: FloatArray, W: FloatArray) -> FloatArray:
    """Return K[n, p, m, q] = sum_l W_pl W_ql k_l(x_n, x_m) of the linear model of coregionalisation.

    Args:
        latent: the latent processes' covariances [L, N, M].
        W: weights [P, L].
    """
    covariance: FloatArray = np.einsum("pl,ql,lnm->npmq", W, W, latent)
    return covariance


def convolution_covariance(
    X: FloatArray, X2: FloatArray, A: FloatArray, Lambda: FloatArray, W: FloatArray, c: FloatArray
) -> FloatArray:
    """Return the covariance of the convolution process, [N, P, M, P].

    K[n, p, m, q] = sum_l W_pl W_ql c_l N(x_n - x_m | 0, A_p^-1 + A_q^-1 + Lambda_l^-1): output p is
    sum_l W_pl * (smoothing by N(. | 0, A_p^-1) of a latent process of covariance c_l N(x - x' | 0, Lambda_l^-1)).
    Li et al. 2022, App. H, Eq. (25); the exponential they print lacks the factor -1/2.

    Args:
        X: inputs [N, D].
        X2: inputs [M, D].
        A: precision matrices of the outputs' smoothing [P, D, D].
        Lambda: precision matrices of the latent processes [L, D, D].
        W: weights [P, L].
        c: factors of the latent processes [L].
    """
    n_outputs, n_latent = W.shape
    smoothing, spread = np.linalg.inv(A), np.linalg.inv(Lambda)
    difference = X[:, None, :] - X2[None, :, :]
    covariance = np.zeros((len(X), n_outputs, len(X2), n_outputs))
    for p in range(n_outputs):
        for q in range(p + 1):
            for latent in range(n_latent):
                density = _normal_density(difference, smoothing[p] + smoothing[q] + spread[latent])
                covariance[:, p, :, q] += W[p, latent] * W[q, latent] * c[latent] * density
            covariance[:, q, :, p] = covariance[:, p, :, q]
    return covariance


def sample_gaussian(
    rng: np.random.Generator, covariance: FloatArray, draws: int, *, relative_jitter: float = RELATIVE_JITTER
) -> FloatArray:
    """Return independent draws from N(0, covariance), [draws, N].

    The jitter times the mean of the diagonal is added to the diagonal. The first rows do not depend on `draws`,
    up to rounding.

    Args:
        rng: source of randomness.
        covariance: positive semi-definite [N, N].
        draws: number of draws.
        relative_jitter: see above.

    Raises:
        numpy.linalg.LinAlgError: if the covariance with jitter is not positive definite.
    """
    jitter = relative_jitter * float(np.mean(np.diagonal(covariance)))
    factor = np.linalg.cholesky(covariance + jitter * np.eye(len(covariance)))
    normal = rng.standard_normal((draws, len(covariance)))
    sample: FloatArray = normal @ factor.T
    return sample


def _squared_distances(X: FloatArray, X2: FloatArray) -> FloatArray:
    # summed column by column: exact zeros for equal rows, and no [N, M, D] array
    total = np.zeros((len(X), len(X2)))
    for column in range(X.shape[1]):
        total += (X[:, None, column] - X2[None, :, column]) ** 2
    return total


def _normal_density(difference: FloatArray, covariance: FloatArray) -> FloatArray:
    exponent = np.einsum("nmi,ij,nmj->nm", difference, np.linalg.inv(covariance), difference, optimize=True)
    density: FloatArray = np.exp(-0.5 * exponent) / np.sqrt(np.linalg.det(2.0 * np.pi * covariance))
    return density
