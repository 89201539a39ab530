"""Description of a table's reading before a run: each column, copies, ids, order in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.data.dataset import Task
from gpsuite.data.spec import MISSING, CsvSpec
from gpsuite.data.table.doubts import doubts, seeming_codes, years
from gpsuite.data.table.layout import Grid, read_grid
from gpsuite.data.table.leaks import leaks
from gpsuite.data.table.names import choose_columns, name_list, shorten
from gpsuite.data.table.roles import Column, Role, class_or_number, read_columns
from gpsuite.data.table.rows import all_others
from gpsuite.errors import DataError, few
from gpsuite.text import counted

_SHOWN_LEVELS = 6
_EPOCH = np.datetime64("1970-01-01")


@dataclass(frozen=True)
class TableDescription:
    """Description of a table.

    Attributes:
        rows: number of rows N.
        columns: reading, range or levels, gaps and remarks of each column.
        notes: decisions and suspicious findings, each a sentence.
        warnings: doubts about the reading, each a sentence or two, with the setting that decides it.
        meanings: `name`, `role`, whether it is `used` and the `reason` of each column: its content, or why it is not
            used.
        unsure: columns with values that may be classes or a number.
        regression: the target and the settings of a run that learns a number, or None.
        classification: the target and the settings of a run that learns classes, or None.
    """

    rows: int
    columns: tuple[dict[str, object], ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    meanings: tuple[dict[str, object], ...]
    unsure: frozenset[str]
    regression: dict[str, str] | None
    classification: dict[str, str] | None


def describe_table(spec: CsvSpec) -> TableDescription:
    """Return the description of every column of the table. The target need not be named.

    Raises:
        DataError: if the file is not a table.
    """
    grid = read_grid(spec).filled
    notes = list(grid.notes)
    found, _ = read_columns(spec, grid, range(len(grid.header)), notes)
    columns = [found[position] for position in range(len(grid.header))]
    notes += [note for column in columns for note in column.notes]
    notes += [*grid.faults[:20], *_suspicions(grid, columns), *years(spec, columns)]
    stated = [] if spec.target in (None, MISSING, "") else choose_columns("target", spec.target, grid.header)
    possible = [column for place, column in enumerate(columns) if place in stated or not (stated or column.useless)]
    meant = {column.name: class_or_number(column) for column in possible}
    numeric = [
        column for column in possible if column.kind == "number" and (not stated or meant[column.name] != "classes")
    ]
    kinds = ("category", "yes/no", "number")
    classes = [column for column in possible if meant[column.name] != "number" and column.kind in kinds]
    learned, told = _last(numeric, classes), _last(classes, numeric)
    tasks = {"regression": [(learned, False)], "classification": [(told, True)]}
    either = [*tasks["regression"], *(tasks["classification"] if told is not learned else [])]
    leaking = tasks.get(spec.task or "", either)
    codes = {column.name for group in seeming_codes(spec, grid, columns).values() for column in group}
    rows = [_row(grid, column, "code, as numbers" if column.name in codes else "") for column in columns]
    return TableDescription(
        rows=len(grid.cells),
        columns=tuple(rows),
        notes=tuple(notes),
        warnings=tuple(_warnings(spec, grid, columns, [(each, kind) for each, kind in leaking if each is not None])),
        meanings=tuple(
            _meaning(spec, grid, column, row, "code" if column.name in codes else column.role)
            for column, row in zip(columns, rows, strict=True)
        ),
        unsure=frozenset(name for name, what in meant.items() if what == "either"),
        regression=_settings(spec, columns, learned),
        classification=_settings(spec, columns, told),
    )


def _warnings(
    spec: CsvSpec, grid: Grid, columns: Sequence[Column], targets: Sequence[tuple[Column, bool]]
) -> list[str]:
    """Return the doubts about the columns that a run would use, and about inputs that reveal a target."""
    out = {*split_columns(spec, "ignore", grid.header)}
    used = [column for column in columns if not column.useless and column.name not in out]
    said = doubts(spec, grid, used, split_columns(spec, "target", grid.header))
    for target, classes in targets:
        said += leaks(spec, [column for column in used if column is not target], target, classes=classes)
    return said


def ask_target(path: str, task: Task = "regression") -> DataError:
    """Return the error for a table without a named target: columns and a guess, of classes if the task has them."""
    spec = CsvSpec(path=path)
    found = describe_table(spec)
    names = few([str(column["column"]) for column in found.columns])
    guesses = (found.regression, found.classification)
    run = (guesses[1] or guesses[0]) if task == "classification" else (guesses[0] or guesses[1])
    told = "which column is to be predicted?" + (" Perhaps:" if run else "")
    fix = {"dataset.target": run["target"]} if run else None
    return DataError(f"dataset.target: {told}\ncolumns: {names}", key="dataset.target", fix=fix)


def _row(grid: Grid, column: Column, read_as: str) -> dict[str, object]:
    given = column.values[~np.isnan(column.values)]
    if column.kind == "date" and len(given):
        first, last = (_EPOCH + np.timedelta64(int(day), "D") for day in (given.min(), given.max()))
        shown = f"{first} to {last}"
    elif column.levels:
        rest = f", ... ({len(column.levels)})" if len(column.levels) > _SHOWN_LEVELS else ""
        shown = ", ".join(shorten(level, 30) for level in column.levels[:_SHOWN_LEVELS] if level) + rest
    else:
        shown = f"{given.min():g} to {given.max():g}" if len(given) else ""
    texts = sorted({text for text in grid.cells[column.gaps, grid.header.index(column.name)].tolist() if text})
    remarks = [column.useless and f"left out as an input: {column.useless}"]
    if texts:
        remarks.append(f"read as missing: {', '.join(repr(shorten(text, 20)) for text in texts[:3])}")
    for row, cell in list(column.bad.items())[:1]:
        where = f"as {shorten(cell)!r} in line {grid.lines[row]}"
        remarks.append(f"{counted(len(column.bad), 'cell')} cannot be read, {where}")
    return {
        "column": column.name,
        "read as": read_as or column.role.replace("_", "/"),
        "unit": grid.units.get(column.name, ""),
        "values": shown,
        "different": len(np.unique(given)),
        "missing": int(column.gaps.sum()),
        "remark": "; ".join(filter(None, remarks)),
    }


def _meaning(spec: CsvSpec, grid: Grid, column: Column, row: Mapping[str, object], role: Role) -> dict[str, object]:
    """Return name, role, use and reason of a column, for scripts."""
    chosen = {key: split_columns(spec, key, grid.header) for key in ("ignore", "inputs", "target")}
    reason = column.useless
    if column.name in chosen["ignore"]:
        reason = "dataset.ignore names it"
    elif not all_others(spec, grid.header) and column.name not in (*chosen["inputs"], *chosen["target"]):
        reason = "dataset.inputs does not name it"
    told = ". ".join([f"{row['different']} different: {row['values']}", *column.notes])
    return {"name": column.name, "role": role, "used": not reason, "reason": reason or told}


def split_columns(spec: CsvSpec, key: str, header: Sequence[str]) -> list[str]:
    """Return the names of the columns that a setting names, if it is set."""
    value = getattr(spec, key)
    if value in (None, MISSING, "", "null"):
        return []
    return [header[place] for place in choose_columns(key, value, header)]


def _suspicions(grid: Grid, columns: Sequence[Column]) -> list[str]:
    """Return sentences on common problems: copies, rows in order of time, marks for missing values, gaps."""
    notes = []
    different = any(len(grid.column(position).texts) == len(grid.cells) for position in range(len(columns)))
    copies = 0 if different else len(grid.cells) - len(set(map(tuple, grid.cells.tolist())))
    if copies:
        notes.append(f"{copies} of {len(grid.cells)} rows are copies of others: guarantees need independent rows")
    for column in columns:
        given = column.values[~np.isnan(column.values)]
        steps = np.diff(given)
        if column.kind == "date" and len(given) > 2 and ((steps >= 0).all() or (steps <= 0).all()):
            notes.append(f"the rows are in the order of {shorten(column.name)!r}: a random split mixes past and future")
    used = [column.unread for column in columns if not column.useless]
    rows = np.any(used, axis=0) if used else np.zeros(0, dtype=bool)
    if rows.any():
        notes.append(f"{int(rows.sum())} of {len(rows)} rows have a missing value: see dataset.missing")
    return notes


def _last(columns: Sequence[Column], others: Sequence[Column]) -> Column | None:
    """Return the last column that is not among the others, otherwise the last one."""
    first = [column for column in columns if column not in others]
    chosen = first or list(columns)
    return chosen[-1] if chosen else None


def _settings(spec: CsvSpec, columns: Sequence[Column], target: Column | None) -> dict[str, str] | None:
    """Return the settings of a run with this target, or None if there is no target or no input."""
    others = [column for column in columns if column is not target]
    if target is None or all(column.useless for column in others):
        return None
    settings = {"path": spec.path, "target": target.name}
    ignored = [column.name for column in others if column.unread.sum() > 0.2 * len(column.gaps) and not column.useless]
    if ignored and len(ignored) < len(others):
        settings["ignore"] = name_list(ignored)
    return settings
