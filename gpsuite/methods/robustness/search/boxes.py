"""Boxes of the free inputs by centre and half-widths.

Equation: none, a data structure
"""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.operator_form import OperatorForm
from gpsuite.methods.robustness.rounding import outward_radius


@dataclass(frozen=True)
class Boxes:
    """B boxes.

    Attributes:
        centre: a float in the box, in units of X, [B, d].
        radius: half-widths in lengthscales, rounded up, [B, d].
    """

    centre: FloatArray
    radius: FloatArray


def measure(form: OperatorForm, low: FloatArray, high: FloatArray) -> Boxes:
    """Return the boxes [low, high] (units of X, free inputs) by centre and size."""
    centre = 0.5 * low + 0.5 * high
    return Boxes(centre, outward_radius(low, high, centre, form.lengthscales))
