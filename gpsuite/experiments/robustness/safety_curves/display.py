"""Records of safety curves, and which point is displayed by the stated rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.base import Record

RULES = {
    "attack_fails": "correctly classified, an adversarial example exists, GPFGS fails at every radius; of those the "
    "one with the smallest unsafe radius",
    "locally_linear": "correctly classified and an adversarial example exists; of those the one whose latent mean is "
    "most nearly linear in the largest box (R² of a linear fit)",
}


SECOND = "none had the property: the one with most radii at which GPFGS fails although an adversarial example exists"


LAST = "none had an adversarial example: the first correctly classified one"


@dataclass(frozen=True)
class DisplayedPoint:
    """A displayed point.

    Attributes:
        record: its curve.
        rule: the rule that chose it, in words.
        as_asked: whether it has the property asked for.
    """

    record: Record
    rule: str
    as_asked: bool


def curves(records: Sequence[Record], features: str | None = None, method: str | None = None) -> list[Record]:
    """Return the records of points, of one panel and method where named."""
    return [
        record
        for record in records
        if record.axes.get("part") == "point"
        and (features is None or record.axes["features"] == features)
        and (method is None or record.axes["method"] == method)
    ]


def attacked(curve: Record, records: Sequence[Record]) -> FloatArray:
    """Return what GPFGS reaches at the radii of a curve, then at the larger ones to which it alone was followed."""
    axes = {**curve.axes, "part": "attack"}
    further = [record.arrays["gpfgs"] for record in records if record.axes == axes]
    return np.concatenate([curve.arrays["gpfgs"], *further])


def maps(records: Sequence[Record], method: str) -> Record | None:
    """Return the contour plot of a method's first panel, if there is one."""
    found = [r for r in records if r.axes.get("part") == "map" and r.axes["method"] == method]
    return found[0] if found else None


def choose_shown(records: Sequence[Record], rule: str, label: str) -> DisplayedPoint | None:
    """Return the displayed point among the curves of one panel and method; None if there are none.

    Args:
        records: the curves.
        rule: a key of `RULES`.
        label: its label, or an empty string; without effect where no curve has it, as in stand-in data.
    """
    own = [record for record in records if record.metrics["label"] == label] or records
    right = [record for record in own if record.metrics["correct"]]
    unsafe = [record for record in right if record.metrics["cross_gamma"] is not None]
    if not right:
        return DisplayedPoint(records[0], LAST, False) if records else None
    if not unsafe:
        return DisplayedPoint(right[0], LAST, False)
    if rule == "locally_linear":
        return DisplayedPoint(max(unsafe, key=_linearity), RULES[rule], True)
    failing = [record for record in unsafe if record.metrics["gpfgs_gamma"] is None]
    if failing:
        return DisplayedPoint(
            min(failing, key=lambda record: record.number("cross_gamma")), RULES[rule], True
        )
    return DisplayedPoint(max(unsafe, key=lambda record: record.number("attack_fails_radii")), SECOND, False)


def _linearity(record: Record) -> float:
    found = record.number("linear_r2")
    return found if math.isfinite(found) else -math.inf
