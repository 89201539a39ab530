"""Decision whether the first line of a table holds titles of its columns, or its first record."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gpsuite.data.table.formats import is_missing, like_number, plain_number

_LOOKED_AT = 200  # number of rows to compare a first line with
_FEWEST = 5  # with fewer rows, only a line of numbers is known to be a record
_MOSTLY = 0.9  # share of numbers in a column of numbers
_STRAYS = 0.1  # largest share of columns in which a record may have a new level


def holds_values(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a first line is a record: numbers above numbers, and texts that occur again below.

    A line of numbers in equal steps (0, 1, 2 or 1990, 2000, 2010) holds titles. So do texts above numbers.

    Args:
        first: cells of the first line.
        rows: cells of the lines below.
    """
    if not first[0] and rows and all(row and row[0] for row in rows[:_LOOKED_AT]):
        return False  # row names have no title
    numbers = [plain_number(cell) for cell in first if cell]
    if None not in numbers:
        return not _in_steps([number or 0.0 for number in numbers])
    rows = [row for row in rows[:_LOOKED_AT] if len(row) == len(first) and list(row) != list(first)]
    if len(rows) < _FEWEST:
        return False
    kinds: list[str] = []
    for place, title in enumerate(first):
        kinds.append(_kind(title, [row[place] for row in rows]))
        if kinds[-1] == "title":
            return False
    known = [number for cell in first if (number := plain_number(cell)) is not None]
    series = len(known) > 1 and _in_steps(known)
    against = kinds.count("outside") + kinds.count("new level")
    return (
        not series
        and 2 * kinds.count("value") >= len(first)
        and (against <= _STRAYS * len(first) or (against == 1 and len(first) > 3))
    )


def _in_steps(numbers: Sequence[float]) -> bool:
    """Return whether numbers rise in equal steps: by 1, or more than three whole numbers by any step."""
    steps = {b - a for a, b in itertools.pairwise(numbers)}
    if len(steps) > 1:
        return False
    step = steps.pop() if steps else 1.0
    return step == 1.0 or (step > 0.0 and len(numbers) > 3 and all(number.is_integer() for number in numbers))


def _kind(title: str, cells: Sequence[str]) -> str:
    """Return the kind of a first cell above the cells of its column: value, title, outside, new level, or nothing."""
    given = [cell for cell in cells if not is_missing(cell)]
    numeric = sum(map(like_number, given))
    if not given or (title and is_missing(title)):
        return ""
    if numeric >= _MOSTLY * len(given):
        return _number_kind(title, given)
    if title in given:
        return "value"
    return "" if 2 * len(set(given)) > len(given) and title else "new level"


def _number_kind(title: str, given: Sequence[str]) -> str:
    if not title or not like_number(title):
        return "title"
    values = [number for cell in given if (number := plain_number(cell)) is not None]
    number = plain_number(title)
    if number is None or not values:
        return "value"
    low, high = min(values), max(values)
    return "value" if 2.0 * low - high <= number <= 2.0 * high - low else "outside"
