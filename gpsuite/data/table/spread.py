"""Columns whose numbers vary, but not so that float64 can tell by how much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.table.names import csv_error, shorten


def check_spread(path: str, numbers: FloatArray, names: Sequence[str], key: str = "path") -> None:
    """Refuse columns [N, K] that vary, but whose variance leaves float64; NaN does not count.

    Raises:
        DataError: naming every such column.
    """
    low, high = np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.nanstd(numbers, axis=0)
    wrong = np.flatnonzero((low < high) & (~np.isfinite(deviation) | (deviation == 0.0)))
    if len(wrong):
        text = "; ".join(
            f"column {shorten(names[column])!r} goes from {low[column]:g} to {high[column]:g}"
            for column in wrong[:20]
        )
        fix = "write it in a larger or smaller unit"
        raise csv_error(key, path, f"{text}: its variance cannot be computed", fix)
