"""Hamiltonian Monte Carlo over hyperparameters: all chains or particles at once, identity mass.

Source: Neal, "MCMC using Hamiltonian dynamics", 2011. Settings of Li, Rakitsch & Zimmer, AISTATS 2022.

Equation: Li et al. 2022, App. I
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.models.multi_output.observations import HyperparameterModel, Likelihood
from gpsuite.models.sampling.posterior import HyperPosterior, Target, finite_prior_draws

# Function of points [S, d] that returns log density [S] and gradient [S, d], -inf and zero if it is not defined.
Density = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, eq=False)
class Points:
    """Points with their values for the next trajectory."""

    u: FloatArray
    log_density: FloatArray
    gradient: FloatArray

    @classmethod
    def at(cls, density: Density, u: FloatArray) -> Points:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # far points: rejected below
            return cls(u, *density(u))


@dataclass(frozen=True, eq=False)
class Transition:
    """One Metropolis step of every point.

    Attributes:
        acceptance: acceptance probability of each proposal, [S], 0 if it was not finite.
        finished: whether the trajectories reached their ends. If not, no proposal was accepted.
    """

    points: Points
    acceptance: FloatArray
    accepted: BoolArray
    finished: bool = True


def never() -> bool:
    return False


def transition(
    density: Density,
    start: Points,
    step: FloatArray,
    leapfrog: int,
    rng: np.random.Generator,
    stop: Callable[[], bool] = never,
) -> Transition:
    """Propose the end of one trajectory per point, and accept or reject it. This leaves every density invariant.

    A trajectory through a point of non-finite density is rejected: the reverse trajectory would meet the point too.
    `stop` is called before every step but the first. If it ends the trajectories, all are rejected.
    """
    size, momentum = step[:, None], rng.standard_normal(start.u.shape)
    energy = 0.5 * np.einsum("ij,ij->i", momentum, momentum)
    alive, end = np.ones(len(start.u), dtype=bool), start
    with np.errstate(over="ignore", invalid="ignore"):
        momentum += 0.5 * size * start.gradient
        for number in range(leapfrog):
            if number and stop():
                return Transition(start, np.zeros(len(step)), np.zeros(len(step), dtype=bool), finished=False)
            # A lost point stays at its start: far away it would cause overflows and failing factorisations.
            end = Points.at(density, np.where(alive[:, None], end.u + size * momentum, start.u))
            alive &= np.isfinite(end.log_density)
            momentum += (0.5 if number == leapfrog - 1 else 1.0) * size * end.gradient
        energy_end = 0.5 * np.einsum("ij,ij->i", momentum, momentum)
        log_ratio = end.log_density - start.log_density + energy - energy_end
    log_ratio = np.where(alive & ~np.isnan(log_ratio), log_ratio, -np.inf)
    accepted = np.log1p(-rng.random(len(step))) < log_ratio
    points = Points(
        np.where(accepted[:, None], end.u, start.u),
        np.where(accepted, end.log_density, start.log_density),
        np.where(accepted[:, None], end.gradient, start.gradient),
    )
    return Transition(points, np.exp(np.minimum(log_ratio, 0.0)), accepted)


@dataclass(frozen=True)
class HMCSettings:
    """Settings of the paper's sampler. The defaults take 2,380 transitions and 23,800 gradients per chain.

    Attributes:
        thinning: number of transitions skipped between two kept draws.
        adaptation: number of transitions at the start. After each a chain's step grows or shrinks.
        adaptation_rate: share by which the step changes.
        target_acceptance: acceptance probability. Above it the step grows, below it the step shrinks.

    Raises:
        ValueError: if there is nothing to do, or the step would change after the burn-in.
    """

    chains: int = 1
    burn_in: int = 300
    samples: int = 100
    thinning: int = 20
    leapfrog: int = 10
    step: float = 0.01
    adaptation: int = 90
    adaptation_rate: float = 0.1
    target_acceptance: float = 0.75

    def __post_init__(self) -> None:
        if min(self.chains, self.samples, self.leapfrog) < 1 or self.thinning < 0 or not self.step > 0.0:
            raise ValueError(f"{self}: chains, samples and leapfrog must be at least 1, step positive")
        if self.adaptation > self.burn_in:
            raise ValueError(f"adaptation={self.adaptation} must end within burn_in={self.burn_in}")

    @property
    def transitions(self) -> int:
        return self.burn_in + 1 + (self.samples - 1) * (self.thinning + 1)


def sample_hmc(
    model: HyperparameterModel, likelihood: Likelihood, rng: np.random.Generator, settings: HMCSettings
) -> HyperPosterior:
    """Sample the posterior of the hyperparameters with parallel chains from prior draws, each with its own step.

    The diagnostics are acceptance (mean after the burn-in), step_size (mean), gradients (of one hyperparameter vector),
    r_hat (largest) and ess (smallest over the invariants of `identified_quantities`).

    Returns:
        equally weighted draws [samples * chains, d]. The chains of a draw are next to each other.

    Raises:
        NoFiniteStartError: if no chain can start.
    """
    target = Target(model, likelihood)
    points = Points.at(target, finite_prior_draws(target, rng, settings.chains))
    step = np.full(settings.chains, settings.step)
    draws, acceptance = np.empty((settings.samples, *points.u.shape)), 0.0
    for number in range(settings.transitions):
        moved = transition(target, points, step, settings.leapfrog, rng)
        points = moved.points
        if number < settings.adaptation:
            longer = moved.acceptance > settings.target_acceptance
            step = step * (1.0 + settings.adaptation_rate) ** np.where(longer, 1.0, -1.0)
        kept, skipped = divmod(number - settings.burn_in, settings.thinning + 1)
        if kept >= 0:
            acceptance += float(moved.acceptance.mean()) / (settings.transitions - settings.burn_in)
            if skipped == 0:
                draws[kept] = points.u
    u = draws.reshape(-1, draws.shape[-1])
    quantities = identified_quantities(model, likelihood, u).reshape(*draws.shape[:2], -1)
    diagnostics = {
        "acceptance": acceptance,
        "step_size": float(step.mean()),
        "gradients": float(settings.chains * (1 + settings.leapfrog * settings.transitions)),
        **chain_diagnostics(quantities),
    }
    return HyperPosterior.equal(u, diagnostics)


def identified_quantities(model: HyperparameterModel, likelihood: Likelihood, u: FloatArray) -> FloatArray:
    """Return quantities of u [S, d] with light tails that the data identify, [S, Q].

    These are the log marginal likelihood, the logarithms of the noise variances and of the outputs' prior variances,
    and the prior correlations between outputs. They do not depend on signs of the mixing weights and the order of the
    latent processes. Chains need not agree on these.
    """
    covariance = model.prior_covariance(u)
    variances = np.diagonal(covariance, axis1=1, axis2=2)
    p, q = np.tril_indices(model.n_outputs, -1)
    correlations = covariance[:, p, q] / np.sqrt(variances[:, p] * variances[:, q])
    lml = likelihood.value(u)[:, None]
    return np.concatenate([lml, np.log(model.noise(u)), np.log(variances), correlations], axis=1)


def chain_diagnostics(draws: FloatArray) -> dict[str, float]:
    """Return the worst `r_hat` and `ess` over the columns of draws [n, chains, Q] that vary.

    If no column varies, the chains are stuck: r_hat is infinite and ess 0. Under 4 draws per chain both are NaN.
    """
    if len(draws) < 4:
        return {"r_hat": float("nan"), "ess": float("nan")}
    varying = [x for x in np.moveaxis(draws, 2, 0) if np.ptp(x) > 0.0]
    if not varying:
        return {"r_hat": float("inf"), "ess": 0.0}
    return {"r_hat": max(split_r_hat(x) for x in varying), "ess": min(effective_sample_size(x) for x in varying)}


def split_r_hat(x: FloatArray) -> float:
    """Return the potential scale reduction of draws [n, chains], n >= 4, every chain split into two halves.

    See Gelman et al., Bayesian Data Analysis, 3rd ed., section 11.4. It is 1 if all halves agree.
    """
    within, total = _variances(_halves(x))
    return float(np.sqrt(total / within)) if within > 0.0 else float("inf")


def effective_sample_size(x: FloatArray) -> float:
    """Return the number of independent draws with the same variance of the mean as draws [n, chains], n >= 4.

    Autocorrelations of the split chains are summed in pairs as long as a pair is positive, and are made monotone (Geyer
    1992, Vehtari et al. 2021, eqs. 10 and 11).
    """
    x = _halves(x)
    n, chains = x.shape
    within, total = _variances(x)
    if not total > 0.0:
        return 0.0
    # padded to twice the length: otherwise a chain's end would be correlated with its beginning
    spectrum = np.fft.rfft(x - x.mean(axis=0), 2 * n, axis=0)
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:n].mean(axis=1) / n
    correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    pairs = correlations[: n - n % 2].reshape(-1, 2).sum(axis=1)
    positive = pairs[: np.argmax(pairs < 0.0)] if (pairs < 0.0).any() else pairs
    time = 2.0 * float(np.minimum.accumulate(positive).sum()) - 1.0
    # antithetic chains can be better than independent draws, but estimates are limited to n log10 n
    return n * chains / max(time, 1.0 / float(np.log10(n * chains)))


def _halves(x: FloatArray) -> FloatArray:
    """Return draws [n // 2, 2 chains]. The middle draw of an odd number is left out."""
    half = len(x) // 2
    return np.concatenate([x[:half], x[-half:]], axis=1)


def _variances(x: FloatArray) -> tuple[float, float]:
    """Return the mean variance within chains and the estimate of the variance of all draws."""
    within = float(x.var(axis=0, ddof=1).mean())
    return within, within * (len(x) - 1) / len(x) + float(x.mean(axis=0).var(ddof=1))
