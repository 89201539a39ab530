"""From the cells of a table to class labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from gpsuite.arrays import BoolArray
from gpsuite.data.table.columns import Column, yes_no_column
from gpsuite.data.table.formats import FALSE_WORDS, TRUE_WORDS, is_missing, plain_number, yes_and_no
from gpsuite.data.table.names import csv_error, shorten
from gpsuite.text import visible

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
