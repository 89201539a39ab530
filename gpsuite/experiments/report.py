"""Results of tasks: the outcome, the stored record, and which of its arrays are published."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpsuite.experiments.tasks import Request
from gpsuite.reporting.figures import Drawing, figure
from gpsuite.reporting.metrics import headings
from gpsuite.reporting.tables import write_table

if TYPE_CHECKING:
    import pandas as pd


DONE, BUDGET, INFEASIBLE, DIVERGED, ERROR, SKIPPED = ("done", "budget", "infeasible", "diverged", "error", "skipped")
STATUSES = (DONE, BUDGET, INFEASIBLE, DIVERGED, ERROR, SKIPPED)
WARNINGS_APART = " | "
USABLE = (DONE, BUDGET)  # records whose metrics enter tables and figures


@dataclass(frozen=True)
class Outcome:
    """Outcome of a task: numbers, arrays and how it ended.

    Attributes:
        metrics: named numbers or words. Columns of records.csv.
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

    `timing` is measured (seconds, MB) and outside every promise of equality. `origin` says which commit, versions and
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
        """Return whether its axes have these values."""
        return all(name in self.axes and self.axes[name] == value for name, value in axes.items())

    @property
    def warnings(self) -> list[str]:
        """Warnings of the task, from its metric `warnings`."""
        return [text for text in str(self.metrics.get("warnings", "")).split(WARNINGS_APART) if text]

    def number(self, name: str) -> float:
        """Return a metric as float. NaN when it is missing."""
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


# Tables and figures of a run.


S_co = TypeVar("S_co", covariant=True)

PLAIN = re.compile(r"[\w-][\w.-]*")
"""A file name without ending that leads into no other folder."""


@dataclass(frozen=True)
class Report(Generic[S_co]):
    """Tables and figures of one run, from the records that may enter them.

    Attributes:
        request: what was requested.
        planned: the plan's records, in its order.
        folder: the run's.
        note: what a reader must know of every table and figure (stand-in data, smoke scale), or None.
        printed: name of a statistic -> the paper's printed number, to be marked in figures. Empty for a run that must
            not be compared with the paper.
        comparable: whether it may be.
        answer: sentences for the user when the run ends, besides the place of its results.
        warnings: printed next to it.
        written: `figures/NAME` and `tables/NAME` of what was drawn and written.
    """

    request: Request[S_co]
    planned: Sequence[Record]
    folder: Path
    note: str | None = None
    printed: Mapping[str, float] = field(default_factory=dict)
    comparable: bool = True
    answer: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    @property
    def settings(self) -> S_co:
        """The experiment's own settings."""
        return self.request.settings

    @property
    def titles(self) -> dict[str, str]:
        """Method name -> its title in tables and figures, in the order requested."""
        return {name: options.heading for name, options in self.request.methods.items()}

    def records(self, **axes: str | int | float) -> list[Record]:
        """Return the usable records, in the plan's order: those whose axes have these values."""
        return [record for record in self.planned if record.usable and record.matches(**axes)]

    def table(self, frame: pd.DataFrame, name: str, caption: str, labels: Mapping[str, str] | None = None) -> None:
        """Write a table, the note behind its caption. Columns that are metrics get their headings from the registry.

        Args:
            frame: see `write_table`.
            name: file name without ending.
            caption: one sentence, without the note.
            labels: headings of other columns, or of metrics called otherwise here.

        Raises:
            ValueError: if there is a table of this name, or it is no plain file name.
        """
        self._note("tables", name)
        notes = self._notes(name)
        text = f"{caption} ({notes})" if notes else caption
        known = headings(map(str, frame.columns), self.request.family)
        write_table(frame, self.folder / "tables", name, text, {**known, **(labels or {})})

    def figure(self, name: str, *, remark: str = "", **options: Any) -> AbstractContextManager[Drawing]:
        """Return a figure to draw on, saved as its block ends. See `reporting.figures.figure` for the options.

        The datasets and the number of values behind a mark are written below it.

        Args:
            name: file name without ending.
            remark: text of this figure, written below the figure before the note.
            **options: rows, columns, size and what `matplotlib.pyplot.subplots` takes.

        Raises:
            ValueError: if there is a figure of this name, or it is no plain file name.
        """
        self._note("figures", name)
        below = "; ".join(text for text in (remark, self._notes(name)) if text)
        made_of = [data for data in self.request.prepared if not data.stand_in]  # the note says the others
        source = "; ".join(f"{data.shown_name}, {data.rows} rows" for data in made_of)
        return figure(self.folder / "figures", name, below or None, source=source, **options)

    def _notes(self, name: str) -> str:
        """Return what must be known of a table or figure. Of seconds, that tasks ran side by side."""
        workers = [each.timing["workers"] for each in self.planned if "workers" in each.timing]
        shared = ""
        if workers and name.endswith("_timing"):
            count = f"{len(workers)} of {len(self.planned)}"
            shared = f"{count} tasks shared the machine among {max(workers):g} processes: no comparable seconds"
        return "; ".join(text for text in (self.note, shared) if text)

    def _note(self, folder: str, name: str) -> None:
        if not PLAIN.fullmatch(name) or f"{folder}/{name}" in self.written:
            raise ValueError(f"{folder}/{name}: written twice, or no plain file name")
        self.written.append(f"{folder}/{name}")
