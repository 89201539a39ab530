"""What each column of a table is: number, yes or no, date, category or text; and which columns tell nothing.

A role is one function of a column's evidence: it returns the column as it understands it, or None. `ROLES` are asked in
order. Why a column of numbers tells nothing is said by the functions of `TELLS_NOTHING`, in order as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.formats import (
    FALSE_WORDS,
    MISSING_MARKS,
    TRUE_WORDS,
    Cells,
    NumberFormat,
    as_the_table,
    date_days,
    find_format,
    format_of,
    refuse_twofold,
    yes_and_no,
)
from gpsuite.data.table.layout import UNIT, Grid
from gpsuite.data.table.names import csv_error, shorten
from gpsuite.text import visible

Kind: TypeAlias = Literal["number", "yes/no", "date", "category", "text", "empty"]

_VERSION = 2  # of the decisions; part of the content hash where something was decided
_MOSTLY = 0.8  # share of cells that are numbers in a column of numbers with mistakes
_RECURS = 3  # rows that a text among such numbers stands in where it is a level, not a mistake
_LARGEST_WHOLE = 2.0**53  # float64 does not tell larger whole numbers apart
_LONGEST_DIGITS = 400  # a number of more digits leaves float64
_ID_NAME = re.compile(r"(?:.*[ _.-])?(?:id|uid|uuid|index|idx|key)|(?-i:.*[a-z]I[Dd])", re.IGNORECASE)
_COUNTER_NAME = re.compile(
    r"(?:.*[ _.-])?(?:nr|no|num|number|row|rows|rownames?|column_\d+|obs|case|#|unnamed: \d+(?:\.\d+)*)", re.IGNORECASE
)
_YEAR_FIRST = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)")
_DATE_LIKE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?: .*)?")
_DIGITS = re.compile(r"[+-]?[0-9]+")
_WRITTEN = "written "  # before a column's name in `Dataset.reading`
_NAMES = {"number": "plain numbers", "date": "dates", "yes/no": "yes and no"}


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
        unread = self.gaps.copy()
        unread[list(self.bad)] = True
        return unread


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the roles look at.

    Attributes:
        cells: the column's K texts and where they stand.
        given: [K] texts that stand for a value.
        numbers: [K] the number of each text, as this file writes numbers.
        known: [K] given texts that are a number.
        symbol: percent or currency sign that most numbers carry, or an empty string.
        notes: what was decided so far.
        categories: the largest number of levels of a category.
        strict: numbers are the only kind; whatever else stands there is a bad cell.
    """

    cells: Cells
    given: BoolArray
    numbers: FloatArray
    known: BoolArray
    symbol: str
    notes: tuple[str, ...]
    categories: int
    strict: bool

    @property
    def name(self) -> str:
        """The column's name."""
        return self.cells.name

    @property
    def gaps(self) -> BoolArray:
        """Cells [N] that stand for a missing value."""
        return ~self.given[self.cells.codes]

    @property
    def texts(self) -> list[str]:
        """The different texts that stand for a value."""
        return _chosen(self.cells.texts, self.given)

    def column(self, kind: Kind, per_text: FloatArray, useless: str = "", **more: Any) -> Column:
        """Return the column with the value of each text [K] in its cells."""
        values = np.where(self.given, per_text, np.nan)[self.cells.codes]
        parts = {"levels": (), "bad": {}, "notes": self.notes, **more}
        return Column(self.name, kind, values, gaps=self.gaps, useless=useless, **parts)


def read_column(cells: Cells, written: NumberFormat, *, categories: int, strict: bool = False) -> Column:
    """Understand one column.

    Args:
        cells: its cells.
        written: how the file writes numbers.
        categories: the largest number of levels of a category.
        strict: numbers are the only kind; whatever else stands there is a bad cell.
    """
    evidence = _evidence(cells, written, categories, strict)
    return next(column for role in ROLES if (column := role(evidence)) is not None)


