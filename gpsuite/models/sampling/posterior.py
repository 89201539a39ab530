"""Weighted hyperparameter vectors that stand for a posterior, and the density that samplers and optimisers see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.models.multi_output.observations import HyperparameterModel, Likelihood

_PRIOR_ROUNDS = 100


class NoFiniteStartError(ArithmeticError):
    """The density is not finite at any draw from the prior."""


@dataclass(frozen=True, eq=False)
class HyperPosterior:
    """A posterior over unconstrained hyperparameters, as weighted vectors.

    Attributes:
        u: particles, draws or one optimum, [S, d].
        weights: not negative, sum 1, [S].
        diagnostics: how they were found, by name.

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
        """Number S of vectors."""
        return len(self.u)

    @classmethod
    def equal(cls, u: FloatArray, diagnostics: Mapping[str, float]) -> HyperPosterior:
        """Give every vector of u [S, d] the same weight."""
        return cls(u, np.full(len(u), 1.0 / len(u)), diagnostics)


@dataclass(frozen=True, eq=False)
class Target:
    """Log density over u: log prior + log |Jacobian| + (1 - beta) previous + beta likelihood, not normalised.

    beta = 1 is the posterior. Without `previous`, beta from 0 to 1 leads from the prior to the posterior; with
    it, from the posterior of the previous observations to that of all.

    Attributes:
        model: prior of u.
        likelihood: log marginal likelihood of the observations.
        beta: in [0, 1].
        previous: log marginal likelihood of the previous observations, or None.
    """

    model: HyperparameterModel
    likelihood: Likelihood
    beta: float = 1.0
    previous: Likelihood | None = None

    def __call__(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log density [S] and gradient [S, d] at u [S, d]; -inf and zero where either is not finite."""
        value, gradient = self.model.log_prior(u)
        for weight, likelihood in self.parts:
            lml, slope = likelihood.value_and_gradient(u)
            value, gradient = value + weight * lml, gradient + weight * slope
        usable = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        return np.where(usable, value, -np.inf), np.where(usable[:, None], gradient, 0.0)

    @property
    def parts(self) -> list[tuple[float, Likelihood]]:
        """Likelihoods that count at this beta, with their weights."""
        weighted = [(1.0 - self.beta, self.previous), (self.beta, self.likelihood)]
        return [(weight, part) for weight, part in weighted if part is not None and weight > 0.0]


def finite_prior_draws(target: Target, rng: np.random.Generator, n: int) -> FloatArray:
    """Return n prior draws [n, d] at which the target is finite; the others are drawn anew.

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
