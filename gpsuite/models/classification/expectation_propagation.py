"""Expectation propagation for binary classification. Rasmussen & Williams 2006, Sec. 3.6 and 5.5.2. No TensorFlow.

Equation: Rasmussen & Williams 2006, Eq. (3.65), Eq. (3.73), Eq. (3.74), Eq. (5.27)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.models.classification.approximation import BinaryProblem, GPCFit, KernelSystem, WeightedSystem
from gpsuite.models.classification.links import Link
from gpsuite.models.config import Hyperparameters

MAX_ITERATIONS = 300
# Converged when every tilted and posterior marginal agree: |mean difference| / sd, |variance ratio - 1|.
MOMENT_TOLERANCE = 1e-9
# sequential variant, as in the code of Blaas et al. 2020
SWEEPS, LEAST_SWEEPS, SWEEP_TOLERANCE = 10, 2, 1e-4
BLOCK = 50  # sites with covariances updated one by one
_SMALLEST_DAMPING, _RECOVERY = 0.1, 1.1
# If site precision times posterior variance is below this, (1 - B^-1_ii) / tau_i has lost too many digits.
_WEAK_SITE = 1e-4


@dataclass(frozen=True)
class _Sites:
    """Sites t_i(f) ~ exp(nu_i f - tau_i f^2 / 2) and the resulting marginals, all of shape [N]."""

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

    All sites are updated at once. If the moments' disagreement grows, the step is damped (halved, then slowly
    lengthened). The fixed points are the same as those of sequential EP. The iteration has converged if the moments
    agree to the tolerance.

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
        # parallel updates can overshoot the fixed point: then the step halves, and grows again slowly
        grew = not tilted.residual <= before
        damping = max(_SMALLEST_DAMPING, 0.5 * damping) if grew else min(1.0, _RECOVERY * damping)
        iterations += 1
    return _fit(prior, sites, tilted, link, iterations, tilted.residual <= tolerance)


def sequential_ep(
    problem: BinaryProblem, hyperparameters: Hyperparameters, start: FloatArray | None = None, sweeps: int = SWEEPS
) -> GPCFit:
    """Return EP as the code of Blaas et al. 2020 runs it: one site after another, and few sweeps.

    A sweep visits every site once, in a random order that is the same for every call. The sweeps end if log Z changes
    by at most 1e-4, after at least two. In that code no convergence after the last sweep is a failure, not a rough
    answer. On separable data this keeps the search from large variances. Sites of one block are updated in turn by
    their own covariances. The other sites are updated once after the block. The result is the same as updating all
    sites each time.

    Raises:
        ValueError: if the lengthscales do not fit.
        NonFiniteMatrixError, NotPositiveDefiniteError: if the hyperparameters are too extreme to factorise.
    """
    y, link = problem.y, problem.link
    prior, order = KernelSystem(problem.X, problem.spec, hyperparameters), np.random.default_rng(0)
    state = _subtracted(prior.K, *np.zeros((2, len(y))))
    value, change, sweep = _log_partition(state[0], _tilt(state[0], y, link)), np.inf, 0
    if start is not None:
        near = _subtracted(prior.K, *start)
        near_value = _log_partition(near[0], _tilt(near[0], y, link))
        if not near_value < value:  # if log Z is NaN, the code keeps the last sites and fails
            state, value = near, near_value
    while (change > SWEEP_TOLERANCE and sweep < sweeps) or sweep < LEAST_SWEEPS:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # NaN ends the sweeps without convergence
            state = _subtracted(prior.K, *_swept(*state, y, link, order.permutation(len(y))))
        before, sweep = value, sweep + 1
        value = _log_partition(state[0], _tilt(state[0], y, link))
        change = abs(value - before)
    sites = state[0]
    return _fit(prior, sites, _tilt(sites, y, link), link, sweep, change <= SWEEP_TOLERANCE)


def _subtracted(K: FloatArray, tau: FloatArray, nu: FloatArray) -> tuple[_Sites, FloatArray]:
    """Return the marginals from the covariance K - K R K, and that covariance [N, N].

    If the variance is huge they lose digits, and log Z does not converge. This failure is part of the protocol.
    """
    system = WeightedSystem(K, tau)
    half = system.root @ K
    covariance = K - half.T @ half
    return _Sites(tau, nu, system, system.smoothed(nu), covariance @ nu, np.diagonal(covariance)), covariance


def _swept(
    sites: _Sites, covariance: FloatArray, y: FloatArray, link: Link, order: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the sites after each was updated once, in the given order. The covariance [N, N] is overwritten."""
    tau, nu, mean = sites.tau.copy(), sites.nu.copy(), sites.mean.copy()
    for begin in range(0, len(order), BLOCK):
        block = order[begin : begin + BLOCK]
        columns, old_tau, old_nu = covariance[:, block], tau[block], nu[block]
        _update_block(tau, nu, y, link, block, columns[block].copy(), mean[block].copy())
        d_tau, d_nu = tau[block] - old_tau, nu[block] - old_nu
        # (I + D S)^-1 D and (I + D S)^-1 (d_nu - D mean), with S the block's covariance before the update
        right = np.column_stack([np.diag(d_tau), d_nu - d_tau * mean[block]])
        moved = np.linalg.solve(np.eye(len(block)) + d_tau[:, None] * columns[block], right)
        mean += columns @ moved[:, -1]
        covariance -= columns @ moved[:, :-1] @ columns.T
    return tau, nu


