"""Gaussian expectations of the logistic function and its derivatives. No TensorFlow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import erfcx, expit, log_ndtr, ndtr

from gpsuite.arrays import FloatArray
from gpsuite.registry import Registry

# Standard deviations covered by the trapezoidal rule: the remainder is below 1e-32.
REACH = 12.0
# Standard deviations if relative accuracy in the tail matters: sigma's tilt moves the mass by up to `WIDE` deviations.
EP_REACH = 24.0
STEP = 0.05
# From this standard deviation on the other rule is used: the trapezoidal error is 2 exp(-2 pi^2 / (STEP sd)).
WIDE = 10.0
_FADED, _NODES = 40.0, 96  # sigma(-40) = 4e-18
_ABSCISSAE, _WEIGHTS = np.polynomial.legendre.leggauss(_NODES)  # type: ignore[no-untyped-call]
_F = 0.5 * _FADED * (_ABSCISSAE + 1.0)
_W = 0.5 * _FADED * _WEIGHTS
_BLOCK = 4096
# GPflow's `Bernoulli` maps Phi to [1e-3, 1 - 1e-3].
GPFLOW_SQUEEZE = 1e-3
_TAIL, _TERMS = 3.0, 60
LINKS: Registry[Link] = Registry("link")


def logistic_moments(mean: FloatArray, variance: FloatArray, reach: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E sigma(f), E sigma'(f), E sigma''(f) for f ~ N(mean, variance), elementwise, sigma logistic.

    The absolute error is below 1e-12. Up to a standard deviation of `WIDE` it uses the trapezoidal rule, which is
    exponentially accurate since sigma's poles are at +-i pi. Above, sigma is a step plus a short-ranged odd function.
    So E sigma = Phi(mean/sd) + int_0^40 sigma(-f) [N(-f) - N(f)] df, by Gauss-Legendre. The number of operations does
    not depend on the variance. Each result depends only on its own mean and variance.
    """
    mean, variance = np.broadcast_arrays(np.asarray(mean, np.float64), np.asarray(variance, np.float64))
    flat_mean, sd = mean.ravel(), np.sqrt(variance.ravel())
    out = np.empty((3, flat_mean.size))
    for start in range(0, flat_mean.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        wide = sd[part] > WIDE
        block = np.empty((3, wide.size))
        block[:, ~wide] = _trapezoid(flat_mean[part][~wide], sd[part][~wide], reach)
        block[:, wide] = _step_and_rest(flat_mean[part][wide], sd[part][wide])
        out[:, part] = block
    return out[0].reshape(mean.shape), out[1].reshape(mean.shape), out[2].reshape(mean.shape)


def _trapezoid(mean: FloatArray, sd: FloatArray, reach: float) -> FloatArray:
    count = round(reach / STEP)
    g = STEP * np.arange(-count, count + 1)
    weights = STEP * np.exp(-0.5 * g * g) / math.sqrt(2.0 * math.pi)
    f = mean[:, None] + sd[:, None] * g
    # sigma is computed for both signs: 1 - sigma would lose the tail.
    low, high = expit(f), expit(-f)
    first = low * high
    return np.stack([low @ weights, first @ weights, (first * (high - low)) @ weights])


def _step_and_rest(mean: FloatArray, sd: FloatArray) -> FloatArray:
    left, right = (
        np.exp(-0.5 * ((sign * _F - mean[:, None]) / sd[:, None]) ** 2) / (math.sqrt(2.0 * math.pi) * sd[:, None])
        for sign in (-1.0, 1.0)
    )
    low, high = expit(-_F), expit(_F)
    first = low * high
    second = first * (low - high)
    return np.stack(
        [ndtr(mean / sd) + (left - right) @ (low * _W), (left + right) @ (first * _W), (right - left) @ (second * _W)]
    )


# Link functions of binary classification: class probability from the latent value, p(y=1|f) = sigma(f).
#
# All are symmetric, sigma(-f) = 1 - sigma(f), and concave on f > 0. Labels y are -1.0 or +1.0. No TensorFlow.
class Link(Protocol):
    """Interface of a link that inference and certification use. Every method works elementwise and broadcasts."""

    @property
    def name(self) -> str: ...

    @property
    def log_concave(self) -> bool:
        """Whether log p(y|f) is concave in f, as the non-negative weights of Laplace and EP need."""

    @property
    def B2(self) -> float:
        """Upper bound of |sigma''|, tight to 1e-8."""

    @property
    def B3(self) -> float:
        """Upper bound of |sigma'''|, tight to 1e-8."""

    @property
    def B4(self) -> float:
        """Upper bound of |sigma''''|, tight to 1e-5."""

    def sigma(self, f: FloatArray) -> FloatArray: ...

    def log_likelihood(self, y: FloatArray, f: FloatArray) -> FloatArray: ...

    def derivatives(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the first three derivatives of log p(y|f) in f."""

    def probability(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return E sigma(f) for f ~ N(mean, variance)."""

    def probability_gradient(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of `probability` in the mean and in the variance."""

    def log_partition(
        self, y: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log Z = log E p(y|f), f ~ N(mean, variance), and its first two derivatives in the mean."""


@dataclass(frozen=True)
class Probit:
    """sigma = Phi, the standard normal distribution function. Rasmussen & Williams 2006, Sec. 3.2 and 3.9."""

    name: str = "probit"
    log_concave: bool = True
    B2: float = 0.24197072452  # phi(1)
    B3: float = 0.39894228041  # phi(0)
    B4: float = 0.55058784  # max |3x - x^3| phi(x), at x^2 = 3 - sqrt(6)

    def sigma(self, f: FloatArray) -> FloatArray:
        return np.asarray(ndtr(f))

    def log_likelihood(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return log Phi(y f), accurate in the tails."""
        return np.asarray(log_ndtr(y * f))

    def derivatives(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the first three derivatives of log Phi(y f) in f, to full relative accuracy in the tails."""
        first, weight, third = _log_ndtr_derivatives(np.asarray(y * f, dtype=np.float64))
        return y * first, -weight, y * third

    def probability(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return np.asarray(ndtr(mean / np.sqrt(1.0 + variance)))

    def probability_gradient(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        width = np.sqrt(1.0 + variance)
        t = mean / width
        d_mean = np.exp(-0.5 * t * t) / (math.sqrt(2.0 * math.pi) * width)
        return d_mean, -0.5 * d_mean * mean / (1.0 + variance)

    def log_partition(
        self, y: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log Phi(z), z = y mean / sqrt(1 + variance), and two derivatives in the mean (R&W Eq. 3.58)."""
        width = np.sqrt(1.0 + variance)
        z = np.asarray(y * mean / width, dtype=np.float64)
        first, weight, _ = _log_ndtr_derivatives(z)
        return np.asarray(log_ndtr(z)), y * first / width, -weight / (1.0 + variance)


@dataclass(frozen=True)
class Logistic:
    """sigma(f) = 1 / (1 + exp(-f)). Expectations by quadrature with absolute error below 1e-12."""

    name: str = "logistic"
    log_concave: bool = True
    B2: float = 0.09622504487  # 1 / (6 sqrt(3))
    B3: float = 0.125
    B4: float = 0.127684  # sup |sigma''''|

    def sigma(self, f: FloatArray) -> FloatArray:
        return np.asarray(expit(f))

    def log_likelihood(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return -np.logaddexp(0.0, -y * f)

    def derivatives(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        weight = expit(f) * expit(-f)
        return y * expit(-y * f), -weight, weight * np.tanh(0.5 * f)

    def probability(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return logistic_moments(mean, variance, REACH)[0]

    def probability_gradient(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of `probability` in mean and variance, E sigma' and E sigma'' / 2."""
        _, first, second = logistic_moments(mean, variance, REACH)
        return first, 0.5 * second

    def log_partition(
        self, y: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log E sigma(y f), f ~ N(mean, variance), and its first two derivatives in the mean."""
        z, first, second = logistic_moments(y * mean, variance, EP_REACH)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = first / z
            return np.log(z), y * slope, second / z - slope * slope


@dataclass(frozen=True)
class SqueezedProbit:
    """sigma = squeeze + (1 - 2 squeeze) Phi, the link of GPflow's `Bernoulli` likelihood. Not log-concave."""

    name: str = "squeezed_probit"
    log_concave: bool = False
    squeeze: float = GPFLOW_SQUEEZE

    @property
    def B2(self) -> float:
        return self._slope * PROBIT.B2

    @property
    def B3(self) -> float:
        return self._slope * PROBIT.B3

    @property
    def B4(self) -> float:
        return self._slope * PROBIT.B4

    @property
    def _slope(self) -> float:
        return 1.0 - 2.0 * self.squeeze

    def sigma(self, f: FloatArray) -> FloatArray:
        return self.squeeze + self._slope * PROBIT.sigma(f)

    def log_likelihood(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.log(self.sigma(y * f))

    def derivatives(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        z = y * f
        h = self._slope * np.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * self.sigma(z))
        second = -h * (z + h)
        return y * h, second, -y * (second * (z + h) + h * (1.0 + second))

    def probability(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        return self.squeeze + self._slope * PROBIT.probability(mean, variance)

    def probability_gradient(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        d_mean, d_variance = PROBIT.probability_gradient(mean, variance)
        return self._slope * d_mean, self._slope * d_variance

    def log_partition(
        self, y: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        p = self.probability(y * mean, variance)
        first, half_second = self.probability_gradient(y * mean, variance)
        slope = first / p
        return np.log(p), y * slope, 2.0 * half_second / p - slope * slope


PROBIT = Probit()
LOGISTIC = Logistic()
SQUEEZED_PROBIT = SqueezedProbit()
for _link in (PROBIT, LOGISTIC, SQUEEZED_PROBIT):
    LINKS.register(_link.name)(_link)


def _log_ndtr_derivatives(z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return d, -d^2, d^3 of log Phi at z.

    With r = phi/Phi they are r, r (r + z) and W (r + z) - r (1 - W). For z = -x far below 0 the differences cancel.
    There r = x + u with the continued fraction u = 1/(x+v), v = 2/(x+w), w = 3/(x+4/(x+...)) of the Mills ratio
    (Abramowitz & Stegun 26.2.14). The cancelling parts are removed algebraically.
    """
    ratio = math.sqrt(2.0 / math.pi) / erfcx(-z / math.sqrt(2.0))
    weight = ratio * (ratio + z)
    third = weight * (ratio + z) - ratio * (1.0 - weight)
    far = z < -_TAIL
    if far.any():
        x = -z[far]
        w = np.zeros_like(x)
        for k in range(_TERMS, 2, -1):
            w = k / (x + w)
        v = 2.0 / (x + w)
        u = 1.0 / (x + v)
        ratio, weight, third = (np.array(part) for part in (ratio, weight, third))
        ratio[far] = x + u
        weight[far] = 1.0 - u * (v - u)
        third[far] = u * (v * w - 3.0 * u * v + 2.0 * u * u)
    return ratio, weight, third
