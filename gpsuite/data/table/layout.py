"""Cells of a file: encoding, separator, names, units, ragged rows, and files that belong to a table."""

from __future__ import annotations

import codecs
import contextlib
import csv
import hashlib
import itertools
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpsuite.arrays import IntArray
from gpsuite.data.spec import MISSING, CsvSpec
from gpsuite.data.table.formats import MISSING_MARKS, Cells, format_of, is_missing, like_number
from gpsuite.data.table.names import csv_error, first_repeated, shorten, split_values
from gpsuite.data.table.titles import holds_values
from gpsuite.errors import DataError, nearest
from gpsuite.text import counted, typed_path, visible
from gpsuite.untrusted import read_file

LARGEST_DATA = 4 << 30
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def parse_separator(text: str) -> str:
    r"""Return the separating character. The two characters `\t` mean a tab.

    Raises:
        DataError: if it is not one character, or one that CSV uses itself.
    """
    separator = "\t" if text == "\\t" else text
    if len(separator) != 1 or separator in '"\r\n\0':
        text = "must be one character, or \\t for a tab"
        raise csv_error("separator", repr(separator), text, "e.g. dataset.separator=';'")
    return separator


def read_bytes(text: str, key: str = "path") -> bytes:
    """Return the content of the file that `dataset.KEY` names.

    Raises:
        DataError: if it does not exist (with the nearest name in its folder), or it is a folder, empty or unreadable.
    """
    if text in (MISSING, ""):
        raise csv_error(key, "", "no file named", f"set dataset.{key}=FILE.csv")
    path = typed_path(text)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise csv_error(key, text, "is a folder", "name the CSV file in it")
        if not stat.S_ISREG(mode):
            raise csv_error(key, text, "is not a regular file", "store the table in a file first")
        data = read_file(path, LARGEST_DATA)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_such_file(text, path, key) from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise csv_error(key, text, f"cannot be read: {reason}", "check its name and permissions") from error
    if not data.strip():
        raise csv_error(key, text, "the file is empty", "it needs a line of column names, then the rows")
    return data


def decode(path: str, data: bytes, key: str = "path", *, strict: bool = False) -> tuple[str, list[str]]:
    """Return the text of a file and the decision: UTF-8 or UTF-16 with a mark, or Windows-1252 (not if strict).

    Raises:
        DataError: if it is binary, or not UTF-8 and `strict`.
    """
    fix = "export the table as 'CSV UTF-8'"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not strict:
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode("utf-16"), ["the file is read as UTF-16"]
    if data.startswith(b"\x1f\x8b"):
        raise csv_error(key, path, "is compressed by gzip", "unpack it first, with gunzip")
    if b"\0" in data:
        raise csv_error(key, path, "is not a text CSV (it holds binary data)", fix)
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        if not strict and not _BINARY.search(data[:4096]):
            with contextlib.suppress(UnicodeDecodeError):
                return data.decode("cp1252"), [f"the file is not UTF-8 (line {line}) and read as Windows-1252"]
            return data.decode("latin-1"), [f"the file is not UTF-8 (line {line}) and read as Latin-1"]
        raise csv_error(key, path, f"is not a text CSV in UTF-8 (line {line})", fix) from error


def _no_such_file(text: str, path: Path, key: str) -> DataError:
    folder = path.parent
    if not os.path.isdir(folder):
        return csv_error(key, text, f"there is no folder '{shorten(str(folder), 300)}'", f"check dataset.{key}")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    near = nearest(path.name, names)
    if near:
        return csv_error(key, text, f"no such file. Did you mean '{near}'?", fix={key: str(folder / near)})
    return csv_error(key, text, "no such file", f"looked in {folder.absolute()}")


_BLANKS = re.compile(r"[ \t]+")
_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]+")

Row: TypeAlias = tuple[int, list[str]]  # the line of the file where it begins, counted from 1, and its cells

