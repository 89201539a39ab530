"""PAC-Bayesian bounds on the true risk of a Gibbs predictor.

Equation: Reeb et al. 2018, Eq. (4), Eq. (5)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpsuite.methods.pac_bayes.bounds.hyperparameter_grid import PAPER_GRID, HyperparameterGrid
from gpsuite.methods.pac_bayes.bounds.kl_inverse import kl_inverse_lower
from gpsuite.methods.pac_bayes.bounds.objectives import (
    CATONI_CONSTANT,
    OBJECTIVES,
    bayes_risk_bound,
    catoni_bound,
    check_catoni_constant,
    kl_bound,
    sqrt_bound,
)
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL

EXACT = RiskAndKL(0.0, 0.0)  # of numbers that rounding did not move by more than an ulp or so


@dataclass(frozen=True)
class Terms:
    """What decides a bound's penalty beside the KL.

    Attributes:
        n: number of training points.
        n_hyperparameters: T, the rounded hyperparameters that ln|Theta| counts; 0 if all were fixed before seeing the
            data.
        delta: allowed probability of failure, in (0, 1).
        grid: the hyperparameter grid, fixed before the data were seen.
        n_settings: number of settings (widths epsilon, numbers M of inducing points) among which the data chose; 1 if
            the setting was fixed before.

    Raises:
        ValueError: if n < 1, T < 0, n_settings < 1 or delta is outside (0, 1).
    """

    n: int
    n_hyperparameters: int
    delta: float
    grid: HyperparameterGrid = PAPER_GRID
    n_settings: int = 1

    def __post_init__(self) -> None:
        n, T, delta, size = self.n, self.n_hyperparameters, self.delta, self.n_settings
        if n < 1 or T < 0 or size < 1 or not 0.0 < delta < 1.0:
            raise ValueError(
                "need n >= 1, n_hyperparameters >= 0, n_settings >= 1 and 0 < delta < 1, "
                f"got {n}, {T}, {size}, {delta}"
            )


@dataclass(frozen=True)
class Penalty:
    """What the bound pays for complexity and confidence, in nats.

    Attributes:
        kl: KL(Q||P) of posterior and prior.
        log_theta: ln|Theta|, the union bound over the hyperparameter grid.
        confidence: ln(2 sqrt(n) / delta); ln(1 / delta) in Catoni's bound.
        n: number of training points.
        log_settings: ln of the number of settings (widths epsilon, numbers M of inducing points) among which the data
            chose: a union bound over a finite grid that was fixed before the data were seen.
        rounding: by how much rounding can have moved the KL.
    """

    kl: float
    log_theta: float
    confidence: float
    n: int
    log_settings: float = 0.0
    rounding: float = 0.0

    @property
    def total(self) -> float:
        """KL + ln|Theta| + ln(2 sqrt(n)/delta) + ln(grid size), and what rounding may have hidden."""
        return self.kl + self.log_theta + self.confidence + self.log_settings + self.rounding

    @property
    def per_point(self) -> float:
        """The paper's c: the total over n."""
        return self.total / self.n


@dataclass(frozen=True)
class Certificate:
    """Bounds on the expected loss on new data, all valid together with probability at least 1 - delta.

    Attributes:
        n: number of training points.
        delta: allowed probability of failure.
        gibbs_risk: risk on the training points; 1 if it could not be computed.
        penalty: the parts of the penalty; its kl is infinite if it could not be computed.
        bound_kl: inverse-kl bound (Eq. 5), in [0, 1].
        bound_sqrt: Pinsker-relaxed bound (below Eq. 5), at least bound_kl; may exceed 1.
        reason: why the bounds are the trivial 1, or an empty string.
        lower_kl: lower inverse-kl bound, in [0, gibbs_risk]; 0 if it is trivial. Eq. 4 bounds kl(risk || true risk)
            itself, so it costs no part of delta.
        risk_rounding: by how much rounding can have moved the Gibbs risk.
    """

    n: int
    delta: float
    gibbs_risk: float
    penalty: Penalty
    bound_kl: float
    bound_sqrt: float
    reason: str = ""
    lower_kl: float = 0.0
    risk_rounding: float = 0.0

    @property
    def bound_bayes(self) -> float:
        """Bound on the risk of the posterior mean: twice bound_kl, at most 1 (`bounds.bayes_risk_bound`)."""
        return bayes_risk_bound(self.bound_kl)


