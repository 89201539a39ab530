"""Rows to predict: the inputs of a table that was learned from, in another file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.cells import read_columns
from gpsuite.data.table.layout import Grid, read_grid, refuse_repeated, without_empty_tail
from gpsuite.data.table.names import csv_error, name_list, shorten
from gpsuite.data.table.rows import bad_cells, gap_cells, shown_faults
from gpsuite.data.table.spread import check_spread


@dataclass(frozen=True, eq=False)
class NewRows:
    """Inputs without targets.

    Attributes:
        X: in the order of the names asked for, [B, D].
        content_hash: of the file.
    """

    X: FloatArray
    content_hash: str


def read_inputs(spec: CsvSpec, names: Sequence[str]) -> NewRows:
    """Read the inputs of these names from the file `spec.new`; other columns are not looked at.

    An input `column=text` is the share of a category that has this text: 1 where the cell has it, else 0.

    Raises:
        DataError: if the file, a column or a cell is not usable, all that is wrong at once.
    """
    key = "new"
    grid = without_empty_tail(read_grid(replace(spec, skip_rows=0), key, 1))
    found = {name: _levelled(name, grid) for name in names}
    absent = [name for name in names if name not in grid.header and found[name] is None]
    if absent:
        text = f"no column {', '.join(repr(shorten(name)) for name in absent)}"
        fix = f"it needs the inputs {name_list(names)}; columns: {name_list(grid.header)}"
        raise csv_error(key, grid.path, text, fix)
    plain = [name for name in names if name in grid.header]
    refuse_repeated(grid, plain, key)
    positions = [grid.header.index(name) for name in plain]
    columns = read_columns(spec, grid, positions, [], numbers_only=True)
    read = [columns[position] for position in positions]
    faults = [*grid.faults, *bad_cells(grid, read), *gap_cells(grid, read)]
    faults += _unknown_levels(grid, [place for place in found.values() if place is not None])
    if faults:
        raise csv_error(key, grid.path, shown_faults(faults), "mend them, or remove their rows")
    values = {name: columns[position].values for name, position in zip(plain, positions, strict=True)}
    for name, place in found.items():
        if name not in values and place is not None:
            column, level = place
            values[name] = np.array([float(cell.strip() == level) for cell in grid.column(column)])
    X = np.column_stack([values[name] for name in names])
    check_spread(grid.path, X, names, key)
    return NewRows(X, grid.sha256)


def _levelled(name: str, grid: Grid) -> tuple[int, str] | None:
    """Return column and text of an input `column=text`; None for another name."""
    if name in grid.header:
        return None
    for place, character in enumerate(name):
        if character == "=" and name[:place] in grid.header:
            return grid.header.index(name[:place]), name[place + 1 :]
    return None


def _unknown_levels(grid: Grid, places: Sequence[tuple[int, str]]) -> list[str]:
    """Return a fault for each text that no input stands for; a category of two texts has one input, for one of them."""
    faults = []
    for column in dict.fromkeys(column for column, _ in places):
        known = {level for position, level in places if position == column}
        others = sorted({cell.strip() for cell in grid.column(column)} - known)
        if len(others) > (1 if len(known) == 1 else 0) or "" in others:
            shown = ", ".join(repr(shorten(text)) for text in others)
            faults.append(
                f"column {shorten(grid.header[column])!r}: the table that was learned from has no {shown}"
            )
    return faults
