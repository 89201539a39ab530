"""One cell of active_learning/convergence: queries at fixed hyperparameters over a finite pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.gp_samples import (
    KERNELS,
    convolution_covariance,
    lmc_covariance,
    sample_gaussian,
    squared_exponential,
)
from gpsuite.experiments.active_learning.convergence.plan import ConvergenceTask
from gpsuite.experiments.active_learning.convergence.settings import FULL, LATENT_KERNELS, SAFE, SAFETY_STARTS
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.methods.active_learning.convergence import (
    QueryRun,
    Region,
    SafeRegion,
    lemma_constant,
    log_slope,
    mutual_information,
    query_all_outputs,
    query_single_outputs,
    rate,
    slope_points,
    summed_information_gain,
    variance_bound,
)
from gpsuite.seeds import stream

SAFETY_NOISE = 0.05  # standard deviation of z


SAFETY_QUANTILE = 0.2  # of h over the pool: the limit, as in the paper's simulations


DELTA = 0.05


def run(task: Task[ConvergenceTask], shared: SharedWork) -> Outcome:
    """Query a drawn process greedily and compare with Lemma 1 and the rate of Theorems 2, 3 and 9.

    The arrays hold, at about 80 numbers of queries: the mean average and mean maximal variance (or determinant), the
    bound of Lemma 1, the mutual information and the greedy sum of maximum information gains.
    """
    params = task.params
    X, covariance, noise, largest = draw_process(params)
    region = _safe_region(params, X) if params.region == SAFE else None
    full = params.outputs == FULL
    queries = params.queries // (len(noise) if full else 1)
    found = (query_all_outputs if full else query_single_outputs)(covariance, noise, queries, region)
    constant = lemma_constant(largest, float(noise.max()), len(noise) if full else 1)
    gain = summed_information_gain(covariance, noise, found)
    first = params.fit_from // (len(noise) if full else 1)
    slopes = _slopes(found, params, first)
    entries = found.entries
    by_determinant = mutual_information(covariance[np.ix_(entries, entries)], noise[entries % len(noise)])
    metrics = {
        "queries": queries,
        "fit_from": first,
        "constant": constant,
        "violations": found.violations(constant),
        "largest_ratio": float(np.max(found.mean_maximal / found.bound(constant))),
        **slopes,
        "information": float(found.information[-1]),
        "information_error": abs(by_determinant - float(found.information[-1])),
        "information_gain": float(gain[-1]),
        "allowed_first": float(found.allowed[0]),
        "allowed_last": float(found.allowed[-1]),
    }
    at = slope_points(1, queries, 80)
    shown = {
        "mean_average": found.mean_average,
        "mean_maximal": found.mean_maximal,
        "bound": found.bound(constant),
        "information": found.information,
        "gain": gain,
    }
    arrays = {"n": at, **{name: values[at - 1] for name, values in shown.items()}}
    headline = (
        f"slope {slopes['slope']:.2f}, rate's {slopes['rate_slope']:.2f}, {metrics['violations']} violations"
    )
    return Outcome(metrics, arrays=arrays, headline=headline)


def draw_process(params: ConvergenceTask) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Draw pool and process: latent variances 1, rows of W of unit norm, so that prior variances are at most 1.

    Returns:
        inputs [n, D], prior covariance [n P, n P] in the order x * P + p, noise variances [P], and the bound of the
        prior variances that the constants of Lemma 1 use.
    """
    rng = stream(params.seed, "process")
    outputs, latent, inputs = params.n_outputs, params.n_latent, params.inputs
    X = rng.uniform(-1.0, 1.0, (params.pool, inputs))
    W = rng.standard_normal((outputs, latent))
    W /= np.linalg.norm(W, axis=1)[:, None]
    lengthscales = _uniform(rng, params.lengthscales, latent)
    widths = _uniform(rng, params.smoothing, outputs)
    noise = _uniform(rng, params.noise_sd, outputs) ** 2
    if params.kernel == "convolution":
        covariance, largest = _convolution(X, W, lengthscales, widths)
    else:
        kernel = KERNELS[LATENT_KERNELS[params.kernel]]
        covariance = lmc_covariance(np.stack([kernel(X, X, 1.0, length) for length in lengthscales]), W)
        largest = variance_bound(W, np.ones(latent))
    size = len(X) * outputs
    return X, covariance.reshape(size, size), noise, largest


def _uniform(rng: np.random.Generator, ends: Sequence[float], n: int) -> FloatArray:
    return rng.uniform(ends[0], ends[1], n)


def _convolution(
    X: FloatArray, W: FloatArray, lengthscales: FloatArray, widths: FloatArray
) -> tuple[FloatArray, float]:
    """Return the covariance with latent variances k_l(x, x) = 1, and L w v of supplement H.1."""
    inputs, unit = X.shape[1], np.eye(X.shape[1])
    factors = (np.sqrt(2.0 * np.pi) * lengthscales) ** inputs  # c_l: k_l = c_l N(. | 0, l^2 I) is 1 at 0
    smoothing = widths[:, None, None] ** -2.0 * unit
    covariance = convolution_covariance(
        X, X, smoothing, lengthscales[:, None, None] ** -2.0 * unit, W, factors
    )
    # the integral of |G_pl(x - z) G_pl(x' - z')| is W_pl^2, smoothing being by normal densities
    return covariance, variance_bound(W, np.ones(W.shape[1]))


def _safe_region(params: ConvergenceTask, X: FloatArray) -> Region:
    """Draw h from a squared exponential process of variance and lengthscale 1, and measure the safest inputs."""
    rng = stream(params.seed, "safety")
    covariance = squared_exponential(X, X, 1.0, 1.0)
    h = sample_gaussian(rng, covariance, 1)[0]
    limit = float(np.quantile(h, SAFETY_QUANTILE))
    region = SafeRegion(
        covariance,
        SAFETY_NOISE**2,
        lambda x: float(h[x] + SAFETY_NOISE * rng.standard_normal()),
        limit,
        DELTA,
        SAFETY_STARTS + params.queries,
    )
    for x in np.argsort(-h)[:SAFETY_STARTS]:
        region.observe(int(x))
    return region


def _slopes(found: QueryRun, params: ConvergenceTask, first: int) -> dict[str, float]:
    """Return log-log slopes of the means, of the rate, and of their ratio: the excess over the rate."""
    at = slope_points(first, len(found.maximal))
    n = at.astype(np.float64)
    bounding = rate(params.kernel, params.inputs, n)
    average, maximal = found.mean_average[at - 1], found.mean_maximal[at - 1]
    return {
        "slope": log_slope(n, average),
        "slope_maximal": log_slope(n, maximal),
        "rate_slope": log_slope(n, bounding),
        "excess": log_slope(n, average / bounding),
        "excess_maximal": log_slope(n, maximal / bounding),
    }