def _evidence(cells: Cells, written: NumberFormat, categories: int, strict: bool) -> Evidence:
    given = ~cells.missing
    symbol = "" if strict else _shared_symbol(cells, written)
    numbers, known = written.numbers(cells, without_signs=bool(symbol))
    if symbol:  # zero may stand without it
        carry = [position for position, (_, sign) in cells.signed.items() if sign == symbol]
        known &= (numbers == 0.0) | np.isin(np.arange(len(known)), carry)
    known &= given
    notes = [f"column {shorten(cells.name)!r} is read without its {symbol}"] if symbol and known.any() else []
    other = _chosen(cells.texts, given & ~known)
    marks = [text for text in other if text.casefold() in MISSING_MARKS]
    if not strict and len(marks) == 1:
        rest = [text for text in _chosen(cells.texts, given) if text != marks[0]]
        if other == marks or yes_and_no(rest) or date_days(rest) is not None:
            notes.append(f"{marks[0]!r} in column {shorten(cells.name)!r} is read as missing")
            given = given & np.array([text != marks[0] for text in cells.texts])
    return Evidence(cells, given, numbers, known, symbol, tuple(notes), categories, strict)


def _chosen(texts: Sequence[str], which: BoolArray) -> list[str]:
    return [texts[position] for position in np.flatnonzero(which)]


def _shared_symbol(cells: Cells, written: NumberFormat) -> str:
    """Return the percent or currency sign that most numbers carry, or an empty string; a plain zero may carry any."""
    if not any(sign for _, sign in cells.signed.values()):
        return ""
    numbers, known = written.numbers(cells, without_signs=True)
    signs: Counter[str] = Counter()
    for position in np.flatnonzero(known & ~cells.missing).tolist():
        sign = cells.signed.get(position, ("", ""))[1]
        if sign or numbers[position] != 0.0:
            signs[sign] += int(cells.counts[position])
    sign, count = max(signs.items(), key=lambda item: item[1], default=("", 0))
    return sign if count >= _MOSTLY * signs.total() else ""


def empty(evidence: Evidence) -> Column | None:
    """A column without a value."""
    if not evidence.cells.missing.all():
        return None
    return evidence.column("empty", evidence.numbers, "it is empty", notes=())


def yes_no(evidence: Evidence) -> Column | None:
    """A column of words for yes and no, in any of their spellings."""
    unknown = bool((evidence.given & ~evidence.known).any())
    return _yes_no_column(evidence) if unknown and not evidence.strict and yes_and_no(evidence.texts) else None


def number(evidence: Evidence) -> Column | None:
    """A column of numbers: nothing else stands there, or so little that it is a mistake."""
    counts, other = evidence.cells.counts, evidence.given & ~evidence.known
    numeric, total = int(counts[evidence.known].sum()), int(counts[evidence.given].sum())
    if not (evidence.strict or not other.any() or (numeric >= _MOSTLY * total and not _recur(evidence, other))):
        return None
    finite = evidence.known & np.isfinite(evidence.numbers)
    wrong = (evidence.given & ~finite)[evidence.cells.codes]
    texts, codes = evidence.cells.texts, evidence.cells.codes
    bad = {int(row): texts[codes[row]] for row in np.flatnonzero(wrong)}
    per_text = np.where(finite, evidence.numbers, np.nan)
    found = evidence.column("number", per_text, bad=bad, symbol=evidence.symbol)
    useless = "" if bad else _why_useless(evidence, found.values)
    return replace(found, useless=useless)


