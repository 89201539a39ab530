"""Rows to predict: the inputs of a table that was learned from, in another file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from gpsuite.arrays import FloatArray
from gpsuite.data.csv_cells import check_spread, parse_rows
from gpsuite.data.csv_columns import csv_error, name_list, shorten
from gpsuite.data.csv_text import decode, parse_separator, read_bytes, read_header, split_rows


@dataclass(frozen=True, eq=False)
class NewRows:
    """Inputs without targets.

    Attributes:
        X: in the order of the names asked for, [B, D].
        content_hash: of the file.
    """

    X: FloatArray
    content_hash: str


def read_inputs(path: str, names: Sequence[str], separator: str = ",", key: str = "new") -> NewRows:
    """Read the columns of these names; others are not looked at.

    Raises:
        DataError: if the file, a column or a cell is not usable; names the key at fault.
    """
    mark = parse_separator(separator)
    data = read_bytes(path, key)
    rows = split_rows(path, decode(path, data, key), mark, key)
    header = read_header(path, rows, mark, key=key, least=1)
    absent = [name for name in names if name not in header]
    if absent:
        fix = f"it needs the inputs {name_list(names)}; columns: {name_list(header)}"
        raise csv_error(key, path, f"no column {shorten(absent[0])!r}", fix)
    values, _ = parse_rows(path, header, rows, [header.index(name) for name in names], None, key=key)
    check_spread(path, values, names, key)
    return NewRows(values, hashlib.sha256(data).hexdigest())
