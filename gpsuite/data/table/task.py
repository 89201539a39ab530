"""What a table's target asks for: a regression, or a classification."""

from __future__ import annotations

import numpy as np

from gpsuite.data.dataset import Task
from gpsuite.data.spec import MISSING, CsvSpec
from gpsuite.data.table.cells import read_columns
from gpsuite.data.table.layout import read_grid, without_empty_tail
from gpsuite.data.table.read import choose

LABELS = 2  # a target of so many different whole numbers is a class


def suggested_task(spec: CsvSpec) -> Task:
    """Return classification for a target of texts, or of two whole numbers; else regression.

    A target that is missing or not a column, or of numbers of which some cannot be read, is left to the reader, which
    says what is wrong.

    Raises:
        DataError: if the file, or the choice of the target, is not usable.
    """
    if spec.target in (None, MISSING, ""):
        return "regression"
    grid = without_empty_tail(read_grid(spec))
    choice = choose(spec, "regression", grid.header)
    position = choice.targets[0]
    # all columns of the dataset decide how its numbers are written
    column = read_columns(spec, grid, [position, *choice.inputs], [])[0][position]
    different = np.unique(column.values[~np.isnan(column.values)])
    two = len(different) == LABELS and bool((different == np.floor(different)).all()) and not column.bad
    return "classification" if two or column.kind not in ("number", "empty") else "regression"
