"""The order of a table's rows. Sorted or blocked rows are no evidence of time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.formats import Cells
from gpsuite.data.table.layout import Grid
from gpsuite.data.table.names import choose_columns, csv_error, shorten
from gpsuite.data.table.roles import read_columns
from gpsuite.errors import unknown_name

LEAST_CHANGES = 10.0  # least mean number of changes in random order. With fewer nothing is concluded
AGAINST = 0.02  # share of the steps of a sorted column that may go the other way
MOST_RUNS = 2  # most runs per value in a blocked column
ORDERS = ("time", "none")
LEAST_GROUPS = 20  # least number of groups of a table: a guarantee for new groups counts groups
ORDERING = ("time", "group", "weights")


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The user's statements on the order of the rows and on rows that belong together.

    Attributes:
        order: `time`, `none`, or nothing.
        time: name of the column of time, or an empty string.
        when: time of each row of the file [N], NaN if it is missing. None without such a column.
        cluster_name: name of the column of groups, or an empty string.
        which: group of each row of the file [N], -1 if it is missing. None without such a column.
        weight_name: name of the column of likelihood ratios, or an empty string.
        weights: likelihood ratio of each row of the file [N], NaN if it is missing. None without such a column.
    """

    order: str = ""
    time: str = ""
    when: FloatArray | None = None
    cluster_name: str = ""
    which: IntArray | None = None
    weight_name: str = ""
    weights: FloatArray | None = None

    @property
    def known(self) -> BoolArray | bool:
        """Whether each row of the file has a time, a group and a likelihood ratio."""
        timed = True if self.when is None else ~np.isnan(self.when)
        timed = timed & (True if self.weights is None else ~np.isnan(self.weights))
        return timed & (True if self.which is None else self.which >= 0)

    def rows(self, kept: BoolArray) -> IntArray:
        """Return the kept rows, in order of time if that is known."""
        rows = np.flatnonzero(kept)
        return rows if self.when is None else rows[np.argsort(self.when[rows], kind="stable")]

    def clusters(self, rows: IntArray) -> IntArray | None:
        """Return the number of the group of each of these rows.

        Raises:
            DataError: if there are too few groups.
        """
        if self.which is None:
            return None
        kinds, numbers = np.unique(self.which[rows], return_inverse=True)
        if len(kinds) < LEAST_GROUPS:
            fault = f"{len(kinds)} groups. A guarantee for new groups counts groups and needs {LEAST_GROUPS}"
            raise csv_error(
                "group", self.cluster_name, fault, "leave it out: the guarantee is about rows of these groups"
            )
        return np.asarray(numbers, dtype=np.int64)

    def fields(self, rows: IntArray) -> dict[str, Any]:
        """Return the fields of a dataset of these rows on their order and groups."""
        names = {"order": self.order, "time": self.time, "cluster_name": self.cluster_name}
        weights = None if self.weights is None else self.weights[rows]
        return {**names, "clusters": self.clusters(rows), "weights": weights, "weight_name": self.weight_name}

    @property
    def choices(self) -> list[list[str]]:
        """Settings that change the table's content. Empty if the user gives none."""
        said = [self.order, self.time, self.cluster_name]
        weighted = [["weights", self.weight_name]] if self.weight_name else []
        return [*([["order", *said]] if any(said) else []), *weighted]


def arrangement(spec: CsvSpec, grid: Grid) -> Arrangement:
    """Return the user's statements on the rows' order and groups.

    Raises:
        DataError: if there is no such column, or the column of time holds no numbers or dates.
        UserError: if `dataset.order` is unknown.
    """
    if spec.order not in (None, *ORDERS):
        raise unknown_name("dataset.order", str(spec.order), ORDERS)
    if spec.group is not None and (spec.time is not None or spec.order == "time"):
        fault = "new groups and the last rows are different test rows"
        raise csv_error("group", spec.group, fault, "leave out dataset.group, or dataset.time and dataset.order")
    if spec.weights is not None and (spec.group is not None or spec.time is not None or spec.order == "time"):
        fault = "likelihood ratios are of single rows in any order"
        raise csv_error("weights", spec.weights, fault, "leave out dataset.weights, or dataset.group, time and order")
    order = "time" if spec.time is not None else spec.order or ""
    time, group, weights = (_only(key, getattr(spec, key), grid) for key in ORDERING)
    return Arrangement(
        order,
        "" if time is None else grid.header[time],
        None if time is None else _times(spec, grid, time),
        "" if group is None else grid.header[group],
        None
        if group is None
        else np.where(grid.column(group).missing, -1, np.arange(len(grid.column(group).texts)))[
            grid.column(group).codes
        ],
        "" if weights is None else grid.header[weights],
        None if weights is None else _weights(spec, grid, weights),
    )


