"""Gaussian Wasserstein inference (Wild, Hu & Sejdinovic 2022): variational inference between Gaussian measures.

Equation: Wild et al. 2022, App. A.6
"""

from __future__ import annotations

from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.fitting import fit_classifier, fit_regressor
from gpsuite.methods.wasserstein.names import (
    GP_CLASSIFIER_NAMES,
    NETWORK_CLASSIFIER_NAMES,
    REGRESSOR_NAMES,
)
from gpsuite.methods.wasserstein.options import ClassifierOptions, GWIOptions, TrainingOptions
from gpsuite.methods.wasserstein.rows import TrainingRows, split_rows
from gpsuite.models.networks.spec import NetworkSpec

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
