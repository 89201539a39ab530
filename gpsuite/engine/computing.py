"""The tasks that are missing: computed here, in worker processes or on a cluster, and stored as they end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from gpsuite.engine.backends import Group, Local, LokyPool, run_pool, run_serial
from gpsuite.engine.cluster import DaskPool
from gpsuite.engine.keys import task_key
from gpsuite.engine.log import RunLog
from gpsuite.engine.options import RunOptions
from gpsuite.engine.progress import Progress, clock, progress, tell
from gpsuite.engine.reports import FOLDER as REPORTS
from gpsuite.engine.reports import ReportFolder
from gpsuite.engine.store import RecordStore
from gpsuite.experiments.base import ERROR, Record, Request, Task

LONG_SECONDS = 300.0  # longer estimates are told before the work begins
AUTO_SERIAL_SECONDS = 60.0  # below this much work, starting workers costs more than it saves


def groups_of(tasks: Sequence[Task[object]]) -> list[Group]:
    """Return tasks gathered by group, groups in order of first appearance; no group name means alone."""
    gathered: dict[str, list[Task[object]]] = {}
    for number, task in enumerate(tasks):
        gathered.setdefault(task.group or f"#{number}", []).append(task)
    return list(gathered.values())


def choose_mode(mode: str, groups: Sequence[Group], workers: int) -> str:
    """Return the mode; `auto` becomes processes for about a minute of work or more, if it can help, else serial."""
    if mode != "auto":
        return mode
    seconds = sum(task.cost for tasks in groups for task in tasks)
    return "processes" if seconds > AUTO_SERIAL_SECONDS and len(groups) > 1 and workers > 1 else "serial"


def compute(
    request: Request[object],
    options: RunOptions,
    missing: Sequence[Task[object]],
    store: RecordStore,
    folder: Path,
    log: RunLog,
    *,
    total: int,
) -> dict[str, Record]:
    """Run what is missing and store each record as it ends; return the failures by key."""
    failed: dict[str, Record] = {}
    seconds, quiet = sum(task.cost for task in missing), options.output == "quiet"
    if len(missing) < total and not quiet:
        published = " or published" if store.published.used else ""
        tell(
            f"{request.experiment} {request.scale}: {total - len(missing)} of {total} tasks are stored{published} "
            "already, skipped (force=true computes them again)"
        )
    if not missing:
        return failed
    if seconds > LONG_SECONDS and not quiet:
        lost = "groups" if options.mode == "dask" else "tasks"
        tell(
            f"about {clock(seconds)} of one core's work, roughly estimated; "
            f"an interruption loses the {lost} in flight only"
        )
    log.begin(total - len(missing), total)
    with progress(f"{request.experiment} {request.scale}", len(missing), quiet=quiet) as shown:
        if options.force:
            store.forget_states(task_key(task) for task in missing)
        for record in _stored_records(groups_of(missing), options, folder / REPORTS, store, shown):
            log.record(record)
            shown.advance(record)
            if record.status == ERROR:
                failed[record.key] = record
                if options.raise_errors:
                    raise TaskFailedError(record, store.traceback_path(record.key))
    return failed


def _stored_records(
    groups: Sequence[Group], options: RunOptions, reports_dir: Path, store: RecordStore, shown: Progress
) -> Iterator[Record]:
    workers = min(options.workers or os.cpu_count() or 1, len(groups))
    mode = choose_mode(options.mode, groups, workers)
    if mode == "processes":
        reports = ReportFolder(reports_dir, shown.running)
        reports.clear()  # what a killed run left
        try:
            with closing(LokyPool(workers, options.threads)) as pool:
                yield from run_pool(groups, pool, options.threads, Local(reports, store))
        finally:
            reports.clear()
        return
    for record in _unstored_records(mode, groups, options, store.states, shown):
        store.put(record)
        yield record


def _unstored_records(
    mode: str, groups: Sequence[Group], options: RunOptions, states: Path, shown: Progress
) -> Iterator[Record]:
    if mode == "serial":
        yield from run_serial(
            groups, options.threads, lambda report: shown.running([] if report is None else [report]), states
        )
        return
    # a cluster's workers may be on machines that do not see these folders
    with closing(DaskPool(options.address or "", options.threads, options.workers)) as pool:
        yield from run_pool(groups, pool, options.threads)


class TaskFailedError(Exception):
    """A task failed and `on_error=raise` was asked for."""

    def __init__(self, record: Record, trace: Path) -> None:
        super().__init__(f"{record.label}: {record.reason}\ntraceback: {trace}")