def _update_block(
    tau: FloatArray, nu: FloatArray, y: FloatArray, link: Link, block: IntArray, S: FloatArray, mean: FloatArray
) -> None:
    """Update sites tau and nu [N] of a block in turn. Its covariance S [b, b] and mean [b] also change."""
    for place, site in enumerate(block):
        precision = 1.0 / S[place, place] - tau[site]
        cavity = (mean[place] / S[place, place] - nu[site]) / precision
        _, first, second = (float(each[0]) for each in link.log_partition(y[[site]], *_pair(cavity, 1.0 / precision)))
        shrink = 1.0 + second / precision
        new_tau = max(-second / shrink, 0.0)
        new_nu = (first - cavity * second) / shrink
        d_tau, d_nu = new_tau - tau[site], new_nu - nu[site]
        column = S[:, place].copy()
        scale = 1.0 / (1.0 + d_tau * column[place])
        mean += scale * (d_nu - d_tau * mean[place]) * column
        S -= scale * d_tau * np.outer(column, column)
        tau[site], nu[site] = new_tau, new_nu


def _pair(mean: float, variance: float) -> tuple[FloatArray, FloatArray]:
    return np.array([mean]), np.array([variance])


def _moved(sites: _Sites, tilted: _Tilted, damping: float) -> tuple[FloatArray, FloatArray]:
    """Return the sites after a damped step. Sites with failed tilted moments do not change."""
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
    # A failed cavity gives NaN, so no comparison below counts it as agreement.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        precision = 1.0 / sites.variance - sites.tau
        precision = np.where(precision > 0.0, precision, np.nan)
        mean = (sites.mean / sites.variance - sites.nu) / precision
        variance = 1.0 / precision
        log_z, first, second = link.log_partition(y, mean, variance)
        # the tilted variance is the cavity variance times this. For log-concave links it is in (0, 1)
        shrink = 1.0 + variance * second
        gap = np.abs(mean + variance * first - sites.mean) / np.sqrt(sites.variance)
        spread = np.abs(variance * shrink / sites.variance - 1.0)
        tau, nu = -second / shrink, (first - mean * second) / shrink
    worst = float(np.max(np.maximum(gap, spread)))
    return _Tilted(precision, mean, log_z, tau, nu, worst)


def _fit(prior: KernelSystem, sites: _Sites, tilted: _Tilted, link: Link, iterations: int, converged: bool) -> GPCFit:
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
        converged=bool(converged) and finite,
        iterations=iterations,
        residual=tilted.residual,
        state=np.stack([sites.tau, sites.nu]),
    )


def _log_partition(sites: _Sites, tilted: _Tilted) -> float:
    """Return log Z_EP in the form without cancellation, Eq. (3.73) and (3.74)."""
    tau, nu, t, m = sites.tau, sites.nu, tilted.cavity_precision, tilted.cavity_mean
    # cavity and site appear only in ratios: their separate normalisers would cancel
    terms = (
        tilted.log_z
        + 0.5 * np.log1p(tau / t)
        + 0.5 * nu * (sites.mean - nu / (t + tau))
        + 0.5 * m * t * (tau * m - 2.0 * nu) / (t + tau)
    )
    return float(terms.sum()) - 0.5 * sites.system.factor.logdet
