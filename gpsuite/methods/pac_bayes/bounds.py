"""PAC-Bayesian bounds and certificates, and the grid of kernel hyperparameters of the union bound.

Equation: Reeb et al. 2018, Sec. 3.1
Equation: Reeb et al. 2018, Eq. (4)
Equation: Thiemann et al. 2017, Theorem 3
Equation: Catoni 2007, Theorem 1.2.6
Equation: Hoeffding 1963, Theorem 1
Equation: Clopper & Pearson 1934
Equation: Reeb et al. 2018, Eq. (4), Eq. (5)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.kl_inverse import kl_inverse, kl_inverse_lower
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL
from gpsuite.models.config import Hyperparameters
from gpsuite.registry import Registry

# Largest distance of a logarithm from its grid point that counts as rounded (exp and log have errors of a few ulps).
_ON_GRID = 1e-9
# a function (risk, c) -> (bound, d bound / d risk, d bound / d c)
BoundFunction = Callable[[float, float], tuple[float, float, float]]
OBJECTIVES: Registry[BoundFunction] = Registry("objective")
# A round value that does not depend on data.
CATONI_CONSTANT: Final = 1.0
EXACT = RiskAndKL(0.0, 0.0)  # for numbers that rounding moved by about one ulp at most


@dataclass(frozen=True)
class HyperparameterGrid:
    """The finite set Theta of each kernel hyperparameter: natural logarithms with fixed decimals in a symmetric range.

    Sec. 3.1 of Reeb et al. 2018: two decimals in [-6, 6], 1201 values per hyperparameter.

    Raises:
        ValueError: if decimals or half_width is no whole number or out of range.
    """

    decimals: int = 2
    half_width: int = 6

    def __post_init__(self) -> None:
        whole = all(isinstance(each, int | np.integer) for each in (self.decimals, self.half_width))
        if not whole or self.decimals < 0 or self.half_width < 1:
            raise ValueError(
                f"need whole numbers decimals >= 0 and half_width >= 1, got {self.decimals}, {self.half_width}"
            )

    @property
    def size(self) -> int:
        return int(2 * self.half_width * 10**self.decimals) + 1

    def log_size(self, n_hyperparameters: int) -> float:
        """Return ln|Theta| = T ln(size) in nats for T hyperparameters."""
        return n_hyperparameters * math.log(self.size)

    def round(self, values: npt.ArrayLike) -> FloatArray:
        """Return the nearest grid value in the logarithm, clipped to the range.

        Raises:
            ValueError: if a value is not positive (zero, negative, NaN).
        """
        array = np.asarray(values, dtype=np.float64)
        if not np.all(array > 0.0):
            raise ValueError(f"hyperparameters must be positive, got {values!r}")
        logs = np.clip(np.round(np.log(array), self.decimals), -self.half_width, self.half_width)
        return np.asarray(np.exp(logs), dtype=np.float64)

    def contains(self, values: npt.ArrayLike) -> bool:
        """Return whether every value is a grid value, up to rounding errors of exp and log."""
        array = np.asarray(values, dtype=np.float64)
        return bool(np.all(np.abs(np.log(array) - np.log(self.round(array))) <= _ON_GRID))

    def rounded(self, hyperparameters: Hyperparameters) -> Hyperparameters:
        """Return the hyperparameters with variance and lengthscales rounded to the grid, noise variance unchanged."""
        kernel = [float(value) for value in self.round([hyperparameters.variance, *hyperparameters.lengthscales])]
        return Hyperparameters(kernel[0], tuple(kernel[1:]), hyperparameters.noise_variance)

    def holds(self, hyperparameters: Hyperparameters) -> bool:
        return self.contains([hyperparameters.variance, *hyperparameters.lengthscales])


PAPER_GRID = HyperparameterGrid()


# The bounds that can be certified and minimised, as functions of the empirical risk and the penalty per point.
#
# All bounds follow from kl(risk || true risk) <= c (Eq. 4 of Reeb et al. 2018). So at equal c none is below the kl
# bound. All but the kl bound may exceed 1.
@OBJECTIVES.register("kl")
def kl_bound(risk: float, c: float) -> tuple[float, float, float]:
    """Return kl^-1(risk, c) and its derivatives.

    The derivative in the risk is infinite at risk 0, but returned as 0. There the risk's own gradient has underflowed,
    and the product tends to 0.
    """
    inverse = kl_inverse(risk, c)
    return float(inverse.p), float(inverse.dp_dq) if risk > 0.0 else 0.0, float(inverse.dp_dc)


@OBJECTIVES.register("sqrt")
def sqrt_bound(risk: float, c: float) -> tuple[float, float, float]:
    """Return risk + sqrt(c/2) and its derivatives. The derivative in c is infinite at c = 0.

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

    It is 0 if c = 0 < risk: there the bound tends to the risk.

    Raises:
        ValueError: if the risk is outside [0, 1] or c is negative or NaN.
    """
    _check(risk, c)
    t = _root_ratio(risk, c)
    return 2.0 * t / (1.0 + t)


def lambda_bound_at(risk: float, c: float, weight: float) -> tuple[float, float, float]:
    """Return (risk + c/lambda)/(1 - lambda/2) and its derivatives in risk and c at a fixed lambda.

    By Theorem 3 of Thiemann et al. 2017 it holds with probability at least 1 - delta for all lambda in (0, 2)
    simultaneously. So lambda may be chosen on the data.

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

    `lambda_bound_at` holds for all lambda at once, so its minimum over lambda holds too. The minimum equals the
    quadratic bound. By the envelope theorem its derivatives equal the derivatives at the fixed best lambda.

    Raises:
        ValueError: if the risk is outside [0, 1] or c is negative or NaN.
    """
    weight = optimal_lambda(risk, c)
    return lambda_bound_at(risk, c, weight) if weight > 0.0 else (risk, 1.0, math.inf)


def catoni_bound(risk: float, c: float, constant: float = CATONI_CONSTANT) -> tuple[float, float, float]:
    """Return (1 - exp(-C risk - c))/(1 - exp(-C)) and its derivatives (Catoni 2007, Theorem 1.2.6).

    If C is fixed before the data are seen, it holds with ln(1/delta) in place of ln(2 sqrt(n)/delta) in c. With the
    latter it holds for all C simultaneously. Its minimum over C is then the kl bound, at C = logit(bound) - logit(risk)
    (Germain et al. 2009).

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
    """Raise ValueError unless 0 < C < inf."""
    if not (math.isfinite(constant) and constant > 0.0):
        raise ValueError(f"Catoni's constant must be positive and finite, got {constant!r}")


