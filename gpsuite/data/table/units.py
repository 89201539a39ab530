"""A line of units below the column names: the table's own, or in a file that belongs to one the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpsuite.data.table.formats import MISSING_MARKS, is_missing, like_number
from gpsuite.data.table.names import csv_error, shorten
from gpsuite.text import visible

_LOOKED_AT = 50  # rows that decide whether a column holds numbers


def units_line(
    key: str,
    path: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    table: Mapping[str, str] | None,
) -> dict[str, str]:
    """Return column name -> unit if the first row holds units; in a file that belongs to a table, the table's.

    Args:
        key: of the file.
        path: the file.
        header: its column names.
        rows: its cells.
        table: column name -> unit, of the table to which the file belongs; None for a table.

    Raises:
        DataError: if file and table have a unit for a column, and not the same.
    """
    if table is None:
        return _units_in(header, rows)
    found = {name: visible(cell) for name, cell in zip(header, rows[0], strict=True) if cell}
    shared = [name for name in found if name in table]
    if shared and all(found[name] == table[name] for name in shared):
        return found
    if not shared or not _units_in(header, rows):
        return {}
    name = next(name for name in shared if found[name] != table[name])
    fault = (
        f"column {shorten(name)!r} is in {shorten(found[name])!r}, in the table in {shorten(table[name])!r}"
    )
    raise csv_error(key, path, fault, "convert it, and write the table's unit")


def _units_in(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the units if the first row holds some: no number in it, in columns that hold numbers otherwise."""
    if len(rows) < 3:
        return {}
    first, later = rows[0], rows[1:_LOOKED_AT]
    if any(like_number(cell) for cell in first):
        return {}
    numeric = [
        position
        for position in range(len(header))
        if all(is_missing(cells[position]) or like_number(cells[position]) for cells in later)
        and any(like_number(cells[position]) for cells in later)
    ]
    if not numeric or any(is_missing(first[position]) and first[position] for position in numeric):
        return {}
    if all(first[position].casefold() in MISSING_MARKS | {""} for position in numeric):
        return {}  # a row of gaps
    if sum(bool(first[position]) for position in numeric) * 2 < len(numeric):
        return {}
    return {header[position]: visible(cell) for position, cell in enumerate(first) if cell}
