"""The user's measurements for a safe plan: outputs with gaps, a safety column with its limit, and candidates."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.csv_cells import check_spread, parse_rows
from gpsuite.data.csv_columns import choose_columns, csv_error, name_list, other_columns, shorten
from gpsuite.data.csv_text import Row, decode, parse_separator, read_bytes, read_header, split_rows
from gpsuite.data.dataset import Dataset, SafetyColumn, Side
from gpsuite.data.hashing import json_hash
from gpsuite.data.spec import MISSING, CsvSpec

_LIMIT = re.compile(r"(<=?|≤|>=?|≥)?\s*(\S+)")


def read_measurements(spec: CsvSpec) -> Dataset:
    """Read measured rows and candidates.

    An output or safety cell may be empty (or `nan`, `NA`) where nothing was measured; input cells may not. Rows with
    the same inputs are repeated measurements.
    Candidates are read from a second file by the names of the inputs; its other columns are not looked at.

    Args:
        spec: path, target (the outputs), inputs (None: all other columns), safety, limit, candidates, separator.

    Raises:
        DataError: if a file, a column, a cell or the limit is not usable, an output was never measured, or no measured
            row is safe.
    """
    separator = parse_separator(spec.separator)
    data, header, rows = _open(spec.path, separator, "path", 2)
    targets, safety, inputs = _choose(spec, header)
    limit, side = parse_limit(spec.limit)
    names = [header[column] for column in inputs]
    measured = [*targets, safety]
    numbers, _ = parse_rows(
        spec.path, header, rows, [*inputs, *measured], inputs[0], gaps=frozenset(measured)
    )
    X, Y, z = np.split(numbers, [len(inputs), len(inputs) + len(targets)], axis=1)
    target_names = [header[column] for column in targets]
    _check_measured(spec, np.column_stack([Y, z]), [*target_names, header[safety]])
    column = SafetyColumn(header[safety], z[:, 0], limit, side)
    if not column.safe.any():
        best = np.nanmin(z) if side == "below" else np.nanmax(z)
        text = f"no measured row is safe; the best has {shorten(column.name)}={best:g}"
        raise csv_error("limit", spec.limit, text, "measure a safe point first, or check limit and its side")
    candidates, grid = _read_candidates(spec, separator, names)
    check_spread(spec.path, np.column_stack([X, Y, z]), [*names, *target_names, column.name])
    found = [hashlib.sha256(each).hexdigest() for each in (data, candidates)]
    choices = [names, target_names, column.name, limit, side, separator]
    return Dataset(
        name=spec.name,
        task="measurements",
        X=X,
        y=Y,
        input_names=tuple(names),
        target_names=tuple(target_names),
        content_hash=json_hash(["csv measurements", *found, *choices]),
        grid=grid,
        safety=column,
        licence=spec.licence,
        citation=spec.citation,
    )


def parse_limit(value: object) -> tuple[float, Side]:
    """Return limit and safe side of `<=1.0`, `<1`, `>=0.7` or `>0.7`; the limit itself counts as safe.

    Raises:
        DataError: for anything else, a number without its side included.
    """
    fix = "say what is safe: 'dataset.limit=<=1.0' or 'dataset.limit=>=0.7' (with the quotes)"
    text = "" if value in (None, MISSING) else str(value).strip()
    match = _LIMIT.fullmatch(text)
    try:
        number = float(match[2]) if match else math.nan
    except ValueError:
        number = math.nan
    if match is None or not math.isfinite(number):
        raise csv_error("limit", text, "no limit named" if not text else "is not a limit", fix)
    if match[1] is None:
        raise csv_error("limit", text, "which side is safe?", fix)
    return number, "below" if match[1] in ("<", "<=", "≤") else "above"


def _open(path: str, separator: str, key: str, least: int) -> tuple[bytes, list[str], Iterator[Row]]:
    data = read_bytes(path, key)
    rows = split_rows(path, decode(path, data, key), separator, key)
    return data, read_header(path, rows, separator, key=key, least=least), rows


def _choose(spec: CsvSpec, header: Sequence[str]) -> tuple[list[int], int, list[int]]:
    """Return the column numbers of outputs, safety value and inputs."""
    for key, what in (("target", "no output named"), ("safety", "no safety column named")):
        if getattr(spec, key) in (None, MISSING, ""):
            raise csv_error(key, "", what, f"columns: {name_list(header)}")
    targets = choose_columns("target", spec.target, header)
    safety = choose_columns("safety", spec.safety, header)
    if len(safety) > 1:
        raise csv_error("safety", spec.safety, "names several columns", "name one safety column")
    # values arrive as they were typed: `dataset.inputs=null` as a text
    if spec.inputs is None or (spec.inputs == "null" and "null" not in header):
        inputs = other_columns(spec.path, spec.target, [*targets, *safety], header)
    else:
        inputs = choose_columns("inputs", spec.inputs, header)
    for key, columns, others in (("safety", safety, targets), ("inputs", inputs, [*targets, *safety])):
        shared = [header[column] for column in columns if column in others]
        if shared:
            text = f"column {shorten(shared[0])!r} is also {'an output' if key == 'safety' else 'output or safety'}"
            raise csv_error(key, getattr(spec, key), text, "one column has one meaning")
    return targets, safety[0], inputs


def _read_candidates(spec: CsvSpec, separator: str, names: Sequence[str]) -> tuple[bytes, FloatArray]:
    """Return the file's content and the inputs [n, D] in the order of `names`."""
    key, path = "candidates", spec.candidates or ""
    data, header, rows = _open(path, separator, key, 1)
    absent = [name for name in names if name not in header]
    if absent:
        text = f"no column {shorten(absent[0])!r}"
        fix = f"it needs the inputs {name_list(names)}; columns: {name_list(header)}"
        raise csv_error(key, path, text, fix)
    columns = [header.index(name) for name in names]
    values, _ = parse_rows(path, header, rows, columns, None, key=key)
    check_spread(path, values, names, key)
    return data, values


def _check_measured(spec: CsvSpec, values: FloatArray, names: Sequence[str]) -> None:
    blank = np.isnan(values).all(axis=0)
    if blank.any():
        column = int(blank.argmax())
        key = "safety" if column == len(names) - 1 else "target"
        text = f"column {shorten(names[column])!r} has no value in any row"
        raise csv_error(key, getattr(spec, key), text, "measure it once at least, or leave it out")
