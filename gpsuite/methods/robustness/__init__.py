"""How far the class probability of a GP classifier can move within a region of inputs: certified ranges.

Equation: Blaas et al. 2020, Eq. (2), Eq. (3), Eq. (4)
"""

from __future__ import annotations

from gpsuite.budget import Budget
from gpsuite.methods.robustness.decision import Verdict
from gpsuite.methods.robustness.search.regions import Region, box, interval_box, l1_ball, l2_ball, linf_ball
from gpsuite.methods.robustness.verdict import (
    PointSearch,
    ProbabilityRange,
    certify_class,
    probability_extremum,
    probability_range,
)
from gpsuite.models.classification.approximation import BinaryProblem
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import TrainedGPC, train_gpc
from gpsuite.models.config import Hyperparameters, ModelSpec

__all__ = [
    "LINKS",
    "BinaryProblem",
    "Budget",
    "Hyperparameters",
    "ModelSpec",
    "PointSearch",
    "ProbabilityRange",
    "Region",
    "TrainedGPC",
    "Verdict",
    "box",
    "certify_class",
    "interval_box",
    "l1_ball",
    "l2_ball",
    "linf_ball",
    "probability_extremum",
    "probability_range",
    "train_gpc",
]