SEPARATORS = (",", ";", "\t", "|")  # blanks too, if no other separator fits
_SEPARATOR_NAMES = {"\t": "tabs", " ": "blanks"}
_FITS = 0.8  # least share of rows of the same width
_MOST_TITLES = 20  # rows above the names
_LOOKED_AT = 50  # rows that decide on separator, width and units
_KEPT_FILES = 2  # a table and a file that belongs to it
UNIT = "unit "  # before a column's name in `Dataset.reading`
UNTITLED = "untitled"  # in `Dataset.reading`, the columns of a table without titles
TARGETS = "targets"  # in `Dataset.reading`, its targets


@dataclass(frozen=True)
class _Way:
    """Settings of a spec for the reading of a file.

    `units` are those of the table to which it belongs. `titles` states whether the first line holds titles. None:
    found.
    """

    path: str
    key: str
    separator: str | None
    skip_rows: int
    strict: bool
    least: int
    units: tuple[tuple[str, str], ...] | None
    titles: bool | None = None


@dataclass(frozen=True, eq=False)
class Grid:
    """The cells of a table as texts, before interpretation.

    Attributes:
        path: the file as the user names it.
        key: setting that names it, without `dataset.`.
        sha256: hash of the file's bytes.
        separator: the character between cells.
        header: the K column names, all different, none empty.
        lines: line of the file where each of the N rows begins.
        cells: the stripped cells [N, K].
        units: units by column name, from a line of units.
        repeated: names that several columns have. The second is called NAME_2.
        notes: decisions, each a sentence.
        faults: rows that are not as long as the header, each a sentence with its line.
        numbered: the first line, if it holds values. Then the columns were given names.
        untitled: positions of columns of values without title, except the first column.
    """

    path: str
    key: str
    sha256: str
    separator: str
    header: tuple[str, ...]
    lines: IntArray
    cells: NDArray[np.object_]
    units: dict[str, str]
    repeated: frozenset[str]
    notes: tuple[str, ...]
    faults: tuple[str, ...]
    numbered: tuple[str, ...] = ()
    untitled: tuple[int, ...] = ()
    _columns: dict[int, Cells] = field(default_factory=dict, init=False, repr=False)

    def column(self, position: int) -> Cells:
        """Return the N cells of a column. They are analysed once."""
        if position not in self._columns:
            self._columns[position] = Cells.of(self.header[position], self.cells[:, position])
        return self._columns[position]

    @cached_property
    def filled(self) -> Grid:
        """The table without rows in which every cell is empty (spreadsheets produce such rows)."""
        kept = (self.cells != "").any(axis=1)
        if kept.all():
            return self
        note = f"{counted(int((~kept).sum()), 'empty row')} left out"
        return replace(self, lines=self.lines[kept], cells=self.cells[kept], notes=(*self.notes, note))


def read_grid(spec: CsvSpec, key: str = "path", least: int = 2, table_units: Mapping[str, str] | None = None) -> Grid:
    """Return the cells of the file `dataset.KEY`.

    Without `strict`, guesses that lose nothing are made and reported. They are the encoding, the separator, a first
    line `sep=;`, lines above the names, a line of units below them, and empty, repeated or missing names.

    Args:
        spec: the file and the user's statements.
        key: key of the file.
        least: least number of columns.
        table_units: units by column name of the table to which the file belongs. None for a table.

    Raises:
        DataError: if there is no such file, or it is not a table of `least` columns or more.
    """
    path = getattr(spec, key) or ""
    data = read_bytes(path, key)
    units = None if table_units is None else tuple(table_units.items())
    way = _Way(path, key, spec.separator, spec.skip_rows, spec.strict, least, units, spec.titles)
    grid = _grid(data, way)
    if grid.numbered and spec.titles is None and _named_by_user(spec, grid.numbered):
        return _grid(data, replace(way, titles=True))
    return grid


