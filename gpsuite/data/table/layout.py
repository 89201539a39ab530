"""Where a table's names and rows are: encoding, separator, lines before the names, a line of units, ragged rows."""

from __future__ import annotations

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.formats import is_missing, plain_number
from gpsuite.data.table.names import csv_error, first_repeated, shorten
from gpsuite.data.table.text import decode, parse_separator, read_bytes
from gpsuite.text import visible

Row: TypeAlias = tuple[int, list[str]]  # the line of the file it begins in, counted from 1, and its cells

SEPARATORS = (",", ";", "\t", "|")
_LOOKED_AT = 50  # rows that decide on separator and width


@dataclass(frozen=True)
class Grid:
    """The cells of a table as texts, before any is understood.

    Attributes:
        path: the file as the user names it.
        sha256: hash of the file's bytes.
        separator: the character between cells.
        header: the K column names, all different, none empty.
        lines: line of the file each of the N rows begins in.
        rows: the N rows of K stripped cells.
        units: column name -> unit, from a line of units.
        notes: what was decided, each a sentence.
        faults: rows that are not as long as the header, each a sentence with its line.
    """

    path: str
    sha256: str
    separator: str
    header: tuple[str, ...]
    lines: tuple[int, ...]
    rows: tuple[list[str], ...]
    units: dict[str, str]
    notes: tuple[str, ...]
    faults: tuple[str, ...]

    def column(self, position: int) -> list[str]:
        """Return the N cells of a column."""
        return [row[position] for row in self.rows]


def read_grid(spec: CsvSpec, key: str = "path", least: int = 2) -> Grid:
    """Read the file `dataset.KEY` into cells.

    Without `strict`, what loses nothing is guessed and said: the encoding, the separator, a first line `sep=;`, lines
    above the names, a line of units below them, names that are empty or repeated, names that are absent.

    Raises:
        DataError: if there is no such file, or it is no table of `least` columns or more.
    """
    path = getattr(spec, key) or ""
    data = read_bytes(path, key)
    text, notes = decode(path, data, key, strict=spec.strict)
    text, stated = _without_sep_line(text)
    separator = _separator(spec, text, stated, notes)
    raw = list(split_rows(path, text, separator, key))[spec.skip_rows :]
    start = 0 if spec.strict else _first_of_table(raw)
    if start:
        notes.append(f"{_count(start, 'line')} above the column names left out")
    raw = raw[start:]
    if not raw:
        raise csv_error(
            "skip_rows", spec.skip_rows, "no line is left", "it is the number of lines above the names"
        )
    header, raw = _header(spec, path, raw, separator, notes, key, least)
    rows, faults = _even(header, raw)
    units: dict[str, str] = {}
    if not spec.strict and (found := _units(header, rows)):
        notes.append(f"line {rows[0][0]} is read as a line of units")
        units, rows = found, rows[1:]
    return Grid(
        path,
        hashlib.sha256(data).hexdigest(),
        separator,
        tuple(header),
        tuple(line for line, _ in rows),
        tuple(cells for _, cells in rows),
        units,
        tuple(notes),
        tuple(faults),
    )


def split_rows(path: str, text: str, separator: str, key: str = "path") -> Iterator[Row]:
    """Yield the rows that are not blank, the column names first, their cells stripped of blanks.

    Raises:
        DataError: where the quoting is broken.
    """
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True
    )
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            hint = "look for a quote that is not closed, or not doubled inside a quoted cell"
            raise csv_error(key, path, f"line {start}: not valid CSV ({error})", hint) from error
        if row is None:
            return
        cells = [cell.strip() for cell in row]
        if any(cells) or len(cells) > 1:
            yield start, cells


def without_empty_tail(grid: Grid) -> Grid:
    """Return the table without rows in which every cell is empty (spreadsheets leave them behind)."""
    kept = [position for position, row in enumerate(grid.rows) if any(row)]
    if len(kept) == len(grid.rows):
        return grid
    note = f"{_count(len(grid.rows) - len(kept), 'empty row')} left out"
    return replace(
        grid,
        lines=tuple(grid.lines[position] for position in kept),
        rows=tuple(grid.rows[position] for position in kept),
        notes=(*grid.notes, note),
    )


def _without_sep_line(text: str) -> tuple[str, str | None]:
    """Return the text with a first line `sep=;` (spreadsheets write it) blanked, and its separator."""
    first, end, rest = text.partition("\n")
    line = first.strip().strip('"')
    if line.lower().startswith("sep=") and len(line) <= 5:
        return end + rest, line[4:] or "\t"
    return text, None


def _separator(spec: CsvSpec, text: str, stated: str | None, notes: list[str]) -> str:
    if spec.separator is not None:
        return parse_separator(spec.separator)
    if stated is not None:
        return parse_separator(stated)
    if spec.strict:
        return ","
    found = max(SEPARATORS, key=lambda mark: _fit(text, mark))
    if found != ",":
        notes.append(f"cells are separated by {'tab' if found == chr(9) else repr(found)}")
    return found


