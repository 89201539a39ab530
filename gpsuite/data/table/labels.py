"""From the cells of a table to numbers and class labels; a bad cell is named by line and column."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.csv_columns import csv_error, shorten
from gpsuite.data.csv_text import Row
from gpsuite.errors import DataError
from gpsuite.text import visible

_GAPS = ("", "nan", "na")

Label: TypeAlias = tuple[int, str]  # the line of the file, and the stripped text


def parse_rows(
    path: str,
    header: Sequence[str],
    rows: Iterable[Row],
    numeric: Sequence[int],
    label: int | None,
    *,
    gaps: Collection[int] = (),
    key: str = "path",
) -> tuple[FloatArray, list[Label]]:
    """Return the numeric columns [N, K] and, if `label` is a column number, the N labels.

    In the columns `gaps` a cell may be empty, `nan` or `NA`: NaN.

    Raises:
        DataError: at the first row of another length than the header, or cell that is not a finite number.
    """
    values = array("d")
    labels: list[Label] = []
    for line, row in rows:
        if len(row) != len(header):
            text = f"line {line} has {len(row)} cells, the header has {len(header)}"
            raise csv_error(key, path, text, "quote cells that hold the separator, or repair the line")
        cells = [row[column] for column in numeric]
        numbers = _numbers(cells)
        if numbers is None:
            numbers = [
                math.nan
                if column in gaps and row[column].strip().casefold() in _GAPS
                else _cell(path, line, header[column], row[column], key)
                for column in numeric
            ]
        values.extend(numbers)
        if label is not None:
            labels.append((line, visible(row[label].strip())))
    if not values:
        raise csv_error(key, path, "the file has column names but no rows", "add the rows")
    return np.array(values, dtype=np.float64).reshape(-1, len(numeric)), labels


def number_labels(path: str, column: str, labels: Sequence[Label]) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the labels as 0, ..., C-1, [N, 1], and what the file calls them.

    Integers are ordered by value; if any label is a text, all are texts and ordered alphabetically.

    Raises:
        DataError: on a missing label (empty, `nan` or `NA`), a number that is not an integer, or one class only.
    """
    numbers = {text: _number(text) for _, text in labels}
    for line, text in labels:
        number = numbers[text]
        if text.casefold() == "na":
            what = f"line {line}, column {shorten(column)!r}: the label {text!r} stands for a missing one"
            raise csv_error("path", path, what, "fill it, or remove the row")
        if not text or (number is not None and not math.isfinite(number)):
            raise _bad_cell(path, line, column, text, number, "path")
    values = [number for number in numbers.values() if number is not None]
    if len(values) == len(numbers):
        _check_integers(column, labels, numbers)
        names = tuple(str(value) for value in sorted({int(value) for value in values}))
        index = {name: position for position, name in enumerate(names)}
        code = {text: index[str(int(value))] for text, value in zip(numbers, values, strict=True)}
    else:
        names = tuple(sorted(numbers))
        code = {name: position for position, name in enumerate(names)}
    if len(names) < 2:
        raise csv_error("target", column, f"all rows have the label {shorten(names[0])!r}", "two are needed")
    return np.array([[code[text]] for _, text in labels], dtype=np.float64), names


def _numbers(cells: list[str]) -> list[float] | None:
    """Return the numbers of a row, None if a cell needs a closer look; the fast way through good rows."""
    try:
        numbers = [float(cell) for cell in cells]
    except ValueError:
        return None
    return None if "_" in "".join(cells) or not math.isfinite(sum(numbers)) else numbers


def _number(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)  # Python reads 1_0 as 10, no other program does
    except ValueError:
        return None


def check_spread(path: str, numbers: FloatArray, names: Sequence[str], key: str = "path") -> None:
    """Refuse columns [N, K] that vary, but whose variance leaves float64; NaN does not count.

    Raises:
        DataError: naming the first such column.
    """
    low, high = np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.nanstd(numbers, axis=0)
    wrong = (low < high) & (~np.isfinite(deviation) | (deviation == 0.0))
    if wrong.any():
        column = int(wrong.argmax())
        reach = f"from {low[column]:g} to {high[column]:g}"
        text = f"column {shorten(names[column])!r} goes {reach}: its variance cannot be computed"
        raise csv_error(key, path, text, "write it in a larger or smaller unit")


def _cell(path: str, line: int, column: str, text: str, key: str) -> float:
    number = _number(text)
    if number is None or not math.isfinite(number):
        raise _bad_cell(path, line, column, text, number, key)
    return number


def _bad_cell(path: str, line: int, column: str, text: str, number: float | None, key: str) -> DataError:
    where = f"line {line}, column {shorten(column)!r}"
    if not text.strip():
        return csv_error(key, path, f"{where}: the cell is empty", "fill it, or remove the row")
    if number is not None:
        what = f"{where}: {shorten(text)!r} is not a finite number"
        return csv_error(key, path, what, "fill it, or remove the row")
    fix = (
        "write numbers as 1234.5"
        if "," in text
        else "write a number, or choose the columns by dataset.inputs"
    )
    return csv_error(key, path, f"{where}: {shorten(text)!r} is not a number", fix)


def _check_integers(column: str, labels: Iterable[Label], numbers: dict[str, float | None]) -> None:
    for line, text in labels:
        number = numbers[text]
        if number is not None and not number.is_integer():
            what = f"line {line}: {shorten(text)!r} is not a label; labels are integers or texts"
            raise csv_error("target", column, what, "for a measured quantity set dataset.task=regression")
