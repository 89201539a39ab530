"""Where a table's names and rows are: encoding, separator, lines before the names, a line of units, ragged rows."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.formats import is_missing, like_number, plain_number
from gpsuite.data.table.names import csv_error, first_repeated, shorten
from gpsuite.data.table.text import decode, parse_separator, read_bytes
from gpsuite.data.table.units import units_line
from gpsuite.errors import DataError
from gpsuite.text import visible

_BLANKS = re.compile(r"[ \t]+")
_END_BLANKS = re.compile(r"[ \t]+(?=\r|\n|\Z)")

Row: TypeAlias = tuple[int, list[str]]  # the line of the file it begins in, counted from 1, and its cells

SEPARATORS = (",", ";", "\t", "|")  # and blanks, where none of these fits
_SEPARATOR_NAMES = {"\t": "tabs", " ": "blanks"}
_FITS = 0.8  # least share of rows of the same width
_MOST_TITLES = 20  # rows above the names
_LOOKED_AT = 50  # rows that decide on separator and width


@dataclass(frozen=True)
class Grid:
    """The cells of a table as texts, before any is understood.

    Attributes:
        path: the file as the user names it.
        key: which names it, without `dataset.`.
        sha256: hash of the file's bytes.
        separator: the character between cells.
        header: the K column names, all different, none empty.
        lines: line of the file each of the N rows begins in.
        rows: the N rows of K stripped cells.
        units: column name -> unit, from a line of units.
        repeated: names that several columns have; the second is called NAME_2.
        notes: what was decided, each a sentence.
        faults: rows that are not as long as the header, each a sentence with its line.
    """

    path: str
    key: str
    sha256: str
    separator: str
    header: tuple[str, ...]
    lines: tuple[int, ...]
    rows: tuple[list[str], ...]
    units: dict[str, str]
    repeated: frozenset[str]
    notes: tuple[str, ...]
    faults: tuple[str, ...]

    def column(self, position: int) -> list[str]:
        """Return the N cells of a column."""
        return [row[position] for row in self.rows]


def read_grid(
    spec: CsvSpec, key: str = "path", least: int = 2, table_units: Mapping[str, str] | None = None
) -> Grid:
    """Read the file `dataset.KEY` into cells.

    Without `strict`, what loses nothing is guessed and said: the encoding, the separator, a first line `sep=;`, lines
    above the names, a line of units below them, names that are empty or repeated, names that are absent.

    Args:
        spec: the file and what the user states.
        key: of the file.
        least: columns that it must have.
        table_units: column name -> unit, of the table to which the file belongs; None for a table.

    Raises:
        DataError: if there is no such file, or it is no table of `least` columns or more.
    """
    path = getattr(spec, key) or ""
    data = read_bytes(path, key)
    text, notes = decode(path, data, key, strict=spec.strict)
    text = _blanked(text, spec.skip_rows)
    text, stated = (text, None) if spec.strict else _without_sep_line(text)
    separator = _separator(spec, text, stated, notes)
    raw = list(split_rows(path, text, separator, key))
    if not raw:
        rest = "no line is left", "it is the number of lines above the names"
        raise csv_error("skip_rows", spec.skip_rows, *rest, fix={"skip_rows": "0"})
    start = 0 if spec.strict else _first_of_table(raw)
    if start:
        notes.append(
            f"{_count(start, 'line')} above the column names left out, as {shorten(','.join(raw[0][1]))!r}"
        )
    first = [visible(cell) for cell in raw[start][1]]
    repeated = frozenset(name for name, times in Counter(first).items() if name and times > 1)
    header, raw = _header(spec, path, raw[start:], separator, notes, key, least)
    _refuse_decimal_comma(path, header, raw, separator, key)
    rows, faults = _even(header, raw, notes, strict=spec.strict)
    if not rows:
        raise csv_error(key, path, "no row has as many cells as there are names", *faults[:1])
    units = {} if spec.strict else units_line(key, path, header, [row for _, row in rows], table_units)
    if units:
        notes.append(f"line {rows[0][0]} is read as a line of units")
        rows = rows[1:]
    return Grid(
        path,
        key,
        hashlib.sha256(data).hexdigest(),
        separator,
        tuple(header),
        tuple(line for line, _ in rows),
        tuple(cells for _, cells in rows),
        units,
        repeated,
        tuple(notes),
        tuple(faults),
    )


def split_rows(path: str, text: str, separator: str, key: str = "path") -> Iterator[Row]:
    """Yield the rows that are not blank, the column names first, their cells stripped of blanks.

    Raises:
        DataError: where the quoting is broken.
    """
    if separator == " ":
        text = _BLANKS.sub(" ", _END_BLANKS.sub("", text))
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


def refuse_repeated(grid: Grid, names: Iterable[str], key: str = "path") -> None:
    """Refuse names given by the user that several columns have: nobody can tell which is meant.

    Raises:
        DataError: naming them.
    """
    wrong = [name for name in names if name in grid.repeated]
    if wrong:
        text = "; ".join(f"two columns are named {shorten(name)!r}" for name in wrong)
        raise csv_error(key, grid.path, text, "the first line must hold the column names, all different")


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


def _blanked(text: str, lines: int) -> str:
    """Return the text with its first lines emptied, so that the others keep their numbers."""
    if lines < 0:
        raise csv_error("skip_rows", lines, "is negative", "it is the number of lines above the column names")
    rest = text
    for _ in range(lines):
        rest = rest.partition("\n")[2]
    return "\n" * lines + rest


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
    if _fit(text, found)[0] < _FITS:
        share, numbers, _ = _fit(text, " ")
        found = " " if share > _FITS and numbers >= 0.5 else found
    if found != ",":
        notes.append(f"cells are separated by {_SEPARATOR_NAMES.get(found, repr(found))}")
    return found


def _fit(text: str, separator: str) -> tuple[float, float, int]:
    """How well a separator fits: the share of rows of the most frequent width above 1, that of numbers, the width."""
    try:
        rows = [cells for _, cells in itertools.islice(split_rows("", text, separator), _LOOKED_AT)]
    except DataError:  # a separator that breaks the quoting does not fit
        return 0.0, 0.0, 0
    widths = Counter(len(cells) for cells in rows)
    width, count = max(widths.items(), key=lambda item: (item[0] > 1, item[1]), default=(1, 0))
    if width < 2:
        return 0.0, 0.0, 0
    cells = [cell for row in rows if len(row) == width for cell in row]
    numbers = sum(not cell or like_number(cell) for cell in cells)
    return count / len(rows), numbers / len(cells), width


def _first_of_table(raw: Sequence[Row]) -> int:
    """Return how many rows stand above the names: titles and comments, narrower than the table or of one cell."""
    widths = Counter(len(cells) for _, cells in raw[:_LOOKED_AT])
    width = max(widths, key=lambda each: (widths[each], each))
    if width < 2:
        return 0
    for position, (_, cells) in enumerate(raw[:_MOST_TITLES]):
        filled = sum(map(bool, cells))
        later = any(_names(row, width) for _, row in raw[position + 1 : _MOST_TITLES])
        whole = len(cells) == width or len(_without_tail(cells)) == width
        if whole and not (later and (cells[0].startswith("#") or filled == 1 < width - 1)):
            return position
        if len(cells) == width - 1 and filled == width - 1 and not later:
            return 0  # row names have none
    return 0


def _names(cells: Sequence[str], width: int) -> bool:
    """Whether a row can hold column names: texts, all different."""
    return (
        len(cells) == width
        and all(cells)
        and len(set(cells)) == width
        and not any(like_number(cell) or is_missing(cell) for cell in cells)
    )


def _header(
    spec: CsvSpec, path: str, raw: list[Row], separator: str, notes: list[str], key: str, least: int
) -> tuple[list[str], list[Row]]:
    names = [visible(cell) for cell in raw[0][1]]
    if len(_without_tail(names)) < least:
        shown = "\\t" if separator == "\t" else separator
        line = "".join(raw[0][1])
        others = [mark for mark in SEPARATORS if mark in line and mark != separator]
        what = "\\t" if others[:1] == ["\t"] else "".join(others[:1])
        fix = f"set dataset.separator='{what}'" if others else "it needs a target and one input at least"
        text = f"only one column found in {path}: {shorten(visible(line))!r}"
        raise csv_error("separator", f"'{shown}'", text, fix, fix={"separator": what} if others else None)
    if len(raw) == 1:
        raise csv_error(key, path, "the file has column names but no rows", "add the rows")
    if spec.strict:
        repeated = first_repeated(name for name in names if name)
        if repeated is not None:
            fix = "the first line must hold the column names, all different"
            raise csv_error(key, path, f"two columns are named {shorten(repeated)!r}", fix)
        return names, raw[1:]
    widest = max(len(cells) for _, cells in raw[1:])
    while len(names) > max(widest, least) and not names[-1]:
        names.pop()
    if all(len(name) > 2 and name[0] == name[-1] == "'" for name in names):
        notes.append("the column names are read without their quotes")
        names = [name[1:-1].strip() for name in names]
    if all(plain_number(name) is not None for name in names if name) and not _named_by_user(spec, names):
        notes.append(f"the first line holds numbers only: the columns are named c1 to c{len(names)}")
        return [f"c{position + 1}" for position in range(len(names))], raw
    return _distinct(names, notes), raw[1:]


def _refuse_decimal_comma(
    path: str, header: Sequence[str], raw: Sequence[Row], separator: str, key: str
) -> None:
    """Refuse one name above lines such as 1,5: a number with a decimal comma, or a row's name and a number."""
    if separator != "," or len(header) != 1:
        return
    if all(len(cells) == 2 and all(map(str.isdigit, cells)) for _, cells in raw):
        text = f"line {raw[0][0]}: {','.join(raw[0][1])!r}, one number, or the row's name and a number?"
        fix = "give the first column a name if there are two; if it is one number:"
        raise csv_error(key, path, text, fix, fix={"separator": ";"})


