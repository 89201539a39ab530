"""The used rows of a table, and all their faults at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.layout import Grid
from gpsuite.data.table.names import choose_columns, csv_error, name_list, shorten
from gpsuite.data.table.roles import Column
from gpsuite.errors import DataError, unknown_name

MISSING_RULES = ("error", "drop_rows", "drop_columns")
LARGEST_LOSS = 0.2  # largest share of rows left out without a question
_SHOWN_FAULTS = 20


def complete_rows(
    spec: CsvSpec, grid: Grid, targets: Sequence[Column], inputs: list[Column], notes: list[str]
) -> tuple[BoolArray, list[Column]]:
    """Return which rows [N] are used, and which inputs.

    Rows with a gap are left out up to a fifth of all, unless `dataset.missing` states another treatment. Unreadable
    cells and rows of another length are left out only if `dataset.missing` allows it.

    Raises:
        DataError: if there are faults (it names all). Also if more than a fifth of the rows would be left out without
            the user's decision: it names the choices.
        UserError: if `dataset.missing` is unknown.
    """
    if spec.missing is not None and spec.missing not in MISSING_RULES:
        raise unknown_name("dataset.missing", spec.missing, MISSING_RULES)
    rule = spec.missing or ("error" if spec.strict else None)
    if rule == "drop_columns":
        inputs = _without_gaps(spec, inputs, notes)
    columns = [*targets, *inputs]
    faults = [] if rule == "drop_rows" else [*grid.faults, *bad_cells(grid, columns)]
    if rule == "error":
        faults += gap_cells(grid, columns)
    if faults:
        raise faulty(spec, grid, targets, inputs, faults)
    kept: BoolArray = ~np.any([column.unread for column in columns], axis=0)
    lost, ragged = int((~kept).sum()), len(grid.faults)
    if rule is None and lost > LARGEST_LOSS * len(kept):
        raise _too_many(spec, grid, targets, inputs, lost, len(kept))
    if lost:
        where = [
            f"{shorten(each.name)!r} {int(each.gaps.sum())}{_as_what(grid, each)}"
            for each in columns
            if each.gaps.any()
        ]
        where += [f"{shorten(each.name)!r} {len(each.bad)} that cannot be read" for each in columns if each.bad]
        notes.append(f"{lost} of {len(kept)} rows left out, a value is missing: {', '.join(where)}")
    if ragged:
        notes.append(f"{ragged} of {ragged + len(kept)} rows left out: {'; '.join(grid.faults[:3])}")
    return kept, inputs


def _as_what(grid: Grid, column: Column) -> str:
    """Return the texts that were read as missing, as ` ('NA')`, or an empty string if the cells are empty."""
    texts = dict.fromkeys(grid.cells[column.gaps, grid.header.index(column.name)].tolist())
    shown = ", ".join(repr(shorten(text, 20)) for text in list(texts)[:3] if text)
    return f" ({shown})" if shown else ""


def faulty(
    spec: CsvSpec, grid: Grid, targets: Sequence[Column], inputs: Sequence[Column], faults: Sequence[str]
) -> DataError:
    """Return the error that names every fault, with the settings under which the other cells can be used."""
    columns = [*targets, *inputs]
    lost = int(np.any([column.unread for column in columns], axis=0).sum())
    worst = [column.name for column in inputs if column.unread.sum() > LARGEST_LOSS * len(grid.cells)]
    text = shown_faults(faults)
    if worst and len(worst) < len(inputs) and not grid.faults:
        advice = f"fix {_them(faults)}, or leave out what does not hold numbers:"
        return csv_error("path", spec.path, text, advice, fix=leaving_out(spec, grid.header, inputs, worst))
    if lost < len(grid.cells) // 2:
        ragged = len(grid.faults)
        advice = f"fix {_them(faults)}, or leave out {lost + ragged} of {len(grid.cells) + ragged} rows:"
        return csv_error("path", spec.path, text, advice, fix={"missing": "drop_rows"})
    return csv_error("path", spec.path, text, f"fix {_them(faults)}")


def shown_faults(faults: Sequence[str]) -> str:
    """Return the faults on one line, at most the first twenty."""
    if len(faults) == 1:
        return faults[0]
    more = f", and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
    return f"{len(faults)} faults: {'; '.join(faults[:_SHOWN_FAULTS])}{more}"


def bad_cells(grid: Grid, columns: Sequence[Column]) -> list[str]:
    """Return a sentence for each cell that does not fit its column, or a single one if most of a column's are texts."""
    faults = []
    for column in columns:
        name, texts = shorten(column.name), list(column.bad.values())
        if column.kind != "category" and len(texts) > max(len(grid.cells) // 2, 1):
            faults.append(f"column {name!r} holds texts, as {shorten(texts[0])!r}: numbers are needed")
            continue
        faults += [f"line {grid.lines[row]}, column {name!r}: {_why(column, text)}" for row, text in column.bad.items()]
    return faults


def gap_cells(grid: Grid, columns: Sequence[Column]) -> list[str]:
    """Return a sentence for each cell without a value."""
    return [
        f"line {grid.lines[row]}, column {shorten(column.name)!r}: {_gap(grid, column, int(row))}"
        for column in columns
        for row in np.flatnonzero(column.gaps)
    ]


def _why(column: Column, text: str) -> str:
    if column.kind == "category":
        return f"{shorten(text)!r} is not a label. Labels are integers or texts"
    try:
        float(text)
    except ValueError:
        return f"{shorten(text)!r} is not a number"
    return f"{shorten(text)!r} is not a finite number" if "_" not in text else f"{shorten(text)!r} is not a number"


def _gap(grid: Grid, column: Column, row: int) -> str:
    text = grid.cells[row, grid.header.index(column.name)]
    return f"{shorten(text)!r} marks a missing value" if text else "the cell is empty"


def _them(faults: Sequence[str]) -> str:
    return "it" if len(faults) == 1 else "them"


def leaving_out(spec: CsvSpec, header: Sequence[str], inputs: Sequence[Column], names: Sequence[str]) -> dict[str, str]:
    """Return the setting that leaves out inputs: fewer `inputs` if they were named, otherwise more to `ignore`."""
    if not all_others(spec, header):
        return {"inputs": name_list([column.name for column in inputs if column.name not in names])}
    before = [] if spec.ignore is None else choose_columns("ignore", spec.ignore, header)
    return {"ignore": name_list([*(header[column] for column in before), *names])}


def all_others(spec: CsvSpec, header: Sequence[str]) -> bool:
    """Return whether the inputs are all columns without another use. `dataset.inputs=null` is a text here."""
    return spec.inputs is None or (spec.inputs == "null" and "null" not in header)


def _without_gaps(spec: CsvSpec, inputs: list[Column], notes: list[str]) -> list[Column]:
    kept = [column for column in inputs if not column.unread.any()]
    if not kept:
        raise csv_error(
            "missing",
            spec.missing,
            "every input has gaps, none is left",
            "leave out rows:",
            fix={"missing": "drop_rows"},
        )
    notes += [
        f"column {shorten(column.name)!r} left out, {int(column.unread.sum())} values are missing"
        for column in inputs
        if column.unread.any()
    ]
    return kept


def _too_many(
    spec: CsvSpec, grid: Grid, targets: Sequence[Column], inputs: Sequence[Column], lost: int, rows: int
) -> DataError:
    """Return the question whether to leave out the emptiest columns or the rows."""
    text = f"{lost} of {rows} rows have a missing value: more than a fifth, so it is yours to choose"
    all_rows = f"dataset.missing=drop_rows keeps {rows - lost} rows with all columns"
    worst = sorted((column for column in inputs if column.gaps.any()), key=lambda column: -int(column.gaps.sum()))
    for count in range(1, min(len(worst), len(inputs) - 1) + 1):
        others = [*targets, *(column for column in inputs if column not in worst[:count])]
        left = int((~np.any([column.gaps for column in others], axis=0)).sum())
        if rows - left <= LARGEST_LOSS * rows:
            names = [column.name for column in worst[:count]]
            less = f"{all_rows}. Without {', '.join(map(shorten, names))} {left} rows are left:"
            return csv_error("path", spec.path, text, less, fix=leaving_out(spec, grid.header, inputs, names))
    if rows - lost >= 10:
        return csv_error("path", spec.path, text, all_rows, fix={"missing": "drop_rows"})
    labelled = int((~np.any([column.gaps for column in targets], axis=0)).sum())
    if labelled >= 10 and any(not column.gaps.any() for column in inputs):
        columns = f"without the columns that have gaps {labelled} rows are left:"
        return csv_error("path", spec.path, text, columns, fix={"missing": "drop_columns"})
    return csv_error("path", spec.path, text, "fill the gaps, or name fewer columns by dataset.inputs=[...]")


def check_spread(path: str, numbers: FloatArray, names: Sequence[str], key: str = "path") -> None:
    """Raise if columns [N, K] vary, but their variance overflows or underflows float64. NaN does not count.

    Raises:
        DataError: naming every such column.
    """
    low, high = np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = np.nanstd(numbers, axis=0)
    wrong = np.flatnonzero((low < high) & (~np.isfinite(deviation) | (deviation == 0.0)))
    if len(wrong):
        text = "; ".join(
            f"column {shorten(names[column])!r} goes from {low[column]:g} to {high[column]:g}" for column in wrong[:20]
        )
        fix = "write it in a larger or smaller unit"
        raise csv_error(key, path, f"{text}: its variance cannot be computed", fix)
