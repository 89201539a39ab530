"""One run's folder: its place, its lock, and the files the engine itself writes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock

from gpsuite.engine.store import RecordStore
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import Record
from gpsuite.reporting.atomic import cannot, write_bytes, write_text
from gpsuite.reporting.manifest import note_written, remove_stale
from gpsuite.reporting.reading import read_bytes, read_mapping

PLAN, RUN, CONFIG, RECORDS = "plan.json", "run.json", "config.yaml", "records.csv"


def run_folder(results_dir: Path, experiment: str, scale: str, tag: str | None) -> Path:
    """Return results/<family>/<name>/<scale>[~<tag>]."""
    return results_dir / experiment / (f"{scale}~{tag}" if tag else scale)


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[None]:
    """Hold the folder's lock; the system frees it when this process ends, however it ends.

    Raises:
        ResultsError: if another run holds it and `wait` is false, or the folder cannot be written.
    """
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
            f"results_dir: cannot write {folder}: {error.strerror or error}\n"
            "choose another place with results_dir=DIR",
            key="results_dir",
        ) from error
    try:
        yield
    finally:
        lock.release()


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object, or None when the file is absent or damaged."""
    try:
        return read_mapping(path)
    except ResultsError:
        return None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object atomically."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_records(folder: Path, records: Sequence[Record]) -> None:
    """Write records.csv, one tidy row per task in the plan's order."""
    write_text(folder / RECORDS, records_csv(records))


def records_csv(records: Sequence[Record]) -> str:
    """Return records as CSV: key, axes, status, reason, metrics, timing."""
    axes = _names(record.axes for record in records)
    metrics = _names(record.metrics for record in records)
    timing = _names(record.timing for record in records)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["key", *axes, "status", "reason", *metrics, *timing])
    for record in records:
        cells = [record.axes.get(name) for name in axes]
        cells += [record.status, record.reason]
        cells += [record.metrics.get(name) for name in metrics]
        cells += [record.timing.get(name) for name in timing]
        writer.writerow([record.key, *("" if cell is None else cell for cell in cells)])
    return buffer.getvalue()


def copy_arrays(folder: Path, records: Sequence[Record], store: RecordStore) -> None:
    """Put a copy of every record's npz into artifacts/: what is done to it there does not reach the record.

    Published records have none. Copies of an earlier plan are removed; files that are not ours stay.

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
    """Whether a file of its own, not a link to the source, has this content."""
    try:
        return not path.is_symlink() and not path.samefile(source) and read_bytes(path) == content
    except OSError:
        return False


def _names(maps: Iterator[Mapping[str, Any]] | Any) -> list[str]:
    """Return the keys of all maps, in order of first appearance."""
    return list(dict.fromkeys(name for one in maps for name in one))
