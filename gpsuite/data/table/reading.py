"""`Dataset.reading`: how a table is written, kept for the files that belong to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpsuite.data.table.columns import Column
from gpsuite.data.table.formats import NumberFormat
from gpsuite.data.table.layout import Grid
from gpsuite.data.table.names import shorten

_UNIT, _WRITTEN = "unit ", "written "  # before a column's name
_NAMES = {"number": "plain numbers", "date": "dates", "yes/no": "yes and no"}


def reading_of_table(grid: Grid, numbers: NumberFormat, inputs: Sequence[Column]) -> dict[str, str]:
    """Return separator, marks of numbers, units of columns, and how the inputs' cells are written."""
    marks = {"separator": grid.separator, "decimal": numbers.decimal, "thousands": numbers.thousands}
    units = {f"{_UNIT}{name}": unit for name, unit in grid.units.items()}
    return marks | units | {f"{_WRITTEN}{column.name}": column.written for column in inputs}


def format_of(reading: Mapping[str, str]) -> NumberFormat | None:
    """Return how the table writes numbers; None where it is not known."""
    if "decimal" not in reading and "thousands" not in reading:
        return None
    return NumberFormat(reading.get("decimal", "."), reading.get("thousands", ""))


def units_of(reading: Mapping[str, str]) -> dict[str, str] | None:
    """Return column -> unit of the table; None where nothing is known of the table."""
    if format_of(reading) is None:
        return None
    return {key[len(_UNIT) :]: unit for key, unit in reading.items() if key.startswith(_UNIT)}


def otherwise_written(grid: Grid, columns: Sequence[Column], reading: Mapping[str, str]) -> list[str]:
    """Return a sentence for each column whose cells are written as something else than the table's.

    Where the table has yes and no, the numbers 0 and 1 will do; a plain 0 for any percents or currency.
    """
    faults = []
    for column in columns:
        theirs = reading.get(f"{_WRITTEN}{column.name}", column.written)
        plain = {"yes/no": {0.0, 1.0}, "date": set()}.get(theirs, {0.0})
        if column.written == theirs or column.kind in ("category", "text", "empty"):
            continue
        if column.written == "number" and set(column.values.tolist()) <= plain:
            continue
        cell = grid.rows[0][grid.header.index(column.name)]
        what = f"holds {_NAMES.get(column.written, f'numbers with {column.written}')}, as {shorten(cell)!r}"
        faults.append(
            f"column {shorten(column.name)!r} {what}; in the table "
            f"{_NAMES.get(theirs, f'numbers with {theirs}')}"
        )
    return faults
