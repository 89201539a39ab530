"""Which rows of a table are used: gaps, and what is wrong, all of it at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.arrays import BoolArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.columns import Column
from gpsuite.data.table.layout import Grid
from gpsuite.data.table.names import csv_error, name_list, shorten
from gpsuite.errors import DataError, unknown_name

MISSING_RULES = ("error", "drop_rows", "drop_columns")
LARGEST_LOSS = 0.2  # share of rows that may be left out without asking
_SHOWN_FAULTS = 20


def describe_faults(path: str, faults: Sequence[str]) -> DataError:
    """Build the error that names every fault of a file."""
    if len(faults) == 1:
        return csv_error("path", path, faults[0], "mend the cell, or leave out its column by dataset.ignore=[...]")
    shown = "; ".join(faults[:_SHOWN_FAULTS])
    if len(faults) > _SHOWN_FAULTS:
        shown += f"; and {len(faults) - _SHOWN_FAULTS} more"
    return csv_error(
        "path", path, f"{len(faults)} faults", shown, "mend them, or leave out columns by dataset.ignore=[...]"
    )


def complete_rows(
    spec: CsvSpec, grid: Grid, targets: Sequence[Column], inputs: list[Column], notes: list[str]
) -> tuple[BoolArray, list[Column]]:
    """Return which rows [N] have no gap, and the inputs that are used.

    Raises:
        DataError: if there are gaps and `dataset.missing` is `error` (or the reading strict), or more than a fifth of
            the rows would go without the user's word: the ways out, ready to paste.
        UserError: if `dataset.missing` is unknown.
    """
    if spec.missing is not None and spec.missing not in MISSING_RULES:
        raise unknown_name("dataset.missing", spec.missing, MISSING_RULES)
    rule = spec.missing or ("error" if spec.strict else None)
    columns = [*targets, *inputs]
    if not any(column.gaps.any() for column in columns):
        return np.ones(len(grid.rows), dtype=bool), inputs
    if rule == "error":
        raise describe_faults(grid.path, _gaps(grid, columns))
    if rule == "drop_columns":
        inputs = _without_gaps(spec, inputs, notes)
        columns = [*targets, *inputs]
    kept: BoolArray = ~np.any([column.gaps for column in columns], axis=0)
    lost = int((~kept).sum())
    if rule is None and lost > LARGEST_LOSS * len(kept):
        raise _too_many(spec, targets, inputs, lost, len(kept))
    if lost:
        where = [f"{shorten(column.name)!r} {int(column.gaps.sum())}" for column in columns if column.gaps.any()]
        notes.append(f"{lost} of {len(kept)} rows left out, a value is missing (in {', '.join(where)})")
    return kept, inputs


def _gaps(grid: Grid, columns: Sequence[Column]) -> list[str]:
    return [
        f"line {grid.lines[row]}, column {shorten(column.name)!r}: a value is missing"
        for column in columns
        for row in np.flatnonzero(column.gaps)
    ]


def _without_gaps(spec: CsvSpec, inputs: list[Column], notes: list[str]) -> list[Column]:
    kept = [column for column in inputs if not column.gaps.any()]
    if not kept:
        raise csv_error("missing", spec.missing, "every input has gaps, none is left", "use drop_rows")
    notes += [
        f"column {shorten(column.name)!r} left out, {int(column.gaps.sum())} values are missing"
        for column in inputs
        if column.gaps.any()
    ]
    return kept


def _too_many(
    spec: CsvSpec, targets: Sequence[Column], inputs: Sequence[Column], lost: int, rows: int
) -> DataError:
    """Build the question: leave out the worst columns, all columns with gaps, or the rows."""
    worst = sorted((column for column in inputs if column.gaps.any()), key=lambda column: -int(column.gaps.sum()))
    fixes = []
    for count in range(1, min(len(worst), len(inputs) - 1) + 1):
        others = [*targets, *(column for column in inputs if column not in worst[:count])]
        left = int((~np.any([column.gaps for column in others], axis=0)).sum())
        if rows - left <= LARGEST_LOSS * rows:
            names = name_list([column.name for column in worst[:count]])
            fixes.append(f"dataset.ignore={names} keeps {left} rows")
            break
    if lost < rows:
        fixes.append(f"dataset.missing=drop_rows keeps {rows - lost} rows with all columns")
    text = f"{lost} of {rows} rows have a missing value: more than a fifth, so it is yours to choose"
    return csv_error("path", spec.path, text, "; ".join(fixes) or "fill the gaps in the target")
