"""What each column of a table is: number, yes or no, date, category or text; and which columns tell nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.formats import (
    FALSE_WORDS,
    MISSING_MARKS,
    TRUE_WORDS,
    NumberFormat,
    as_the_table,
    date_days,
    find_format,
    format_of,
    is_missing,
    plain_number,
    refuse_twofold,
    without_symbol,
    yes_and_no,
)
from gpsuite.data.table.layout import UNIT, Grid
from gpsuite.data.table.names import csv_error, shorten
from gpsuite.text import visible

Kind: TypeAlias = Literal["number", "yes/no", "date", "category", "text", "empty"]

_MOSTLY = 0.8  # share of cells that are numbers in a column of numbers with mistakes
_RECURS = 3  # rows that a text among such numbers stands in where it is a level, not a mistake
_ID_NAME = re.compile(r"(?:.*[ _.-])?(?:id|uid|uuid|index|idx|key)|(?-i:.*[a-z]I[Dd])", re.IGNORECASE)
_YEAR_FIRST = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)")
_DATE_LIKE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?: .*)?")
_COUNTER_NAME = re.compile(
    r"(?:.*[ _.-])?(?:nr|no|num|number|row|rows|rownames?|column_\d+|obs|case|#|unnamed: \d+(?:\.\d+)*)",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of N cells as it is understood.

    Attributes:
        name: its name.
        kind: what it holds.
        values: [N] numbers, days since 1970 of dates, 0 and 1 of yes/no, the level's number of a category; NaN for gaps
            and for cells that cannot be read.
        levels: the texts of categories and of no and yes, as most often written.
        gaps: [N] cells that stand for a missing value.
        bad: row -> the text of a cell that is not what the column holds.
        notes: what was decided about it, each a sentence.
        useless: why it tells nothing, or an empty string.
        symbol: percent or currency sign that numbers carry, or an empty string.
    """

    name: str
    kind: Kind
    values: FloatArray
    levels: tuple[str, ...]
    gaps: BoolArray
    bad: dict[int, str]
    notes: tuple[str, ...] = ()
    useless: str = ""
    symbol: str = ""

    @property
    def written(self) -> str:
        """How the cells of numbers are written: the symbol they carry, else what the column holds."""
        return self.symbol or self.kind

    @property
    def unread(self) -> BoolArray:
        """Cells [N] that give no value: gaps, and those that cannot be read."""
        return self.gaps | np.isin(np.arange(len(self.gaps)), list(self.bad))


def plain_column(name: str, cells: Sequence[str]) -> Column | None:
    """Return the column if every cell is a finite number as programs write it, None if any needs a closer look."""
    try:
        values = np.array(list(map(float, cells)))
    except ValueError:
        return None
    if not np.isfinite(values).all() or any("_" in cell for cell in cells):
        return None
    gaps = np.zeros(len(values), dtype=bool)
    useless = _merged(cells, values) or _useless_numbers(name, values)
    return Column(name, "number", values, (), gaps, {}, useless=useless)


def read_column(
    name: str, cells: Sequence[str], written: NumberFormat, *, categories: int, strict: bool = False
) -> Column:
    """Understand one column.

    Args:
        name: its name.
        cells: its N stripped cells.
        written: how the file writes numbers.
        categories: the largest number of levels of a category.
        strict: numbers are the only kind; whatever else stands there is a bad cell.
    """
    counts = Counter(cells)
    missing = {text for text in counts if is_missing(text)}
    texts = [text for text in counts if text not in missing]
    gaps: BoolArray = np.array([cell in missing for cell in cells], dtype=bool)
    if not texts:
        return Column(name, "empty", np.full(len(cells), np.nan), (), gaps, {}, useless="it is empty")
    symbol = "" if strict else _shared_symbol({text: counts[text] for text in texts}, written)
    known = {text: _number(text, symbol, written) for text in texts}
    numeric = sum(counts[text] for text, number in known.items() if number is not None)
    other = [text for text, number in known.items() if number is None]
    notes = [f"column {shorten(name)!r} is read without its {symbol}"] if symbol and numeric else []
    marks = [text for text in other if text.casefold() in MISSING_MARKS]
    rest = [text for text in texts if text not in marks]
    if not strict and len(marks) == 1 and (other == marks or yes_and_no(rest) or date_days(rest) is not None):
        notes.append(f"{marks[0]!r} in column {shorten(name)!r} is read as missing")
        gaps = gaps | np.array([cell == marks[0] for cell in cells])
        texts, other = rest, [text for text in other if text not in marks]
    by_spelling = {text: counts[text] for text in texts}
    if not strict and other and yes_and_no(texts):
        return yes_no_column(name, cells, by_spelling, gaps, tuple(notes))
    mostly = numeric >= _MOSTLY * (len(cells) - gaps.sum())
    if strict or not other or (mostly and not _recur(by_spelling, other, categories)):
        return _numbers(name, cells, known, gaps, tuple(notes), symbol)
    return _words(name, cells, by_spelling, gaps, categories, notes, mixed=numeric > 0)


