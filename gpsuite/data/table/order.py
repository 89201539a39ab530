"""What the order of a table's rows says: sorted or blocked rows say nothing about time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.table.formats import Cells

LEAST_CHANGES = 10.0  # of successive values that a random order would have on average; of fewer nothing is concluded
AGAINST = 0.02  # share of the steps of a sorted column that may go the other way
MOST_RUNS = 2  # per value, in a blocked column


def counts_rows(column: FloatArray) -> bool:
    """Return whether a column [N] is a row number, perhaps with gaps: whole numbers that go up or down, mostly by 1."""
    steps = np.diff(column)
    steps = steps if steps.sum() > 0 else -steps
    return bool((column == np.floor(column)).all() and (steps > 0).all() and np.median(steps) == 1.0)


def sorted_by(columns: FloatArray, names: Sequence[str]) -> str:
    """Return the first column of [N, K] that the rows are sorted or blocked by, or an empty string.

    A row number is none: rows may be numbered in their order of time.
    """
    for name, column in zip(names, columns.T, strict=True):
        if not counts_rows(column) and (_is_sorted(column) or _is_blocked(column)):
            return name
    return ""


def as_numbers(cells: Cells) -> FloatArray:
    """Return the cells [N] of a column as numbers: what they hold, or else their places in alphabetical order."""
    if (cells.plain | cells.missing).all():
        return np.nan_to_num(cells.numbers)[cells.codes]
    places = np.unique([text.casefold() for text in cells.texts], return_inverse=True)[1]
    return places.astype(np.float64)[cells.codes]


def _expected_changes(column: FloatArray) -> float:
    """Return how often successive values of a column [N] differ on average, if its rows are in random order."""
    shares = np.unique(column, return_counts=True)[1] / len(column)
    return float(len(column) * (1.0 - np.sum(shares**2)))


def _is_sorted(column: FloatArray) -> bool:
    steps = np.diff(column)
    against = min(np.count_nonzero(steps < 0), np.count_nonzero(steps > 0))
    return bool(against <= AGAINST * len(steps) and _expected_changes(column) >= LEAST_CHANGES)


def _is_blocked(column: FloatArray) -> bool:
    """Return whether equal values stand together, so that there are hardly more runs than values."""
    runs, levels = 1 + np.count_nonzero(np.diff(column)), len(np.unique(column))
    return bool(runs <= MOST_RUNS * levels and _expected_changes(column) >= max(LEAST_CHANGES, 2 * MOST_RUNS * levels))
