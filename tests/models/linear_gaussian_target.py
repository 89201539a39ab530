"""Bayesian linear regression as a model of hyperparameters: posterior and evidence are known in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import multivariate_normal

from gpsuite.models.multi_output.observations import Observations
from tests.arrays import Array


@dataclass(frozen=True)
class LinearGaussianLikelihood:
    """log N(y | X u, noise I), with X and y those of the observations."""

    observations: Observations
    noise: float

    def value(self, u: Array) -> Array:
        """Return the log density [S]."""
        residuals = self.observations.y - u @ self.observations.X.T
        constant = len(self.observations) * np.log(2.0 * np.pi * self.noise)
        return -0.5 * (np.sum(residuals**2, axis=1) / self.noise + constant)

    def value_and_gradient(self, u: Array) -> tuple[Array, Array]:
        """Return the log density [S] and its gradient [S, d]."""
        residuals = self.observations.y - u @ self.observations.X.T
        return self.value(u), residuals @ self.observations.X / self.noise


@dataclass(frozen=True)
class LinearGaussianModel:
    """u ~ N(0, I), y = X u + noise; the inputs of the observations are the features."""

    n_parameters: int = 4
    likelihood_noise: float = 0.25
    n_outputs: int = 1

    def draw_prior(self, rng: np.random.Generator, n: int) -> Array:
        """Return draws [n, d]."""
        return rng.standard_normal((n, self.n_parameters))

    def log_prior(self, u: Array) -> tuple[Array, Array]:
        """Return the log density [S] and its gradient [S, d]."""
        return -0.5 * np.sum(u**2 + np.log(2.0 * np.pi), axis=1), -u

    def likelihood(self, observations: Observations) -> LinearGaussianLikelihood:
        """Return the likelihood of the observations."""
        return LinearGaussianLikelihood(observations, self.likelihood_noise)

    def noise(self, u: Array) -> Array:
        """Return a positive function of u, [S, 1]: something for the diagnostics of chains to look at."""
        return np.exp(u[:, :1])

    def prior_covariance(self, u: Array) -> Array:
        """Return another, [S, 1, 1]."""
        return np.exp(u[:, 1:2])[:, None, :]

    def posterior(self, observations: Observations) -> tuple[Array, Array]:
        """Return the exact mean [d] and covariance [d, d]."""
        X = observations.X
        covariance = np.linalg.inv(np.eye(self.n_parameters) + X.T @ X / self.likelihood_noise)
        return covariance @ X.T @ observations.y / self.likelihood_noise, covariance

    def log_evidence(self, observations: Observations) -> float:
        """Return log N(y | 0, X X' + noise I)."""
        X, y = observations.X, observations.y
        covariance = X @ X.T + self.likelihood_noise * np.eye(len(y))
        return float(multivariate_normal(np.zeros(len(y)), covariance).logpdf(y))


def linear_data(seed: int, count: int, d: int = 4) -> Observations:
    """Return observations of one draw from the model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((count, d))
    y = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(count)
    return Observations(X, np.zeros(count, dtype=np.int64), y)


def first(observations: Observations, count: int) -> Observations:
    """Return the first observations."""
    return Observations(observations.X[:count], observations.p[:count], observations.y[:count])
