"""Samples of multi-output Gaussian processes with a safety value, and their covariances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.sin_sigmoid import SafeSample

Kernel: TypeAlias = Callable[[FloatArray, FloatArray, float, float], FloatArray]

# Share of the variance added to the diagonal: smooth kernels are singular in floating point. The added noise has 1e-4
# of the function's standard deviation.
RELATIVE_JITTER = 1e-8


def squared_exponential(X: FloatArray, X2: FloatArray, variance: float, lengthscale: float) -> FloatArray:
    """Return variance * exp(-r^2 / (2 l^2)), [N, M]: the usual form, and that of Li et al.'s code."""
    covariance: FloatArray = variance * np.exp(-0.5 * _squared_distances(X, X2) / lengthscale**2)
    return covariance


def squared_exponential_paper(X: FloatArray, X2: FloatArray, variance: float, lengthscale: float) -> FloatArray:
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

    K[n, p, m, q] = sum_l W_pl W_ql c_l N(x_n - x_m | 0, A_p^-1 + A_q^-1 + Lambda_l^-1). Output p is a sum over l of
    W_pl times a latent process, smoothed by N(. | 0, A_p^-1). The latent process has covariance c_l N(x - x' | 0,
    Lambda_l^-1). See Li et al. 2022, App. H, Eq. (25). The printed exponential lacks the factor -1/2.

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
        relative_jitter: the jitter, as a share of the mean of the diagonal.

    Raises:
        numpy.linalg.LinAlgError: if the covariance with jitter is not positive definite.
    """
    jitter = relative_jitter * float(np.mean(np.diagonal(covariance)))
    factor = np.linalg.cholesky(covariance + jitter * np.eye(len(covariance)))
    normal = rng.standard_normal((draws, len(covariance)))
    sample: FloatArray = normal @ factor.T
    return sample


def _squared_distances(X: FloatArray, X2: FloatArray) -> FloatArray:
    # summed by columns: equal rows give exact zeros, and there is no [N, M, D] array
    total = np.zeros((len(X), len(X2)))
    for column in range(X.shape[1]):
        total += (X[:, None, column] - X2[None, :, column]) ** 2
    return total


def _normal_density(difference: FloatArray, covariance: FloatArray) -> FloatArray:
    exponent = np.einsum("nmi,ij,nmj->nm", difference, np.linalg.inv(covariance), difference, optimize=True)
    density: FloatArray = np.exp(-0.5 * exponent) / np.sqrt(np.linalg.det(2.0 * np.pi * covariance))
    return density


Process: TypeAlias = Literal["lmc", "convolution"]

PROCESSES: tuple[Process, ...] = ("lmc", "convolution")
DOMAIN = (-2.0, 2.0)
PARAMETER_RANGE = (0.01, 1.0)  # range of the latent lengthscales and of the safety process's variance
SMOOTHING_RANGE = (0.1, 0.5)  # range of the convolution process's smoothing lengthscales
SAFETY_LENGTHSCALE = 1.0
SAFETY_QUANTILE = 0.2
OUTPUT_NOISE = 0.4  # standard deviation
SAFETY_NOISE = 0.05


@dataclass(frozen=True, eq=False)
class LmcParameters:
    """Parameters of the linear model of coregionalisation f = W g, g_l of unit variance.

    Attributes:
        lengthscales: lengthscales of the latent processes [L].
        W: weights [P, L], rows of unit norm.
    """

    lengthscales: FloatArray
    W: FloatArray


@dataclass(frozen=True, eq=False)
class ConvolutionParameters:
    """Parameters of `convolution_covariance`.

    Attributes:
        A: precision matrices of the outputs' smoothing [P, D, D].
        Lambda: precision matrices of the latent processes [L, D, D].
        W: weights [P, L], rows of unit norm.
        c: factors of the latent processes [L].
    """

    A: FloatArray
    Lambda: FloatArray
    W: FloatArray
    c: FloatArray


@dataclass(frozen=True, eq=False)
class GpSamples:
    """Draws of the same process at the same inputs. Rows before `n_train` are for training, the others for testing.

    Attributes:
        data: X [N, D], F and Y [draws, N, P], h and z [draws, N]. All draws have the same threshold.
        n_train: number of training rows.
        parameters: parameters of the process of the outputs.
        safety_variance: variance of the safety process. Its lengthscale is 1.
    """

    data: SafeSample
    n_train: int
    parameters: LmcParameters | ConvolutionParameters
    safety_variance: float


@dataclass(frozen=True)
class Sizes:
    """Numbers of draws and points. The paper's numbers by default.

    Attributes:
        draws: number of draws (E in the paper).
        n_train: number of training rows.
        n_test: number of test rows.
        n_inputs: D.
        n_outputs: P.
        n_latent: L.
    """

    draws: int = 30
    n_train: int = 2000
    n_test: int = 500
    n_inputs: int = 2
    n_outputs: int = 4
    n_latent: int = 3


PAPER_SIZES = Sizes()


def gp_samples(
    rng: np.random.Generator,
    sizes: Sizes = PAPER_SIZES,
    *,
    kernel: str = "squared_exponential",
    process: Process = "lmc",
) -> GpSamples:
    """Return draws of a random multi-output process and safety process, as in Li et al. 2022, section I.3.

    1. X: N = n_train + n_test inputs, uniform on [-2, 2)^D, the same in all draws. The paper replaces equal rows, but
    these do not occur in double precision.
    2. Latent kernels of variance 1 and lengthscale U[0.01, 1). Safety kernel of variance U[0.01, 1) and lengthscale 1.
    3. Latent functions g_l and safety function h, drawn again in each draw. Nothing else is drawn again.
    4. W: rows standard normal, divided by their norm. 5. F = G W'.
    6. Y = F + 0.4 noise, z = h + 0.05 noise. The threshold is the 20 % quantile of the noisy z of all draws.

    `process=convolution` has Lambda_l = I / l_l^2 with the lengthscales above and A_p = I / s_p^2 with s_p ~ U[0.1,
    0.5). With c_l every latent process adds the same variance as in the linear model, on average over the outputs. The
    paper has no such experiment. It factorises an (N P)^2 matrix: choose N P below about 10^4.

    Each part has its own random stream. With fewer draws, the functions and noises are the first ones of more draws, up
    to rounding. The threshold differs.

    Args:
        rng: source of randomness. Its spawned children are used, so a second call gives another sample.
        sizes: numbers of draws and points.
        kernel: a key of `KERNELS`, for all processes. `squared_exponential` is the form of the authors' code,
            `squared_exponential_paper` the printed one. The outputs of a convolution process always have the Gaussian
            kernel. Then `kernel` is that of the safety process.
        process: `lmc` or `convolution`.

    Raises:
        KeyError: if there is no kernel of that name.
        ValueError: if the process is unknown.
        numpy.linalg.LinAlgError: if a covariance cannot be factorised.
    """
    if process not in PROCESSES:
        raise ValueError(f"process={process}: must be one of {', '.join(PROCESSES)}")
    inputs, parameter, latent, safety, output_noise, safety_noise = rng.spawn(6)
    draws, n_inputs, n_latent = sizes.draws, sizes.n_inputs, sizes.n_latent
    n = sizes.n_train + sizes.n_test
    X = inputs.uniform(*DOMAIN, (n, n_inputs))
    lengthscales = parameter.uniform(*PARAMETER_RANGE, n_latent)
    safety_variance = float(parameter.uniform(*PARAMETER_RANGE))
    W = parameter.standard_normal((sizes.n_outputs, n_latent))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    lmc = LmcParameters(lengthscales, W)
    parameters = lmc if process == "lmc" else _smoothed(parameter, lmc, n_inputs)
    F = _outputs(latent, X, parameters, kernel, draws)
    covariance = KERNELS[kernel](X, X, safety_variance, SAFETY_LENGTHSCALE)
    h = sample_gaussian(safety, covariance, draws)
    Y = F + OUTPUT_NOISE * output_noise.standard_normal(F.shape)
    z = h + SAFETY_NOISE * safety_noise.standard_normal(h.shape)
    data = SafeSample(X, F, Y, h, z, float(np.quantile(z, SAFETY_QUANTILE)))
    return GpSamples(data, sizes.n_train, parameters, safety_variance)


def _smoothed(rng: np.random.Generator, lmc: LmcParameters, n_inputs: int) -> ConvolutionParameters:
    """Return a convolution process of the same weights, lengthscales and average variances."""
    smoothing = rng.uniform(*SMOOTHING_RANGE, len(lmc.W))
    identity = np.eye(n_inputs)
    # N(0 | 0, (2 s_p^2 + l_l^2) I) is the variance of output p from latent l per unit of W_pl^2 c_l
    density = (2.0 * np.pi * (2.0 * smoothing[:, None] ** 2 + lmc.lengthscales**2)) ** (-n_inputs / 2)
    return ConvolutionParameters(
        A=identity / smoothing[:, None, None] ** 2,
        Lambda=identity / lmc.lengthscales[:, None, None] ** 2,
        W=lmc.W,
        c=(lmc.W**2).sum(axis=0) / (lmc.W**2 * density).sum(axis=0),
    )


def _outputs(
    rng: np.random.Generator, X: FloatArray, parameters: LmcParameters | ConvolutionParameters, kernel: str, draws: int
) -> FloatArray:
    """Return draws of the noise-free outputs, [draws, N, P]. Every latent process has its own stream."""
    W = parameters.W
    if isinstance(parameters, LmcParameters):
        latent = [
            sample_gaussian(child, KERNELS[kernel](X, X, 1.0, lengthscale), draws)
            for child, lengthscale in zip(rng.spawn(W.shape[1]), parameters.lengthscales.tolist(), strict=True)
        ]
        mixed: FloatArray = np.stack(latent, axis=-1) @ W.T
        return mixed
    size = len(X) * len(W)
    covariance = convolution_covariance(X, X, parameters.A, parameters.Lambda, W, parameters.c)
    return sample_gaussian(rng, covariance.reshape(size, size), draws).reshape(draws, len(X), len(W))
