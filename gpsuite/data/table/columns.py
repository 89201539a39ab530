"""What a column of a table is: numbers, yes and no, dates, categories or text; and which columns tell nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.table.formats import (
    MISSING_MARKS,
    TRUE_WORDS,
    NumberFormat,
    date_days,
    is_missing,
    without_symbol,
    yes_and_no,
)
from gpsuite.data.table.names import shorten
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
