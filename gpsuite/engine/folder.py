"""The folder of a run: its path, its lock, its files, and its records packed for publication."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import yaml

from gpsuite.atomic import remove_leftovers
from gpsuite.engine.plans import read_plan
from gpsuite.engine.store import RecordStore, StoredRecord, check_record, pack
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    ERROR,
    EXPERIMENTS,
    INFEASIBLE,
    SKIPPED,
    Record,
    Report,
    Request,
    import_family,
)
from gpsuite.reporting.comparison import compare, read_paper_values, write_comparison, write_statistics
from gpsuite.reporting.files import cannot, read_bytes, read_mapping, write_bytes, write_text
from gpsuite.reporting.publish import note_written, remove_stale
from gpsuite.text import visible
from gpsuite.untrusted import guard_links, refuse_links

PLAN, RUN, CONFIG, RECORDS = "plan.json", "run.json", "config.yaml", "records.csv"
# science keys with values in the names of statistics. A run without one of the datasets has fewer statistics, but the
# others are the same as in the shipped experiment
NAMED = ("datasets",)
# endings of the files of a figure or table, by folder
ENDINGS_OF = {"figures": (".png", ".pdf", ".csv"), "tables": (".csv", ".md", ".tex")}
# words for the bad ends of tasks
ENDINGS = {
    BUDGET: "ended with their budget",
    DIVERGED: "diverged",
    ERROR: "failed",
    INFEASIBLE: "were not possible",
    SKIPPED: "were skipped",
}


@dataclass(frozen=True)
class Summary:
    """Statements about a run, in addition to its files.

    Attributes:
        notes: limitations of its tables and figures.
        not_comparable: reason why it must not be compared with the paper, or empty.
        answer: answer for the user at the end of the run.
        warnings: warnings for the user, with the answer.
    """

    notes: Sequence[str]
    not_comparable: str = ""
    answer: Sequence[str] = ()
    warnings: Sequence[str] = ()


def run_folder(results_dir: Path, experiment: str, scale: str, tag: str | None) -> Path:
    """Return results/<family>/<name>/<scale>[~<tag>]."""
    return guard_links(results_dir) / experiment / (f"{scale}~{tag}" if tag else scale)


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold the folder's lock. The system releases it when this process ends, for any reason.

    Raises:
        ResultsError: if another run holds it and `wait` is false, the folder cannot be written, or a link in it leads
            out of the results.
    """
    refuse_links(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / ".lock")
        lock.acquire(timeout=-1 if wait else 0)
    except filelock.Timeout:
        raise ResultsError(
            f"{folder}: another run is writing here\nwait for it, add wait=true, or give this run run_name=NAME",
            key="run_name",
        ) from None
    except OSError as error:
        raise ResultsError(
            f"results_dir: cannot write {folder}: {error.strerror or error}\nchoose another place with results_dir=DIR",
            key="results_dir",
        ) from error
    try:
        remove_leftovers(folder, *(folder / name for name in (*ENDINGS_OF, "artifacts")))
        yield
    finally:
        lock.release()


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object, or None if the file is absent or damaged."""
    try:
        return read_mapping(path)
    except ResultsError:
        return None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object atomically."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_records(folder: Path, records: Sequence[Record]) -> None:
    """Write records.csv, one tidy row per task in the plan's order: key, axes, status, reason, metrics, timing."""
    axes, metrics, timing = (
        list(dict.fromkeys(name for record in records for name in getattr(record, part)))
        for part in ("axes", "metrics", "timing")
    )
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["key", *axes, "status", "reason", *metrics, *timing])
    for record in records:
        cells = [record.axes.get(name) for name in axes]
        cells += [record.status, record.reason]
        cells += [record.metrics.get(name) for name in metrics]
        cells += [record.timing.get(name) for name in timing]
        writer.writerow([record.key, *("" if cell is None else cell for cell in cells)])
    write_text(folder / RECORDS, buffer.getvalue())


def copy_arrays(folder: Path, records: Sequence[Record], store: RecordStore) -> None:
    """Copy every record's npz into artifacts/: the user's changes there do not affect the record.

    Published records have no copies. Copies of an earlier plan are removed. Other files are kept.

    Raises:
        ResultsError: if a record cannot be read, or a copy not be written.
    """
    artifacts = folder / "artifacts"
    paths = (store.arrays_path(each.key) for each in records if each.arrays)
    sources = {path.name: path for path in paths if path.exists()}
    remove_stale(artifacts, sources)
    for name, source in sources.items():
        try:
            content = read_bytes(source)
        except OSError as error:
            raise cannot("read", source, error) from error
        if not _is_copy(artifacts / name, source, content):
            write_bytes(artifacts / name, content)
    note_written(artifacts, sources)


