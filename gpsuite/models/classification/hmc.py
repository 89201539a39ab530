"""Hamiltonian Monte Carlo over the latent values at fixed hyperparameters: the gold standard for approximations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.approximation import SMALLEST_VARIANCE, GPCPosterior, classification_data
from gpsuite.models.classification.links import Link
from gpsuite.models.classification.variational import log_sigma
from gpsuite.models.composite import single_kernel
from gpsuite.models.linalg import CholeskyFactor, stable_cholesky
from gpsuite.models.radial import kappa, squared_distances

# Length of a trajectory: a quarter period of a standard normal target gives independent draws. A whole period would
# return to the start.
_QUARTER_PERIOD = math.pi / 2.0
_PILOT_STEPS, _MOST_STEPS = 4, 64


@dataclass(frozen=True)
class LatentHMCSettings:
    """Length of sampling and limits of convergence.

    Attributes:
        burn_in: number of discarded draws, in two halves. The leapfrog step is adapted in the first 80 percent of each.
        largest_r_hat: convergence limit of the potential scale reduction (Vehtari et al. 2021: 1.01).
        smallest_ess: convergence limit of the effective sample size over all chains (same source: 100 per chain).
    """

    chains: int = 4
    burn_in: int = 500
    draws: int = 2000
    target_acceptance: float = 0.8
    largest_r_hat: float = 1.01
    smallest_ess: float = 400.0


@dataclass(frozen=True, eq=False)
class HMCLatents:
    """Latent posterior at test inputs.

    Given the whitened training values v, the latent value at a test input is normal with mean `means` and variance
    `conditional_variance`. The marginal is the mixture of these distributions over the draws.

    Attributes:
        means: conditional mean for every draw, shape [S, B], S = chains * draws.
        r_hat: largest potential scale reduction over the test inputs.
        ess: smallest effective sample size over the test inputs.
        jitter: number added to K's diagonal to factorise it, 0 if none was needed.
    """

    mean: FloatArray
    variance: FloatArray
    means: FloatArray
    conditional_variance: FloatArray
    r_hat: float
    ess: float
    acceptance: float
    jitter: float
    converged: bool

    def draws(self, generator: np.random.Generator) -> FloatArray:
        """Return one draw of the latent value per stored draw and test input, [S, B]."""
        noise = generator.standard_normal(self.means.shape)
        return np.asarray(self.means + np.sqrt(self.conditional_variance) * noise)


def sample_latents(
    posterior: GPCPosterior,
    y: FloatArray,
    Xnew: FloatArray,
    generator: np.random.Generator,
    settings: LatentHMCSettings,
) -> HMCLatents:
    """Sample the exact latent posterior at the hyperparameters and link of an approximation.

    With K = L L' the prior of u = L^-1 f is standard normal. The approximation only gives coordinates, u = m + C z,
    with its whitened mean m and covariance C C'. In z the target is nearly standard normal. The sampled distribution
    does not depend on the approximation.

    Raises:
        ValueError: if data do not fit or the link is not probit or logistic.
        NotPositiveDefiniteError: if K cannot be factorised.
    """
    X, y = classification_data(posterior.X, y)
    factor = stable_cholesky(_covariance(posterior, X, X))
    centre, root = _coordinates(posterior, factor.lower)
    target = _target(posterior.link, y, factor.lower, centre, root)
    seed = tf.constant(generator.integers(2**31 - 1, size=2), tf.int32)
    states, accepted = _run_chains(target, len(y), seed, settings)
    whitened = centre + states @ root.T
    cross = factor.half_solve(_covariance(posterior, X, Xnew))
    return _summary(whitened @ cross, posterior.variance, cross, accepted, factor, settings)


def _covariance(posterior: GPCPosterior, A: FloatArray, B: FloatArray) -> FloatArray:
    centre, lengths = posterior.X.mean(axis=0), posterior.lengthscales
    q = squared_distances((A - centre) / lengths, (B - centre) / lengths)
    return posterior.variance * kappa(single_kernel(posterior.kernel, "the Monte Carlo comparison"), q)


def _coordinates(posterior: GPCPosterior, lower: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the approximation's mean L' alpha and a root C of its covariance I - L' R L, both whitened.

    C has orthogonal columns, so the prior's |m + C z|^2 needs no matrix product.
    """
    features = posterior.root @ lower
    covariance = np.eye(len(lower)) + (features.T * posterior.weights) @ features
    values, vectors = np.linalg.eigh(covariance)
    return lower.T @ posterior.alpha, vectors * np.sqrt(np.maximum(values, SMALLEST_VARIANCE))


