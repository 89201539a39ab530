"""What a column of a table is: numbers, yes and no, dates, categories or text; and which columns tell nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.table.formats import (
    FALSE_WORDS,
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
_ID_NAME = re.compile(r"(?:.*[ _.])?(?:id|index|idx|nr|no|row|rownames?|column_\d+|row_number|#)", re.IGNORECASE)


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
    gaps = np.array([is_missing(cell) for cell in cells])
    counts = Counter(cell for cell, gap in zip(cells, gaps, strict=True) if not gap)
    texts = list(counts)
    if not texts:
        return Column(name, "empty", np.full(len(cells), np.nan), (), gaps, {}, useless="it is empty")
    symbol = _shared_symbol(texts)
    known = {text: written.number(without_symbol(text)[0] if symbol else text) for text in texts}
    numeric = sum(counts[text] for text, number in known.items() if number is not None)
    other = [text for text, number in known.items() if number is None]
    notes = [f"column {shorten(name)!r} is read without its {symbol}"] if symbol else []
    if not strict and numeric and len(other) == 1 and other[0].casefold() in MISSING_MARKS:
        notes.append(f"{other[0]!r} in column {shorten(name)!r} is read as missing")
        gaps = gaps | np.array([cell == other[0] for cell in cells])
        other = []
    if strict or not other or numeric >= _MOSTLY * sum(counts.values()):
        return _numbers(name, cells, known, gaps, tuple(notes))
    return _words(name, cells, counts, gaps, categories)


def _numbers(
    name: str, cells: Sequence[str], known: dict[str, float | None], gaps: BoolArray, notes: tuple[str, ...]
) -> Column:
    finite = {text: number for text, number in known.items() if number is not None and np.isfinite(number)}
    values = np.array([finite.get(cell, np.nan) for cell in cells])
    wrong = np.isnan(values) & ~gaps
    bad = {int(row): cells[row] for row in np.flatnonzero(wrong)}
    values[gaps] = np.nan
    return Column(name, "number", values, (), gaps, bad, notes, _useless_numbers(name, values))


def _useless_numbers(name: str, values: FloatArray) -> str:
    """Why a column of numbers tells nothing: it is constant, or counts the rows and is called so."""
    given = values[~np.isnan(values)]
    if not len(given):
        return "it is empty"
    if given.min() == given.max():
        return f"it is constant ({given[0]:g})"
    if len(given) == len(values) and _ID_NAME.fullmatch(name) and (np.abs(np.diff(values)) == 1.0).all():
        return "it counts the rows"
    return ""


def _words(name: str, cells: Sequence[str], counts: Counter[str], gaps: BoolArray, categories: int) -> Column:
    """Understand a column that does not hold numbers."""
    folded = {text: text.casefold() for text in counts}
    if set(folded.values()) <= TRUE_WORDS | FALSE_WORDS:
        return _yes_no(name, cells, counts, gaps)
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
        return Column(name, "category", values, shown, gaps, {}, (), f"it is constant ({shorten(shown[0])!r})")
    if len(levels) <= categories:
        return Column(name, "category", values, shown, gaps, {})
    useless = (
        "every row has another text"
        if len(levels) == sum(counts.values())
        else f"{len(levels)} different texts, more than dataset.categories={categories}"
    )
    return Column(name, "text", values, shown, gaps, {}, (), useless)


def _yes_no(name: str, cells: Sequence[str], counts: Counter[str], gaps: BoolArray) -> Column:
    yes = {text for text in counts if text.casefold() in TRUE_WORDS}
    no = set(counts) - yes
    values = np.array([np.nan if gap else float(cell in yes) for cell, gap in zip(cells, gaps, strict=True)])
    levels = tuple(max(side, key=lambda text: (counts[text], text), default="") for side in (no, yes))
    useless = "" if yes and no else f"it is constant ({shorten(next(iter(counts)))!r})"
    spellings = ", ".join(sorted(counts))
    notes = (f"column {shorten(name)!r}: {spellings} are two classes",) if len(counts) > 2 else ()
    return Column(name, "yes/no", values, levels, gaps, {}, notes, useless)


def _shared_symbol(texts: Sequence[str]) -> str:
    """Return the percent or currency sign that all numbers carry, or an empty string."""
    signs = {without_symbol(text)[1] for text in texts}
    return next(iter(signs)) if len(signs) == 1 else ""


def encode(column: Column) -> tuple[FloatArray, list[str]]:
    """Return a column's inputs [N, K] and their K names: one per level of a category of three or more, else one."""
    name = column.name
    if column.kind != "category":
        return column.values[:, None], [name]
    if len(column.levels) == 2:
        return column.values[:, None], [f"{name}={column.levels[1]}"]
    hot = (column.values[:, None] == np.arange(len(column.levels))).astype(np.float64)
    hot[np.isnan(column.values)] = np.nan
    return hot, [f"{name}={level}" for level in column.levels]
