"""What a table's target asks for: a regression, or a classification."""

from __future__ import annotations

from gpsuite.data.csv_columns import choose_columns
from gpsuite.data.csv_text import decode, parse_separator, read_bytes, read_header, split_rows
from gpsuite.data.dataset import Task
from gpsuite.data.spec import MISSING, CsvSpec

LABELS = 2  # a target of so few different values is a class


def suggested_task(spec: CsvSpec) -> Task:
    """Return classification for a target of texts, or of two values; else regression.

    A target that is missing or not a column is left to the reader, which says what is wrong.

    Raises:
        DataError: if the file, or the choice of the target, is not usable.
    """
    if spec.target in (None, MISSING, ""):
        return "regression"
    separator = parse_separator(spec.separator)
    rows = split_rows(spec.path, decode(spec.path, read_bytes(spec.path)), separator)
    header = read_header(spec.path, rows, separator)
    target = choose_columns("target", spec.target, header)[0]
    values = {row[target].strip() for _, row in rows if len(row) == len(header)}
    numbers = [value for value in values if _is_number(value)]
    return "regression" if len(numbers) == len(values) and len(values) > LABELS else "classification"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
