"""From the cells of a table to columns, all of a file read in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.columns import Column, plain_column, read_column
from gpsuite.data.table.formats import NumberFormat, as_the_table, find_format, refuse_twofold
from gpsuite.data.table.layout import Grid
from gpsuite.data.table.reading import format_of

_VERSION = 2  # of the decisions


def reading_of(spec: CsvSpec, notes: Sequence[str]) -> list[object]:
    """Return what a table's hash holds of how it was read: nothing where nothing was decided and nothing stated."""
    settings = [spec.decimal, spec.thousands, spec.missing, spec.skip_rows, spec.categories, spec.strict]
    stated = spec.decimal is not None or spec.thousands is not None or spec.skip_rows > 0
    return [["reading", _VERSION, *settings]] if notes or stated else []


def read_columns(
    spec: CsvSpec,
    grid: Grid,
    positions: Sequence[int],
    notes: list[str],
    *,
    table: Mapping[str, str] | None = None,
    numbers_only: bool = False,
) -> tuple[dict[int, Column], NumberFormat]:
    """Return position -> column, and how the file writes numbers, decided by all of them and added to `notes`.

    Args:
        spec: decimal and thousands marks, most categories, strict.
        grid: the cells.
        positions: of the columns.
        notes: what was decided, extended.
        table: `Dataset.reading` of the table to which this file belongs.
        numbers_only: a cell that is no number is a bad one, whatever the others are.

    Raises:
        DataError: if the columns write numbers in different ways, or in one that can be read twofold.
    """
    cells = {position: grid.column(position) for position in positions}
    plain = {position: plain_column(grid.header[position], cells[position]) for position in positions}
    if spec.strict:
        written, said = NumberFormat(spec.decimal or ".", spec.thousands or ""), ""
    else:
        doubtful = [(grid.header[p], list(dict.fromkeys(cells[p]))) for p in positions if plain[p] is None]
        others = [(grid.header[p], cells[p]) for p in positions if plain[p] is not None]
        marks = spec.decimal, spec.thousands
        guessed, theirs = marks == (None, None), format_of(table or {})
        alike = (table or {}).get("separator", grid.separator) == grid.separator
        shared = as_the_table(theirs, [*doubtful, *others], alike) if guessed else None
        written, said = shared or find_format(grid.key, grid.path, doubtful, others, *marks, grid.separator)
        if shared is None and guessed:
            refuse_twofold(grid.key, grid.path, [*doubtful, *others], theirs, written)
    if said:
        notes.append(said)
    usual = written == NumberFormat()
    found = {}
    for position in positions:
        column = plain[position] if usual else None
        found[position] = column or read_column(
            grid.header[position],
            cells[position],
            written,
            categories=spec.categories,
            strict=spec.strict or numbers_only,
        )
    return found, written
