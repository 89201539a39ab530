"""Rows to predict: the inputs of a table that was learned from, in another file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.cells import read_columns
from gpsuite.data.table.formats import is_missing
from gpsuite.data.table.layout import Grid, read_grid, refuse_repeated, without_empty_tail
from gpsuite.data.table.names import csv_error, name_list, shorten
from gpsuite.data.table.rows import bad_cells, gap_cells, shown_faults
from gpsuite.data.table.spread import check_spread
from gpsuite.text import visible

_KEY = "new"


@dataclass(frozen=True, eq=False)
class NewRows:
    """Inputs without targets.

    Attributes:
        X: in the order of the names asked for, [B, D].
        content_hash: of the file.
    """

    X: FloatArray
    content_hash: str


def read_inputs(
    spec: CsvSpec, names: Sequence[str], learned: Mapping[str, Sequence[str]] | None = None
) -> NewRows:
    """Read the inputs of these names from the file `dataset.new`; its other columns are not looked at.

    A name `COLUMN=LEVEL` that is no column is the input of one level of a category, as `columns.encode` makes it.

    Args:
        spec: the file, and how it is written.
        names: of the inputs, D.
        learned: `Dataset.categories`: the levels that a category may have; without it those with an input, and of two
            levels whatever else stands there, as long as it is always the same.

    Raises:
        DataError: if the file, a column or a cell is not usable.
    """
    grid = without_empty_tail(read_grid(spec, _KEY, 1))
    categories = {name: parts for name in names if (parts := _category(grid, name)) is not None}
    plain = [name for name in names if name not in categories]
    absent = [name for name in plain if name not in grid.header]
    if absent:
        wanted = list(dict.fromkeys(_column_of(name, learned or {}) for name in names))
        fix = f"it needs the inputs {name_list(wanted)}; columns: {name_list(grid.header)}"
        raise csv_error(_KEY, grid.path, f"no column {shorten(_column_of(absent[0], learned or {}))!r}", fix)
    refuse_repeated(grid, [*plain, *(column for column, _ in categories.values())], _KEY)
    values = _numbers(spec, grid, plain) | _levels(grid, categories, learned or {})
    X = np.column_stack([values[name] for name in names])
    check_spread(grid.path, X, names, _KEY)
    return NewRows(X, grid.sha256)


def _column_of(name: str, learned: Mapping[str, Sequence[str]]) -> str:
    """Return the column of an input, which may be one level of a category."""
    return next((column for column in learned if name.startswith(f"{column}=")), name)


def _category(grid: Grid, name: str) -> tuple[str, str] | None:
    """Return column and level of an input that is one level of a category."""
    if name in grid.header:
        return None
    for column in sorted(grid.header, key=len, reverse=True):
        if name.startswith(f"{column}="):
            return column, name[len(column) + 1 :]
    return None


def _numbers(spec: CsvSpec, grid: Grid, names: Sequence[str]) -> dict[str, FloatArray]:
    positions = [grid.header.index(name) for name in names]
    found = read_columns(spec, grid, positions, [])
    columns = [found[position] for position in positions]
    faults = [*grid.faults, *bad_cells(grid, columns), *gap_cells(grid, columns)]
    faults += [
        f"column {shorten(column.name)!r} holds texts, as {shorten(column.levels[0])!r}: numbers are needed"
        for column in columns
        if column.kind in ("category", "text")
    ]
    _refuse(grid, faults)
    return {column.name: column.values for column in columns}


def _levels(
    grid: Grid, categories: Mapping[str, tuple[str, str]], learned: Mapping[str, Sequence[str]]
) -> dict[str, FloatArray]:
    """Return 0 and 1 for each level; of several levels every cell must be one."""
    found, faults = {}, []
    for column in dict.fromkeys(column for column, _ in categories.values()):
        cells = [visible(cell) for cell in grid.column(grid.header.index(column))]
        known = learned.get(column) or [level for name, level in categories.values() if name == column]
        # of two levels one has an input: where the other is not known, all other cells must be the same
        others = sorted({cell for cell in cells if cell not in known})
        for row, cell in enumerate(cells):
            if is_missing(cell):
                faults.append(f"line {grid.lines[row]}, column {shorten(column)!r}: a value is missing")
            elif cell in others and (len(known) > 1 or len(others) > 1):
                faults.append(
                    f"line {grid.lines[row]}, column {shorten(column)!r}: {shorten(cell)!r} is a new level"
                )
        for name, (own, level) in categories.items():
            if own == column:
                found[name] = np.array([float(cell == level) for cell in cells])
    _refuse(grid, faults)
    return found


def _refuse(grid: Grid, faults: Sequence[str]) -> None:
    if faults:
        raise csv_error(_KEY, grid.path, shown_faults(faults), "mend them, or remove their rows")


def inputs_of_file(
    path: str,
    names: Sequence[str],
    reading: Mapping[str, str] | None = None,
    learned: Mapping[str, Sequence[str]] | None = None,
) -> NewRows:
    """Read the inputs of these names from a file that no run names, as `read_inputs`.

    Args:
        path: the file.
        names: of the inputs, D.
        reading: `separator`, `decimal` and `thousands`, where they are not to be found.
        learned: levels of categories.
    """
    marks: dict[str, Any] = dict(reading or {})
    return read_inputs(replace(CsvSpec(), new=path, **marks), names, learned)
