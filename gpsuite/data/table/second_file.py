"""A file that belongs to the user's table, rows to predict or candidates: read as the table is, if it can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.layout import Grid, read_grid
from gpsuite.data.table.names import csv_error
from gpsuite.data.table.reading import units_of
from gpsuite.errors import DataError


def read_second(
    spec: CsvSpec, key: str, reading: Mapping[str, str], wanted: Callable[[Sequence[str]], bool]
) -> Grid:
    """Read the file `dataset.KEY`: with the separator that is stated, else the table's, else the one that is found.

    Lines above the names are the file's own: those of the table, `dataset.skip_rows`, are skipped only where the names
    are not found otherwise.

    Args:
        spec: the file and what the user states.
        key: of the file.
        reading: `Dataset.reading` of the table; empty where it is not known.
        wanted: whether a header has the columns that are needed.

    Returns:
        the cells; where no way of reading gives the columns, those of the last way.

    Raises:
        DataError: if there is no such file, or it is no table.
    """
    separators = [spec.separator] if spec.separator is not None else [reading.get("separator"), None]
    found, fault = None, None
    units = units_of(reading)
    for separator in dict.fromkeys(separators):
        for lines in dict.fromkeys((0, spec.skip_rows)):
            try:
                grid = read_grid(replace(spec, separator=separator, skip_rows=lines), key, 1, units)
            except DataError as error:
                fault = error
                continue
            if wanted(grid.header):
                if not any(map(any, grid.rows)):
                    raise csv_error(key, grid.path, "every row is empty", "add the rows")
                return grid
            found = grid if lines == 0 else found or grid
    if found is None:
        assert fault is not None  # a way of reading gives cells or a fault
        raise fault
    return found