def _target(link: Link, y: FloatArray, lower: FloatArray, centre: FloatArray, root: FloatArray) -> Any:
    """Return the log density of z, up to a constant: log p(y | L(m + C z)) - |m + C z|^2 / 2."""
    log_p = log_sigma(link)
    squares = np.einsum("ij,ij->j", root, root)
    parts = (y, lower @ centre, (lower @ root).T, root.T @ centre, squares)
    labels, f_mean, to_f, slope, curvature = (tf.constant(part, tf.float64) for part in parts)

    def log_density(z: tf.Tensor) -> tf.Tensor:
        likelihood = tf.reduce_sum(log_p(labels * (f_mean + z @ to_f)), axis=-1)
        return likelihood - tf.reduce_sum(z * (slope + 0.5 * curvature * z), axis=-1)

    return log_density


def _run_chains(
    target: Any, dimension: int, seed: tf.Tensor, settings: LatentHMCSettings
) -> tuple[FloatArray, FloatArray]:
    seeds = tfp.random.split_seed(seed, 4)
    state = tf.random.stateless_normal([settings.chains, dimension], seeds[0], dtype=tf.float64)
    # leapfrog steps of constant acceptance shrink with this power of the dimension
    size, steps = dimension**-0.25, _PILOT_STEPS
    # The best step depends on the number of steps, and this number on the step: adapt twice.
    for half, part in ((settings.burn_in // 2, seeds[1]), (settings.burn_in - settings.burn_in // 2, seeds[2])):
        adaptive = tfp.mcmc.DualAveragingStepSizeAdaptation(
            tfp.mcmc.HamiltonianMonteCarlo(target, np.float64(size), steps),
            int(0.8 * half),
            target_accept_prob=np.float64(settings.target_acceptance),
        )
        states, sizes = _chain(adaptive, state, half, part, lambda _, results: results.new_step_size)
        state, size = states[-1], float(sizes[-1])
        steps = min(math.ceil(_QUARTER_PERIOD / size), _MOST_STEPS) if size > 0.0 else _MOST_STEPS
    fixed = tfp.mcmc.HamiltonianMonteCarlo(target, np.float64(size), steps)
    states, ratios = _chain(fixed, state, settings.draws, seeds[3], lambda _, results: results.log_accept_ratio)
    return states, np.exp(np.minimum(ratios, 0.0))


def _chain(kernel: Any, start: Any, draws: int, seed: tf.Tensor, trace: Any) -> tuple[FloatArray, FloatArray]:
    def sample() -> Any:
        return tfp.mcmc.sample_chain(draws, start, kernel=kernel, trace_fn=trace, seed=seed)

    # A concrete function: every call has its own constants. TensorFlow would warn of needless retracing.
    states, traced = tf.function(sample, autograph=False).get_concrete_function()()
    return states.numpy(), traced.numpy()


def _summary(
    means: FloatArray,
    prior: float,
    cross: FloatArray,
    accepted: FloatArray,
    factor: CholeskyFactor,
    settings: LatentHMCSettings,
) -> HMCLatents:
    r_hat = float(np.max(tfp.mcmc.potential_scale_reduction(means, split_chains=True).numpy()))
    sizes = tfp.mcmc.effective_sample_size(means, cross_chain_dims=1, filter_beyond_positive_pairs=True).numpy()
    ess = float(np.min(sizes))
    flat = means.reshape(-1, means.shape[-1])
    # at a training input the difference is only rounding
    conditional = np.maximum(prior - np.einsum("ij,ij->j", cross, cross), 0.0)
    converged = bool(np.isfinite(flat).all() and r_hat <= settings.largest_r_hat and ess >= settings.smallest_ess)
    return HMCLatents(
        mean=flat.mean(axis=0),
        variance=flat.var(axis=0) + conditional,
        means=flat,
        conditional_variance=conditional,
        r_hat=r_hat,
        ess=ess,
        acceptance=float(accepted.mean()),
        jitter=factor.jitter,
        converged=converged,
    )
