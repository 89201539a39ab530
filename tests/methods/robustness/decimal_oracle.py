"""Latent mean, variance and score of a stored classifier in 60 decimal digits, from its floats by the definition."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np

from gpsuite.methods.robustness.plain_bound import PlainModel

DIGITS = 60


def _kappa(kernel: str, squared: Decimal) -> Decimal:
    if kernel == "squared_exponential":
        return (-squared / 2).exp()
    z = (squared * (3 if kernel == "matern32" else 5)).sqrt()
    polynomial = 1 + z if kernel == "matern32" else 1 + z + z * z / 3
    return polynomial * (-z).exp()


def exact_latent(model: PlainModel, x: np.ndarray) -> tuple[Decimal, Decimal]:
    """Return mean and variance, at least 0, at x [D]."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = DIGITS, -(10**9), 10**9
        s, lengths = Decimal(model.variance), [Decimal(each) for each in model.lengthscales.tolist()]
        point = [Decimal(each) for each in x.tolist()]
        k = [
            s * _kappa(model.kernel, sum((((Decimal(a) - b) / l) ** 2 for a, b, l in zip(row, point, lengths)), Decimal(0)))
            for row in model.X.tolist()
        ]
        mean = sum((Decimal(a) * b for a, b in zip(model.alpha.tolist(), k)), Decimal(0))
        variance = s
        for weight, row in zip(model.weights.tolist(), model.root.tolist()):
            feature = sum((Decimal(a) * b for a, b in zip(row, k)), Decimal(0))
            variance += Decimal(weight) * feature * feature
        return mean, max(variance, Decimal(0))


def exact_probit_score(model: PlainModel, x: np.ndarray) -> Decimal:
    """Return mean / sqrt(1 + variance) at x [D]."""
    mean, variance = exact_latent(model, x)
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = DIGITS, -(10**9), 10**9
        return mean / (1 + variance).sqrt()


def exact_logistic(mean: float, variance: float, step: float = 1 / 64, reach: float = 130.0) -> Decimal:
    """Return E sigma(f), f ~ N(mean, variance), as the distribution function of f plus a logistic variable.

    The trapezoidal rule in the Gaussian's own deviations, fine enough for sigma's poles at a distance of pi.
    """
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = DIGITS, -(10**9), 10**9
        m, deviation = Decimal(mean), Decimal(variance).sqrt()
        h = min(Decimal(step), Decimal(1) / (8 * deviation)) if deviation > 0 else Decimal(step)
        total = weight = Decimal(0)
        count = int(Decimal(14) / h)
        for g in range(-count, count + 1):
            density = (-(g * h) ** 2 / 2).exp()
            f = m + deviation * g * h
            total += density / (1 + (-f).exp())
            weight += density
        return total / weight