def _number(text: str, symbol: str, written: NumberFormat) -> float | None:
    """Return the number of a cell in a column whose numbers carry this symbol; zero may stand without it."""
    bare, own = without_symbol(text) if symbol else (text, "")
    number = written.number(bare)
    return number if own == symbol or number == 0.0 else None


def _merged(cells: Sequence[str], values: FloatArray) -> str:
    """Why whole numbers tell nothing: float64 does not tell them apart."""
    large = np.isfinite(values) & (np.abs(values) > 2.0**53)
    if not large.any() or len(np.unique(values)) == len(set(cells)):
        return ""
    return f"float64 does not tell its whole numbers apart, as {next(iter(cells))}"


def _recur(counts: Mapping[str, int], other: Sequence[str], categories: int) -> bool:
    """Whether few numbers and the texts among them are levels, as 1, 2, ..., 10 and X: a mistake hardly recurs."""
    recurring = min(counts[text] for text in other) >= _RECURS
    return recurring and len(counts) <= min(categories, sum(counts.values()) // _RECURS)


def _numbers(
    name: str,
    cells: Sequence[str],
    known: dict[str, float | None],
    gaps: BoolArray,
    notes: tuple[str, ...],
    symbol: str,
) -> Column:
    finite = {text: number for text, number in known.items() if number is not None and np.isfinite(number)}
    values = np.array([finite.get(cell, np.nan) for cell in cells])
    bad = {int(row): cells[row] for row in np.flatnonzero(np.isnan(values) & ~gaps)}
    values[gaps] = np.nan
    given = [cell for cell, gap in zip(cells, gaps, strict=True) if not gap]
    useless = "" if bad else _merged(given, values[~gaps]) or _useless_numbers(name, values)
    return Column(name, "number", values, (), gaps, bad, notes, useless, symbol)


def _useless_numbers(name: str, values: FloatArray) -> str:
    """Why a column of numbers tells nothing: it is constant, or only names or counts the rows."""
    given = values[~np.isnan(values)]
    if not len(given):
        return "it is empty"
    if given.min() == given.max():
        return f"it is constant ({given[0]:g})"
    if len(given) < len(values):
        return ""
    if _ID_NAME.fullmatch(name) or _COUNTER_NAME.fullmatch(name):
        if (np.diff(values) == 1.0).all() or (np.diff(values) == -1.0).all():
            return "it counts the rows"
        whole = (values == np.floor(values)).all() and len(np.unique(values)) == len(values)
        if whole and _ID_NAME.fullmatch(name):
            return "it is an id, another number in every row"
    return ""


def _words(
    name: str,
    cells: Sequence[str],
    counts: Mapping[str, int],
    gaps: BoolArray,
    categories: int,
    notes: Sequence[str],
    *,
    mixed: bool,
) -> Column:
    """Understand a column of dates, categories or texts; `mixed`: numbers are among them."""
    days = date_days(list(counts))
    if days is not None:
        values = np.array([days.get(cell, np.nan) for cell in cells])
        note = f"column {shorten(name)!r} holds dates, read as days since 1970-01-01"
        return Column(name, "date", values, (), gaps, {}, (note, *notes), _useless_numbers("", values))
    levels = sorted(counts)
    code = {level: float(position) for position, level in enumerate(levels)}
    values = np.array([np.nan if gap else code[cell] for cell, gap in zip(cells, gaps, strict=True)])
    shown = tuple(visible(level) for level in levels)
    if len(levels) == 1:
        return Column(
            name, "category", values, shown, gaps, {}, (), f"it is constant ({shorten(shown[0])!r})"
        )
    if len(levels) <= categories and len(levels) < sum(counts.values()):
        what = "numbers and texts, all read as" if mixed else "texts, read as"
        note = f"column {shorten(name)!r} holds {what} {len(levels)} categories"
        return Column(name, "category", values, shown, gaps, {}, (note,))
    if all(_YEAR_FIRST.match(level) for level in levels):
        useless = f"its dates, as {shorten(shown[0])!r}, are not all read: write 2024-03-01T00:15:00+02:00"
    elif all(_DATE_LIKE.fullmatch(level) for level in levels):
        useless = f"its dates, as {shown[0]!r}, do not say whether day or month comes first"
    elif len(levels) == sum(counts.values()):
        useless = f"every row has another text, as {shorten(shown[0], 30)!r}"
    else:
        useless = f"{len(levels)} different texts, more than dataset.categories={categories}"
    return Column(name, "text", values, shown, gaps, {}, (), useless)


def yes_no_column(
    name: str, cells: Sequence[str], counts: Mapping[str, int], gaps: BoolArray, more: tuple[str, ...] = ()
) -> Column:
    """Return a column of words for no and yes as 0 and 1; `counts` of each spelling, `more` of what is to be said."""
    yes = {text for text in counts if text.casefold() in TRUE_WORDS}
    no = set(counts) - yes
    values = np.array([np.nan if gap else float(cell in yes) for cell, gap in zip(cells, gaps, strict=True)])
    levels = tuple(max(side, key=lambda text: (counts[text], text), default="") for side in (no, yes))
    notes = (
        (f"column {shorten(name)!r}: {', '.join(sorted(counts))} are two classes",) if len(counts) > 2 else ()
    )
    useless = "" if yes and no else f"it is constant ({shorten(next(iter(counts)))!r})"
    return Column(name, "yes/no", values, levels, gaps, {}, (*notes, *more), useless)


def _shared_symbol(counts: Mapping[str, int], written: NumberFormat) -> str:
    """Return the percent or currency sign that most numbers carry, or an empty string; a plain zero may carry any."""
    signs: Counter[str] = Counter()
    for text, count in counts.items():
        bare, sign = without_symbol(text)
        number = written.number(bare)
        if number is not None and (sign or number != 0.0):
            signs[sign] += count
    sign, count = max(signs.items(), key=lambda item: item[1], default=("", 0))
    return sign if count >= _MOSTLY * signs.total() else ""


def levels_in(columns: Sequence[Column], rows: BoolArray) -> dict[str, tuple[str, ...]]:
    """Return category -> the levels that occur in the rows used, in the order of their inputs."""
    return {
        column.name: tuple(column.levels[int(level)] for level in np.unique(column.values[rows]))
        for column in columns
        if column.kind == "category"
    }


def encode(column: Column, rows: BoolArray) -> tuple[FloatArray, list[str]]:
    """Return a column's inputs in the rows used, [N', K], and their K names.

    A category has one input for each level that occurs, two levels one in all, everything else its values.
    """
    values, name = column.values[rows], column.name
    if column.kind != "category":
        return values[:, None], [name]
    present = np.unique(values)
    if len(present) == 2:
        present = present[1:]
    hot = (values[:, None] == present).astype(np.float64)
    return hot, [f"{name}={column.levels[int(level)]}" for level in present]


_DIGITS = re.compile(r"[+-]?[0-9]+")


def label_column(name: str, cells: Sequence[str], *, strict: bool = False) -> Column:
    """Return the labels as 0, ..., C-1; `levels` are what the file calls them.

    Integers are ordered by value; if any label is a text, all are texts and ordered alphabetically. Several words for
    yes and no (`yes`, `No`, `TRUE`, `0`) are two classes, no first. In a column of integers a number that is none is a
    bad cell.

    Args:
        name: the column's name.
        cells: its N stripped cells.
        strict: words for yes and no are texts like others.

    Raises:
        DataError: if there is one class only.
    """
    counts = Counter(cells)
    missing = {text for text in counts if is_missing(text)}
    gaps: BoolArray = np.array([cell in missing for cell in cells], dtype=bool)
    texts = [text for text in counts if text not in missing]
    numbers = {text: plain_number(text) for text in texts}
    if not strict and yes_and_no(texts) and not _plain_pair(texts, numbers):
        column = yes_no_column(name, cells, {text: counts[text] for text in texts}, gaps)
        _check_classes(name, [level for level in column.levels if level])
        return column
    bad: dict[int, str] = {}
    # by the digits: float64 does not tell integers above 2^53 apart
    integers = {
        text: int(text) if _DIGITS.fullmatch(text) else int(value)
        for text, value in numbers.items()
        if value is not None and value.is_integer()
    }
    if texts and None not in numbers.values():
        levels = tuple(str(value) for value in sorted(set(integers.values())))
        index = {level: float(position) for position, level in enumerate(levels)}
        code = {text: index[str(value)] for text, value in integers.items()}
        bad = {row: cell for row, cell in enumerate(cells) if cell not in missing and cell not in code}
    else:
        shown = {text: visible(text) for text in texts}
        levels = tuple(sorted(set(shown.values())))
        index = {level: float(position) for position, level in enumerate(levels)}
        code = {text: index[label] for text, label in shown.items()}
    if not bad:
        _check_classes(name, levels)
    values = np.array([code.get(cell, np.nan) for cell in cells])
    return Column(name, "category", values, levels, gaps, bad)


def _plain_pair(texts: Sequence[str], numbers: Mapping[str, float | None]) -> bool:
    """Whether the labels are numbers, or one word for no and one for yes: nothing to bring together."""
    if None not in numbers.values():
        return True
    folded = [text.casefold() for text in texts]
    return (
        len(texts) == 2 and len(TRUE_WORDS.intersection(folded)) == len(FALSE_WORDS.intersection(folded)) == 1
    )


def _check_classes(name: str, levels: Sequence[str]) -> None:
    if len(levels) < 2:
        text = f"all rows have the label {shorten(levels[0])!r}" if levels else "no row has a label"
        raise csv_error("target", name, text, "two are needed")


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


_WRITTEN = "written "  # before a column's name
_NAMES = {"number": "plain numbers", "date": "dates", "yes/no": "yes and no"}


def reading_of_table(grid: Grid, numbers: NumberFormat, inputs: Sequence[Column]) -> dict[str, str]:
    """Return separator, marks of numbers, units of columns, and how the inputs' cells are written."""
    marks = {"separator": grid.separator, "decimal": numbers.decimal, "thousands": numbers.thousands}
    units = {f"{UNIT}{name}": unit for name, unit in grid.units.items()}
    return marks | units | {f"{_WRITTEN}{column.name}": column.written for column in inputs}


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
