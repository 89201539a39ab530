"""Expectation propagation for binary classification; Rasmussen & Williams 2006, Sec. 3.6 and 5.5.2. No TensorFlow.

Equation: Rasmussen & Williams 2006, Eq. (3.65), Eq. (3.73), Eq. (3.74), Eq. (5.27)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.approximation import BinaryProblem, GPCFit, KernelSystem, WeightedSystem
from gpsuite.models.classification.links import Link
from gpsuite.models.config import Hyperparameters

MAX_ITERATIONS = 300
# Converged when every tilted and posterior marginal agree: |mean difference| / sd, |variance ratio - 1|.
MOMENT_TOLERANCE = 1e-9
_SMALLEST_DAMPING, _RECOVERY = 0.1, 1.1
# Below this site precision times posterior variance, (1 - B^-1_ii) / tau_i has lost too many digits.
_WEAK_SITE = 1e-4


@dataclass(frozen=True)
class _Sites:
    """Sites t_i(f) ~ exp(nu_i f - tau_i f^2 / 2) and the marginals they lead to, all of shape [N]."""

    tau: FloatArray
    nu: FloatArray
    system: WeightedSystem
    alpha: FloatArray
    mean: FloatArray
    variance: FloatArray


@dataclass(frozen=True)
class _Tilted:
    """Cavities, log normalisers of the tilted distributions, and the sites that would match their moments."""

    cavity_precision: FloatArray
    cavity_mean: FloatArray
    log_z: FloatArray
    tau: FloatArray
    nu: FloatArray
    residual: float


def expectation_propagation(
    problem: BinaryProblem,
    hyperparameters: Hyperparameters,
    start: FloatArray | None = None,
    tolerance: float = MOMENT_TOLERANCE,
) -> GPCFit:
    """Return the EP approximation, log Z_EP (Eq. 3.65) and its gradient (Eq. 5.27).

    All sites are updated at once; the step is damped (halved, then slowly lengthened) whenever the moments'
    disagreement grows. The fixed points are those of sequential EP. Converged when the moments agree to the tolerance.

    Raises:
        ValueError: if the lengthscales do not fit.
        NonFiniteMatrixError, NotPositiveDefiniteError: if the hyperparameters are too extreme to factorise.
    """
    y, link = problem.y, problem.link
    prior = KernelSystem(problem.X, problem.spec, hyperparameters)
    sites = _marginals(prior.K, *(np.zeros((2, len(y))) if start is None else start))
    tilted = _tilt(sites, y, link)
    damping, iterations = 1.0, 1
    while not tilted.residual <= tolerance and iterations < MAX_ITERATIONS:
        before = tilted.residual
        tau, nu = _moved(sites, tilted, damping)
        sites = _marginals(prior.K, tau, nu)
        tilted = _tilt(sites, y, link)
        # parallel updates can swing past the fixed point: then the step halves, and it recovers slowly
        grew = not tilted.residual <= before
        damping = max(_SMALLEST_DAMPING, 0.5 * damping) if grew else min(1.0, _RECOVERY * damping)
        iterations += 1
    return _fit(prior, sites, tilted, link, iterations, tolerance)


def _moved(sites: _Sites, tilted: _Tilted, damping: float) -> tuple[FloatArray, FloatArray]:
    """Return the sites after a damped step; where the tilted moments failed they stay."""
    usable = np.isfinite(tilted.tau) & np.isfinite(tilted.nu) & (tilted.tau >= 0.0)
    tau = np.where(usable, sites.tau + damping * (tilted.tau - sites.tau), sites.tau)
    nu = np.where(usable, sites.nu + damping * (tilted.nu - sites.nu), sites.nu)
    return tau, nu


def _marginals(K: FloatArray, tau: FloatArray, nu: FloatArray) -> _Sites:
    system = WeightedSystem(K, tau)
    alpha = system.smoothed(nu)
    return _Sites(tau, nu, system, alpha, K @ alpha, _posterior_variance(system, tau))


def _posterior_variance(system: WeightedSystem, tau: FloatArray) -> FloatArray:
    """Return the diagonal of K - K R K: (1 - B^-1_ii) / tau_i, or by its definition for weak sites."""
    share = 1.0 - system.inverse_diagonal
    weak = share < _WEAK_SITE
    variance = np.divide(share, tau, out=np.diagonal(system.K).copy(), where=~weak)
    if weak.any():
        right = system.root_weights[:, None] * system.K[:, weak]
        half = solve_triangular(system.factor.lower, right, lower=True, check_finite=False)
        variance[weak] -= np.einsum("ij,ij->j", half, half)
    return variance


def _tilt(sites: _Sites, y: FloatArray, link: Link) -> _Tilted:
    # A failed cavity gives NaN, which no comparison below takes for agreement.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        precision = 1.0 / sites.variance - sites.tau
        precision = np.where(precision > 0.0, precision, np.nan)
        mean = (sites.mean / sites.variance - sites.nu) / precision
        variance = 1.0 / precision
        log_z, first, second = link.log_partition(y, mean, variance)
        # tilted variance = cavity variance times this; log-concave links keep it in (0, 1)
        shrink = 1.0 + variance * second
        gap = np.abs(mean + variance * first - sites.mean) / np.sqrt(sites.variance)
        spread = np.abs(variance * shrink / sites.variance - 1.0)
        tau, nu = -second / shrink, (first - mean * second) / shrink
    worst = float(np.max(np.maximum(gap, spread)))
    return _Tilted(precision, mean, log_z, tau, nu, worst)


def _fit(prior: KernelSystem, sites: _Sites, tilted: _Tilted, link: Link, iterations: int, tolerance: float) -> GPCFit:
    value = _log_partition(sites, tilted)
    M = sites.system.precision()
    M *= -0.5
    M += 0.5 * np.outer(sites.alpha, sites.alpha)
    gradient = prior.gradient(M)
    finite = bool(np.isfinite(value) and np.isfinite(gradient).all())
    return GPCFit(
        posterior=prior.posterior(sites.alpha, sites.system.root, link),
        log_marginal_likelihood=value,
        gradient=gradient,
        converged=bool(tilted.residual <= tolerance) and finite,
        iterations=iterations,
        residual=tilted.residual,
        state=np.stack([sites.tau, sites.nu]),
    )


def _log_partition(sites: _Sites, tilted: _Tilted) -> float:
    """Return log Z_EP in the form without cancellation, Eq. (3.73) and (3.74)."""
    tau, nu, t, m = sites.tau, sites.nu, tilted.cavity_precision, tilted.cavity_mean
    # cavity and site enter by ratios only: their normalisers alone would cancel
    terms = (
        tilted.log_z
        + 0.5 * np.log1p(tau / t)
        + 0.5 * nu * (sites.mean - nu / (t + tau))
        + 0.5 * m * t * (tau * m - 2.0 * nu) / (t + tau)
    )
    return float(terms.sum()) - 0.5 * sites.system.factor.logdet