@dataclass(frozen=True)
class BoundObjective:
    """A bound as a function of the two numbers that every posterior gives: Gibbs risk and KL.

    Attributes:
        objective: a name in `OBJECTIVES`.
        terms: what the penalty counts.
        catoni_constant: C of the objective `catoni`, fixed before the data are seen; the others ignore it.

    Raises:
        UserError: if the objective is unknown.
        ValueError: if C is not positive and finite.
    """

    objective: str
    terms: Terms
    catoni_constant: float = CATONI_CONSTANT

    def __post_init__(self) -> None:
        OBJECTIVES.get(self.objective)
        check_catoni_constant(self.catoni_constant)

    def penalty(self, kl: float) -> Penalty:
        """Return the parts of the penalty at this KL; Catoni's bound pays ln(1/delta) for confidence."""
        parts = penalty(kl, self.terms)
        if self.objective == "catoni":
            return replace(parts, confidence=-math.log(self.terms.delta))
        return parts

    def value_and_gradient(self, risk: float, kl: float) -> tuple[float, float, float]:
        """Return the bound, its derivative in the risk and its derivative in the KL."""
        # Rounding can leave a mean of losses an ulp above 1, and a KL an ulp below 0.
        risk, c = min(risk, 1.0), self.penalty(max(kl, 0.0)).per_point
        if self.objective == "catoni":
            bound, d_risk, d_c = catoni_bound(risk, c, self.catoni_constant)
        else:
            bound, d_risk, d_c = OBJECTIVES.get(self.objective)(risk, c)
        return bound, d_risk, d_c / self.terms.n


def penalty(kl: float, terms: Terms) -> Penalty:
    """Return KL, T ln(grid.size), ln(2 sqrt(n)/delta) and ln(n_settings), in nats.

    Equation: Reeb et al. 2018, Eq. (5), App. B
    """
    confidence = math.log(2.0 * math.sqrt(terms.n) / terms.delta)
    log_theta = terms.grid.log_size(terms.n_hyperparameters)
    return Penalty(kl, log_theta, confidence, terms.n, math.log(terms.n_settings))


def certify(found: RiskAndKL, terms: Terms, rounding: RiskAndKL = EXACT) -> Certificate:
    """Return the bounds; the trivial bound 1, with its reason, when the risk or the KL is not usable.

    Args:
        found: training risk in [0, 1], and KL(Q||P) in nats.
        terms: what the penalty counts.
        rounding: by how much rounding can have moved the risk and the KL; the bounds are for the worst of it.

    Equation: Reeb et al. 2018, Eq. (4), Eq. (5)
    """
    risk, kl = found.risk, found.kl
    risk_fault = "" if 0.0 <= risk <= 1.0 else f"the Gibbs risk is {risk}, not in [0, 1]"
    kl_fault = "" if math.isfinite(kl) and kl >= 0.0 else f"the KL is {kl}, not finite and >= 0"
    parts = penalty(math.inf if kl_fault else kl, terms)
    risk = 1.0 if risk_fault else risk
    known = 0.0 <= rounding.risk < math.inf and 0.0 <= rounding.kl < math.inf
    rounding_fault = "" if known else "what rounding can have moved is not known"
    if risk_fault or kl_fault or rounding_fault:
        faults = " and ".join(fault for fault in (risk_fault, kl_fault, rounding_fault) if fault)
        return Certificate(terms.n, terms.delta, risk, parts, 1.0, 1.0, f"trivial bound 1: {faults}")
    parts = replace(parts, rounding=rounding.kl)
    c, highest, lowest = parts.per_point, min(risk + rounding.risk, 1.0), max(risk - rounding.risk, 0.0)
    return Certificate(
        terms.n, terms.delta, risk, parts, kl_bound(highest, c)[0], sqrt_bound(highest, c)[0],
        lower_kl=float(kl_inverse_lower(lowest, c).p), risk_rounding=rounding.risk,
    )  # fmt: skip