def _named_by_user(spec: CsvSpec, names: Sequence[str]) -> bool:
    """Whether a first line of numbers holds names: 0, 1, 2, ... as programs give them, or the user's target."""
    numbers = [plain_number(name) for name in names if name]
    if all(b - a == 1.0 for a, b in itertools.pairwise(each or 0.0 for each in numbers)):
        return True
    given = spec.target if isinstance(spec.target, list | tuple) else str(spec.target).strip("[]").split(",")
    return all(str(each).strip() in names for each in given)


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


def _even(
    header: list[str], raw: Sequence[Row], notes: list[str], *, strict: bool
) -> tuple[list[Row], list[str]]:
    """Return the rows of the header's length, and a sentence for each other; empty cells at the end do not count.

    A table with row names has one name less than cells: such a column is called `row`. Lines that repeat the names
    (of files put together) are left out.
    """
    if not strict and raw and all(len(cells) == len(header) + 1 and cells[-1] for _, cells in raw):
        header.insert(0, "row" if "row" not in header else "row_number")
        notes.append(f"the first column has no name and is called {header[0]!r}")
    if not strict:
        raw = _without_footer(raw, len(header), notes)
    rows, faults, padded = [], [], 0
    for line, cells in raw:
        if not strict and cells == header:
            notes.append(f"line {line} repeats the column names and is left out")
            continue
        wide = cells
        while len(wide) > len(header) and not wide[-1]:
            wide = wide[:-1]
        if not strict and len(wide) < len(header) and not cells[-1] and any(cells):
            wide = [*wide, *[""] * (len(header) - len(wide))]
            padded += 1
        if len(wide) == len(header):
            rows.append((line, wide))
        else:
            faults.append(f"line {line} has {len(wide)} cells, the header has {len(header)}")
    if padded:
        notes.append(
            f"{_count(padded, 'row')} with fewer cells, the last of them empty: the others are empty, too"
        )
    return rows, faults


def _without_footer(raw: Sequence[Row], width: int, notes: list[str]) -> Sequence[Row]:
    """Return the rows without remarks below the table: lines of one cell, a text."""
    stop = len(raw)
    while stop > 1 and _is_remark(raw[stop - 1][1], width):
        stop -= 1
    if stop < len(raw):
        shown = shorten(next(cell for cell in raw[stop][1] if cell))
        notes.append(f"{_count(len(raw) - stop, 'line')} below the table left out, as {shown!r}")
    return raw[:stop]


def _is_remark(cells: Sequence[str], width: int) -> bool:
    filled = [cell for cell in cells if cell]
    return len(filled) == 1 < width and len(cells) < width and not like_number(filled[0])


def _without_tail(cells: Sequence[str]) -> list[str]:
    kept = list(cells)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
