"""Latent mean, variance and class probability of a stored classifier in 60 decimal digits, by the definition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, localcontext

from gpsuite.certificates.plain_model import PlainModel
from tests.arrays import Array

DIGITS = 60


@contextmanager
def many_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = DIGITS, -(10**9), 10**9
        yield


def _exact(values: Array) -> list[Decimal]:
    return [Decimal(each) for each in values.tolist()]


def _kappa(kernel: str, squared: Decimal) -> Decimal:
    if kernel == "squared_exponential":
        return (-squared / 2).exp()
    z = (squared * (3 if kernel == "matern32" else 5)).sqrt()
    polynomial = 1 + z if kernel == "matern32" else 1 + z + z * z / 3
    return polynomial * (-z).exp()


def _dot(first: list[Decimal], second: list[Decimal]) -> Decimal:
    return sum((a * b for a, b in zip(first, second, strict=True)), Decimal(0))


def exact_latent(model: PlainModel, x: Array) -> tuple[Decimal, Decimal]:
    """Return mean and variance, at least 0, at x [D]."""
    with many_digits():
        lengths, point = _exact(model.lengthscales), _exact(x)
        k = []
        for row in model.X:
            steps = [(a - b) / unit for a, b, unit in zip(_exact(row), point, lengths, strict=True)]
            k.append(Decimal(model.variance) * _kappa(model.kernel, _dot(steps, steps)))
        variance = Decimal(model.variance)
        for weight, row in zip(_exact(model.weights), model.root, strict=True):
            variance += weight * _dot(_exact(row), k) ** 2
        return _dot(_exact(model.alpha), k), max(variance, Decimal(0))


def exact_score(model: PlainModel, x: Array) -> Decimal:
    """Return mean / sqrt(1 + variance) (probit) or the class probability (logistic) at x [D]."""
    mean, variance = exact_latent(model, x)
    with many_digits():
        return exact_logistic(mean, variance) if model.link == "logistic" else mean / (1 + variance).sqrt()


def exact_logistic(mean: Decimal | float, variance: Decimal | float) -> Decimal:
    """Return E sigma(f), f ~ N(mean, variance).

    The trapezoidal rule over the Gaussian, fine enough for sigma's poles at a distance of pi: the error is about
    exp(-2 pi^2 / (step deviation)), 1e-17 here.
    """
    with many_digits():
        m, deviation = Decimal(mean), Decimal(variance).sqrt()
        step = min(Decimal("0.25"), Decimal("0.5") / deviation) if deviation > 0 else Decimal("0.25")
        count = int(Decimal(10) / step)
        total = weight = Decimal(0)
        for g in range(-count, count + 1):
            density = (-((g * step) ** 2) / 2).exp()
            total += density / (1 + (-(m + deviation * g * step)).exp())
            weight += density
        return total / weight
