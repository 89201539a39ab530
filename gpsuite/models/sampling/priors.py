"""Priors over hyperparameters, as densities of the unconstrained vectors of HMC and SMC.

See Li, Rakitsch and Zimmer 2022, App. I.1: Gamma priors of variances, lengthscales and noise variances, normal priors
of the mixing weights. Positive hyperparameters are x = floor + softplus(u), weights are x = u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from gpsuite.arrays import FloatArray

NOISE_FLOOR = 1e-6  # smallest noise variance, GPflow's


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"{name}={value}: must be positive and finite")


@dataclass(frozen=True)
class Gamma:
    """Gamma distribution of a positive number x: density proportional to x^(shape - 1) exp(-rate x).

    Raises:
        ValueError: if shape or rate is not positive and finite.
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        _check_positive(shape=self.shape, rate=self.rate)

    def scaled(self, factor: float) -> Gamma:
        return Gamma(self.shape, self.rate / factor)

    def log_density(self, x: FloatArray) -> FloatArray:
        found: FloatArray = xlogy(self.shape - 1.0, x) - self.rate * x + self.log_normaliser
        return found

    @property
    def log_normaliser(self) -> float:
        """Log of the density's constant factor, shape log(rate) - log Gamma(shape)."""
        return self.shape * math.log(self.rate) - math.lgamma(self.shape)


@dataclass(frozen=True)
class Normal:
    """Normal distribution. ValueError if the mean is not finite or sd is not positive and finite."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.mean):
            raise ValueError(f"mean={self.mean}: must be finite")
        _check_positive(sd=self.sd)

    def scaled(self, factor: float) -> Normal:
        return Normal(self.mean * factor, self.sd * factor)

    def log_density(self, x: FloatArray) -> FloatArray:
        found: FloatArray = -0.5 * ((x - self.mean) / self.sd) ** 2 + self.log_normaliser
        return found

    @property
    def log_normaliser(self) -> float:
        """Log of the density's constant factor, -log(sd) - log(2 pi) / 2."""
        return -math.log(self.sd) - 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class HyperPriors:
    """Independent priors, one per kind of hyperparameter. The defaults are the paper's."""

    variance: Gamma = Gamma(2.5, 1.0)
    lengthscale: Gamma = Gamma(1.5, 1.0)
    noise: Gamma = Gamma(1.5, 3.0)
    mixing: Normal = Normal(0.0, 2.0)

    def scaled(
        self, *, variance: float = 1.0, lengthscale: float = 1.0, noise: float = 1.0, mixing: float = 1.0
    ) -> HyperPriors:
        """Return the priors of hyperparameters multiplied by these factors, to study how results depend on priors."""
        return HyperPriors(
            self.variance.scaled(variance),
            self.lengthscale.scaled(lengthscale),
            self.noise.scaled(noise),
            self.mixing.scaled(mixing),
        )


class UnconstrainedPrior:
    """Product prior of d hyperparameters, as a density of their unconstrained values u.

    The positive hyperparameters, x_i = floor_i + softplus(u_i), come first, then the real ones, x_i = u_i. All methods
    handle S vectors at once.
    """

    def __init__(self, positive: Sequence[tuple[Gamma, float]], real: Sequence[Normal] = ()) -> None:
        self.n_positive = len(positive)
        self._floor = np.array([floor for _, floor in positive])
        self._shape = np.array([gamma.shape for gamma, _ in positive])
        self._rate = np.array([gamma.rate for gamma, _ in positive])
        self._mean = np.array([normal.mean for normal in real])
        self._precision = np.array([normal.sd**-2.0 for normal in real])
        constants = [gamma.log_normaliser for gamma, _ in positive] + [each.log_normaliser for each in real]
        self._constant = math.fsum(constants)

    def __len__(self) -> int:
        return self.n_positive + len(self._mean)

    def constrain(self, u: FloatArray) -> FloatArray:
        x = np.array(u, dtype=np.float64)
        x[:, : self.n_positive] = self._floor + np.logaddexp(0.0, u[:, : self.n_positive])
        return x

    def unconstrain(self, x: FloatArray) -> FloatArray:
        """Return u [S, d] of the hyperparameters x [S, d].

        Raises:
            ValueError: if a positive hyperparameter is not above its floor.
        """
        above = x[:, : self.n_positive] - self._floor
        if not (above > 0.0).all():
            raise ValueError("positive hyperparameters must lie above their floors")
        u = np.array(x, dtype=np.float64)
        # log(exp(a) - 1), accurate for small and large a
        u[:, : self.n_positive] = above + np.log(-np.expm1(-above))
        return u

    def derivative(self, u: FloatArray) -> FloatArray:
        """Return dx_i / du_i [S, d] at u [S, d]."""
        slope = np.ones_like(u)
        slope[:, : self.n_positive] = expit(u[:, : self.n_positive])
        return slope

    def draw(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return n draws of u, [n, d]. A draw at or below its floor (probability below 1e-8) is moved just above it."""
        drawn = rng.gamma(self._shape, 1.0 / self._rate, size=(n, self.n_positive))
        positive = np.maximum(drawn, self._floor * 1.001 + np.finfo(np.float64).tiny)
        real = rng.normal(self._mean, self._precision**-0.5, size=(n, len(self._mean)))
        return self.unconstrain(np.hstack([positive, real]))

    def log_density(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log p(x(u)) + log |dx/du| [S] and its gradient with respect to u [S, d].

        If it is not finite, the value is -inf and the gradient zero.
        """
        raw, real = u[:, : self.n_positive], u[:, self.n_positive :]
        with np.errstate(all="ignore"):
            above = np.logaddexp(0.0, raw)
            x = self._floor + above
            slope = -np.expm1(-above)
            # log dx/du = log sigmoid(u) = u - softplus(u)
            density = (self._shape - 1.0) * np.log(x) - self._rate * x + (raw - above)
            gradient = np.empty_like(u)
            gradient[:, : self.n_positive] = ((self._shape - 1.0) / x - self._rate) * slope + (1.0 - slope)
            shift = real - self._mean
            pull = self._precision * shift
            np.negative(pull, out=gradient[:, self.n_positive :])
            value = self._constant + density.sum(axis=1) - 0.5 * (pull * shift).sum(axis=1)
            good = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        return np.where(good, value, -np.inf), np.where(good[:, None], gradient, 0.0)
