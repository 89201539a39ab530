"""All results as one DataFrame: what runs wrote, and what the papers say."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpsuite.errors import ResultsError
from gpsuite.plugins import shipped_conf_dir
from gpsuite.reporting.collect import RunFolder, find_runs, rows_of_runs
from gpsuite.reporting.comparison import ComparisonRow, Statistic, read_paper_values, read_statistics
from gpsuite.reporting.files import list_folder, present, read_bytes, read_mapping
from gpsuite.text import typed_path

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]
COLUMNS = ("experiment", "dataset", "method", "metric", "value", "error", "n", "published_value", "verdict", "path")
CELLS = ("experiment", "table", "row", "about", "column", "value", "error", "path")
_AXES = re.compile(r"([^\[\]]+)\[(.*)\]")
_NEXT = re.compile(r",(?=[^,=]+=)")  # a value may hold a comma
_NUMBER = r"[-−+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_CELL = re.compile(rf"({_NUMBER})(?: ± ({_NUMBER}))?")


def results(results_dir: str | Path = "results", *, numbers: bool = False) -> pd.DataFrame:
    """Return every number of every run as a table: the user's runs, and published ones without a user's run.

    A row is a number of a run, with the paper's value that it is compared with and the verdict, if there is one. A
    paper's value that no number of the run answers has a row without a value.

    Args:
        results_dir: the folder that runs write to.
        numbers: return the cells of all tables instead, one per row, with the texts of their line in `about`.

    Raises:
        FileNotFoundError: if there is no run in the folder.
    """
    import pandas as pd

    folder = typed_path(str(results_dir))
    runs = find_runs(folder)
    if not runs:
        raise FileNotFoundError(f"{folder}: no runs. Give the folder that runs write to, such as results('results')")
    if numbers:
        return pd.DataFrame(_readable(runs, _cells), columns=list(CELLS))
    compared = rows_of_runs(folder, shipped_conf_dir())
    answers = {value.id: value.statistic for value in read_paper_values(shipped_conf_dir())}
    rows = _readable(runs, lambda run: _rows(run, compared.get(run.path, []), answers))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"value": float, "error": float, "n": "Int64"})


def _readable(runs: Sequence[RunFolder], rows: Callable[[RunFolder], Iterator[Row]]) -> list[Row]:
    """Return the rows of all runs. One whose files cannot be read is named in a warning."""
    found: list[Row] = []
    for run in runs:
        try:
            found += list(rows(run))
        except ResultsError as error:
            warnings.warn(f"left out: {error}", stacklevel=3)
    return found


def _rows(run: RunFolder, compared: list[ComparisonRow], answers: dict[str, str]) -> Iterator[Row]:
    found = run.path / "tables" / "statistics.csv"
    statistics = read_statistics(found.parent) if present(found) else []
    about = _dataset(run)
    named: dict[str, list[ComparisonRow]] = {}
    for row in compared:
        named.setdefault(answers.get(row.id, ""), []).append(row)
    for statistic in statistics:
        for row in named.pop(statistic.name, None) or [None]:  # type: ignore[list-item]
            yield _row(run, about, statistic, row)
    for name, rest in named.items():
        for row in rest:
            lost = Statistic(
                name or row.quantity, float("nan") if row.ours is None else row.ours, row.standard_error, row.n
            )
            yield _row(run, about, lost, row)


def _row(run: RunFolder, about: str, statistic: Statistic, row: ComparisonRow | None) -> Row:
    """Return a row: dataset and method by the number's name, otherwise by the paper's value, otherwise by the run."""
    metric, axes = _parts(statistic.name)
    dataset = axes.pop("dataset", "") or (row.dataset if row else "") or about
    method = axes.pop("method", "") or (row.method if row else "")
    inside = ",".join(f"{name}={value}" for name, value in axes.items())
    shown = f"{metric}[{inside}]" if inside else metric
    number = (statistic.value, statistic.standard_error, statistic.n)
    told = (row.published, row.verdict) if row else ("", "")
    return (run.experiment, dataset, method, shown, *number, *told, str(run.path))


def _parts(name: str) -> tuple[str, dict[str, str]]:
    """Return metric and axes of `metric[axis=value,...]`."""
    found = _AXES.fullmatch(name)
    if found is None:
        return name, {}
    pairs = [each.partition("=") for each in _NEXT.split(found[2])]
    return found[1], {axis: value for axis, _, value in pairs}


def _dataset(run: RunFolder) -> str:
    about = (read_mapping(run.path / "run.json") or {}).get("dataset")
    return str(about.get("name", "")) if isinstance(about, dict) else ""


def _cells(run: RunFolder) -> Iterator[Row]:
    """Yield the cells with numbers of a run's tables: of the tidy form of a table if there is one."""
    tables = [path for path in list_folder(run.path / "tables") if path.suffix == ".csv" and path.stem != "statistics"]
    stems = {path.stem for path in tables}
    for path in tables:
        if f"{path.stem}_tidy" not in stems:
            for number, line in enumerate(_lines(path)):
                numbers = {name: _CELL.fullmatch(cell.strip()) for name, cell in line.items()}
                about = ", ".join(
                    f"{name}={line[name]}" for name, cell in numbers.items() if cell is None and line[name]
                )
                for name, cell in numbers.items():
                    if cell is not None:
                        yield (run.experiment, path.stem, number, about, name, *_value(cell), str(run.path))


def _value(cell: re.Match[str]) -> tuple[float, float]:
    value, error = (float(each.replace("−", "-")) if each else float("nan") for each in cell.groups())
    return value, error


def _lines(path: Path) -> Iterator[dict[str, str]]:
    try:
        reader = csv.DictReader(io.StringIO(read_bytes(path).decode("utf-8"), newline=""), restval="")
        for line in reader:
            yield {name: cell for name, cell in line.items() if name is not None}
    except (OSError, ValueError, csv.Error) as error:
        raise ResultsError(f"{path}: cannot be read: {error}", key=str(path)) from error
