"""What a table's target asks for: a regression, or a classification."""

from __future__ import annotations

import numpy as np

from gpsuite.data.dataset import Task
from gpsuite.data.spec import MISSING, CsvSpec
from gpsuite.data.table.cells import read_columns
from gpsuite.data.table.layout import read_grid, without_empty_tail
from gpsuite.data.table.names import choose_columns

LABELS = 2  # a target of so few different values is a class


def suggested_task(spec: CsvSpec) -> Task:
    """Return classification for a target of texts, or of two values; else regression.

    A target that is missing is left to the reader, which says what is wrong.

    Raises:
        DataError: if the file, or the choice of the target, is not usable.
    """
    if spec.target in (None, MISSING, ""):
        return "regression"
    grid = without_empty_tail(read_grid(spec))
    position = choose_columns("target", spec.target, grid.header)[0]
    column = read_columns(spec, grid, [position], [])[position]
    if column.kind not in ("number", "empty", "date"):
        return "classification"
    given = column.values[~np.isnan(column.values)]
    return "classification" if 0 < len(np.unique(given)) <= LABELS else "regression"