def bayes_risk_bound(gibbs_bound: float) -> float:
    """Return min(1, 2 B): a bound on the risk of the posterior mean from a bound B on the Gibbs risk.

    See Langford and Shawe-Taylor 2002. The latent value is Gaussian. So with probability 1/2 or more it is at least as
    far from the target as its mean. Every loss in `LOSSES` grows with the distance. So it is then at least the loss of
    the mean.

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


def binomial_upper_bound(errors: int, n: int, delta: float) -> float:
    """Return the Clopper-Pearson upper limit of an error rate (Langford 2005, test set bound).

    It is the largest p such that a Binomial(n, p) count is at most `errors` with probability delta or more. This is the
    (1 - delta)-quantile of Beta(errors + 1, n - errors). It is for 0-1 losses of a fixed predictor, such as the
    posterior mean.

    Raises:
        ValueError: if n < 1, errors is outside 0..n or delta is outside (0, 1).
    """
    if n < 1 or not 0 <= errors <= n:
        raise ValueError(f"need n >= 1 and 0 <= errors <= n, got n = {n}, errors = {errors}")
    _check_delta(delta)
    if errors == n:
        return 1.0
    if errors == 0:
        return -math.expm1(math.log(delta) / n)
    return float(betaincinv(errors + 1.0, float(n - errors), 1.0 - delta))


def mean_loss_upper_bound(mean_loss: float, n: int, delta: float) -> float:
    """Return kl^-1(mean_loss, ln(1/delta)/n): Chernoff's bound in Hoeffding's form (Hoeffding 1963, Theorem 1).

    It is for independent losses anywhere in [0, 1], such as the expected losses of a Gibbs predictor. It is never below
    the binomial bound if the losses are 0 or 1.

    Raises:
        ValueError: if the mean loss is NaN or outside [0, 1], n < 1 or delta is outside (0, 1).
    """
    if n < 1:
        raise ValueError(f"need n >= 1, got {n}")
    _check_delta(delta)
    return float(kl_inverse(mean_loss, -math.log(delta) / n).p)


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie in (0, 1), got {delta!r}")


@dataclass(frozen=True)
class Terms:
    """Terms of a bound's penalty other than the KL.

    Attributes:
        n_hyperparameters: T, number of rounded hyperparameters in ln|Theta|, 0 if all were fixed before the data were
            seen.
        grid: the hyperparameter grid, fixed before the data were seen.
        n_settings: number of settings (widths epsilon, numbers M of inducing points) that the data chose from, 1 if the
            setting was fixed before.

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
                f"need n >= 1, n_hyperparameters >= 0, n_settings >= 1 and 0 < delta < 1, got {n}, {T}, {size}, {delta}"
            )


