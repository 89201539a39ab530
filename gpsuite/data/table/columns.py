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
    BOOLEAN_WORDS,
    MISSING_MARKS,
    TRUE_WORDS,
    NumberFormat,
    date_days,
    is_missing,
    without_symbol,
)
from gpsuite.data.table.names import shorten
from gpsuite.text import visible

Kind: TypeAlias = Literal["number", "yes/no", "date", "category", "text", "empty"]

_MOSTLY = 0.8  # share of cells that are numbers in a column of numbers with mistakes
_RECURS = 3  # rows that a text among such numbers stands in where it is a level, not a mistake
_ID_NAME = re.compile(r"(?:.*[ _.-])?(?:id|uid|uuid|index|idx|key)|(?-i:.*[a-z]I[Dd])", re.IGNORECASE)
_DATE_LIKE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?: .*)?")
_COUNTER_NAME = re.compile(
    r"(?:.*[ _.-])?(?:nr|no|num|number|row|rows|rownames?|column_\d+|obs|case|#)", re.IGNORECASE
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
    """

    name: str
    kind: Kind
    values: FloatArray
    levels: tuple[str, ...]
    gaps: BoolArray
    bad: dict[int, str]
    notes: tuple[str, ...] = ()
    useless: str = ""

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
    return Column(name, "number", values, (), gaps, {}, useless=_useless_numbers(name, values))


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
    symbol = "" if strict else _shared_symbol(texts)
    known = {text: written.number(without_symbol(text)[0] if symbol else text) for text in texts}
    numeric = sum(counts[text] for text, number in known.items() if number is not None)
    other = [text for text, number in known.items() if number is None]
    notes = [f"column {shorten(name)!r} is read without its {symbol}"] if symbol and numeric else []
    if not strict and numeric and len(other) == 1 and other[0].casefold() in MISSING_MARKS:
        notes.append(f"{other[0]!r} in column {shorten(name)!r} is read as missing")
        gaps = gaps | np.array([cell == other[0] for cell in cells])
        other = []
    by_spelling = {text: counts[text] for text in texts}
    if not strict and other and {text.casefold() for text in texts} <= BOOLEAN_WORDS:
        return yes_no_column(name, cells, by_spelling, gaps)
    mostly = numeric >= _MOSTLY * (len(cells) - gaps.sum())
    if strict or not other or (mostly and not _recur(by_spelling, other, categories)):
        return _numbers(name, cells, known, gaps, tuple(notes))
    return _words(name, cells, by_spelling, gaps, categories, mixed=numeric > 0)


def _recur(counts: Mapping[str, int], other: Sequence[str], categories: int) -> bool:
    """Whether few numbers and the texts among them are levels, as 1, 2, ..., 10 and X: a mistake hardly recurs."""
    recurring = min(counts[text] for text in other) >= _RECURS
    return recurring and len(counts) <= min(categories, sum(counts.values()) // _RECURS)


def _numbers(
    name: str, cells: Sequence[str], known: dict[str, float | None], gaps: BoolArray, notes: tuple[str, ...]
) -> Column:
    finite = {text: number for text, number in known.items() if number is not None and np.isfinite(number)}
    values = np.array([finite.get(cell, np.nan) for cell in cells])
    bad = {int(row): cells[row] for row in np.flatnonzero(np.isnan(values) & ~gaps)}
    values[gaps] = np.nan
    return Column(name, "number", values, (), gaps, bad, notes, "" if bad else _useless_numbers(name, values))


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
    *,
    mixed: bool,
) -> Column:
    """Understand a column of dates, categories or texts; `mixed`: numbers are among them."""
    days = date_days(list(counts))
    if days is not None:
        values = np.array([days.get(cell, np.nan) for cell in cells])
        note = f"column {shorten(name)!r} holds dates, read as days since 1970-01-01"
        return Column(name, "date", values, (), gaps, {}, (note,), _useless_numbers("", values))
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
    if all(_DATE_LIKE.fullmatch(level) for level in levels):
        useless = f"its dates, as {shown[0]!r}, do not say whether day or month comes first"
    elif len(levels) == sum(counts.values()):
        useless = f"every row has another text, as {shorten(shown[0], 30)!r}"
    else:
        useless = f"{len(levels)} different texts, more than dataset.categories={categories}"
    return Column(name, "text", values, shown, gaps, {}, (), useless)


def yes_no_column(name: str, cells: Sequence[str], counts: Mapping[str, int], gaps: BoolArray) -> Column:
    """Return a column of words for no and yes as 0 and 1; `counts` of each spelling."""
    yes = {text for text in counts if text.casefold() in TRUE_WORDS}
    no = set(counts) - yes
    values = np.array([np.nan if gap else float(cell in yes) for cell, gap in zip(cells, gaps, strict=True)])
    levels = tuple(max(side, key=lambda text: (counts[text], text), default="") for side in (no, yes))
    useless = "" if yes and no else f"it is constant ({shorten(next(iter(counts)))!r})"
    notes = (
        (f"column {shorten(name)!r}: {', '.join(sorted(counts))} are two classes",) if len(counts) > 2 else ()
    )
    return Column(name, "yes/no", values, levels, gaps, {}, notes, useless)


def _shared_symbol(texts: Sequence[str]) -> str:
    """Return the percent or currency sign that all numbers carry, or an empty string."""
    signs = {without_symbol(text)[1] for text in texts}
    return next(iter(signs)) if len(signs) == 1 else ""


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
