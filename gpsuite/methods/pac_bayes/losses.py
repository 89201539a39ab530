"""Bounded losses and their expectations under a Gaussian latent value (Sec. 2 and Eq. 20 of Reeb et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from gpsuite.registry import Registry

FloatArray = npt.NDArray[np.float64]

# Latent variances are at least this, so that a variance rounded to zero gives the limit and not NaN.
_MIN_VARIANCE = 1e-300
# exp(-x^2/2) is zero in float64 beyond this many standard deviations.
_MAX_DEVIATIONS = 40.0


class Loss(Protocol):
    """A loss in [0, 1] of a target y and a prediction f, with closed-form expectations under f ~ N(m, v)."""

    @property
    def name(self) -> str:
        """The name in the table `LOSSES`."""

    @property
    def epsilon(self) -> float:
        """The width of the loss, in units of y."""

    def expected(self, y: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
        """Return E[loss(y, f)], f ~ N(m, v); v is the latent variance, no observation noise."""

    def expected_with_gradient(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the expected loss and its derivatives in m and in v."""

    def pointwise(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return loss(y, f)."""


# name -> loss of a given epsilon
LOSSES: Registry[Callable[[float], Loss]] = Registry("loss")


@LOSSES.register("band01")
@dataclass(frozen=True)
class BandLoss:
    """The 0-1 band loss 1[|f - y| > epsilon].

    Attributes:
        epsilon: half width of the band, > 0, in units of y.

    Raises:
        ValueError: if epsilon is not a positive finite number.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    @property
    def name(self) -> str:
        """The name in the table `LOSSES`."""
        return "band01"

    def expected(self, y: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
        """Return Phi((y-eps-m)/sqrt v) + Phi(-(y+eps-m)/sqrt v): both tails, so that 1e-20 survives."""
        a, b, _ = self._standardised(y, m, v)
        return np.asarray(ndtr(a) + ndtr(-b), dtype=np.float64)

    def expected_with_gradient(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the expected loss and its derivatives in m and in v."""
        a, b, variance = self._standardised(y, m, v)
        density_a, density_b = _normal_density(a), _normal_density(b)
        d_mean = (density_b - density_a) / np.sqrt(variance)
        d_variance = (b * density_b - a * density_a) / (2.0 * variance)
        return np.asarray(ndtr(a) + ndtr(-b), dtype=np.float64), d_mean, d_variance

    def pointwise(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return 1 where |f - y| > epsilon, else 0."""
        return np.asarray(np.abs(f - y) > self.epsilon, dtype=np.float64)

    def _standardised(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        variance = np.maximum(v, _MIN_VARIANCE)
        deviation, offset = np.sqrt(variance), y - m
        return (offset - self.epsilon) / deviation, (offset + self.epsilon) / deviation, variance


@LOSSES.register("exp")
@dataclass(frozen=True)
class ExponentialLoss:
    """The inverted Gaussian loss 1 - exp(-((f - y)/epsilon)^2).

    Attributes:
        epsilon: width, > 0, in units of y.

    Raises:
        ValueError: if epsilon is not a positive finite number.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    @property
    def name(self) -> str:
        """The name in the table `LOSSES`."""
        return "exp"

    def expected(self, y: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
        """Return 1 - eps/sqrt(eps^2 + 2v) exp(-(y-m)^2/(eps^2 + 2v)) (Eq. 20)."""
        return self._log_complement(y, m, v)[0]

    def expected_with_gradient(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the expected loss and its derivatives in m and in v."""
        loss, kept, t = self._log_complement(y, m, v)
        offset = y - m
        return loss, -2.0 * offset * kept / t, kept * (1.0 / t - 2.0 * (offset / t) ** 2)

    def pointwise(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return 1 - exp(-((f - y)/epsilon)^2)."""
        return np.asarray(-np.expm1(-(((f - y) / self.epsilon) ** 2)), dtype=np.float64)

    def _log_complement(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the expected loss, its complement to 1 (from the complement's logarithm) and eps^2 + 2v."""
        variance = np.maximum(v, _MIN_VARIANCE)
        t = self.epsilon**2 + 2.0 * variance
        log_kept = -0.5 * np.log1p(2.0 * variance / self.epsilon**2) - (y - m) ** 2 / t
        return -np.expm1(log_kept), np.exp(log_kept), t


def _check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and epsilon > 0.0):
        raise ValueError(f"epsilon must be a positive finite number, got {epsilon!r}")


def _normal_density(x: FloatArray) -> FloatArray:
    clipped = np.clip(x, -_MAX_DEVIATIONS, _MAX_DEVIATIONS)
    return np.asarray(np.exp(-0.5 * clipped * clipped) / math.sqrt(2.0 * math.pi), dtype=np.float64)
