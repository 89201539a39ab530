"""The user's own table as a dataset: its columns and rows, and the decisions about them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.dataset import TASKS, Dataset, Task
from gpsuite.data.spec import CSV_OPTIONS, MISSING, CsvSpec, json_hash
from gpsuite.data.table.doubts import doubts, years
from gpsuite.data.table.layout import Grid, read_grid, refuse_repeated
from gpsuite.data.table.leaks import leaks
from gpsuite.data.table.measurements import read_measurements
from gpsuite.data.table.names import choose_columns, csv_error, name_list, other_columns, shorten
from gpsuite.data.table.order import Arrangement, arrangement, arranging, as_numbers, sorted_by
from gpsuite.data.table.roles import (
    Column,
    Stated,
    class_or_number,
    encode,
    label_column,
    levels_in,
    read_columns,
    reading_of,
    reading_of_table,
    stated_columns,
)
from gpsuite.data.table.rows import LARGEST_LOSS, all_others, check_spread, complete_rows, leaving_out
from gpsuite.errors import DataError, unknown_name
from gpsuite.text import counted

MIN_ROWS = 10
COPIES = "copies on both sides of splits"  # part of a content hash: other splits give other records


@dataclass(frozen=True)
class Choice:
    """Used columns, by number."""

    targets: list[int]
    inputs: list[int]


def read_csv(spec: CsvSpec) -> Dataset:
    """Return the table's dataset. Make the decisions that lose nothing, and refuse causes of later failures.

    Labels of a classification are numbered 0, ..., C-1 in sorted order (integers by value, texts alphabetically).
    `label_names` keeps the file's names. Only targets and inputs are read.

    Args:
        spec: the file and the user's choices. For measurements as in `read_measurements`. Without a task it is a
            regression.

    Returns:
        the dataset. `notes` holds every decision. `groups` tells which rows are copies of each other.

    Raises:
        DataError: if the file or the choice of columns is not usable. It names all faults, each cell with line and
            column, and what to do.
        UserError: if the task is unknown.
    """
    return read_resolved(spec)[0]


def read_resolved(spec: CsvSpec) -> tuple[Dataset, CsvSpec]:
    """Return the dataset, and the spec with its columns as lists of names: another process then reads the same."""
    task = _task(spec)
    if task == "measurements":
        dataset = read_measurements(spec)
        safety = dataset.safety
        assert safety is not None  # `Dataset` requires it
        names: dict[str, Any] = {
            "target": list(dataset.target_names),
            "safety": [safety.name],
            "inputs": None if spec.inputs is None else list(dataset.input_names),
        }
        return dataset, replace(spec, **names)
    _refuse_unused(spec, task)
    grid = read_grid(spec).filled
    choice = choose(spec, task, grid.header)
    named = choice.targets if all_others(spec, grid.header) else [*choice.targets, *choice.inputs]
    refuse_repeated(grid, [grid.header[position] for position in named])
    _refuse_too_few(spec, len(grid.cells))
    dataset = _assemble(spec, task, grid, choice)
    resolved: dict[str, Any] = {"target": [grid.header[column] for column in choice.targets]}
    if not all_others(spec, grid.header):
        resolved["inputs"] = [grid.header[column] for column in choice.inputs]
    return dataset, replace(spec, **resolved)


def _task(spec: CsvSpec) -> Task:
    for task in TASKS:
        if task == (spec.task or "regression"):
            return task
    raise unknown_name("dataset.task", str(spec.task), TASKS)


def _refuse_unused(spec: CsvSpec, task: Task) -> None:
    for key in ("safety", "limit", "candidates"):
        value = getattr(spec, key)
        if value is not None:
            raise csv_error(key, value, f"a {task} table has none", "it belongs to active_learning/plan. Leave it out")


def choose(spec: CsvSpec, task: Task, header: Sequence[str]) -> Choice:
    """Return the columns that the user chooses.

    Raises:
        DataError: if there are no such columns, or a column is chosen twice.
    """
    if spec.target in (None, MISSING, ""):
        raise csv_error("target", "", "no target named", f"columns: {name_list(header)}")
    targets = choose_columns("target", spec.target, header)
    if task == "classification" and len(targets) > 1:
        text = "classification takes one target column"
        raise csv_error("target", spec.target, text, "name one of them", fix={"target": header[targets[0]]})
    ignored = [] if spec.ignore is None else choose_columns("ignore", spec.ignore, header)
    if all_others(spec, header):
        used = [*targets, *ignored, *arranging(spec, header)]
        return Choice(targets, other_columns(spec.path, spec.target, used, header))
    inputs = choose_columns("inputs", spec.inputs, header)
    for columns, what in ((targets, "the target"), (ignored, "ignored")):
        shared = [header[column] for column in inputs if column in columns]
        if shared:
            rest = [header[column] for column in inputs if column not in {*targets, *ignored}]
            raise csv_error(
                "inputs",
                spec.inputs,
                f"column {shorten(shared[0])!r} is also {what}",
                "leave it out of dataset.inputs",
                fix={"inputs": name_list(rest)} if rest else None,
            )
    return Choice(targets, inputs)


def _assemble(spec: CsvSpec, task: Task, grid: Grid, choice: Choice) -> Dataset:
    notes = list(grid.notes)
    labelled = task == "classification"
    numbers = [*choice.inputs, *([] if labelled else choice.targets)]
    columns, written = read_columns(spec, grid, numbers, notes)
    inputs = _useful(spec, grid, [columns[each] for each in choice.inputs], notes)
    targets = _targets(spec, grid, choice, None if labelled else columns)
    kept, inputs = complete_rows(spec, grid, targets, inputs, notes)
    arranged = arrangement(spec, grid)
    kept = _arrangeable(spec, kept, arranged, notes)
    inputs, rows = _still_useful(spec, inputs, kept, notes), arranged.rows(kept)
    X, names = _matrix(inputs, kept, rows)
    y = np.column_stack([column.values[rows] for column in targets])
    y, levels = _present_labels(spec, y, targets[0].levels) if labelled else (y, None)
    _check_target_varies(spec, y, targets)
    target_names = [column.name for column in targets]
    check_spread(spec.path, np.column_stack([X, y]), [*names, *target_names])
    notes += [note for column in [*targets, *inputs] for note in column.notes]
    groups = _copies(X, y, notes)
    decided = [*([] if groups is None else [COPIES]), *arranged.choices]
    return Dataset(
        name=spec.name,
        task=task,
        X=X,
        y=y,
        input_names=tuple(names),
        target_names=tuple(target_names),
        content_hash=_content_hash(spec, grid, [target_names, names, grid.separator, task, *decided], notes),
        label_names=levels,
        units={name: unit for name, unit in grid.units.items() if name in {*names, *target_names}},
        licence=spec.licence,
        citation=spec.citation,
        notes=(*notes, *years(spec, inputs)),
        warnings=tuple(_doubts(spec, grid, targets, inputs)),
        groups=groups,
        lines=grid.lines[rows],
        categories=levels_in(inputs, kept),
        reading=reading_of_table(spec, grid, written, inputs, target_names),
        sorted_by="" if arranged.order else _sorted_by(grid, choice, kept),
        **arranged.fields(rows),
    )


def _doubts(spec: CsvSpec, grid: Grid, targets: Sequence[Column], inputs: Sequence[Column]) -> list[str]:
    """Return the same doubts as `describe`: labels are treated like a column of the file."""
    classes = spec.task == "classification"
    as_read = [column for column in [_target_column(spec)] if column is not None] if classes else targets
    said = doubts(spec, grid, [*as_read, *inputs], [target.name for target in targets])
    return said + [leak for target in targets for leak in leaks(spec, inputs, target, classes=classes)]


def _targets(spec: CsvSpec, grid: Grid, choice: Choice, numbers: Mapping[int, Column] | None) -> list[Column]:
    """Return the targets: among columns of numbers, or a class."""
    if numbers is None:
        return [_class_target(spec, grid, position) for position in choice.targets]
    return [_number_target(spec, numbers[position]) for position in choice.targets]


def _arrangeable(spec: CsvSpec, kept: BoolArray, arranged: Arrangement, notes: list[str]) -> BoolArray:
    """Return the kept rows with a time and a group, or a likelihood ratio."""
    found: BoolArray = kept & arranged.known
    if lost := int(kept.sum() - found.sum()):
        what = "likelihood ratio" if arranged.weight_name else "time or group"
        notes.append(f"{lost} of {len(kept)} rows left out: they have no {what}")
    _refuse_too_few(spec, int(found.sum()))
    return found


def _sorted_by(grid: Grid, choice: Choice, kept: BoolArray) -> str:
    """Return the unused column by which the used rows are sorted or blocked, or an empty string."""
    others = [place for place in range(len(grid.header)) if place not in {*choice.targets, *choice.inputs}]
    columns = [as_numbers(grid.column(place))[kept] for place in others]
    return sorted_by(np.column_stack(columns), [grid.header[place] for place in others]) if others else ""


def _content_hash(spec: CsvSpec, grid: Grid, choices: list[Any], notes: Sequence[str]) -> str:
    """Return the hash of the file and of its reading. Settings of reading count if they decided something."""
    return json_hash(["csv", grid.sha256, *choices, *reading_of(spec, notes)])


def _refuse_too_few(spec: CsvSpec, rows: int) -> None:
    if rows < MIN_ROWS:
        raise csv_error("path", spec.path, f"{counted(rows, 'row')}. At least {MIN_ROWS} are needed", "add rows")


def _present_labels(spec: CsvSpec, y: FloatArray, levels: Sequence[str]) -> tuple[FloatArray, tuple[str, ...]]:
    """Return labels and names without the classes that do not occur in the used rows."""
    present, numbers = np.unique(y, return_inverse=True)
    if len(present) < 2:
        only = shorten(levels[int(present[0])])
        raise csv_error("target", spec.target, f"all rows used have the label {only!r}", "two are needed")
    return numbers.reshape(y.shape).astype(np.float64), tuple(levels[int(label)] for label in present)


def _number_target(spec: CsvSpec, column: Column) -> Column:
    if column.kind in ("number", "empty"):
        return column
    held = f"{column.kind}, as {shorten(column.levels[-1])!r}" if column.levels else f"{column.kind}s"
    text = f"column {shorten(column.name)!r} holds {held}: no numbers"
    if column.kind not in ("category", "yes/no"):
        raise csv_error("target", spec.target, text, "name another column")
    raise _other_experiment(spec, text, "robustness/safety", "classification")


def _class_target(spec: CsvSpec, grid: Grid, position: int) -> Column:
    stated = stated_columns(spec, grid, {}).get(grid.header[position], Stated())
    column = label_column(grid.column(position), strict=spec.strict, stated=stated)
    if len(column.bad) <= LARGEST_LOSS * len(grid.cells):
        return column
    text = f"column {shorten(column.name)!r} holds numbers, as {next(iter(column.bad.values()))}, no labels"
    raise _other_experiment(spec, text, "pac_bayes/regression", "regression")


def _other_experiment(spec: CsvSpec, text: str, name: str, task: str) -> DataError:
    """Return the error that proposes an experiment for this kind of target."""
    error = csv_error("target", spec.target, text, f"{task} is experiment={name}:", fix={"task": task})
    error.fix["experiment"] = name
    return error


def _useful(spec: CsvSpec, grid: Grid, columns: list[Column], notes: list[str]) -> list[Column]:
    """Return the useful inputs: a useless one is left out, unless the user named it."""
    others = all_others(spec, grid.header) and not spec.strict
    useless = [column for column in columns if column.useless and (others or not _usable(column))]
    kept = [column for column in columns if column not in useless]
    why = "; ".join(f"input column {shorten(column.name)!r}: {column.useless}" for column in useless)
    if not kept:
        raise csv_error("path", spec.path, f"{why}. No other input is left", "add a column that varies")
    if useless and not others:
        names = [column.name for column in useless]
        fix = leaving_out(spec, grid.header, columns, names)
        raise csv_error("path", spec.path, why, "leave it out:" if len(names) == 1 else "leave them out:", fix=fix)
    notes += [f"column {shorten(column.name)!r} left out: {column.useless}" for column in useless]
    return kept


def _usable(column: Column) -> bool:
    """Return whether a useless column can be an input if the user names it: its numbers vary, as for an id."""
    given = column.values[~np.isnan(column.values)]
    return column.kind == "number" and len(given) > 0 and bool(np.ptp(given) > 0.0)


def _still_useful(spec: CsvSpec, columns: list[Column], kept: BoolArray, notes: list[str]) -> list[Column]:
    """Return the inputs that vary over the used rows."""
    fixed = [column for column in columns if column.values[kept].min() == column.values[kept].max()]
    if len(fixed) == len(columns):
        text = "no input varies over the rows without gaps"
        raise csv_error("path", spec.path, text, "leave out columns with gaps:", fix={"missing": "drop_columns"})
    notes += [f"column {shorten(column.name)!r} left out: it is constant in the rows used" for column in fixed]
    return [column for column in columns if column not in fixed]


def _matrix(columns: Sequence[Column], kept: BoolArray, rows: IntArray) -> tuple[FloatArray, list[str]]:
    """Return the inputs [N, D] of the kept rows, in the order of `rows`, and their names."""
    blocks = [encode(column, kept) for column in columns]
    X = np.column_stack([block for block, _ in blocks])
    return X[np.searchsorted(np.flatnonzero(kept), rows)], [name for _, names in blocks for name in names]


def _check_target_varies(spec: CsvSpec, y: FloatArray, targets: Sequence[Column]) -> None:
    same = y.min(axis=0) == y.max(axis=0)
    if same.any():
        column = int(same.argmax())
        text = f"column {shorten(targets[column].name)!r} is constant ({y[0, column]:g} in all rows)"
        raise csv_error("target", spec.target, text, "choose a target that varies")


def _copies(X: FloatArray, y: FloatArray, notes: list[str]) -> IntArray | None:
    """Return for each row the number of the first row that equals it, [N], or None if all differ."""
    first: dict[bytes, int] = {}
    rows = np.column_stack([X, y]) + 0.0  # -0 is 0
    groups = np.array([first.setdefault(row.tobytes(), number) for number, row in enumerate(rows)], dtype=np.int64)
    repeated = len(groups) - len(first)
    if not repeated:
        return None
    notes.append(
        f"{repeated} of {len(groups)} rows are copies of others: guarantees hold if all are draws, or all stored again"
    )
    return groups


def suggested_task(spec: CsvSpec) -> Task:
    """Return classification for a target of texts, or of two whole numbers, otherwise regression.

    A target that is missing or not a column, or holds numbers and unreadable cells, is left to the reader. It reports
    the fault.

    Raises:
        DataError: if the file, or the choice of the target, is not usable.
    """
    column = _target_column(spec)
    return "classification" if column is not None and class_or_number(column) == "classes" else "regression"


def class_question(spec: CsvSpec, experiment: str, other: str) -> str:
    """Return the question whether the target is a class or a number, with both commands, if its values do not decide.

    Args:
        spec: description with the chosen task.
        experiment: the experiment of the run.
        other: the experiment for the other kind of target.
    """
    column = _target_column(spec)
    if column is None or class_or_number(column) != "either":
        return ""
    values = np.unique(column.values[~np.isnan(column.values)])
    shown = ", ".join(f"{value:g}" for value in values)
    tasks: list[Task] = ["regression", "classification"]
    now, then = tasks if spec.task == "regression" else tasks[::-1]
    ways = {"regression": "a number", "classification": "classes"}
    what = (
        f"target {shorten(column.name)!r} holds {len(values)} different whole numbers ({shown}): classes or a number?"
    )
    return (
        f"{what} It is learned as {ways[now]} here: {_command(spec, experiment, now)}\n"
        f"As {ways[then]}: {_command(spec, other, then)}"
    )


def _command(spec: CsvSpec, experiment: str, task: Task) -> str:
    own = {field.name: getattr(spec, field.name) for field in fields(spec) if field.name in CSV_OPTIONS}
    given = {key: value for key, value in own.items() if value != getattr(CsvSpec(), key)} | {"task": task}
    words = [f"dataset.{key}={_typed(value)}" for key, value in given.items()]
    return shlex.join(["gpsuite", "run", f"experiment={experiment}", "dataset=csv", *words])


def _typed(value: Any) -> str:
    """Return a value of a setting as typed on the command line."""
    if isinstance(value, list | tuple):
        return str(value[0]) if len(value) == 1 else name_list([str(each) for each in value])
    return str(value).lower() if isinstance(value, bool) else str(value)


def _target_column(spec: CsvSpec) -> Column | None:
    """Return the first target, or None if none is named."""
    if spec.target in (None, MISSING, ""):
        return None
    grid = read_grid(spec).filled
    choice = choose(spec, "regression", grid.header)
    position = choice.targets[0]
    # all columns of the dataset decide how its numbers are written
    return read_columns(spec, grid, [position, *choice.inputs], [])[0][position]
