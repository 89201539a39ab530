"""Gaussian Wasserstein inference (Wild, Hu & Sejdinovic 2022): variational inference between Gaussian measures.

Equation: Wild et al. 2022, App. A.6
"""

from __future__ import annotations

from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.fitting import (
    GP_CLASSIFIER_NAMES,
    NETWORK_CLASSIFIER_NAMES,
    REGRESSOR_NAMES,
    ClassifierOptions,
    GWIOptions,
    TrainingOptions,
    TrainingRows,
    fit_classifier,
    fit_regressor,
    split_rows,
)
from gpsuite.models.network_spec import NetworkSpec

__all__ = [
    "GP_CLASSIFIER_NAMES",
    "NETWORK_CLASSIFIER_NAMES",
    "REGRESSOR_NAMES",
    "Budget",
    "ClassifierOptions",
    "GWIOptions",
    "NetworkSpec",
    "TrainingOptions",
    "TrainingRows",
    "fit_classifier",
    "fit_regressor",
    "split_rows",
]
