"""Upper bounds on a risk from data that training did not see, to set beside the PAC-Bayesian bounds.

Equation: Hoeffding 1963, Theorem 1
Equation: Clopper & Pearson 1934
"""

from __future__ import annotations

import math

from scipy.special import betaincinv

from gpsuite.methods.pac_bayes.bounds.kl_inverse import kl_inverse


def binomial_upper_bound(errors: int, n: int, delta: float) -> float:
    """Return the Clopper-Pearson upper limit of an error rate (Langford 2005, test set bound).

    The largest p for which a Binomial(n, p) count is at most `errors` with probability delta or more: the
    (1 - delta)-quantile of Beta(errors + 1, n - errors). For 0-1 losses of a fixed predictor, such as the
    posterior mean.

    Args:
        errors: number of errors on the held-out points.
        n: number of held-out points.
        delta: allowed probability of failure, in (0, 1).

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

    For independent losses anywhere in [0, 1], such as the expected losses of a Gibbs predictor; never below the
    binomial bound when the losses are 0 or 1.

    Args:
        mean_loss: mean of the losses on the held-out points, in [0, 1].
        n: number of held-out points.
        delta: allowed probability of failure, in (0, 1).

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
