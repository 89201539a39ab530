"""What pandas reads from the same file: the independent reading that ours is held against."""

from __future__ import annotations

import codecs
import io
from pathlib import Path

import numpy as np
import pandas as pd

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.layout import Grid, read_grid

MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "?", "na"]


def disagreements(spec: CsvSpec, data: Dataset) -> list[str] | None:
    """Return the columns of numbers that pandas reads otherwise; None if it does not read such a table.

    pandas is told the separator and the line of the names, nothing else. A column counts where both find numbers in it.
    """
    grid = read_grid(spec)
    frame = _frame(grid, Path(spec.path).read_bytes())
    if frame is None or len(frame) != len(grid.cells):
        return None
    lost = data.X.shape[0] != len(frame)
    wrong = []
    for names, values in ((data.input_names, data.X), (data.target_names, data.y)):
        for name, ours in zip(names, values.T, strict=True):
            if name not in frame or not pd.api.types.is_numeric_dtype(frame[name].dtype):
                continue
            theirs = frame[name].to_numpy(dtype=np.float64)
            theirs = theirs[~np.isnan(theirs)]
            if data.task == "classification" and names == data.target_names:
                continue  # numbered again
            same = np.isin(ours, theirs).all() if lost else len(ours) == len(theirs) and _close(ours, theirs)
            if not same:
                wrong.append(name)
    return wrong


def _close(ours: FloatArray, theirs: FloatArray) -> bool:
    return bool(np.allclose(ours, theirs, rtol=1e-12, atol=0.0))  # pandas' own parser may be an ulp off


def _frame(grid: Grid, content: bytes) -> pd.DataFrame | None:
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if marked else ("utf-8-sig", "cp1252"):
        try:
            text = content.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    else:
        return None
    lines = text.splitlines(keepends=True)
    first = grid.lines[0] - 1
    try:
        frame = pd.read_csv(
            io.StringIO("".join(lines[first:])),
            header=None,
            sep=r"\s+" if grid.separator == " " else grid.separator,
            skipinitialspace=True,
            na_values=MISSING,
            float_precision="round_trip",
        )
    except (ValueError, pd.errors.ParserError):
        return None
    if frame.shape[1] != len(grid.header):
        return None
    frame.columns = list(grid.header)
    return frame
