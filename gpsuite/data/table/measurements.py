"""The user's measurements for a safe plan: outputs with gaps, a safety column with its limit, and candidates."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.dataset import Dataset, SafetyColumn, Side
from gpsuite.data.spec import MISSING, CsvSpec, json_hash
from gpsuite.data.table.doubts import doubts
from gpsuite.data.table.layout import Grid, read_grid, read_second, refuse_repeated
from gpsuite.data.table.names import choose_columns, csv_error, name_list, other_columns, shorten
from gpsuite.data.table.roles import Column, otherwise_written, read_columns, reading_of, reading_of_table
from gpsuite.data.table.rows import (
    all_others,
    bad_cells,
    check_spread,
    complete_rows,
    gap_cells,
    leaving_out,
    shown_faults,
)

_MOST = 1e150
_LIMIT = re.compile(r"(<=?|≤|>=?|≥)?\s*(\S+)")


def read_measurements(spec: CsvSpec) -> Dataset:
    """Return the dataset of measured rows and candidates.

    An output or safety cell may be empty (or `nan`, `NA`) if nothing was measured. Input cells may not, unless
    `dataset.missing=drop_rows`. Rows with the same inputs are repeated measurements. Candidates are read from a second
    file by the names of the inputs. Its other columns are ignored.

    Args:
        spec: path, target (the outputs), inputs (None: all other columns), safety, limit, candidates, and settings of
            reading.

    Raises:
        DataError: if a file, a column, a cell or the limit is not usable, an output was never measured, or no measured
            row is safe.
    """
    grid = read_grid(spec).filled
    positions = _choose(spec, grid)
    limit, side = parse_limit(spec.limit)
    notes = list(grid.notes)
    found, written = read_columns(spec, grid, [each for group in positions for each in group], notes, numbers_only=True)
    targets, (safe_by,), inputs = ([found[position] for position in group] for group in positions)
    rows = _rows(spec, grid, [*targets, safe_by], inputs, notes)
    X, Y, z = (np.column_stack([each.values[rows] for each in group]) for group in (inputs, targets, [safe_by]))
    names, target_names = [each.name for each in inputs], [each.name for each in targets]
    _check_measured(spec, np.column_stack([Y, z]), [*target_names, safe_by.name])
    column = SafetyColumn(safe_by.name, z[:, 0], limit, side)
    _refuse_unsafe(spec, column)
    reading = reading_of_table(spec, grid, written, inputs)
    if _strict_sign(spec.limit) and (z == limit).any():
        notes.append(f"dataset.limit={spec.limit}: {limit!r} itself counts as safe")
    candidates, points = _read_candidates(spec, grid.header, inputs, reading)
    check_spread(spec.path, np.column_stack([X, Y, z]), [*names, *target_names, column.name])
    choices = [names, target_names, column.name, limit, side, grid.separator]
    return Dataset(
        name=spec.name,
        task="measurements",
        X=X,
        y=Y,
        input_names=tuple(names),
        target_names=tuple(target_names),
        content_hash=_content_hash(spec, grid, candidates, choices, notes),
        grid=points,
        safety=column,
        units={name: unit for name, unit in grid.units.items() if name in {*names, *target_names, column.name}},
        licence=spec.licence,
        citation=spec.citation,
        reading=reading,
        notes=(*notes, *(f"dataset.candidates: {note}" for note in candidates.notes)),
        warnings=tuple(doubts(spec, grid, [*targets, safe_by, *inputs], [*target_names, safe_by.name])),
    )


def _content_hash(spec: CsvSpec, grid: Grid, candidates: Grid, choices: list[Any], notes: Sequence[str]) -> str:
    """Return the hash of both files and of their reading. Settings of reading count if they decided something."""
    others = [candidates.separator] if candidates.separator != grid.separator else []
    more = [*others, *reading_of(spec, [*notes, *candidates.notes])]
    return json_hash(["csv measurements", grid.sha256, candidates.sha256, *choices, *more])


def parse_limit(value: object) -> tuple[float, Side]:
    """Return limit and safe side of `<=1.0`, `<1`, `>=0.7` or `>0.7`. The limit itself counts as safe.

    Raises:
        DataError: for anything else, also a number without its side.
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
    if abs(number) > _MOST:
        raise csv_error("limit", text, f"beyond {_MOST:g} squares leave float64", "write the column in a larger unit")
    if match[1] is None:
        raise csv_error("limit", text, "which side is safe?", fix)
    return number, "below" if match[1] in ("<", "<=", "≤") else "above"


