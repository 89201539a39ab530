"""What a task leaves behind: its outcome, the stored record, and which of its arrays are published."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

DONE, BUDGET, INFEASIBLE, DIVERGED, ERROR, SKIPPED = (
    "done",
    "budget",
    "infeasible",
    "diverged",
    "error",
    "skipped",
)
STATUSES = (DONE, BUDGET, INFEASIBLE, DIVERGED, ERROR, SKIPPED)
WARNINGS_APART = " | "
USABLE = (DONE, BUDGET)  # records whose metrics enter tables and figures


@dataclass(frozen=True)
class Outcome:
    """What running a task gives: numbers, arrays and how it ended.

    Attributes:
        metrics: named numbers or words; columns of records.csv.
        status: one of `STATUSES` except error, which the engine sets.
        reason: why, when the status is not done.
        arrays: larger results, kept as npz.
        headline: the main number in a few words, for the progress line.
    """

    metrics: Mapping[str, float | int | str | bool | None]
    status: str = DONE
    reason: str = ""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    headline: str = ""


@dataclass(frozen=True)
class Record:
    """A stored outcome.

    `timing` is measured (seconds, MB) and outside every promise of equality; `origin` says which commit, versions and
    machine computed it.
    """

    key: str
    experiment: str
    label: str
    axes: Mapping[str, str | int | float]
    status: str
    reason: str
    metrics: Mapping[str, float | int | str | bool | None]
    timing: Mapping[str, float]
    budget_seconds: float | None = None
    headline: str = ""
    traceback: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether its metrics may enter tables: done, or the best valid answer within a budget."""
        return self.status in USABLE

    def matches(self, **axes: str | int | float) -> bool:
        """Whether its axes have these values."""
        return all(name in self.axes and self.axes[name] == value for name, value in axes.items())

    @property
    def warnings(self) -> list[str]:
        """What the task warns of, from its metric `warnings`."""
        return [text for text in str(self.metrics.get("warnings", "")).split(WARNINGS_APART) if text]

    def number(self, name: str) -> float:
        """Return a metric as float; NaN when it is missing."""
        value = self.metrics.get(name)
        return float(value) if isinstance(value, int | float) else math.nan


Publishable = Callable[[Sequence[Record]], Sequence[frozenset[str]]]
"""Records of a run -> for each, the names of the arrays that are published with it."""


def every_array(records: Sequence[Record]) -> list[frozenset[str]]:
    """Publish all arrays: they hold no rows of a dataset."""
    return [frozenset(record.arrays) for record in records]


def no_array(records: Sequence[Record]) -> list[frozenset[str]]:
    """Publish no array."""
    return [frozenset() for _ in records]


def only_arrays(*patterns: str) -> Publishable:
    """Publish the arrays whose names match a pattern: the others hold rows of a dataset, or are not drawn from."""

    def names(records: Sequence[Record]) -> list[frozenset[str]]:
        return [
            frozenset(name for name in record.arrays if any(fnmatchcase(name, each) for each in patterns))
            for record in records
        ]

    return names


def frame_of(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per record: its axes and metrics."""
    import pandas as pd

    return pd.DataFrame([{**record.axes, **record.metrics} for record in records])


def finite_or_none(value: float) -> float | None:
    """Return the float, or None when it is not finite (records hold no NaN)."""
    number = float(value)
    return number if np.isfinite(number) else None
