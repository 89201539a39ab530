"""The perturbation family: exact, finite-sample confidence regions (Csáji and Kis 2019)."""

from gpsuite.experiments.perturbation import (
    band_comparison,
    coverage,
    klasso_band,
    krr_region,
    lssvm_model_space,
    lssvm_parameter_space,
    region,
    svr_region,
)

__all__ = [
    "band_comparison",
    "coverage",
    "klasso_band",
    "krr_region",
    "lssvm_model_space",
    "lssvm_parameter_space",
    "region",
    "svr_region",
]
