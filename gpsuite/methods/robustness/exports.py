"""Exports of `gpsuite.methods.robustness`.

Equation: none, a list of names
"""

from __future__ import annotations

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import (
    POSITIVE,
    Certificate,
    ClassQuantity,
    Origin,
    QuantileQuantity,
    write_certificate,
)
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.explain.effects import lime_weights
from gpsuite.methods.robustness.point_search import PointSearch, certify_class, probability_extremum, probability_range
from gpsuite.methods.robustness.regression import QuantileRange, prediction_range
from gpsuite.methods.robustness.search.regions import Region, box, interval_box, l1_ball, l2_ball, linf_ball
from gpsuite.methods.robustness.verdict import ClassRange, Verdict
from gpsuite.models.classification.approximation import BinaryProblem
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.softmax_laplace import MultiClassProblem
from gpsuite.models.classification.training import TrainedGPC, train_gpc, train_multiclass_gpc
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.latent import LatentPosterior

__all__ = [
    "LINKS",
    "POSITIVE",
    "BinaryProblem",
    "Budget",
    "Certificate",
    "ClassQuantity",
    "ClassRange",
    "Hyperparameters",
    "LatentPosterior",
    "ModelSpec",
    "MultiClassProblem",
    "Origin",
    "PointSearch",
    "QuantileQuantity",
    "QuantileRange",
    "Region",
    "TrainedGPC",
    "Verdict",
    "box",
    "certify",
    "certify_class",
    "interval_box",
    "l1_ball",
    "l2_ball",
    "lime_weights",
    "linf_ball",
    "prediction_range",
    "probability_extremum",
    "probability_range",
    "train_gpc",
    "train_multiclass_gpc",
    "write_certificate",
]
