"""The pac_bayes family: GPs trained and certified by PAC-Bayesian risk bounds (Reeb et al. 2018)."""

from gpsuite.experiments.pac_bayes import (
    coverage,
    epsilon,
    exponential,
    inducing,
    kl_inverse,
    methods,
    overfit,
    predictive,
    regression,
    rounding,
)

__all__ = [
    "coverage",
    "epsilon",
    "exponential",
    "inducing",
    "kl_inverse",
    "methods",
    "overfit",
    "predictive",
    "regression",
    "rounding",
]
