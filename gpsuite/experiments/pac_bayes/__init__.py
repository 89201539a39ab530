"""The pac_bayes family: GPs trained and certified by PAC-Bayesian risk bounds (Reeb et al. 2018)."""

from gpsuite.experiments.pac_bayes import (
    coverage,
    epsilon_boston,
    inducing,
    kl_inverse,
    loss_exp,
    methods,
    overfit_fitc,
    predictive_snelson,
    regression,
    rounding,
)

__all__ = [
    "coverage",
    "epsilon_boston",
    "inducing",
    "kl_inverse",
    "loss_exp",
    "methods",
    "overfit_fitc",
    "predictive_snelson",
    "regression",
    "rounding",
]
