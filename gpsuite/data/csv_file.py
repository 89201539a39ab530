"""The user's own table: a text file with one line of column names and one line per row."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gpsuite.arrays import FloatArray
from gpsuite.data.csv_cells import check_spread, number_labels, parse_rows
from gpsuite.data.csv_columns import choose_columns, csv_error, name_list, other_columns, shorten
from gpsuite.data.csv_measurements import read_measurements
from gpsuite.data.csv_text import decode, parse_separator, read_bytes, read_header, split_rows
from gpsuite.data.dataset import TASKS, Dataset, Task
from gpsuite.data.hashing import json_hash
from gpsuite.data.spec import MISSING, CsvSpec
from gpsuite.errors import unknown_name

MIN_ROWS = 10


def read_csv(spec: CsvSpec) -> Dataset:
    """Read the table and check everything about it that a run would trip over later.

    Labels of a classification are numbered 0, ..., C-1 in sorted order (integers by value, texts alphabetically);
    `label_names` keeps what the file says. Columns that are neither target nor input are not looked at.

    Args:
        spec: path, target, inputs, task (None: regression) and separator; for measurements as `read_measurements`.

    Raises:
        DataError: if the file or the choice of columns is not usable; names the key at fault, for a cell its line
            and column, and what to do.
        UserError: if the task is unknown.
    """
    task = _task(spec)
    if task == "measurements":
        return read_measurements(spec)
    _refuse_unused(spec, task)
    separator = parse_separator(spec.separator)
    data = read_bytes(spec.path)
    rows = split_rows(spec.path, decode(spec.path, data), separator)
    header = read_header(spec.path, rows, separator)
    targets, inputs = _choose(spec, task, header)
    names = [header[column] for column in targets], [header[column] for column in inputs]
    label = targets[0] if task == "classification" else None
    numeric = inputs if task == "classification" else inputs + targets
    numbers, labels = parse_rows(spec.path, header, rows, numeric, label)
    if len(numbers) < MIN_ROWS:
        raise csv_error("path", spec.path, f"{len(numbers)} rows; at least {MIN_ROWS} are needed", "add rows")
    X, y, label_names = numbers[:, : len(inputs)], numbers[:, len(inputs) :], None
    if task == "classification":
        y, label_names = number_labels(spec.path, names[0][0], labels)
    _check_not_constant(spec, X, y, names)
    check_spread(spec.path, numbers, [*names[1], *names[0]])
    return Dataset(
        name=spec.name,
        task=task,
        X=X,
        y=y,
        input_names=tuple(names[1]),
        target_names=tuple(names[0]),
        content_hash=json_hash(["csv", hashlib.sha256(data).hexdigest(), *names, separator, task]),
        label_names=label_names,
        licence=spec.licence,
        citation=spec.citation,
    )


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


def _choose(spec: CsvSpec, task: Task, header: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the column numbers of targets and inputs."""
    if spec.target in (None, MISSING, ""):
        raise csv_error("target", "", "no target named", f"columns: {name_list(header)}")
    targets = choose_columns("target", spec.target, header)
    if task == "classification" and len(targets) > 1:
        raise csv_error("target", spec.target, "classification takes one target column", "name one of them")
    # values arrive as they were typed: `dataset.inputs=null` as a text
    if spec.inputs is None or (spec.inputs == "null" and "null" not in header):
        return targets, other_columns(spec.path, spec.target, targets, header)
    inputs = choose_columns("inputs", spec.inputs, header)
    shared = [header[column] for column in inputs if column in targets]
    if shared:
        text = f"column {shorten(shared[0])!r} is also the target"
        raise csv_error("inputs", spec.inputs, text, "leave it out of dataset.inputs")
    return targets, inputs


def _check_not_constant(
    spec: CsvSpec, X: FloatArray, y: FloatArray, names: tuple[Sequence[str], Sequence[str]]
) -> None:
    target_names, input_names = names
    fixed = X.min(axis=0) == X.max(axis=0)
    if fixed.any():
        column = int(fixed.argmax())
        others = [name for name, same in zip(input_names, fixed, strict=True) if not same]
        text = f"input column {shorten(input_names[column])!r} is constant ({X[0, column]:g} in all rows)"
        fix = f"leave it out: dataset.inputs={name_list(others)}" if others else "no other input is left"
        raise csv_error("path", spec.path, text, fix)
    same = y.min(axis=0) == y.max(axis=0)
    if same.any():
        column = int(same.argmax())
        text = f"column {shorten(target_names[column])!r} is constant ({y[0, column]:g} in all rows)"
        raise csv_error("target", spec.target, text, "choose a target that varies")
