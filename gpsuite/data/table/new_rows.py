"""Rows to predict: the inputs of a table that was learned from, in another file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.formats import NumberFormat, is_missing, same_word
from gpsuite.data.table.layout import Grid, read_second, refuse_repeated
from gpsuite.data.table.names import csv_error, name_list, shorten
from gpsuite.data.table.roles import otherwise_written, read_columns
from gpsuite.data.table.rows import bad_cells, check_spread, gap_cells, shown_faults
from gpsuite.text import visible

_KEY = "new"
_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?: .*)?")
_DAY_FIRST = ", nor a date of which day and month can be told apart: write 2020-03-31"


@dataclass(frozen=True, eq=False)
class NewRows:
    """Inputs without targets.

    Attributes:
        X: in the order of the names asked for, [B, D].
        content_hash: of what was read.
        notes: what was decided when the file was read, each a sentence.
    """

    X: FloatArray
    content_hash: str
    notes: tuple[str, ...]


def read_inputs(
    spec: CsvSpec,
    names: Sequence[str],
    learned: Mapping[str, Sequence[str]] | None = None,
    reading: Mapping[str, str] | None = None,
) -> NewRows:
    """Read the inputs of these names from the file `dataset.new`; its other columns are not looked at.

    A name `COLUMN=LEVEL` that is no column is the input of one level of a category, as `columns.encode` makes it. Every
    row is one to predict: only empty ones at the end are left out.

    Args:
        spec: the file, and how it is written.
        names: of the inputs, D.
        learned: `Dataset.categories`: the levels that a category may have; without it those with an input, and of two
            levels whatever else stands there, as long as it is always the same.
        reading: `Dataset.reading` of the table that was learned from.

    Raises:
        DataError: if the file, a column or a cell is not usable.
    """
    table = reading or {}
    grid = _trimmed(read_second(spec, _KEY, table, lambda header: _has_all(header, names)))
    categories = {name: parts for name in names if (parts := _category(grid.header, name)) is not None}
    plain = [name for name in names if name not in categories]
    absent = [name for name in plain if name not in grid.header]
    if absent:
        wanted = list(dict.fromkeys(_column_of(name, learned or {}) for name in names))
        fix = f"it needs the inputs {name_list(wanted)}; columns: {name_list(grid.header)}"
        raise csv_error(_KEY, grid.path, f"no column {shorten(_column_of(absent[0], learned or {}))!r}", fix)
    asked = [*plain, *(column for column, _ in categories.values())]
    # names that the table repeated, too, were numbered in the same way there
    refuse_repeated(grid, [name for name in asked if f"{name}_2" not in asked], _KEY)
    notes = list(grid.notes)
    values = _numbers(spec, grid, plain, table, notes) | _levels(grid, categories, learned or {})
    X = np.column_stack([values[name] for name in names])
    check_spread(grid.path, X, names, _KEY)
    return NewRows(X, hashlib.sha256(np.ascontiguousarray(X).tobytes()).hexdigest(), tuple(notes))


def _trimmed(grid: Grid) -> Grid:
    """Return the table without empty rows at its end; one between others counts, as the predictions' numbers do."""
    filled = np.flatnonzero((grid.cells != "").any(axis=1))
    count = int(filled[-1]) + 1 if len(filled) else 0
    return replace(grid, lines=grid.lines[:count], cells=grid.cells[:count])


def _has_all(header: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether each input is a column, or a level of one."""
    return all(name in header or _category(header, name) is not None for name in names)


def _column_of(name: str, learned: Mapping[str, Sequence[str]]) -> str:
    """Return the column of an input, which may be one level of a category."""
    return next((column for column in learned if name.startswith(f"{column}=")), name)


def _category(header: Sequence[str], name: str) -> tuple[str, str] | None:
    """Return column and level of an input that is one level of a category."""
    if name in header:
        return None
    for column in sorted(header, key=len, reverse=True):
        if name.startswith(f"{column}="):
            return column, name[len(column) + 1 :]
    return None


def _numbers(
    spec: CsvSpec, grid: Grid, names: Sequence[str], reading: Mapping[str, str], notes: list[str]
) -> dict[str, FloatArray]:
    positions = [grid.header.index(name) for name in names]
    found, written = read_columns(spec, grid, positions, notes, table=reading)
    columns = [found[position] for position in positions]
    faults = [*grid.faults, *bad_cells(grid, columns), *gap_cells(grid, columns)]
    for position, column in zip(positions, columns, strict=True):
        if column.kind in ("category", "text"):
            faults += _texts(grid, position, written)
    _refuse(grid, [*faults, *otherwise_written(grid, columns, reading)])
    notes += [note for column in columns for note in column.notes]
    return {column.name: column.values for column in columns}


def _texts(grid: Grid, position: int, written: NumberFormat) -> list[str]:
    """Return a sentence for each cell of a column that is neither a number nor missing, or one if all are texts."""
    name, cells = shorten(grid.header[position]), grid.cells[:, position].tolist()
    if all(is_missing(cell) or written.number(cell) is None for cell in cells) and not _DATE.fullmatch(cells[0]):
        return [f"column {name!r} holds texts, as {shorten(cells[0])!r}: numbers are needed"]
    return [
        f"line {line}, column {name!r}: {shorten(cell)!r} is not a number{_DAY_FIRST if _DATE.fullmatch(cell) else ''}"
        for line, cell in zip(grid.lines, cells, strict=True)
        if not is_missing(cell) and written.number(cell) is None
    ]


def _levels(
    grid: Grid, categories: Mapping[str, tuple[str, str]], learned: Mapping[str, Sequence[str]]
) -> dict[str, FloatArray]:
    """Return 0 and 1 for each level; of several levels every cell must be one."""
    found, faults = {}, []
    for column in dict.fromkeys(column for column, _ in categories.values()):
        cells = [visible(cell) for cell in grid.cells[:, grid.header.index(column)]]
        known = learned.get(column) or [level for name, level in categories.values() if name == column]
        # of two levels one has an input: where the other is not known, all other cells must be the same
        words = {same_word(level): level for level in known}
        cells = [words.get(same_word(cell), cell) for cell in cells]
        others = sorted({cell for cell in cells if cell not in known})
        for row, cell in enumerate(cells):
            if cell not in known and is_missing(cell):
                faults.append(f"line {grid.lines[row]}, column {shorten(column)!r}: a value is missing")
            elif cell in others and (len(known) > 1 or len(others) > 1):
                faults.append(f"line {grid.lines[row]}, column {shorten(column)!r}: {shorten(cell)!r} is a new level")
        for name, (own, level) in categories.items():
            if own == column:
                found[name] = np.array([float(cell == level) for cell in cells])
    _refuse(grid, faults)
    return found


def _refuse(grid: Grid, faults: Sequence[str]) -> None:
    if faults:
        raise csv_error(_KEY, grid.path, shown_faults(faults), "mend each, or remove its row")


def inputs_of_file(
    path: str,
    names: Sequence[str],
    reading: Mapping[str, str] | None = None,
    learned: Mapping[str, Sequence[str]] | None = None,
    stated: Mapping[str, str] | None = None,
) -> NewRows:
    """Read the inputs of these names from a file that no run names, as `read_inputs`.

    Args:
        path: the file.
        names: of the inputs, D.
        reading: `Dataset.reading` of the table that was learned from.
        learned: levels of categories.
        stated: `separator`, `decimal` and `thousands` of this file, as the user states them.
    """
    marks: dict[str, Any] = dict(stated or {})
    return read_inputs(replace(CsvSpec(), new=path, **marks), names, learned, reading)
