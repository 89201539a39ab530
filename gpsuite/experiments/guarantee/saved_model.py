"""What the kept models of regressions and classifications have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.dataset import Dataset


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedModel:
    """A kept model with all that its predictions need; `saved.load` reads one.

    Attributes:
        inputs: names of the inputs, D.
        target: its name.
        kernel: name in `gpsuite.models.config.KERNEL_NAMES`.
        variance: of the kernel.
        arrays: posterior, scales, and the training range `lowest`, `highest` [D], by name.
        guarantee: what a run proved, in sentences.
        categories: column of texts -> the levels that were learned from.
        reading: `Dataset.reading` of the table.
    """

    inputs: tuple[str, ...]
    target: str
    kernel: str
    variance: float
    arrays: Mapping[str, FloatArray]
    guarantee: tuple[str, ...] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)

    def checked(self, X: Any) -> FloatArray:
        """Return inputs [B, D] in own units as numbers: of a table with column names those of the inputs, by name.

        Raises:
            ValueError: if they are not finite, not D columns, or a table has no column of an input's name.
        """
        columns = getattr(X, "columns", None)
        if columns is not None:
            absent = [name for name in self.inputs if name not in columns]
            if absent:
                raise ValueError(f"the table has no column {absent[0]!r}; inputs: {', '.join(self.inputs)}")
            X = X[list(self.inputs)]
        found = np.array(X, dtype=np.float64)
        if found.ndim != 2 or found.shape[1] != len(self.inputs) or not np.isfinite(found).all():
            raise ValueError(f"finite inputs [B, {len(self.inputs)}] are needed, got {found.shape}")
        return found

    def outside(self, X: FloatArray) -> BoolArray:
        """Return which rows of inputs [B, D] have one outside its range among the training rows."""
        return np.asarray(((self.arrays["lowest"] > X) | (self.arrays["highest"] < X)).any(axis=1))


def of_table(data: Dataset) -> dict[str, Any]:
    """Return the names and levels that a kept model takes from its table."""
    return {"inputs": data.input_names, "target": data.target_names[0], "categories": data.categories}


def of_description(values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Return the common fields of a description and its arrays.

    Raises:
        KeyError: if a value is missing.
        ValueError: if one is no number.
    """
    return {
        "inputs": tuple(values["inputs"]),
        "target": str(values["target"]),
        "kernel": str(values["kernel"]),
        "variance": float(values["variance"]),
        "arrays": dict(arrays),
        "guarantee": tuple(values["guarantee"]),
        "categories": {str(name): tuple(levels) for name, levels in values.get("categories", {}).items()},
        "reading": {str(key): str(mark) for key, mark in values.get("reading", {}).items()},
    }