def _is_copy(path: Path, source: Path, content: bytes) -> bool:
    """Return whether a file has this content and is not a link to the source."""
    try:
        return not path.is_symlink() and not path.samefile(source) and read_bytes(path) == content
    except OSError:
        return False


def pack_run(experiment: str, plan: Path, results_dir: Path) -> bytes:
    """Return the archive of the records of a run's plan.json, with the arrays that its experiment publishes.

    Raises:
        ResultsError: if the plan is missing or damaged, or a record is missing: a publication must be complete.
    """
    planned = read_plan(plan)
    if planned is None:
        raise ResultsError(f"{plan}: missing. Run the experiment again", key=str(plan))
    store = RecordStore(results_dir, experiment.split("/")[0])
    stored: dict[str, StoredRecord] = {}
    for task in planned.tasks:
        if (found := store.checksummed(task.key)) is None:
            fault = f"{plan}: record {task.key} is missing or damaged. Run the experiment again"
            raise ResultsError(fault, key=str(plan))
        stored[task.key] = found
    import_family(experiment)
    names = EXPERIMENTS.get(experiment).published([check_record(*pair, partly=True) for pair in stored.items()])
    return pack(
        StoredRecord(each.fields, {name: array for name, array in each.arrays.items() if name in kept})
        for each, kept in zip(stored.values(), names, strict=True)
    )


def write_config(folder: Path, request: Request[object], command: Sequence[str]) -> None:
    """Write the composed configuration as config.yaml, with the command that requested it as a comment."""
    text = yaml.safe_dump(dict(request.options), sort_keys=False, allow_unicode=True)
    write_text(folder / CONFIG, f"# {visible(' '.join(command))}\n{text}")


def write_results(
    request: Request[object],
    records: Sequence[Record],
    folder: Path,
    conf_dir: Path,
    changed: Sequence[str],
    parts: Mapping[str, str],
    below_paper: str,
) -> Summary:
    """Write tables, figures, statistics and the comparison. It has no rows if the run must not be compared."""
    below = [below_paper] if below_paper else []
    notes = [*parts.values(), *below, *limitations(request, records)]
    why_not = not_comparable(request, records, [key for key in changed if key not in parts])
    values = read_paper_values(conf_dir, request.experiment)
    printed = {} if why_not else {each.statistic: n for each in values if (n := each.number) is not None}
    report = Report(request, records, folder, "; ".join(notes) or None, printed, not why_not)
    statistics = []
    if report.records():
        statistics = EXPERIMENTS.get(request.experiment).summarise(report)
        write_statistics(folder / "tables", statistics)
    else:
        impossible = [each for each in records if each.status in (INFEASIBLE, SKIPPED)]
        report.answer.extend(dict.fromkeys(each.reason for each in impossible))
        report.warnings.extend(dict.fromkeys(text for each in impossible for text in each.warnings))
    report.answer.extend(request.doubts)
    _clear_earlier(report)
    write_comparison(folder, [] if why_not else compare(values, statistics))
    return Summary(notes, why_not if values else "", report.answer, report.warnings)


def _clear_earlier(report: Report[object]) -> None:
    """Remove figures and tables of an earlier summary that this one did not write: their names have changed."""
    for folder, endings in ENDINGS_OF.items():
        names = [name.partition("/")[2] for name in report.written if name.startswith(f"{folder}/")]
        files = [f"{name}{ending}" for name in names for ending in endings]
        remove_stale(report.folder / folder, files)
        note_written(report.folder / folder, files)


def limitations(request: Request[object], records: Sequence[Record]) -> list[str]:
    """Return the limitations for readers of the figures: stand-in data, smoke scale, tasks that did not end well."""
    notes = []
    made_up = [data.name for data in request.prepared if data.stand_in]
    if made_up:
        notes.append(f"stand-in data, not {', '.join(made_up)}")
    if request.scale == "smoke":
        notes.append("smoke scale: not for conclusions")
    other = Counter(record.status for record in records if record.status != DONE)
    notes += [f"{count} of {len(records)} tasks {ENDINGS[status]}" for status, count in sorted(other.items())]
    return notes


def not_comparable(request: Request[object], records: Sequence[Record], changed: Sequence[str]) -> str:
    """Return why the run must not be compared with the paper, or an empty string."""
    if any(data.stand_in for data in request.prepared):
        return "stand-in data"
    if request.scale == "smoke":
        return "smoke scale"
    if request.budget_seconds is not None and any(record.status == BUDGET for record in records):
        return f"tasks ended by budget.seconds={request.budget_seconds:g}"
    differing = [key for key in changed if key not in NAMED]
    if differing:
        return f"settings differ from the shipped experiment: {', '.join(differing)}"
    return ""
