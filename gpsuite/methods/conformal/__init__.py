"""Prediction intervals that hold for exchangeable rows, whatever the model: split conformal and jackknife+.

Equation: Barber et al. 2021, Theorem 1
"""

from __future__ import annotations

from gpsuite.methods.conformal.intervals import jackknife_bounded, jackknife_plus, split_radius
from gpsuite.methods.conformal.leave_one_out import LeaveOneOut

__all__ = ["LeaveOneOut", "jackknife_bounded", "jackknife_plus", "split_radius"]