def arranging(spec: CsvSpec, header: Sequence[str]) -> list[int]:
    """Return the columns of time and groups. They are inputs only if the user names them as inputs."""
    named = [value for key in ORDERING if (value := getattr(spec, key)) is not None]
    return [column for value in named for column in choose_columns("time", value, header)]


def _only(key: str, value: Any, grid: Grid) -> int | None:
    if value is None:
        return None
    columns = choose_columns(key, value, grid.header)
    if len(columns) > 1:
        raise csv_error(key, value, "names several columns", "name one")
    return columns[0]


def _times(spec: CsvSpec, grid: Grid, position: int) -> FloatArray:
    column = read_columns(spec, grid, [position], [])[0][position]
    if column.kind not in ("number", "date"):
        fault = f"column {shorten(column.name)!r} holds no numbers or dates"
        raise csv_error("time", spec.time, fault, "write dates as 2024-03-01, or name another column")
    return np.where(column.unread, np.nan, column.values)


def _weights(spec: CsvSpec, grid: Grid, position: int) -> FloatArray:
    column = read_columns(spec, grid, [position], [])[0][position]
    found = np.where(column.unread, np.nan, column.values) if column.kind == "number" else np.full(1, -1.0)
    if (found < 0.0).any() or not (found > 0.0).any():
        fault = f"column {shorten(column.name)!r} does not hold numbers of 0 or more"
        raise csv_error("weights", spec.weights, fault, "give the likelihood ratio at each row, or leave it out")
    return np.asarray(found)


def counts_rows(column: FloatArray) -> bool:
    """Return whether a column [N] is a row number, perhaps with gaps: whole numbers that rise or fall, mostly by 1."""
    steps = np.diff(column)
    steps = steps if steps.sum() > 0 else -steps
    return bool((column == np.floor(column)).all() and (steps > 0).all() and np.median(steps) == 1.0)


def sorted_by(columns: FloatArray, names: Sequence[str], dates: Collection[str] = ()) -> str:
    """Return the column of [N, K] that the rows are sorted or blocked by, or an empty string.

    It is the first such column, or a date if the rows are sorted by it. A row number does not count: rows may be
    numbered in their order of time.
    """
    every = list(zip(names, columns.T, strict=True))
    if dated := [name for name, column in every if name in dates and _is_sorted(column)]:
        return dated[0]
    for name, column in every:
        if not counts_rows(column) and (_is_sorted(column) or _is_blocked(column)):
            return name
    return ""


def as_numbers(cells: Cells) -> FloatArray:
    """Return the cells [N] of a column as numbers: their values, otherwise their positions in alphabetical order."""
    if (cells.plain | cells.missing).all():
        return np.nan_to_num(cells.numbers)[cells.codes]
    places = np.unique([text.casefold() for text in cells.texts], return_inverse=True)[1]
    return places.astype(np.float64)[cells.codes]


def _expected_changes(column: FloatArray) -> float:
    """Return how often successive values of a column [N] differ on average, if its rows are in random order."""
    shares = np.unique(column, return_counts=True)[1] / len(column)
    return float(len(column) * (1.0 - np.sum(shares**2)))


def _is_sorted(column: FloatArray) -> bool:
    steps = np.diff(column)
    against = min(np.count_nonzero(steps < 0), np.count_nonzero(steps > 0))
    return bool(against <= AGAINST * len(steps) and _expected_changes(column) >= LEAST_CHANGES)


def _is_blocked(column: FloatArray) -> bool:
    """Return whether equal values are together: there are hardly more runs than values."""
    runs, levels = 1 + np.count_nonzero(np.diff(column)), len(np.unique(column))
    return bool(runs <= MOST_RUNS * levels and _expected_changes(column) >= max(LEAST_CHANGES, 2 * MOST_RUNS * levels))
