"""Weighted hyperparameter vectors that represent a posterior, and the density for samplers and optimisers.

Equation: Li et al. 2022, Eq. (30)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.models.multi_output.observations import HyperparameterModel, Likelihood
from gpsuite.models.search import Objective, minimise

_PRIOR_ROUNDS = 100
LOG_2PI = math.log(2.0 * math.pi)


class NoFiniteStartError(ArithmeticError):
    """Raised if the density is not finite at any draw from the prior."""


@dataclass(frozen=True, eq=False)
class HyperPosterior:
    """A posterior over unconstrained hyperparameters, as weighted vectors.

    Attributes:
        u: particles, draws or one optimum, [S, d].
        weights: non-negative weights with sum 1, [S].

    Raises:
        ValueError: if shapes differ, u is not finite, or the weights are not a distribution.
    """

    u: FloatArray
    weights: FloatArray
    diagnostics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.u.ndim != 2 or self.weights.shape != (len(self.u),):
            raise ValueError(f"u {self.u.shape}, weights {self.weights.shape}: must be [S, d] and [S]")
        if not np.isfinite(self.u).all():
            raise ValueError("u must be finite")
        if not (self.weights.min() >= 0.0 and abs(self.weights.sum() - 1.0) <= 1e-9):
            raise ValueError("weights must not be negative and must sum to 1")

    def __len__(self) -> int:
        return len(self.u)

    @classmethod
    def equal(cls, u: FloatArray, diagnostics: Mapping[str, float]) -> HyperPosterior:
        """Return a posterior with the same weight for every vector of u [S, d]."""
        return cls(u, np.full(len(u), 1.0 / len(u)), diagnostics)


@dataclass(frozen=True, eq=False)
class Target:
    """Log density over u: log prior + log |Jacobian| + (1 - beta) previous + beta likelihood, not normalised.

    beta = 1 is the posterior. Without `previous`, beta from 0 to 1 leads from the prior to the posterior. With
    `previous` it leads from the posterior of the previous observations to that of all.
    """

    model: HyperparameterModel
    likelihood: Likelihood
    beta: float = 1.0
    previous: Likelihood | None = None

    def __call__(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log density [S] and gradient [S, d] at u [S, d], -inf and zero if either is not finite."""
        value, gradient = self.model.log_prior(u)
        for weight, likelihood in self.parts:
            lml, slope = likelihood.value_and_gradient(u)
            value, gradient = value + weight * lml, gradient + weight * slope
        usable = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        return np.where(usable, value, -np.inf), np.where(usable[:, None], gradient, 0.0)

    @property
    def parts(self) -> list[tuple[float, Likelihood]]:
        """Likelihoods with a positive weight at this beta, and their weights."""
        weighted = [(1.0 - self.beta, self.previous), (self.beta, self.likelihood)]
        return [(weight, part) for weight, part in weighted if part is not None and weight > 0.0]


def finite_prior_draws(target: Target, rng: np.random.Generator, n: int) -> FloatArray:
    """Return n prior draws [n, d] at which the target is finite.

    Raises:
        NoFiniteStartError: if some are still missing after many rounds.
    """
    u = target.model.draw_prior(rng, n)
    missing = ~np.isfinite(target(u)[0])
    for _ in range(_PRIOR_ROUNDS):
        if not missing.any():
            return u
        u[missing] = target.model.draw_prior(rng, int(missing.sum()))
        missing[missing] = ~np.isfinite(target(u[missing])[0])
    raise NoFiniteStartError("the log marginal likelihood is not finite at draws from the prior")