def _fit(text: str, separator: str) -> tuple[float, int]:
    """How well a separator fits: the share of rows of the most frequent width above 1, then that width."""
    try:
        rows = [
            cells for _, cells in zip(range(_LOOKED_AT), split_rows("", text, separator), strict=False)
        ]
    except Exception:  # noqa: BLE001 - a separator that breaks the quoting does not fit
        return 0.0, 0
    widths = Counter(len(cells) for _, cells in rows)
    width, count = max(widths.items(), key=lambda item: (item[0] > 1, item[1]), default=(1, 0))
    return (count / len(rows), width) if width > 1 else (0.0, 0)


def _first_of_table(raw: Sequence[Row]) -> int:
    """Return how many rows stand above the names: titles and comments, narrower than the table."""
    widths = Counter(len(cells) for _, cells in raw[:_LOOKED_AT])
    if not widths:
        return 0
    width = max(widths, key=lambda each: (widths[each], each))
    for position, (_, cells) in enumerate(raw[:_LOOKED_AT]):
        if len(cells) >= width and not cells[0].startswith("#"):
            return position
        if len(_without_tail(cells)) > 1 and not cells[0].startswith("#"):
            return 0  # a short row with several cells may be a header that lacks a name
    return 0


def _header(
    spec: CsvSpec, path: str, raw: list[Row], separator: str, notes: list[str], key: str, least: int
) -> tuple[list[str], list[Row]]:
    names = [visible(cell) for cell in raw[0][1]]
    if len(_without_tail(names)) < least:
        shown = "\\t" if separator == "\t" else separator
        line = "".join(names)
        others = [mark for mark in SEPARATORS if mark in line and mark != separator]
        what = "\\t" if others[:1] == ["\t"] else "".join(others[:1])
        fix = f"set dataset.separator='{what}'" if others else "it needs a target and one input at least"
        raise csv_error("separator", f"'{shown}'", f"only one column found in {path}: {shorten(line)!r}", fix)
    if len(raw) == 1:
        raise csv_error(key, path, "the file has column names but no rows", "add the rows")
    if spec.strict:
        repeated = first_repeated(name for name in names if name)
        if repeated is not None:
            fix = "the first line must hold the column names, all different"
            raise csv_error(key, path, f"two columns are named {shorten(repeated)!r}", fix)
        return names, raw[1:]
    if all(plain_number(name) is not None for name in names if name) and len(set(names)) > 1:
        notes.append(f"the first line holds numbers only: the columns are named c1 to c{len(names)}")
        return [f"c{position + 1}" for position in range(len(names))], raw
    return _distinct(names, notes), raw[1:]


def _distinct(names: Sequence[str], notes: list[str]) -> list[str]:
    """Name what has no name, and number repeated names."""
    seen: set[str] = {name for name in names if name}
    used: set[str] = set()
    result = []
    for position, name in enumerate(names):
        chosen = name or f"column_{position + 1}"
        number = 2
        while chosen in used or (chosen != name and chosen in seen):
            chosen, number = f"{name or f'column_{position + 1}'}_{number}", number + 1
        if chosen != name and name:
            notes.append(f"a second column {shorten(name)!r} is called {shorten(chosen)!r}")
        used.add(chosen)
        result.append(chosen)
    return result


def _even(header: list[str], raw: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Return the rows of the header's length, and a sentence for each other; empty cells at the end do not count.

    A table with a row number has one name less than cells: such a column is called `row`.
    """
    if raw and all(len(cells) == len(header) + 1 and cells[-1] for _, cells in raw):
        header.insert(0, "row" if "row" not in header else "row_number")
    rows, faults = [], []
    for line, cells in raw:
        wide = cells
        while len(wide) > len(header) and not wide[-1]:
            wide = wide[:-1]
        if len(wide) == len(header):
            rows.append((line, wide))
        else:
            faults.append(f"line {line} has {len(wide)} cells, the header has {len(header)}")
    return rows, faults


def _units(header: Sequence[str], rows: Sequence[Row]) -> dict[str, str] | None:
    """Return the units if the first row holds some: no number in it, in columns that hold numbers otherwise."""
    if len(rows) < 3:
        return None
    first = rows[0][1]
    if any(plain_number(cell) is not None for cell in first):
        return None
    numeric = [
        position
        for position in range(len(header))
        if all(
            is_missing(cells[position]) or plain_number(cells[position]) is not None
            for _, cells in rows[1:_LOOKED_AT]
        )
        and any(plain_number(cells[position]) is not None for _, cells in rows[1:_LOOKED_AT])
    ]
    if not numeric or any(is_missing(first[position]) and first[position] for position in numeric):
        return None
    if sum(bool(first[position]) for position in numeric) * 2 < len(numeric):
        return None
    return {header[position]: visible(cell) for position, cell in enumerate(first) if cell}


def _without_tail(cells: Sequence[str]) -> list[str]:
    kept = list(cells)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
