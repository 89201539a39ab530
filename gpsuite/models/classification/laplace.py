"""Laplace's method for binary classification. Rasmussen & Williams 2006, Sec. 3.4 and 5.5.1. No TensorFlow.

Equation: Rasmussen & Williams 2006, Eq. (3.32), Eq. (5.22), Eq. (5.23), Eq. (5.24)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.classification.approximation import BinaryProblem, GPCFit, KernelSystem, WeightedSystem
from gpsuite.models.classification.links import Link
from gpsuite.models.config import Hyperparameters

MAX_ITERATIONS = 100
# The mode is reached if a full Newton step moves no latent value by more than this share of 1 + max|f|.
STEP_TOLERANCE = 1e-10
_MAX_HALVINGS = 40
_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class _Mode:
    """Point f = K a of the iteration with its factorisation. `residual` is the next Newton step's size."""

    a: FloatArray
    f: FloatArray
    system: WeightedSystem
    residual: float
    converged: bool
    iterations: int


def laplace(problem: BinaryProblem, hyperparameters: Hyperparameters, start: FloatArray | None = None) -> GPCFit:
    """Return the Gaussian approximation at the posterior mode, log q(y|X) (Eq. 3.32) and its gradient.

    It is Newton's method on a = K^-1 f. The step is halved until the posterior density does not fall. The iteration has
    converged if a full Newton step is below `STEP_TOLERANCE` (or below the rounding of K a).

    Raises:
        ValueError: if the lengthscales do not fit.
        NonFiniteMatrixError, NotPositiveDefiniteError: if the hyperparameters are too extreme to factorise.
    """
    y, link = problem.y, problem.link
    prior = KernelSystem(problem.X, problem.spec, hyperparameters)
    mode = _find_mode(prior.K, y, link, np.zeros(len(y)) if start is None else start)
    _, second, third = link.derivatives(y, mode.f)
    system = mode.system
    value = float(link.log_likelihood(y, mode.f).sum() - 0.5 * (mode.a @ mode.f)) - 0.5 * system.factor.logdet
    gradient = prior.gradient(_slope_matrix(system, mode.a, -second, third))
    finite = bool(np.isfinite(value) and np.isfinite(gradient).all())
    return GPCFit(
        posterior=prior.posterior(mode.a, system.root, link),
        log_marginal_likelihood=value,
        gradient=gradient,
        converged=mode.converged and finite,
        iterations=mode.iterations,
        residual=mode.residual,
        state=mode.a,
    )


def _find_mode(K: FloatArray, y: FloatArray, link: Link, start: FloatArray) -> _Mode:
    a, f = start, K @ start
    density = _log_density(y, a, f, link)
    # at f = 0 every symmetric link gives 1/2
    fresh = -len(y) * np.log(2.0)
    if not density >= fresh:  # a start worse than f = 0, or not finite
        a, f, density = np.zeros(len(y)), np.zeros(len(y)), fresh
    for iteration in range(1, MAX_ITERATIONS + 1):
        first, second, _ = link.derivatives(y, f)
        system = WeightedSystem(K, -second)
        full_a = system.smoothed(first - second * f)
        full_f = K @ full_a
        residual = float(np.max(np.abs(full_f - f)))
        # K a itself has this error, so shorter steps cannot be resolved
        rounding = _ROUNDING * float(np.max(K @ np.abs(full_a)))
        if residual <= max(STEP_TOLERANCE * (1.0 + float(np.max(np.abs(f)))), rounding):
            return _Mode(full_a, full_f, system, residual, True, iteration)
        step = _accepted_step(y, link, density, (a, f), (full_a, full_f))
        if step is None:
            break
        a, f, density = step
    return _Mode(a, f, system, residual, False, iteration)


def _accepted_step(
    y: FloatArray, link: Link, density: float, old: tuple[FloatArray, FloatArray], full: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray, float] | None:
    """Return the longest halved step that does not lower the log density, or None if there is none."""
    # at the mode the density is flat up to rounding. This must not reject the step
    slack = _ROUNDING * (1.0 + abs(density))
    share = 1.0
    for _ in range(_MAX_HALVINGS):
        a, f = (before + share * (after - before) for before, after in zip(old, full, strict=True))
        reached = _log_density(y, a, f, link)
        if reached >= density - slack:
            return a, f, reached
        share *= 0.5
    return None


def _log_density(y: FloatArray, a: FloatArray, f: FloatArray, link: Link) -> float:
    return float(link.log_likelihood(y, f).sum() - 0.5 * (a @ f))


def _slope_matrix(system: WeightedSystem, a: FloatArray, weights: FloatArray, third: FloatArray) -> FloatArray:
    """Return M with d log q = sum M_ik dK_ik: half of a a' - R, plus the movement of the mode (Eq. 5.22-5.24).

    The posterior variance (1 - B^-1_ii) / W_i appears only multiplied by d^3 log p, which is zero if W is.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(weights > 0.0, third / weights, 0.0)
    shift = system.smoothed(0.5 * (1.0 - system.inverse_diagonal) * ratio)
    M = system.precision()
    # in place: saves an N x N matrix
    M *= -0.5
    # a a' / 2 + (shift a' + a shift') / 2, where a = d log p at the mode
    half = 0.25 * a + 0.5 * shift
    M += np.outer(half, a)
    M += np.outer(a, half)
    return M