# Mixtures of normal distributions over hyperparameters: their moments and densities.
#
# A prediction with S weighted hyperparameter vectors is a mixture of S normal distributions. The acquisition and the
# safety rule replace it by the normal distribution with the same moments (Li, Rakitsch and Zimmer 2022, App. I.2).
def mixture_moments(mean: FloatArray, variance: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of mixtures, [S, ...] -> [...]: sum w μ and sum w (σ² + (μ − mean)²)."""
    centre = np.tensordot(weights, mean, axes=1)
    # Deviations from the mean: the difference of the raw moments cancels if the components agree.
    return centre, np.tensordot(weights, variance + (mean - centre) ** 2, axes=1)


def mixture_covariance(mean: FloatArray, covariance: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean [..., P] and covariance [..., P, P] of mixtures of S multivariate normal distributions."""
    centre = np.tensordot(weights, mean, axes=1)
    away = mean - centre
    between = np.einsum("s,s...p,s...q->...pq", weights, away, away)
    return centre, np.tensordot(weights, covariance, axes=1) + between


def normal_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return log N(y | mean, variance) elementwise."""
    return np.asarray(-0.5 * ((y - mean) ** 2 / variance + np.log(variance) + LOG_2PI))


def mixture_log_density(
    y: FloatArray, mean: FloatArray, variance: FloatArray, noise: FloatArray, weights: FloatArray
) -> FloatArray:
    """Return log sum_s w_s N(y_p | μ_sp [S, ..., P], σ²_sp + noise_sp [S, P]), [..., P]. NaN if y is."""
    total = variance + noise.reshape(len(noise), *[1] * (y.ndim - 1), -1)
    factors = weights.reshape(-1, *[1] * y.ndim)
    return np.asarray(logsumexp(normal_log_density(y, mean, total), axis=0, b=factors))


@dataclass(frozen=True)
class OptimumSettings:
    """Objective of a maximisation, and its number of starts.

    Attributes:
        kind: map or ml. map is log prior + log |Jacobian| + log marginal likelihood: the mode of the density of u. ml
            is only the log marginal likelihood. It can go to infinity along directions that the data do not determine.
        starts: number of draws from the prior, in addition to the given starts.

    Raises:
        ValueError: if the kind is unknown or a number is out of range.
    """

    kind: Literal["map", "ml"] = "map"
    starts: int = 5
    evaluations: int = 500

    def __post_init__(self) -> None:
        if self.kind not in ("map", "ml") or self.starts < 0 or self.evaluations < 1:
            raise ValueError(f"{self}: kind must be map or ml, starts >= 0, evaluations >= 1")


def find_optimum(
    model: HyperparameterModel,
    likelihood: Likelihood,
    rng: np.random.Generator,
    settings: OptimumSettings,
    given: FloatArray | None = None,
) -> HyperPosterior:
    """Return the best optimum over all starts as a posterior of one vector.

    The diagnostics are lml and log_density (the maximised value) at the optimum, gradients (evaluations over all
    starts), starts, and converged (share of the starts with a converged search).

    Args:
        given: further starts [n, d], such as the optimum without the newest observation.

    Raises:
        ValueError: if there is no start.
        NoFiniteStartError: if no start has a finite value.
    """
    starts = np.empty((0, model.n_parameters)) if given is None else given
    if settings.starts:
        drawn = finite_prior_draws(Target(model, likelihood), rng, settings.starts)
        starts = np.concatenate([starts, drawn])
    if not len(starts):
        raise ValueError("settings.starts is 0 and no start is given")
    negative = _negative(model, likelihood, settings.kind)
    searches = [minimise(negative, start, Budget(evaluations=settings.evaluations)) for start in starts]
    best = min(searches, key=lambda each: each.loss)
    if not np.isfinite(best.loss):
        raise NoFiniteStartError("the value is not finite at any start")
    u = best.point[None, :]
    diagnostics = {
        "lml": float(likelihood.value(u)[0]),
        "log_density": -best.loss,
        "gradients": float(sum(each.evaluations for each in searches)),
        "starts": float(len(starts)),
        "converged": float(np.mean([each.status == "done" for each in searches])),
    }
    return HyperPosterior.equal(u, diagnostics)


def _negative(model: HyperparameterModel, likelihood: Likelihood, kind: Literal["map", "ml"]) -> Objective:
    density = Target(model, likelihood) if kind == "map" else likelihood.value_and_gradient

    def loss(u: FloatArray) -> tuple[float, FloatArray]:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the search rejects such points
            value, gradient = density(u[None, :])
        return -float(value[0]), -gradient[0]

    return loss
