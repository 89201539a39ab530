"""PAC-Bayesian bounds on the true risk of a Gibbs predictor (Eq. 4, 5 of Reeb et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gpsuite.methods.pac_bayes.hyperparameters import PAPER_GRID, HyperparameterGrid
from gpsuite.methods.pac_bayes.kl_inverse import kl_inverse
from gpsuite.registry import Registry

# (risk, c) -> (bound, d bound / d risk, d bound / d c)
BoundFunction = Callable[[float, float], tuple[float, float, float]]

OBJECTIVES: Registry[BoundFunction] = Registry("objective")


@dataclass(frozen=True)
class Penalty:
    """What the bound pays for complexity and confidence, in nats.

    Attributes:
        kl: KL(Q||P) of posterior and prior.
        log_theta: ln|Theta|, the union bound over the hyperparameter grid.
        confidence: ln(2 sqrt(n) / delta).
        n: number of training points.
    """

    kl: float
    log_theta: float
    confidence: float
    n: int

    @property
    def total(self) -> float:
        """KL + ln|Theta| + ln(2 sqrt(n)/delta)."""
        return self.kl + self.log_theta + self.confidence

    @property
    def per_point(self) -> float:
        """The paper's c: the total over n."""
        return self.total / self.n


@dataclass(frozen=True)
class Certificate:
    """Upper bounds on the expected loss on new data, each valid with probability at least 1 - delta.

    Attributes:
        n: number of training points.
        delta: allowed probability of failure.
        gibbs_risk: risk on the training points; 1 if it could not be computed.
        penalty: the parts of the penalty; its kl is infinite if it could not be computed.
        bound_kl: inverse-kl bound (Eq. 4), in [0, 1].
        bound_sqrt: Pinsker-relaxed bound (Eq. 5), at least bound_kl; may exceed 1.
        reason: why the bounds are the trivial 1, or an empty string.
    """

    n: int
    delta: float
    gibbs_risk: float
    penalty: Penalty
    bound_kl: float
    bound_sqrt: float
    reason: str = ""


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
    """Return risk + sqrt(c/2) and its derivatives, for c > 0."""
    root = math.sqrt(c / 2.0)
    return risk + root, 1.0, 0.25 / root


@dataclass(frozen=True)
class BoundObjective:
    """A bound as a function of the two numbers that every posterior gives: Gibbs risk and KL.

    Attributes:
        objective: a name in `OBJECTIVES`.
        n: number of training points.
        n_hyperparameters: T, the hyperparameters that ln|Theta| counts.
        delta: allowed probability of failure, in (0, 1).
        grid: the hyperparameter grid.

    Raises:
        UserError: if the objective is unknown.
        ValueError: if n < 1, T < 0 or delta is outside (0, 1).
    """

    objective: str
    n: int
    n_hyperparameters: int
    delta: float
    grid: HyperparameterGrid = PAPER_GRID

    def __post_init__(self) -> None:
        OBJECTIVES.get(self.objective)
        self.penalty(0.0)

    def penalty(self, kl: float) -> Penalty:
        """Return the parts of the penalty at this KL."""
        return penalty(kl, self.n, self.n_hyperparameters, self.delta, self.grid)

    def value_and_gradient(self, risk: float, kl: float) -> tuple[float, float, float]:
        """Return the bound, its derivative in the risk and its derivative in the KL."""
        # Rounding can leave a mean of losses an ulp above 1, and a KL an ulp below 0.
        bound, d_risk, d_c = OBJECTIVES.get(self.objective)(
            min(risk, 1.0), self.penalty(max(kl, 0.0)).per_point
        )
        return bound, d_risk, d_c / self.n


def penalty(
    kl: float, n: int, n_hyperparameters: int, delta: float, grid: HyperparameterGrid = PAPER_GRID
) -> Penalty:
    """Return KL, T ln 1201 and ln(2 sqrt(n)/delta), in nats (Eq. 4).

    Raises:
        ValueError: if n < 1, T < 0 or delta is outside (0, 1).
    """
    if n < 1 or n_hyperparameters < 0 or not 0.0 < delta < 1.0:
        raise ValueError(
            f"need n >= 1, n_hyperparameters >= 0 and 0 < delta < 1, got {n}, {n_hyperparameters}, {delta}"
        )
    return Penalty(kl, grid.log_size(n_hyperparameters), math.log(2.0 * math.sqrt(n) / delta), n)


def certify(gibbs_risk: float, kl: float, n: int, n_hyperparameters: int, delta: float) -> Certificate:
    """Return both bounds; the trivial bound 1, with its reason, when the risk or the KL is not usable.

    Args:
        gibbs_risk: training risk in [0, 1].
        kl: KL(Q||P) in nats.
        n: number of training points.
        n_hyperparameters: T, the rounded hyperparameters; 0 if all were fixed before seeing the data.
        delta: allowed probability of failure, in (0, 1).

    Raises:
        ValueError: if n < 1, T < 0 or delta is outside (0, 1).
    """
    risk_fault = "" if 0.0 <= gibbs_risk <= 1.0 else f"the Gibbs risk is {gibbs_risk}, not in [0, 1]"
    kl_fault = "" if math.isfinite(kl) and kl >= 0.0 else f"the KL is {kl}, not finite and >= 0"
    parts = penalty(math.inf if kl_fault else kl, n, n_hyperparameters, delta)
    risk = 1.0 if risk_fault else gibbs_risk
    if risk_fault or kl_fault:
        reason = "trivial bound 1: " + " and ".join(fault for fault in (risk_fault, kl_fault) if fault)
        return Certificate(n, delta, risk, parts, 1.0, 1.0, reason)
    c = parts.per_point
    return Certificate(n, delta, risk, parts, kl_bound(risk, c)[0], sqrt_bound(risk, c)[0])
