"""Exact class probabilities of stored floats in decimal arithmetic of 50 digits: the oracle of the rounding tests.

A float is a decimal number exactly, and every operation is relative to its result, so a difference of inputs loses
nothing however far both lie from the origin. Condition numbers up to 1e13 and sums of hundreds of terms leave more
than 30 digits.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from functools import cache

import numpy as np
import numpy.typing as npt

from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.composite import single_kernel

Array = npt.NDArray[np.float64]
DIGITS = 50
ONE, TWO = Decimal(1), Decimal(2)


def kappa(kernel: str, q: Decimal) -> Decimal:
    """Return the kernel per unit variance at a scaled squared distance."""
    if kernel == "squared_exponential":
        return (-q / 2).exp()
    if kernel == "matern32":
        z = (3 * q).sqrt()
        return (1 + z) * (-z).exp()
    z = (5 * q).sqrt()
    return (1 + z + z * z / 3) * (-z).exp()


class ExactPosterior:
    """Latent mean and variance of a posterior's stored floats; a negative variance counts as zero."""

    def __init__(self, posterior: GPCPosterior) -> None:
        self.kernel, self.link = single_kernel(posterior.kernel, "test"), posterior.link
        self.X, self.root = _decimals(posterior.X), _decimals(posterior.root)
        self.lengthscales, self.alpha = _decimals(posterior.lengthscales), _decimals(posterior.alpha)
        self.weights, self.variance = _decimals(posterior.weights), Decimal(posterior.variance)

    def moments(self, point: Array) -> tuple[Decimal, Decimal]:
        """Return mean and variance at one point [D]."""
        with localcontext(Context(prec=DIGITS)):
            x = _decimals(point)
            k = [self.variance * kappa(self.kernel, self._distance(x, row)) for row in self.X]
            mean = sum((a * b for a, b in zip(self.alpha, k, strict=True)), Decimal(0))
            variance = self.variance
            for weight, row in zip(self.weights, self.root, strict=True):
                variance += weight * sum((a * b for a, b in zip(row, k, strict=True)), Decimal(0)) ** 2
            return mean, max(variance, Decimal(0))

    def _distance(self, x: list[Decimal], row: list[Decimal]) -> Decimal:
        parts = (((a - b) / scale) ** 2 for a, b, scale in zip(x, row, self.lengthscales, strict=True))
        return sum(parts, Decimal(0))


def probit(mean: Decimal, variance: Decimal) -> Decimal:
    """Return t = mean / sqrt(1 + variance)."""
    with localcontext(Context(prec=DIGITS)):
        return mean / (1 + variance).sqrt()


def normal_probability(t: Decimal, squeeze: float = 0.0) -> Decimal:
    """Return squeeze + (1 - 2 squeeze) Phi(t), relative error below 1e-30."""
    with localcontext(Context(prec=DIGITS + 30)):
        tail = _upper_tail(abs(t))
        phi = 1 - tail if t > 0 else tail
        return Decimal(squeeze) + (1 - 2 * Decimal(squeeze)) * phi


def logistic_probability(mean: float, variance: float) -> float:
    """Return E sigma(f) by the trapezoidal rule with nodes .25 apart in f: absolute error below 1e-13."""
    sd = float(np.sqrt(variance))
    step = min(0.04, 0.25 / max(sd, 1e-300))
    g = step * np.arange(-np.ceil(12 / step), np.ceil(12 / step) + 1)
    with np.errstate(over="ignore", under="ignore"):
        sigma = 1 / (1 + np.exp(-(mean + sd * g)))
        return float(sigma @ np.exp(-0.5 * g * g)) * step / float(np.sqrt(2 * np.pi))


def _upper_tail(t: Decimal) -> Decimal:
    """Return P(Z > t), t >= 0: the power series of the density's integral, far out a continued fraction."""
    density = (-t * t / 2).exp() / (2 * _pi()).sqrt()
    if t < 7:
        term, total, k = t, t, 1
        while term > Decimal(10) ** (-DIGITS - 20):
            term *= t * t / (2 * k + 1)
            total, k = total + term, k + 1
        return ONE / 2 - density * total
    fraction = t
    for k in range(400, 0, -1):
        fraction = t + k / fraction
    return density / fraction


@cache
def _pi() -> Decimal:
    """Return pi by Machin's formula."""
    with localcontext(Context(prec=DIGITS + 40)):

        def arctan_inverse(n: int) -> Decimal:
            power, total, k = ONE / n, ONE / n, 1
            while abs(power) > Decimal(10) ** (-DIGITS - 38):
                power /= -n * n
                total, k = total + power / (2 * k + 1), k + 1
            return total

        return 4 * (4 * arctan_inverse(5) - arctan_inverse(239))


def _decimals(values: Array) -> list:  # type: ignore[type-arg]
    return [_decimals(each) for each in values] if np.ndim(values) > 1 else [Decimal(float(v)) for v in values]