@lru_cache(maxsize=_KEPT_FILES)  # cached by content: a command plans several experiments on the same table
def _grid(data: bytes, way: _Way) -> Grid:
    path, key = way.path, way.key
    text, notes = decode(path, data, key, strict=way.strict)
    text = _blanked(text, way.skip_rows)
    text, stated = (text, None) if way.strict else _without_sep_line(text)
    separator = _separator(way, text, stated, notes)
    raw = list(split_rows(path, text, separator, key))
    if not raw:
        rest = "no line is left", "it is the number of lines above the names"
        raise csv_error("skip_rows", way.skip_rows, *rest, fix={"skip_rows": "0"})
    start = 0 if way.strict else _first_of_table(raw)
    if start:
        what = shorten(",".join(raw[0][1]))
        notes.append(f"{counted(start, 'line')} above the column names left out, as {what!r}")
    first = [visible(cell) for cell in raw[start][1]]
    header, raw, numbered = _header(way, raw[start:], separator, notes)
    _refuse_decimal_comma(path, header, raw, separator, key)
    rows, faults = _even(header, raw, notes, strict=way.strict)
    if not rows:
        raise csv_error(key, path, "no row has as many cells as there are names", *faults[:1])
    units = {} if way.strict or numbered else _units_line(way, header, [row for _, row in rows[:_LOOKED_AT]])
    if units:
        notes.append(f"line {rows[0][0]} is read as a line of units")
        rows = rows[1:]
    cells = np.empty((len(rows), len(header)), dtype=object)
    cells[:] = [row for _, row in rows]
    return Grid(
        path=path,
        key=key,
        sha256=hashlib.sha256(data).hexdigest(),
        separator=separator,
        header=tuple(header),
        lines=np.array([line for line, _ in rows], dtype=np.int64),
        cells=cells,
        units=units,
        repeated=frozenset(name for name, times in Counter(first).items() if name and times > 1),
        notes=tuple(notes),
        faults=tuple(faults),
        numbered=numbered,
        untitled=() if numbered else _untitled(first[: len(header)], cells),
    )


def _untitled(first: Sequence[str], cells: NDArray[np.object_]) -> tuple[int, ...]:
    """Return the positions of columns without a title that hold something, except the first column."""
    empty = [place for place, name in enumerate(first) if place and not name]
    return tuple(place for place in empty if (cells[:, place] != "").any())


def split_rows(path: str, text: str, separator: str, key: str = "path") -> Iterator[Row]:
    """Yield the rows that are not blank, the column names first, their cells stripped of blanks.

    Raises:
        DataError: if the quoting is broken.
    """
    lines: Iterator[str] = (found[0] for found in _LINE.finditer(text))
    if separator == " ":
        lines = map(_single_blanks, lines)
    # csv and not pandas: only csv reports where a row begins, which quote is wrong, and how long each row is
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
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


def _single_blanks(line: str) -> str:
    body = line.rstrip("\r\n")
    return _BLANKS.sub(" ", body.rstrip(" \t")) + line[len(body) :]


def refuse_repeated(grid: Grid, names: Iterable[str], key: str = "path") -> None:
    """Raise if several columns have a name that the user gives.

    Raises:
        DataError: naming them.
    """
    wrong = [name for name in names if name in grid.repeated]
    if wrong:
        text = "; ".join(f"two columns are named {shorten(name)!r}" for name in wrong)
        raise csv_error(key, grid.path, text, "the first line must hold the column names, all different")


def _blanked(text: str, lines: int) -> str:
    """Return the text with its first lines emptied: the others keep their numbers."""
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


def _separator(way: _Way, text: str, stated: str | None, notes: list[str]) -> str:
    if way.separator is not None:
        return parse_separator(way.separator)
    if stated is not None:
        return parse_separator(stated)
    if way.strict:
        return ","
    fits = {mark: _fit(text, mark) for mark in SEPARATORS}
    found = max(SEPARATORS, key=lambda mark: fits[mark])
    if fits[found][0] < _FITS:
        share, numbers, _ = _fit(text, " ")
        found = " " if share > _FITS and numbers >= 0.5 else found
    if found != ",":
        notes.append(f"cells are separated by {_SEPARATOR_NAMES.get(found, repr(found))}")
    return found


def _fit(text: str, separator: str) -> tuple[float, float, int]:
    """Return the fit of a separator: shares of rows of the most frequent width above 1 and of numbers, the width."""
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
    """Return the number of rows above the names: titles and comments, narrower than the table or of one cell."""
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
            return 0  # row names have no title
    return 0


