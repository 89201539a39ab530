"""The bounds that can be certified and minimised, as functions of the empirical risk and the penalty per point.

All of them follow from kl(risk || true risk) <= c (Eq. 4 of Reeb et al. 2018), so at equal c none is below the kl
bound; all but the kl bound may exceed 1.

Equation: Reeb et al. 2018, Eq. (4)
Equation: Thiemann et al. 2017, Theorem 3
Equation: Catoni 2007, Theorem 1.2.6
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from gpsuite.methods.pac_bayes.bounds.kl_inverse import kl_inverse
from gpsuite.registry import Registry

# (risk, c) -> (bound, d bound / d risk, d bound / d c)
BoundFunction = Callable[[float, float], tuple[float, float, float]]

OBJECTIVES: Registry[BoundFunction] = Registry("objective")

# A round value that depends on no data.
CATONI_CONSTANT: Final = 1.0


@OBJECTIVES.register("kl")
def kl_bound(risk: float, c: float) -> tuple[float, float, float]:
    """Return kl^-1(risk, c) and its derivatives.

    The derivative in the risk is infinite at risk 0, where the risk's own gradient has underflowed and the
    product tends to 0: it is returned as 0.
    """
    inverse = kl_inverse(risk, c)
    return float(inverse.p), float(inverse.dp_dq) if risk > 0.0 else 0.0, float(inverse.dp_dc)


@OBJECTIVES.register("sqrt")
def sqrt_bound(risk: float, c: float) -> tuple[float, float, float]:
    """Return risk + sqrt(c/2) and its derivatives; the one in c is infinite at c = 0.

    Raises:
        ValueError: if the risk is outside [0, 1] or c is negative or NaN.
    """
    _check(risk, c)
    root = math.sqrt(c / 2.0)
    return risk + root, 1.0, 0.25 / root if root > 0.0 else math.inf


@OBJECTIVES.register("quadratic")
def quadratic_bound(risk: float, c: float) -> tuple[float, float, float]:
    """Return (sqrt(risk + c/2) + sqrt(c/2))^2 and its derivatives (fquad of Perez-Ortiz et al. 2021).

    It solves kl(risk || p) >= (p - risk)^2/(2p) for p. Below 1/4 it is smaller than the sqrt bound.

    Raises:
        ValueError: if the risk is outside [0, 1] or c is negative or NaN.
    """
    _check(risk, c)
    root_c = math.sqrt(c / 2.0)
    total, t = math.sqrt(risk + c / 2.0) + root_c, _root_ratio(risk, c)
    return total * total, 1.0 + t, 1.0 + 0.5 * (t + 1.0 / t) if t > 0.0 else math.inf


def optimal_lambda(risk: float, c: float) -> float:
    """Return the lambda that minimises `lambda_bound_at`: 2/(sqrt(2 risk/c + 1) + 1), in [0, 1].

    It is 0 where c = 0 < risk: there the bound tends to the risk.

    Raises:
        ValueError: if the risk is outside [0, 1] or c is negative or NaN.
    """
    _check(risk, c)
    t = _root_ratio(risk, c)
    return 2.0 * t / (1.0 + t)


def lambda_bound_at(risk: float, c: float, weight: float) -> tuple[float, float, float]:
    """Return (risk + c/lambda)/(1 - lambda/2) and its derivatives in risk and c at a fixed lambda.

    Thiemann et al. 2017, Theorem 3: with probability at least 1 - delta it holds for all lambda in (0, 2)
    simultaneously, so lambda may be chosen on the data.

    Args:
        risk: empirical risk in [0, 1].
        c: penalty per point, >= 0.
        weight: lambda.

    Raises:
        ValueError: if the risk is outside [0, 1], c is negative or NaN, or lambda is outside (0, 2).
    """
    _check(risk, c)
    if not 0.0 < weight < 2.0:
        raise ValueError(f"lambda must lie in (0, 2), got {weight!r}")
    d_risk = 1.0 / (1.0 - 0.5 * weight)
    return (risk + c / weight) * d_risk, d_risk, d_risk / weight


@OBJECTIVES.register("lambda")
def lambda_bound(risk: float, c: float) -> tuple[float, float, float]:
    """Return the lambda bound (flamb) at its best lambda and its derivatives.

    `lambda_bound_at` holds for all lambda at once, so its minimum over lambda holds too; the minimum equals the
    quadratic bound. By the envelope theorem its derivatives are those at the fixed best lambda.

    Raises:
        ValueError: if the risk is outside [0, 1] or c is negative or NaN.
    """
    weight = optimal_lambda(risk, c)
    return lambda_bound_at(risk, c, weight) if weight > 0.0 else (risk, 1.0, math.inf)


def catoni_bound(risk: float, c: float, constant: float = CATONI_CONSTANT) -> tuple[float, float, float]:
    """Return (1 - exp(-C risk - c))/(1 - exp(-C)) and its derivatives (Catoni 2007, Theorem 1.2.6).

    For a C that is fixed before the data are seen it holds with ln(1/delta) in place of ln(2 sqrt(n)/delta) in c.
    With the latter it holds for all C simultaneously: its minimum over C is then the kl bound, taken at
    C = logit(bound) - logit(risk) (Germain et al. 2009).

    Args:
        risk: empirical risk in [0, 1].
        c: penalty per point, >= 0.
        constant: C, > 0.

    Raises:
        ValueError: if the risk is outside [0, 1], c is negative or NaN, or C is not positive and finite.
    """
    _check(risk, c)
    check_catoni_constant(constant)
    scale = -math.expm1(-constant)
    exponent = -constant * risk - c
    d_c = math.exp(exponent) / scale
    return -math.expm1(exponent) / scale, constant * d_c, d_c


OBJECTIVES.register("catoni")(catoni_bound)


def check_catoni_constant(constant: float) -> None:
    """Raise ValueError unless Catoni's C is positive and finite."""
    if not (math.isfinite(constant) and constant > 0.0):
        raise ValueError(f"Catoni's constant must be positive and finite, got {constant!r}")


def bayes_risk_bound(gibbs_bound: float) -> float:
    """Return min(1, 2 B): a bound on the risk of the posterior mean from a bound B on the Gibbs risk.

    Langford and Shawe-Taylor 2002. The latent value is Gaussian, so with probability 1/2 or more it lies at least
    as far from the target as its mean does; a loss that grows with the distance, as each in `LOSSES`, is then at
    least the loss of the mean.

    Raises:
        ValueError: if B is negative or NaN.
    """
    if not gibbs_bound >= 0.0:
        raise ValueError(f"a bound on a risk must be >= 0, got {gibbs_bound!r}")
    return min(1.0, 2.0 * gibbs_bound)


def _check(risk: float, c: float) -> None:
    if not (0.0 <= risk <= 1.0 and c >= 0.0):
        raise ValueError(f"need a risk in [0, 1] and c >= 0 (infinity allowed), got {risk!r} and {c!r}")


def _root_ratio(risk: float, c: float) -> float:
    """Return sqrt(c/2)/sqrt(risk + c/2), with its limits at risk 0 and at infinite c."""
    if risk == 0.0 or math.isinf(c):
        return 1.0
    return math.sqrt(c / 2.0) / math.sqrt(risk + c / 2.0)
