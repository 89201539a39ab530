"""Rows to predict: the inputs of the training table, in another file."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.formats import NumberFormat, is_missing, same_word
from gpsuite.data.table.layout import Grid, read_second, refuse_repeated
from gpsuite.data.table.names import csv_error, name_list, shorten
from gpsuite.data.table.roles import otherwise_written, read_columns
from gpsuite.data.table.rows import bad_cells, check_spread, gap_cells, shown_faults
from gpsuite.errors import DataError
from gpsuite.text import counted, visible

_KEY = "new"
_SHOWN = 3  # number of reasons in a sentence
_WHOLE = 1e15  # whole floats from here on are written as floats
_LINE = re.compile(r"line (\d+)\b")
_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}(?: .*)?")
_DAY_FIRST = ", or a date whose day and month are clear: write 2020-03-31"


@dataclass(frozen=True, eq=False)
class NewRows:
    """Inputs without targets.

    Attributes:
        X: inputs in the order of the requested names, [B, D]. NaN in rows that cannot be predicted.
        content_hash: hash of what was read.
        notes: decisions made when the file was read, each a sentence.
        unread: reasons why rows cannot be predicted, by number of the row, from 1.
        weights: likelihood ratio of each row [B], if the table has such ratios.
    """

    X: FloatArray
    content_hash: str
    notes: tuple[str, ...]
    unread: Mapping[int, str] = field(default_factory=dict)
    weights: FloatArray | None = None

    @property
    def readable(self) -> IntArray:
        """Positions of the rows that can be predicted."""
        return np.setdiff1d(np.arange(len(self.X)), np.array(list(self.unread), dtype=np.int64) - 1)


def unread_rows(unread: Mapping[int, str], rows: int) -> str:
    """Return a sentence with the number of rows that are not predicted, and the first reasons."""
    reasons = list(unread.values())
    more = f", and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return f"{len(unread)} of {counted(rows, 'row')} not predicted: {'; '.join(reasons[:_SHOWN])}{more}"


def read_inputs(
    spec: CsvSpec,
    names: Sequence[str],
    learned: Mapping[str, Sequence[str]] | None = None,
    reading: Mapping[str, str] | None = None,
    strict: bool | None = None,
) -> NewRows:
    """Return the inputs of these names from the file `dataset.new`. Its other columns are ignored.

    A name `COLUMN=LEVEL` that is not a column is the input of a category's level, as in `roles.encode`. Every row is to
    be predicted. Only empty rows at the end are left out, and unreadable rows are marked.

    Args:
        spec: the file and its format.
        names: names of the inputs, D.
        learned: `Dataset.categories`: the levels that a category may have. Without it, the levels with an input. With
            two levels also any other text, as long as it is always the same.
        reading: `Dataset.reading` of the training table.
        strict: whether to refuse a file with an unreadable row. None: if the table was read so.

    Raises:
        DataError: if the file, a column or all rows are unusable. With `strict` also for one unusable row.
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
    # repeated names were numbered in the same way in the table
    refuse_repeated(grid, [name for name in asked if f"{name}_2" not in asked], _KEY)
    notes = list(grid.notes)
    numbers, faults = _numbers(spec, grid, plain, table, notes)
    levels, more = _levels(grid, categories, learned or {})
    unread = _unread(grid, [*grid.faults, *faults, *more])
    if unread and (len(unread) == len(grid.lines) + len(grid.faults) or _refuses(spec, table, strict)):
        _refuse(grid, list(unread.values()))
    X = _all_rows(grid, np.column_stack([(numbers | levels)[name] for name in names]))
    X[np.array(list(unread), dtype=np.int64) - 1] = np.nan
    check_spread(grid.path, X, names, _KEY)
    return NewRows(X, hashlib.sha256(np.ascontiguousarray(X).tobytes()).hexdigest(), tuple(notes), unread)


def _refuses(spec: CsvSpec, table: Mapping[str, str], strict: bool | None) -> bool:
    """Return whether a single unreadable row is a reason to refuse the file."""
    return strict if strict is not None else spec.strict or table.get("missing") == "error"


def _lines(grid: Grid) -> IntArray:
    """Return the lines of all rows [B], including rows of another length than the header."""
    return np.sort(np.append(grid.lines, [_line(fault) for fault in grid.faults])).astype(np.int64)


def _line(fault: str) -> int:
    """Return the line of the row that a sentence is about. Only sentences about rows begin with a line."""
    found = _LINE.match(fault)
    return int(found[1]) if found else 0


def _unread(grid: Grid, faults: Sequence[str]) -> dict[int, str]:
    """Return the faults by number of the row.

    Raises:
        DataError: if a fault concerns a whole column.
    """
    if columns := [fault for fault in faults if not _line(fault)]:
        _refuse(grid, columns)
    place = {int(line): number for number, line in enumerate(_lines(grid), start=1)}
    found: dict[int, list[str]] = {}
    for fault in faults:
        found.setdefault(place[_line(fault)], []).append(fault)
    return {row: "; ".join(found[row]) for row in sorted(found)}