def _strict_sign(value: object) -> bool:
    """Return whether a limit is written with `<` or `>`. This suggests that the limit itself is not safe."""
    return str(value).strip()[:1] in ("<", ">") and str(value).strip()[1:2] != "="


def _rows(
    spec: CsvSpec, grid: Grid, measured: Sequence[Column], inputs: Sequence[Column], notes: list[str]
) -> BoolArray:
    """Return the used rows [N]: all, unless rows without inputs may be left out."""
    ways = replace(spec, missing="drop_rows" if spec.missing == "drop_rows" else "error")
    whole = [replace(each, gaps=np.zeros_like(each.gaps)) for each in measured]
    return complete_rows(ways, grid, whole, list(inputs), notes)[0]


def _choose(spec: CsvSpec, grid: Grid) -> tuple[list[int], list[int], list[int]]:
    """Return the column numbers of outputs, of the safety value and of inputs."""
    header = grid.header
    for key, what in (("target", "no output named"), ("safety", "no safety column named")):
        if getattr(spec, key) in (None, MISSING, ""):
            raise csv_error(key, "", what, f"columns: {name_list(header)}")
    targets = choose_columns("target", spec.target, header)
    safety = choose_columns("safety", spec.safety, header)
    if len(safety) > 1:
        raise csv_error("safety", spec.safety, "names several columns", "name one safety column")
    ignored = [] if spec.ignore is None else choose_columns("ignore", spec.ignore, header)
    if all_others(spec, header):
        inputs = other_columns(spec.path, spec.target, [*targets, *safety, *ignored], header)
    else:
        inputs = choose_columns("inputs", spec.inputs, header)
    for key, columns, others in (("safety", safety, targets), ("inputs", inputs, [*targets, *safety])):
        shared = [header[column] for column in columns if column in others]
        if shared:
            text = f"column {shorten(shared[0])!r} is also {'an output' if key == 'safety' else 'output or safety'}"
            raise csv_error(key, getattr(spec, key), text, "one column has one meaning")
    refuse_repeated(grid, [header[each] for each in (*targets, *safety, *inputs)])
    return targets, safety, inputs


def _read_candidates(
    spec: CsvSpec, header: Sequence[str], inputs: Sequence[Column], reading: Mapping[str, str]
) -> tuple[Grid, FloatArray]:
    """Return the file's cells and the inputs [n, D], in the order of the table with the columns `header`."""
    key, names = "candidates", [column.name for column in inputs]
    grid = read_second(spec, key, reading, set(names).issubset).filled
    absent = [name for name in names if name not in grid.header]
    if absent:
        text = f"no column {', '.join(repr(shorten(name)) for name in absent)}"
        needed = f"it needs the inputs {name_list(names)}; columns: {name_list(grid.header)}"
        if len(absent) == len(names):
            raise csv_error(key, grid.path, text, needed)
        advice, fewer = "add what is missing, or leave it out:", leaving_out(spec, header, inputs, absent)
        raise csv_error(key, grid.path, text, needed, advice, fix=fewer)
    refuse_repeated(grid, names, key)
    notes: list[str] = []
    positions = [grid.header.index(name) for name in names]
    found, _ = read_columns(spec, grid, positions, notes, table=reading, numbers_only=True)
    columns = [found[position] for position in positions]
    faults = [*grid.faults, *bad_cells(grid, columns), *gap_cells(grid, columns)]
    faults += otherwise_written(grid, columns, reading)
    if faults:
        raise csv_error(key, grid.path, shown_faults(faults), "fix each, or remove its row")
    values = np.column_stack([column.values for column in columns])
    check_spread(grid.path, values, names, key)
    return replace(grid, notes=(*grid.notes, *notes)), values


def _refuse_unsafe(spec: CsvSpec, column: SafetyColumn) -> None:
    if not column.safe.any():
        best = np.nanmin(column.z) if column.side == "below" else np.nanmax(column.z)
        text = f"no measured row is safe. The best has {shorten(column.name)}={best:g}"
        raise csv_error("limit", spec.limit, text, "measure a safe point first, or check limit and its side")


def _check_measured(spec: CsvSpec, values: FloatArray, names: Sequence[str]) -> None:
    blank = np.isnan(values).all(axis=0)
    if blank.any():
        column = int(blank.argmax())
        key = "safety" if column == len(names) - 1 else "target"
        text = f"column {shorten(names[column])!r} has no value in any row"
        raise csv_error(key, getattr(spec, key), text, "measure it once at least, or leave it out")
