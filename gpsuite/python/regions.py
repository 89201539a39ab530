"""Regions of a user's inputs: a radius for all numbers, amounts by column, or a box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpsuite.arrays import LARGEST, FloatArray, IntArray
from gpsuite.errors import UserError
from gpsuite.methods.robustness.search.regions import Region, interval_box, l1_ball, l2_ball
from gpsuite.python.inputs import Inputs, Row, name_of, number, place_of

BALLS = {"l1": l1_ball, "l2": l2_ball}
NORMS = ("linf", *BALLS)


@dataclass(frozen=True)
class Asked:
    """The region that a user requests, in original units.

    Attributes:
        radius: of all numbers.
        within: column -> how far it may be off, either way.
        box: lower and upper ends of all columns, or of some by name.
        norm: of the radius.

    Raises:
        UserError: unless exactly one of the three is given.
    """

    radius: float | None
    within: Mapping[Any, float] | None
    box: tuple[Any, Any] | None
    norm: str

    def __post_init__(self) -> None:
        given = [name for name in ("radius", "within", "box") if getattr(self, name) is not None]
        if len(given) != 1:
            raise UserError("give one of radius=0.1, within={column: amount} and box=(lower, upper)")
        if isinstance(self.box, Mapping) or (self.box is not None and len(self.box) != 2):
            raise UserError("box: two ends are needed, such as box=({'age': 30}, {'age': 40}) or box=(lower, upper)")
        if self.norm not in NORMS:
            raise UserError(f"norm={self.norm!r}: must be one of {', '.join(NORMS)}")
        if self.norm != "linf" and self.radius is None:
            raise UserError(f"norm={self.norm!r} belongs to a radius")
        if self.radius is not None and not (np.isscalar(self.radius) and _amount(self.radius, "radius") >= 0.0):
            raise UserError("radius: a number of at least 0 is needed; within={column: amount} takes one per column")

    def around(self, row: Row, inputs: Inputs, columns: IntArray) -> Region:
        """Return the region over the model's inputs that its kernel reads, in the user's units.

        Args:
            row: its centre.
            inputs: what comes before the model.
            columns: numbers of those inputs.
        """
        point, low, high = inputs.point(row)[columns], *self._ends(row, inputs)
        sources = [inputs.columns[column].source for column in columns]
        free = [place for place, source in enumerate(sources) if source in inputs.numbers]
        if self.norm != "linf" and free:
            return BALLS[self.norm](point, float(self.radius or 0.0), free)
        lower, upper = point.copy(), point.copy()
        for place in free:
            lower[place], upper[place] = low[sources[place]], high[sources[place]]
        return interval_box(point, lower, upper)

    def _ends(self, row: Row, inputs: Inputs) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends of the user's columns [D]. NaN for columns that are no numbers."""
        low, high = np.full((2, inputs.width), np.nan)
        for place in inputs.numbers:
            low[place] = high[place] = number(row, place)
        if self.radius is not None:
            return low - float(self.radius), high + float(self.radius)
        if self.within is not None:
            for column, amount in self.within.items():
                place, size = _numeric(column, row, inputs), _amount(amount, f"within: {column}")
                low[place], high[place] = low[place] - size, high[place] + size
            return low, high
        for end, given in zip((low, high), self.box or (), strict=True):
            _fill(end, given, row, inputs)
        _check_box(low, high, row, inputs)
        return low, high


def _fill(end: FloatArray, given: Any, row: Row, inputs: Inputs) -> None:
    """Write the ends that a user gave by name, by column or as one number into those of all columns."""
    if isinstance(given, Mapping) or hasattr(given, "items"):
        for column, value in given.items():
            end[_numeric(column, row, inputs)] = _end(value)
        return
    listed = [given] * inputs.width if np.ndim(given) == 0 else list(given)
    if len(listed) != inputs.width:
        raise UserError(f"box: {inputs.width} ends are needed on each side, got {len(listed)}")
    for place in inputs.numbers:
        end[place] = _end(listed[place])
    for place in set(range(inputs.width)) - set(inputs.numbers):
        if listed[place] is not None and np.ndim(given) and listed[place] != row.entries[place]:
            raise UserError(f"box: column {name_of(row.names, place)} is not a number to the model and stays as it is")


def _check_box(low: FloatArray, high: FloatArray, row: Row, inputs: Inputs) -> None:
    for place in inputs.numbers:
        value, name = number(row, place), name_of(row.names, place)
        if low[place] > high[place]:
            raise UserError(f"box: the lower end of column {name} is above the upper one: box=(lower, upper)")
        if not low[place] <= value <= high[place]:
            raise UserError(f"box: column {name} of x is {value:g}, outside [{low[place]:g}, {high[place]:g}]")


def _numeric(column: Any, row: Row, inputs: Inputs) -> int:
    place = place_of(column, row.names, inputs.width)
    if place not in inputs.numbers:
        raise UserError(f"column {name_of(row.names, place)} is not a number to the model and stays as it is")
    return place


def _end(value: Any) -> float:
    found = float(value)
    if not abs(found) <= LARGEST:
        raise UserError(f"box: ends from -{LARGEST:g} to {LARGEST:g} are needed")
    return found


def _amount(value: Any, name: str) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = np.nan
    if not 0.0 <= found <= LARGEST:  # false for NaN
        raise UserError(f"{name}: {value!r:.40} is not a number from 0 to {LARGEST:g}")
    return found