def _names(cells: Sequence[str], width: int) -> bool:
    """Return whether a row can hold column names: texts, all different."""
    return (
        len(cells) == width
        and all(cells)
        and len(set(cells)) == width
        and not any(like_number(cell) or is_missing(cell) for cell in cells)
    )


def _header(
    way: _Way, raw: list[Row], separator: str, notes: list[str]
) -> tuple[list[str], list[Row], tuple[str, ...]]:
    """Return the names, the rows below them, and the first line if it holds numbers and not names."""
    names = [visible(cell) for cell in raw[0][1]]
    if len(_without_tail(names)) < way.least:
        shown = "\\t" if separator == "\t" else separator
        line = "".join(raw[0][1])
        others = [mark for mark in SEPARATORS if mark in line and mark != separator]
        what = "\\t" if others[:1] == ["\t"] else "".join(others[:1])
        fix = f"set dataset.separator='{what}'" if others else "it needs a target and one input at least"
        text = f"only one column found in {way.path}: {shorten(visible(line))!r}"
        raise csv_error("separator", f"'{shown}'", text, fix, fix={"separator": what} if others else None)
    if len(raw) == 1 and way.titles is not False:
        raise csv_error(way.key, way.path, "the file has column names but no rows", "add the rows")
    if way.strict:
        repeated = first_repeated(name for name in names if name)
        if repeated is not None:
            fix = "the first line must hold the column names, all different"
            raise csv_error(way.key, way.path, f"two columns are named {shorten(repeated)!r}", fix)
        return names, raw[1:], ()
    widest = max((len(cells) for _, cells in raw[1:]), default=0)
    while len(names) > max(widest, way.least) and not names[-1]:
        names.pop()
    if all(len(name) > 2 and name[0] == name[-1] == "'" for name in names):
        notes.append("the column names are read without their quotes")
        names = [name[1:-1].strip() for name in names]
    if way.titles is False or (way.titles is None and holds_values(names, [cells for _, cells in raw[1:]])):
        shown = shorten(separator.join(names), 40)
        said = f"line {raw[0][0]} holds values and no titles, as {shown!r}: the columns are named column_1 to"
        settles = "" if way.titles is False else "; dataset.titles=true if these are titles"
        notes.append(f"{said} column_{len(names)}{settles}")
        return [f"column_{position + 1}" for position in range(len(names))], raw, tuple(names)
    return _distinct(names, notes), raw[1:], ()


def _refuse_decimal_comma(path: str, header: Sequence[str], raw: Sequence[Row], separator: str, key: str) -> None:
    """Raise for one name above lines such as 1,5: a number with a decimal comma, or a row's name and a number."""
    if separator != "," or len(header) != 1:
        return
    if all(len(cells) == 2 and all(map(str.isdigit, cells)) for _, cells in raw):
        text = f"line {raw[0][0]}: {','.join(raw[0][1])!r}, one number, or the row's name and a number?"
        fix = "give the first column a name if there are two. If it is one number:"
        raise csv_error(key, path, text, fix, fix={"separator": ";"})


def _named_by_user(spec: CsvSpec, names: Sequence[str]) -> bool:
    """Return whether a first line of values holds names: then it contains the user's target."""
    given = spec.target if isinstance(spec.target, list | tuple) else str(spec.target).strip("[]").split(",")
    return all(str(each).strip() in names for each in given)


def _distinct(names: Sequence[str], notes: list[str]) -> list[str]:
    """Return the names, with names for columns without one, and numbers for repeated ones."""
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