def _all_rows(grid: Grid, values: FloatArray) -> FloatArray:
    """Return values [N, D] of the complete rows at their positions among all rows, [B, D]."""
    lines = _lines(grid)
    found = np.full((len(lines), values.shape[1]), np.nan)
    found[np.searchsorted(lines, grid.lines)] = values
    return found


def _trimmed(grid: Grid) -> Grid:
    """Return the table without empty rows at its end. Empty rows between others count: predictions are numbered."""
    filled = np.flatnonzero((grid.cells != "").any(axis=1))
    count = int(filled[-1]) + 1 if len(filled) else 0
    return replace(grid, lines=grid.lines[:count], cells=grid.cells[:count])


def _has_all(header: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether each input is a column, or a level of a column."""
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
) -> tuple[dict[str, FloatArray], list[str]]:
    """Return the values of each column that is not a category, and the faults of cells and columns."""
    positions = [grid.header.index(name) for name in names]
    found, written = read_columns(spec, grid, positions, notes, table=reading)
    columns = [found[position] for position in positions]
    faults = [*bad_cells(grid, columns), *gap_cells(grid, columns)]
    values: dict[str, FloatArray] = {}
    for position, column in zip(positions, columns, strict=True):
        values[column.name] = column.values
        if column.kind in ("category", "text"):
            faults += _texts(grid, position, written)
            cells = [written.number(cell) for cell in grid.cells[:, position].tolist()]
            values[column.name] = np.array([np.nan if cell is None else cell for cell in cells])
    notes += [note for column in columns if column.kind not in ("category", "text") for note in column.notes]
    return values, [*faults, *otherwise_written(grid, columns, reading)]


def _texts(grid: Grid, position: int, written: NumberFormat) -> list[str]:
    """Return a sentence for each cell that is not a number and not missing, or a single one if all are texts."""
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
) -> tuple[dict[str, FloatArray], list[str]]:
    """Return 0 and 1 for each level, and which cells are not one of several levels."""
    found, faults = {}, []
    for column in dict.fromkeys(column for column, _ in categories.values()):
        cells = [visible(cell) for cell in grid.cells[:, grid.header.index(column)]]
        known = learned.get(column) or [level for name, level in categories.values() if name == column]
        # with two levels only one has an input. If the other is unknown, all other cells must be the same
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
    return found, faults


def _refuse(grid: Grid, faults: Sequence[str]) -> NoReturn:
    raise csv_error(_KEY, grid.path, shown_faults(faults), "fix each, or remove its row")


def inputs_of_file(
    path: str,
    names: Sequence[str],
    reading: Mapping[str, str] | None = None,
    learned: Mapping[str, Sequence[str]] | None = None,
    stated: Mapping[str, str] | None = None,
    strict: bool | None = None,
) -> NewRows:
    """Return the inputs of these names from a file that no run names, as `read_inputs`.

    Args:
        path: the file.
        names: names of the inputs, D.
        reading: `Dataset.reading` of the training table.
        learned: levels of categories.
        stated: `separator`, `decimal` and `thousands` of this file, as stated by the user.
        strict: whether to refuse unreadable rows, as in `read_inputs`.
    """
    marks: dict[str, Any] = dict(stated or {})
    return read_inputs(replace(CsvSpec(), new=path, **marks), names, learned, reading, strict)


def inputs_of_frame(
    frame: Any, names: Sequence[str], reading: Mapping[str, str], learned: Mapping[str, Sequence[str]]
) -> FloatArray:
    """Return the inputs of these names [B, D] from a DataFrame with the columns of the training table.

    The frame is written in the table's format and read like a file of new rows. So both are encoded in the same way.

    Raises:
        ValueError: if a column is missing, or a row cannot be read. Names it by its index.
    """
    separator = reading.get("separator") or ","
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
            writer.writerow(list(map(str, frame.columns)))
            columns = [_written(frame.iloc[:, place], reading) for place in range(frame.shape[1])]
            writer.writerows(zip(*columns, strict=True))
        try:
            return inputs_of_file(str(path), names, reading, learned, {"separator": separator}, strict=True).X
        except DataError as error:
            text = str(error).partition(f"{path.name}: ")[2] or str(error)
            labels = list(frame.index)
            own = _LINE.sub(lambda found: f"row {labels[int(found[1]) - 2]!r}", text)
            told = "; ".join(own.splitlines())
            raise ValueError(f"the table of rows to predict: {told}") from None


def _written(column: Any, reading: Mapping[str, str]) -> list[str]:
    """Return the cells of a column in the training table's format, empty if a value is missing."""
    mark = reading.get("decimal") or "."
    return [
        "" if missing else _cell(value, mark)
        for value, missing in zip(column.tolist(), column.isna().tolist(), strict=True)
    ]


def _cell(value: Any, mark: str) -> str:
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < _WHOLE  # a column of codes with gaps has floats
        return str(int(value)) if whole else repr(value).replace(".", mark)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    return str(value)
