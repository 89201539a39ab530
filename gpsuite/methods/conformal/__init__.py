"""Intervals and sets of classes from rows that a model was not trained on.

Equation: Vovk et al. 2005, Prop. 4.1
"""

from gpsuite.methods.conformal.class_sets import (
    ClassCalibration,
    adaptive_scores,
    class_sets,
    label_scores,
    missed_bound,
)
from gpsuite.methods.conformal.intervals import (
    follows_spread,
    jackknife_bounded,
    jackknife_plus,
    split_radii,
    split_radius,
    weighted_radii,
)
from gpsuite.methods.conformal.leave_one_out import LeaveOneOut, LeaveOneOutSpread

__all__ = [
    "ClassCalibration",
    "LeaveOneOut",
    "LeaveOneOutSpread",
    "adaptive_scores",
    "class_sets",
    "follows_spread",
    "jackknife_bounded",
    "jackknife_plus",
    "label_scores",
    "missed_bound",
    "split_radii",
    "split_radius",
    "weighted_radii",
]
