"""The user's own table as a dataset: which columns, which rows, and what was decided about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.dataset import TASKS, Dataset, Task
from gpsuite.data.hashing import json_hash
from gpsuite.data.spec import MISSING, CsvSpec
from gpsuite.data.table.columns import Column, encode, read_column
from gpsuite.data.table.formats import find_format
from gpsuite.data.table.labels import label_classes
from gpsuite.data.table.layout import Grid, read_grid, without_empty_tail
from gpsuite.data.table.measurements import read_measurements
from gpsuite.data.table.names import choose_columns, csv_error, name_list, shorten
from gpsuite.data.table.rows import complete_rows, describe_faults
from gpsuite.data.table.spread import check_spread
from gpsuite.errors import unknown_name

MIN_ROWS = 10
_VERSION = 1  # of the decisions; part of the hash of a table for which some were made


@dataclass(frozen=True)
class Choice:
    """Which columns are used, by number."""

    targets: list[int]
    inputs: list[int]
    all_others: bool  # the inputs are all other columns: those that tell nothing are left out


def read_csv(spec: CsvSpec) -> Dataset:
    """Read the table, decide what loses nothing, and refuse whatever a run would trip over later.

    Labels of a classification are numbered 0, ..., C-1 in sorted order (integers by value, texts alphabetically);
    `label_names` keeps what the file says. Columns that are neither target nor input are not looked at.

    Args:
        spec: the file and the user's choices; for measurements as `read_measurements`. Without a task: regression.

    Returns:
        the dataset; `notes` says every decision, `groups` which rows are copies of each other.

    Raises:
        DataError: if the file or the choice of columns is not usable: all that is wrong, each cell with line and
            column, and what to do.
        UserError: if the task is unknown.
    """
    return read_resolved(spec)[0]


def read_resolved(spec: CsvSpec) -> tuple[Dataset, CsvSpec]:
    """Return the dataset, and the spec with its columns as lists of names, for another process to read the same."""
    task = _task(spec)
    if task == "measurements":
        return read_measurements(spec)
    _refuse_unused(spec, task)
    grid = without_empty_tail(read_grid(spec))
    choice = _choose(spec, task, grid.header)
    dataset = _assemble(spec, task, grid, choice)
    named = {"target": [grid.header[column] for column in choice.targets]}
    if not choice.all_others:
        named["inputs"] = [grid.header[column] for column in choice.inputs]
    return dataset, replace(spec, **named)


def _task(spec: CsvSpec) -> Task:
    for task in TASKS:
        if task == (spec.task or "regression"):
            return task
    raise unknown_name("dataset.task", str(spec.task), TASKS)


def _refuse_unused(spec: CsvSpec, task: Task) -> None:
    for key in ("safety", "limit", "candidates"):
        value = getattr(spec, key)
        if value is not None:
            raise csv_error(
                key, value, f"a {task} table has none", "it belongs to active_learning/plan; leave it out"
            )


def _choose(spec: CsvSpec, task: Task, header: Sequence[str]) -> Choice:
    if spec.target in (None, MISSING, ""):
        raise csv_error("target", "", "no target named", f"columns: {name_list(header)}")
    targets = choose_columns("target", spec.target, header)
    if task == "classification" and len(targets) > 1:
        raise csv_error("target", spec.target, "classification takes one target column", "name one of them")
    ignored = [] if spec.ignore is None else choose_columns("ignore", spec.ignore, header)
    # values arrive as they were typed: `dataset.inputs=null` as a text
    all_others = spec.inputs is None or (spec.inputs == "null" and "null" not in header)
    if all_others:
        inputs = [column for column in range(len(header)) if column not in {*targets, *ignored}]
        if not inputs:
            text = "all columns are targets or ignored, no input is left"
            raise csv_error("target", spec.target, text, "name fewer")
    else:
        inputs = choose_columns("inputs", spec.inputs, header)
    for key, others in (("target", targets), ("ignore", ignored)):
        shared = [header[column] for column in inputs if column in others]
        if shared:
            what = "the target" if key == "target" else "ignored"
            raise csv_error(
                "inputs", spec.inputs, f"column {shorten(shared[0])!r} is also {what}", "leave it out of dataset.inputs"
            )
    return Choice(targets, inputs, all_others)


def _assemble(spec: CsvSpec, task: Task, grid: Grid, choice: Choice) -> Dataset:
    used = [*choice.targets, *choice.inputs]
    cells = {column: grid.column(column) for column in used}
    written, said = find_format(
        grid.path, [(grid.header[c], list(dict.fromkeys(cells[c]))) for c in used], spec.decimal, spec.thousands
    )
    columns = {
        c: read_column(grid.header[c], cells[c], written, categories=spec.categories, strict=spec.strict)
        for c in choice.inputs
    }
    notes = [*grid.notes, *([said] if said else [])]
    inputs = _useful(spec, list(columns.values()), choice, notes)
    read_target = label_classes if task == "classification" else _number_target
    targets = [read_target(spec, grid, grid.header[c], cells[c], written) for c in choice.targets]
    faults = [*grid.faults, *_bad_cells(grid, [*targets, *inputs])]
    if faults:
        raise describe_faults(grid.path, faults)
    kept, inputs = complete_rows(spec, grid, targets, inputs, notes)
    inputs = _still_useful(spec, inputs, kept, notes)
    X, names = _matrix(inputs, kept)
    y = np.column_stack([column.values[kept] for column in targets])
    if len(X) < MIN_ROWS:
        raise csv_error("path", spec.path, f"{len(X)} rows; at least {MIN_ROWS} are needed", "add rows")
    _check_target_varies(spec, y, targets)
    target_names = [column.name for column in targets]
    check_spread(spec.path, np.column_stack([X, y]), [*names, *target_names])
    notes += [note for column in [*targets, *inputs] for note in column.notes]
    groups = _copies(X, y, notes)
    return Dataset(
        name=spec.name,
        task=task,
        X=X,
        y=y,
        input_names=tuple(names),
        target_names=tuple(target_names),
        content_hash=_hash(spec, grid, task, target_names, names, changed=bool(notes)),
        label_names=targets[0].levels if task == "classification" else None,
        units={name: unit for name, unit in grid.units.items() if name in {*names, *target_names}},
        licence=spec.licence,
        citation=spec.citation,
        notes=tuple(notes),
        groups=groups,
    )


def _number_target(spec: CsvSpec, grid: Grid, name: str, cells: Sequence[str], written: NumberFormat) -> Column:
    column = read_column(name, cells, written, categories=spec.categories, strict=spec.strict)
    if column.kind in ("number", "empty"):
        return column
    shown = shorten(next(cell for cell, gap in zip(cells, column.gaps, strict=True) if not gap))
    text = f"column {shorten(name)!r} holds {column.kind} ({shown!r}), not numbers"
    raise csv_error("target", spec.target, text, "to tell its classes apart set dataset.task=classification")


def _useful(spec: CsvSpec, columns: list[Column], choice: Choice, notes: list[str]) -> list[Column]:
    """Return the inputs that tell something; a useless one that the user named is an error."""
    useless = [column for column in columns if column.useless]
    if useless and (spec.strict or not choice.all_others):
        column = useless[0]
        others = [each.name for each in columns if not each.useless]
        fix = f"leave it out: dataset.inputs={name_list(others)}" if others else "no other input is left"
        raise csv_error("path", spec.path, f"input column {shorten(column.name)!r} is no use: {column.useless}", fix)
    notes += [f"column {shorten(column.name)!r} left out: {column.useless}" for column in useless]
    kept = [column for column in columns if not column.useless]
    if not kept:
        why = "; ".join(f"{shorten(column.name)!r}: {column.useless}" for column in useless)
        raise csv_error("path", spec.path, f"no input is left ({why})", "add a column that varies")
    return kept


def _still_useful(spec: CsvSpec, columns: list[Column], kept: BoolArray, notes: list[str]) -> list[Column]:
    """Return the inputs that vary over the rows that are used."""
    fixed = [column for column in columns if np.ptp(column.values[kept]) == 0.0]
    if len(fixed) == len(columns):
        raise csv_error("path", spec.path, "no input varies over the rows without gaps", "set dataset.missing=drop_columns")
    notes += [f"column {shorten(column.name)!r} left out: it is constant in the rows used" for column in fixed]
    return [column for column in columns if column not in fixed]


def _bad_cells(grid: Grid, columns: Sequence[Column]) -> list[str]:
    return [
        f"line {grid.lines[row]}, column {shorten(column.name)!r}: {shorten(text)!r} is not a finite number"
        for column in columns
        for row, text in column.bad.items()
    ]


def _matrix(columns: Sequence[Column], kept: BoolArray) -> tuple[FloatArray, list[str]]:
    blocks = [encode(column) for column in columns]
    return np.column_stack([block[kept] for block, _ in blocks]), [name for _, names in blocks for name in names]


def _check_target_varies(spec: CsvSpec, y: FloatArray, targets: Sequence[Column]) -> None:
    same = y.min(axis=0) == y.max(axis=0)
    if same.any():
        column = int(same.argmax())
        value = targets[column].levels[int(y[0, column])] if targets[column].levels else f"{y[0, column]:g}"
        text = f"column {shorten(targets[column].name)!r} is constant ({shorten(value)} in all rows)"
        raise csv_error("target", spec.target, text, "choose a target that varies")


def _copies(X: FloatArray, y: FloatArray, notes: list[str]) -> IntArray | None:
    """Return the group [N] of each row, equal for rows that are copies of each other; None if none are."""
    _, groups, counts = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True, return_counts=True)
    repeated = int((counts - 1).sum())
    if not repeated:
        return None
    notes.append(f"{repeated} rows are copies of others: copies stay on one side of every split")
    return groups.reshape(-1).astype(np.int64)


def _hash(
    spec: CsvSpec, grid: Grid, task: Task, targets: Sequence[str], inputs: Sequence[str], *, changed: bool
) -> str:
    """Hash of content and choices; settings that only decide how to read count where something was decided."""
    parts: list[object] = ["csv", grid.sha256, list(targets), list(inputs), grid.separator, task]
    if changed:
        settings = [spec.decimal, spec.thousands, spec.missing, spec.skip_rows, spec.categories, spec.strict]
        parts.append(["reading", _VERSION, *settings])
    return json_hash(parts)