def _recur(evidence: Evidence, other: BoolArray) -> bool:
    """Whether few numbers and the texts among them are levels, as 1, 2, ..., 10 and X: a mistake hardly recurs."""
    counts, levels = evidence.cells.counts, int(evidence.given.sum())
    most = min(evidence.categories, int(counts[evidence.given].sum()) // _RECURS)
    return int(counts[other].min()) >= _RECURS and levels <= most


def date(evidence: Evidence) -> Column | None:
    """A column of dates, all of one form."""
    days = date_days(evidence.texts)
    if days is None:
        return None
    per_text = np.full(len(evidence.given), np.nan)
    per_text[evidence.given] = days
    note = f"column {shorten(evidence.name)!r} holds dates, read as days since 1970-01-01"
    found = evidence.column("date", per_text, notes=(note, *evidence.notes))
    return replace(found, useless=constant(evidence, found.values))


def category(evidence: Evidence) -> Column | None:
    """A column of few texts, some of which recur."""
    count = int(evidence.given.sum())
    most = min(evidence.categories, int(evidence.cells.counts[evidence.given].sum()) - 1)
    if count > max(most, 1):
        return None
    levels = sorted(evidence.texts)
    notes: tuple[str, ...] = ()
    if len(levels) > 1:
        what = "numbers and texts, all read as" if evidence.known.any() else "texts, read as"
        notes = (f"column {shorten(evidence.name)!r} holds {what} {len(levels)} categories",)
    useless = f"it is constant ({shorten(visible(levels[0]))!r})" if len(levels) == 1 else ""
    return _levels_column(evidence, "category", levels, notes, useless)


def text(evidence: Evidence) -> Column | None:
    """A column of many texts, which tells nothing."""
    levels = sorted(evidence.texts)
    first = visible(levels[0])
    if all(_YEAR_FIRST.match(level) for level in levels):
        useless = f"its dates, as {shorten(first)!r}, are not all read: write 2024-03-01T00:15:00+02:00"
    elif all(_DATE_LIKE.fullmatch(level) for level in levels):
        useless = f"its dates, as {first!r}, do not say whether day or month comes first"
    elif len(levels) == int(evidence.cells.counts[evidence.given].sum()):
        useless = f"every row has another text, as {shorten(first, 30)!r}"
    else:
        useless = f"{len(levels)} different texts, more than dataset.categories={evidence.categories}"
    return _levels_column(evidence, "text", levels, (), useless)


ROLES: tuple[Callable[[Evidence], Column | None], ...] = (empty, yes_no, number, date, category, text)


def _levels_column(
    evidence: Evidence, kind: Kind, levels: Sequence[str], notes: tuple[str, ...], useless: str
) -> Column:
    place = {level: float(position) for position, level in enumerate(levels)}
    per_text = np.array([place.get(text, np.nan) for text in evidence.cells.texts])
    shown = tuple(map(visible, levels))
    return evidence.column(kind, per_text, useless, levels=shown, notes=notes)


def _yes_no_column(evidence: Evidence) -> Column:
    """Return words for no and yes as 0 and 1; each is called as it is most often written."""
    texts, counts = evidence.cells.texts, evidence.cells.counts
    yes = np.array([text.casefold() in TRUE_WORDS for text in texts])
    sides = [np.flatnonzero(evidence.given & side) for side in (~yes, yes)]
    levels = tuple(max(((int(counts[k]), texts[k]) for k in side), default=(0, ""))[1] for side in sides)
    given = evidence.texts
    both = f"column {shorten(evidence.name)!r}: {', '.join(sorted(given))} are two classes"
    notes = ((both,) if len(given) > 2 else ()) + evidence.notes
    useless = "" if all(map(len, sides)) else f"it is constant ({shorten(given[0])!r})"
    return evidence.column("yes/no", yes.astype(np.float64), useless, levels=levels, notes=notes)


def merged(evidence: Evidence, values: FloatArray) -> str:
    """Whole numbers that float64 does not tell apart."""
    numbers = evidence.numbers[evidence.given]
    if not (np.abs(numbers) > _LARGEST_WHOLE).any() or len(np.unique(numbers)) == len(numbers):
        return ""
    return f"float64 does not tell its whole numbers apart, as {evidence.texts[0]}"


def constant(evidence: Evidence, values: FloatArray) -> str:
    """Numbers that are all the same, or none."""
    given = values[~np.isnan(values)]
    if not len(given):
        return "it is empty"
    return f"it is constant ({given[0]:g})" if given.min() == given.max() else ""


def counter(evidence: Evidence, values: FloatArray) -> str:
    """The number of the row, under a name that says so."""
    if not (_ID_NAME.fullmatch(evidence.name) or _COUNTER_NAME.fullmatch(evidence.name)):
        return ""
    steps = np.diff(values)
    return "it counts the rows" if (steps == 1.0).all() or (steps == -1.0).all() else ""


def identifier(evidence: Evidence, values: FloatArray) -> str:
    """Another whole number in every row, under a name that says so."""
    if not _ID_NAME.fullmatch(evidence.name) or not (values == np.floor(values)).all():
        return ""
    return "it is an id, another number in every row" if len(np.unique(values)) == len(values) else ""


TELLS_NOTHING: tuple[Callable[[Evidence, FloatArray], str], ...] = (merged, constant, counter, identifier)


def _why_useless(evidence: Evidence, values: FloatArray) -> str:
    return next(filter(None, (reason(evidence, values) for reason in TELLS_NOTHING)), "")


def label_column(cells: Cells, *, strict: bool = False) -> Column:
    """Return the labels as 0, ..., C-1; `levels` are what the file calls them.

    Integers are ordered by value; if any label is a text, all are texts and ordered alphabetically. Several words for
    yes and no (`yes`, `No`, `TRUE`, `0`) are two classes, no first. In a column of integers a number that is none is a
    bad cell.

    Args:
        cells: its cells.
        strict: words for yes and no are texts like others.

    Raises:
        DataError: if there is one class only.
    """
    given = ~cells.missing
    evidence = Evidence(cells, given, cells.numbers, cells.plain & given, "", (), len(cells.texts), strict)
    if not strict and yes_and_no(evidence.texts) and not _plain_pair(evidence):
        column = _yes_no_column(evidence)
    elif given.any() and evidence.known[given].all():
        column = _whole_labels(evidence)
    else:
        shown = [visible(text) for text in cells.texts]
        levels = sorted({shown[position] for position in np.flatnonzero(given)})
        place = {level: float(position) for position, level in enumerate(levels)}
        per_text = np.array([place.get(text, np.nan) for text in shown])
        column = evidence.column("category", per_text, levels=tuple(levels))
    levels = [level for level in column.levels if level or column.kind == "category"]
    if len(levels) < 2 and not column.bad:
        said = f"all rows have the label {shorten(levels[0])!r}" if levels else "no row has a label"
        raise csv_error("target", cells.name, said, "two are needed")
    return column


def _whole_labels(evidence: Evidence) -> Column:
    """Return classes of integers, by value; any other number is a bad cell."""
    texts, codes = evidence.cells.texts, evidence.cells.codes
    whole = {
        position: _whole(texts[position], float(evidence.numbers[position]))
        for position in np.flatnonzero(evidence.given)
        if float(evidence.numbers[position]).is_integer()
    }
    levels = sorted(set(whole.values()))
    place = {level: float(position) for position, level in enumerate(levels)}
    per_text = np.full(len(texts), np.nan)
    per_text[list(whole)] = [place[level] for level in whole.values()]
    wrong = (evidence.given & np.isnan(per_text))[codes]
    bad = {int(row): texts[codes[row]] for row in np.flatnonzero(wrong)}
    return evidence.column("category", per_text, levels=tuple(map(str, levels)), bad=bad)


def _whole(text: str, value: float) -> int:
    """Return the integer by its digits: float64 does not tell integers above 2^53 apart."""
    return int(text) if len(text) < _LONGEST_DIGITS and _DIGITS.fullmatch(text) else int(value)


def _plain_pair(evidence: Evidence) -> bool:
    """Whether the labels are numbers, or one word for no and one for yes: nothing to bring together."""
    if evidence.known[evidence.given].all():
        return True
    folded = [text.casefold() for text in evidence.texts]
    return len(folded) == 2 and len(TRUE_WORDS.intersection(folded)) == len(FALSE_WORDS.intersection(folded)) == 1


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
    cells = [grid.column(position) for position in positions]
    if spec.strict:
        written, said = NumberFormat(spec.decimal or ".", spec.thousands or ""), ""
    else:
        marks = spec.decimal, spec.thousands
        guessed, theirs = marks == (None, None), format_of(table or {})
        alike = (table or {}).get("separator", grid.separator) == grid.separator
        shared = as_the_table(theirs, cells, alike) if guessed else None
        written, said = shared or find_format(grid.key, grid.path, cells, *marks, grid.separator)
        if shared is None and guessed:
            refuse_twofold(grid.key, grid.path, cells, theirs, written)
    if said:
        notes.append(said)
    strict = spec.strict or numbers_only
    found = {
        position: read_column(each, written, categories=spec.categories, strict=strict)
        for position, each in zip(positions, cells, strict=True)
    }
    return found, written


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
        cell = grid.cells[0, grid.header.index(column.name)]
        what = f"holds {_NAMES.get(column.written, f'numbers with {column.written}')}, as {shorten(cell)!r}"
        faults.append(
            f"column {shorten(column.name)!r} {what}; in the table {_NAMES.get(theirs, f'numbers with {theirs}')}"
        )
    return faults
