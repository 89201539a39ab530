"""Bounded losses and their expectations under a Gaussian latent value.

Equation: Reeb et al. 2018, Sec. 2.1, Eq. (20)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from scipy.special import ndtr, roots_legendre

from gpsuite.arrays import FloatArray
from gpsuite.registry import Registry

# Latent variances are at least this: a variance rounded to zero gives the limit and not NaN.
_MIN_VARIANCE = 1e-300
# exp(-x^2/2) is zero in float64 beyond this many standard deviations.
_MAX_DEVIATIONS = 40.0
# Below this ratio of epsilon to the standard deviation the closed forms of the capped losses cancel. There the
# integrand is smooth, and Gauss-Legendre quadrature is exact to rounding.
_WIDE_BELOW = 0.5
_NODES, _WEIGHTS = roots_legendre(12)
# The rule on [-1, 0] and on [0, 1], in units of epsilon: one loss has a kink at 0.
_HALF_NODES: Final = np.concatenate([(_NODES - 1.0) / 2.0, (_NODES + 1.0) / 2.0])
_HALF_WEIGHTS: Final = np.concatenate([_WEIGHTS, _WEIGHTS]) / 2.0
# name -> loss of a given epsilon
LOSSES: Registry[Callable[[float], Loss]] = Registry("loss")


class Loss(Protocol):
    """A loss in [0, 1] of a target y and a prediction f, with closed-form expectations under f ~ N(m, v)."""

    @property
    def name(self) -> str:
        """The name in the table `LOSSES`."""

    @property
    def epsilon(self) -> float:
        """The width of the loss, in units of y."""

    def expected(self, y: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
        """Return E[loss(y, f)], f ~ N(m, v). v is the latent variance, without observation noise."""

    def expected_with_gradient(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the expected loss and its derivatives in m and in v."""

    def pointwise(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return loss(y, f)."""


@dataclass(frozen=True)
class _WidthLoss:
    """A loss with a width epsilon > 0, in units of y. ValueError if it is not positive and finite."""

    epsilon: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0.0):
            raise ValueError(f"epsilon must be a positive finite number, got {self.epsilon!r}")


@LOSSES.register("band01")
@dataclass(frozen=True)
class BandLoss(_WidthLoss):
    """The 0-1 band loss 1[|f - y| > epsilon].

    Equation: Reeb et al. 2018, Sec. 2.1
    """

    @property
    def name(self) -> str:
        return "band01"

    def expected(self, y: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
        """Return Phi((y-eps-m)/sqrt v) + Phi(-(y+eps-m)/sqrt v). With both tails, values as small as 1e-20 are kept."""
        a, b, _ = self._standardised(y, m, v)
        return np.asarray(ndtr(a) + ndtr(-b), dtype=np.float64)

    def expected_with_gradient(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        a, b, variance = self._standardised(y, m, v)
        density_a, density_b = _normal_density(a), _normal_density(b)
        d_mean = (density_b - density_a) / np.sqrt(variance)
        d_variance = (b * density_b - a * density_a) / (2.0 * variance)
        return np.asarray(ndtr(a) + ndtr(-b), dtype=np.float64), d_mean, d_variance

    def pointwise(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.asarray(np.abs(f - y) > self.epsilon, dtype=np.float64)

    def _standardised(self, y: FloatArray, m: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        variance = np.maximum(v, _MIN_VARIANCE)
        deviation, offset = np.sqrt(variance), y - m
        return (offset - self.epsilon) / deviation, (offset + self.epsilon) / deviation, variance


@LOSSES.register("exp")
@dataclass(frozen=True)
class ExponentialLoss(_WidthLoss):
    """The inverted Gaussian loss 1 - exp(-((f - y)/epsilon)^2).

    Equation: Reeb et al. 2018, Eq. (20)
    """

    @property
    def name(self) -> str:
        return "exp"

    def expected(self, y: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
        """Return 1 - eps/sqrt(eps^2 + 2v) exp(-(y-m)^2/(eps^2 + 2v)) (Eq. 20)."""
        return self._log_complement(y, m, v)[0]

    def expected_with_gradient(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        loss, kept, t = self._log_complement(y, m, v)
        offset = y - m
        return loss, -2.0 * offset * kept / t, kept * (1.0 / t - 2.0 * (offset / t) ** 2)

    def pointwise(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.asarray(-np.expm1(-(((f - y) / self.epsilon) ** 2)), dtype=np.float64)

    def _log_complement(self, y: FloatArray, m: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the expected loss, its complement to 1 (from the complement's logarithm) and eps^2 + 2v."""
        variance = np.maximum(v, _MIN_VARIANCE)
        t = self.epsilon**2 + 2.0 * variance
        log_kept = -0.5 * np.log1p(2.0 * variance / self.epsilon**2) - (y - m) ** 2 / t
        return -np.expm1(log_kept), np.exp(log_kept), t


@dataclass(frozen=True)
class _Window:
    """N(o, v) cut at -eps, 0 and eps, for a distance o = |y - m| >= 0.

    Attributes:
        below: probability of (-eps, 0).
        density_low: standard normal density at (-eps - o)/s.
        density_zero: density at -o/s.
        density_high: density at (eps - o)/s.
        outside: probability of |u| > eps, from both tails.
    """

    o: FloatArray
    s: FloatArray
    below: FloatArray
    above: FloatArray
    density_low: FloatArray
    density_zero: FloatArray
    density_high: FloatArray
    outside: FloatArray

    @classmethod
    def of(cls, epsilon: float, o: FloatArray, s: FloatArray) -> _Window:
        low, zero, high = (-epsilon - o) / s, -o / s, (epsilon - o) / s
        at_low, at_zero, at_high = ndtr(low), ndtr(zero), ndtr(high)
        return cls(
            o=o,
            s=s,
            below=at_zero - at_low,
            above=at_high - at_zero,
            density_low=_normal_density(low),
            density_zero=_normal_density(zero),
            density_high=_normal_density(high),
            outside=np.asarray(at_low + ndtr(-high), dtype=np.float64),
        )


@dataclass(frozen=True)
class _CappedLoss(_WidthLoss, ABC):
    """A loss g(|f - y|/epsilon) with g(0) = 0 that grows to 1 at epsilon and stays there."""

    @abstractmethod
    def _inside(self, ratio: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _closed_form(self, window: _Window) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the expectation over |u| < eps and the derivatives in o and v of the whole expectation."""

    def expected(self, y: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
        return self.expected_with_gradient(y, m, v)[0]

    def expected_with_gradient(
        self, y: FloatArray, m: FloatArray, v: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the expected loss and its derivatives in m and in v.

        With u = f - y they are E[loss'(u)] and E[loss''(u)]/2, kinks included.
        """
        offset, deviation = np.broadcast_arrays(m - y, np.sqrt(np.maximum(v, _MIN_VARIANCE)))
        o = np.abs(offset)
        window = _Window.of(self.epsilon, o, deviation)
        inside, d_o, d_variance = self._closed_form(window)
        value = np.asarray(window.outside + inside, dtype=np.float64)
        wide = self.epsilon < _WIDE_BELOW * deviation
        if np.any(wide):
            value[wide], d_o[wide], d_variance[wide] = self._wide(o[wide], deviation[wide])
        return np.minimum(value, 1.0), np.sign(offset) * d_o, d_variance

    def pointwise(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return self._inside(np.minimum(np.abs(f - y) / self.epsilon, 1.0))

    def _wide(self, o: FloatArray, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return expectation and derivatives in o and v from 1 - loss, which is zero outside |u| < eps << s."""
        z = (self.epsilon * _HALF_NODES - o[:, None]) / s[:, None]
        kept = (1.0 - self._inside(np.abs(_HALF_NODES))) * _HALF_WEIGHTS * _normal_density(z)
        scale = self.epsilon / s
        z = np.clip(z, -_MAX_DEVIATIONS, _MAX_DEVIATIONS)  # the density is zero beyond
        value = 1.0 - scale * kept.sum(axis=1)
        d_o = -scale / s * (kept * z).sum(axis=1)
        return value, d_o, -0.5 * scale / s**2 * (kept * (z * z - 1.0)).sum(axis=1)


@LOSSES.register("capped_square")
@dataclass(frozen=True)
class CappedSquareLoss(_CappedLoss):
    """The capped squared loss min(((f - y)/epsilon)^2, 1)."""

    @property
    def name(self) -> str:
        return "capped_square"

    def _inside(self, ratio: FloatArray) -> FloatArray:
        return np.asarray(ratio * ratio, dtype=np.float64)

    def _closed_form(self, window: _Window) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E[u^2; |u| < eps]/eps^2, 2 E[u; |u| < eps]/eps^2 and P(|u| < eps)/eps^2 - density(+-eps)/eps."""
        eps, s, o = self.epsilon, window.s, window.o
        near = window.below + window.above
        low, high = window.density_low, window.density_high
        # (o^2 + v) P + s((o - eps) low - (o + eps) high), each factor scaled by eps before it is squared
        mean, deviation = o / eps, s / eps
        square = (mean * mean + deviation * deviation) * near
        square = square + deviation * ((mean - 1.0) * low - (mean + 1.0) * high)
        d_o = 2.0 / eps * (mean * near + deviation * (low - high))
        return square, d_o, near / eps / eps - (low + high) / (eps * s)


@LOSSES.register("capped_abs")
@dataclass(frozen=True)
class CappedAbsoluteLoss(_CappedLoss):
    """The capped absolute loss min(|f - y|/epsilon, 1).

    The kink at f = y makes the derivative in v grow like 1/sqrt(v) where the mean meets the target.
    """

    @property
    def name(self) -> str:
        return "capped_abs"

    def _inside(self, ratio: FloatArray) -> FloatArray:
        return np.asarray(ratio, dtype=np.float64)

    def _closed_form(self, window: _Window) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E[|u|; |u| < eps]/eps, (P(0 < u < eps) - P(-eps < u < 0))/eps and the jumps of the slope."""
        eps, s = self.epsilon, window.s
        tilt = window.above - window.below
        jumps = 2.0 * window.density_zero - window.density_low - window.density_high
        return (window.o * tilt + s * jumps) / eps, tilt / eps, jumps / (2.0 * eps * s)


def _normal_density(x: FloatArray) -> FloatArray:
    clipped = np.clip(x, -_MAX_DEVIATIONS, _MAX_DEVIATIONS)
    return np.asarray(np.exp(-0.5 * clipped * clipped) / math.sqrt(2.0 * math.pi), dtype=np.float64)