@dataclass(frozen=True)
class Penalty:
    """The bound's penalty for complexity and confidence, in nats.

    Attributes:
        kl: KL(Q||P) of posterior and prior.
        log_theta: ln|Theta|, the union bound over the hyperparameter grid.
        confidence: ln(2 sqrt(n) / delta), in Catoni's bound ln(1 / delta).
        log_settings: ln of the number of settings (widths epsilon, numbers M of inducing points) that the data chose
            from. It is a union bound over a finite grid that was fixed before the data were seen.
        rounding: largest change of the KL by rounding.
    """

    kl: float
    log_theta: float
    confidence: float
    n: int
    log_settings: float = 0.0
    rounding: float = 0.0

    @property
    def total(self) -> float:
        """KL + ln|Theta| + ln(2 sqrt(n)/delta) + ln(n_settings) + the slack for rounding."""
        return self.kl + self.log_theta + self.confidence + self.log_settings + self.rounding

    @property
    def per_point(self) -> float:
        return self.total / self.n


@dataclass(frozen=True)
class Certificate:
    """Bounds on the expected loss on new data, all valid together with probability at least 1 - delta.

    Attributes:
        gibbs_risk: risk on the training points, 1 if it could not be computed.
        penalty: the parts of the penalty. The kl is infinite if it could not be computed.
        bound_kl: inverse-kl bound (Eq. 5), in [0, 1].
        bound_sqrt: Pinsker-relaxed bound (below Eq. 5), at least bound_kl. It may exceed 1.
        reason: reason why the bounds are the trivial 1, or an empty string.
        lower_kl: lower inverse-kl bound, in [0, gibbs_risk], 0 if it is trivial. Eq. 4 bounds kl(risk || true risk)
            itself, so the lower bound uses no part of delta.
        risk_rounding: largest change of the Gibbs risk by rounding.
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
    """A bound as a function of two numbers of a posterior: Gibbs risk and KL.

    Attributes:
        catoni_constant: C of the objective `catoni`, fixed before the data are seen. The others ignore it.

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
        """Return the parts of the penalty at this KL. In Catoni's bound the confidence is ln(1/delta)."""
        parts = penalty(kl, self.terms)
        if self.objective == "catoni":
            return replace(parts, confidence=-math.log(self.terms.delta))
        return parts

    def value_and_gradient(self, risk: float, kl: float) -> tuple[float, float, float]:
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
    """Return the bounds at the worst case of rounding. If risk or KL is not usable, they are 1, with the reason.

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
        terms.n,
        terms.delta,
        risk,
        parts,
        kl_bound(highest, c)[0],
        sqrt_bound(highest, c)[0],
        lower_kl=float(kl_inverse_lower(lowest, c).p),
        risk_rounding=rounding.risk,
    )
