"""Metrics of several methods over the repetitions that they share."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from gpsuite.arrays import FloatArray

Setting = Hashable | tuple[Hashable, ...]


class Columns(Protocol):
    def __getitem__(self, name: str, /) -> Any: ...


class Paired:
    """Metrics by setting over shared repetitions. NaN if a repetition of a setting has no number.

    `paired(metric, "a", 3)` are the values of the setting a, 3, one per repetition. As many axes follow the repetitions
    as the setting leaves columns of `by` open: `paired(metric, "a")` is [R, levels of the second column].

    Args:
        rows: columns of one length, one row per repetition and setting: a data frame, or a mapping of columns.
        over: columns that number the repetitions, an axis each, such as split, or draw and point.
        by: columns that name a setting, such as method and M.

    Raises:
        ValueError: if two rows are of the same repetition and setting.
    """

    def __init__(self, rows: Columns, over: Sequence[str], by: Sequence[str] = ("method",)) -> None:
        self._rows, self._over, self._by = rows, tuple(over), tuple(by)
        columns = {name: np.asarray(rows[name]).tolist() for name in (*over, *by)}
        self._levels = {name: sorted(set(column)) for name, column in columns.items()}
        places = {name: {level: k for k, level in enumerate(found)} for name, found in self._levels.items()}
        self._index = tuple(
            np.array([places[name][value] for value in column], dtype=np.intp) for name, column in columns.items()
        )
        if len(set(zip(*self._index, strict=True))) < len(self._index[0]):
            raise ValueError(f"two rows of the same {', '.join(columns)}")
        self._arrays: dict[str, FloatArray] = {}

    def levels(self, column: str) -> list[Any]:
        return list(self._levels[column])

    def __call__(self, metric: str, *setting: Hashable) -> FloatArray:
        """Return the metric of one setting, or of all that begin so. All NaN for a setting without a row."""
        values, over = self._array(metric), len(self._over)
        levels = [self._levels[name] for name in self._by[: len(setting)]]
        if any(wanted not in known for wanted, known in zip(setting, levels, strict=True)):
            return np.full(values.shape[:over] + values.shape[over + len(setting) :], np.nan)
        chosen = [known.index(wanted) for wanted, known in zip(setting, levels, strict=True)]
        return np.asarray(values[(slice(None),) * over + tuple(chosen)])

    def pair(self, metric: str, first: Setting, second: Setting) -> tuple[FloatArray, FloatArray]:
        """Return the metric of two settings over the repetitions where both are finite, [n] each."""
        a, b = (self(metric, *(each if isinstance(each, tuple) else (each,))).ravel() for each in (first, second))
        both = np.isfinite(a) & np.isfinite(b)
        return a[both], b[both]

    def mean(self, metric: str, *setting: Hashable) -> FloatArray:
        """Return the mean over the repetitions that have a number. NaN if none has."""
        values = self(metric, *setting)
        values = values.reshape(-1, *values.shape[len(self._over) :])
        there = np.isfinite(values)
        count = np.where(there.any(axis=0), there.sum(axis=0), np.nan)
        return np.asarray(np.where(there, values, 0.0).sum(axis=0) / count)

    def complete(self, metric: str, *setting: Hashable) -> FloatArray:
        """Return the metric of a setting with one open column over the repetitions that lack nothing, [n, levels]."""
        values = self(metric, *setting)
        values = values.reshape(-1, values.shape[-1])
        return np.asarray(values[np.isfinite(values).all(axis=1)])

    def _array(self, metric: str) -> FloatArray:
        if metric not in self._arrays:
            shape = [len(self._levels[name]) for name in (*self._over, *self._by)]
            values = np.full(shape, np.nan)
            column: FloatArray = np.asarray(self._rows[metric], dtype=np.float64)
            values[self._index] = column
            self._arrays[metric] = values
        return self._arrays[metric]