def _even(header: list[str], raw: Sequence[Row], notes: list[str], *, strict: bool) -> tuple[list[Row], list[str]]:
    """Return the rows of the header's length, and a sentence for each other row. Empty cells at the end do not count.

    A table with row names has one name less than cells. This column is called `row`. Lines that repeat the names (of
    concatenated files) are left out.
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
        notes.append(f"{counted(padded, 'row')} with fewer cells, the last one empty: the others are empty, too")
    return rows, faults


def _without_footer(raw: Sequence[Row], width: int, notes: list[str]) -> Sequence[Row]:
    """Return the rows without remarks below the table. Remarks are lines with a text as only cell."""
    stop = len(raw)
    while stop > 1 and _is_remark(raw[stop - 1][1], width):
        stop -= 1
    if stop < len(raw):
        shown = shorten(next(cell for cell in raw[stop][1] if cell))
        notes.append(f"{counted(len(raw) - stop, 'line')} below the table left out, as {shown!r}")
    return raw[:stop]


def _is_remark(cells: Sequence[str], width: int) -> bool:
    filled = [cell for cell in cells if cell]
    return len(filled) == 1 < width and len(cells) < width and not like_number(filled[0])


def _without_tail(cells: Sequence[str]) -> list[str]:
    kept = list(cells)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _units_line(way: _Way, header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return units by column name if the first row holds units. For a file that belongs to a table, the table's.

    Raises:
        DataError: if file and table have different units for a column.
    """
    if way.units is None:
        return _units_in(header, rows)
    table = dict(way.units)
    found = {name: visible(cell) for name, cell in zip(header, rows[0], strict=True) if cell}
    shared = [name for name in found if name in table]
    if shared and all(found[name] == table[name] for name in shared):
        return found
    if not shared or not _units_in(header, rows):
        return {}
    name = next(name for name in shared if found[name] != table[name])
    fault = f"column {shorten(name)!r} is in {shorten(found[name])!r}, in the table in {shorten(table[name])!r}"
    raise csv_error(way.key, way.path, fault, "convert it, and write the table's unit")


def _units_in(header: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the units if the first row holds some: it has no number, in columns that otherwise hold numbers."""
    if len(rows) < 3:
        return {}
    first, later = rows[0], rows[1:]
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


def read_second(spec: CsvSpec, key: str, reading: Mapping[str, str], wanted: Callable[[Sequence[str]], bool]) -> Grid:
    """Return the cells of the file `dataset.KEY`, with the stated separator, otherwise the table's or the found one.

    Lines above the names are those of this file. The table's, `dataset.skip_rows`, are skipped only if the names are
    not found otherwise.

    Args:
        spec: the file and the user's statements.
        key: key of the file.
        reading: `Dataset.reading` of the table. Empty if it is not known.
        wanted: whether a header has the needed columns.

    Returns:
        the cells. If no way of reading gives the columns, those of the last way.

    Raises:
        DataError: if there is no such file, or it is not a table.
    """
    separators = [spec.separator] if spec.separator is not None else [reading.get("separator"), None]
    ways = list(itertools.product(dict.fromkeys(separators), dict.fromkeys((0, spec.skip_rows))))
    untitled = split_values(reading.get(UNTITLED))
    found, fault = None, None
    units = units_of(reading)
    for titles in (None, False) if untitled else (None,):
        for separator, lines in ways:
            way = replace(spec, separator=separator, skip_rows=lines, titles=titles)
            try:
                grid = read_grid(way, key, 1, units)
            except DataError as error:
                fault = error
                continue
            if untitled and grid.numbered:
                grid = _named_as_the_table(grid, untitled, split_values(reading.get(TARGETS)))
            if wanted(grid.header):
                if not (grid.cells != "").any():
                    raise csv_error(key, grid.path, "every row is empty", "add the rows")
                return grid
            found = grid if lines == 0 else found or grid
    if found is None:
        assert fault is not None  # a way of reading gives cells or a fault
        raise fault
    return found


def _named_as_the_table(grid: Grid, names: Sequence[str], targets: Sequence[str]) -> Grid:
    """Return a file without titles under the names of the table's columns: all, or all except the targets."""
    rest = [name for name in names if name not in targets]
    if len(grid.header) == len(rest):
        return replace(grid, header=tuple(rest), notes=())
    if len(grid.header) == len(names):
        return grid
    count = counted(len(grid.header), "column")
    fault = f"{count} without titles. The table has {len(names)}, without its target {len(rest)}"
    raise csv_error(grid.key, grid.path, fault, "write the columns of the table")


def units_of(reading: Mapping[str, str]) -> dict[str, str] | None:
    """Return the table's units by column, or None if nothing is known of the table."""
    if format_of(reading) is None:
        return None
    return {key[len(UNIT) :]: unit for key, unit in reading.items() if key.startswith(UNIT)}
