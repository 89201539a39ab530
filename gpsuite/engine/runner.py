"""A run from its request to its results: plan, skip stored tasks, compute and store the others, summarise."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from gpsuite import __version__
from gpsuite.atomic import remove_leftovers
from gpsuite.engine.backends import Group, Local, LokyPool, run_pool, run_serial
from gpsuite.engine.cluster import DaskPool
from gpsuite.engine.folder import (
    PLAN,
    RUN,
    Summary,
    copy_arrays,
    locked,
    read_json,
    run_folder,
    write_config,
    write_json,
    write_records,
    write_results,
)
from gpsuite.engine.keys import task_key
from gpsuite.engine.plans import RunOptions, plan_tasks, read_plan, with_data_of
from gpsuite.engine.progress import FOLDER as PROGRESS_FOLDER
from gpsuite.engine.progress import Progress, ProgressFolder, clock, describe, progress, tell
from gpsuite.engine.provenance import dataset_provenance, git_state, machine, versions
from gpsuite.engine.store import RecordStore, satisfies
from gpsuite.engine.worker import peak_memory_mb
from gpsuite.errors import DataError, ResultsError, UserError
from gpsuite.experiments.base import ERROR, INFEASIBLE, SKIPPED, Record, Request, Task
from gpsuite.reporting.files import cannot
from gpsuite.text import visible
from gpsuite.untrusted import inside
from gpsuite.waiting import doing, done

NAME = "run.log"
LONG_SECONDS = 300.0  # longer estimates are printed before the work begins
AUTO_SERIAL_SECONDS = 60.0  # below this much work, starting workers takes longer than it saves


class RunLog:
    """Lines with their time in run.log. A resumed run appends to it. There are no lines before a computation."""

    def __init__(self, path: Path, command: str) -> None:
        self.path, self.command = path, command
        self._begun = False

    def begin(self, stored: int, total: int) -> None:
        """Write the request, its versions, and the number of open tasks."""
        self._begun = True
        commit = git_state()
        state = f", commit {str(commit['commit'])[:12]}{' (dirty)' if commit['dirty'] else ''}"
        self._write(f"{self.command}  (gpsuite {__version__}{state if commit['commit'] else ''})")
        self._write(f"{total - stored} of {total} tasks to compute")

    def record(self, record: Record) -> None:
        """Write how a task ended."""
        self._write(describe(record))

    def end(self, counts: Mapping[str, int]) -> None:
        """Write how all tasks of the plan ended."""
        if self._begun:
            ends = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
            self._write(f"ended: {ends}")

    def _write(self, text: str) -> None:
        line = f"{datetime.now(tz=UTC).isoformat(timespec='seconds')} {visible(text)}\n"
        try:
            with inside(self.path).open("a", encoding="utf-8") as stream:
                stream.write(line)
        except OSError as error:
            raise cannot("write", self.path, error) from error


def groups_of(tasks: Sequence[Task[object]]) -> list[Group]:
    """Return tasks by group, in order of first appearance. A task without group name is a group."""
    gathered: dict[str, list[Task[object]]] = {}
    for number, task in enumerate(tasks):
        gathered.setdefault(task.group or f"#{number}", []).append(task)
    return list(gathered.values())


def choose_mode(mode: str, groups: Sequence[Group], workers: int) -> str:
    """Return the mode. `auto` becomes processes from about a minute of work on if that can help, otherwise serial."""
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
    """Run the missing tasks and store each record when its task ends. Return the failures by key."""
    failed: dict[str, Record] = {}
    seconds, quiet = sum(task.cost for task in missing), options.format == "quiet"
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
            f"about {clock(seconds)} of one core's work, roughly estimated. "
            f"An interruption loses the {lost} in flight only"
        )
    log.begin(total - len(missing), total)
    with progress(f"{request.experiment} {request.scale}", len(missing), quiet=quiet) as shown:
        if options.force:
            store.forget_states(task_key(task) for task in missing)
        for record in _stored_records(groups_of(missing), options, folder / PROGRESS_FOLDER, store, shown):
            log.record(record)
            shown.advance(record)
            if record.status == ERROR:
                failed[record.key] = record
                if options.raise_errors:
                    raise TaskFailedError(record, store.traceback_path(record.key))
    return failed


def _stored_records(
    groups: Sequence[Group], options: RunOptions, progress_dir: Path, store: RecordStore, shown: Progress
) -> Iterator[Record]:
    workers = min(options.workers or os.cpu_count() or 1, len(groups))
    mode = choose_mode(options.mode, groups, workers)
    if mode == "processes":
        followed = ProgressFolder(progress_dir, shown.running)
        followed.clear()  # remains of a killed run
        try:
            with closing(LokyPool(workers, options.threads)) as pool:
                yield from run_pool(groups, pool, options.threads, Local(followed, store, options.began, options.force))
        finally:
            followed.clear()
        return
    for record in _unstored_records(mode, groups, options, store, shown):
        store.put(record)
        yield record


def _unstored_records(
    mode: str, groups: Sequence[Group], options: RunOptions, store: RecordStore, shown: Progress
) -> Iterator[Record]:
    if mode == "serial":
        yield from run_serial(
            groups,
            options.threads,
            lambda report: shown.running([] if report is None else [report]),
            store,
            options.began,
            force=options.force,
        )
        return
    # a cluster's workers may be on machines without these folders
    with closing(DaskPool(options.address or "", options.threads, options.workers)) as pool:
        yield from run_pool(groups, pool, options.threads)


class TaskFailedError(Exception):
    """Raised if a task failed and `on_error=raise` was requested."""

    def __init__(self, record: Record, trace: Path) -> None:
        super().__init__(f"{record.label}: {record.reason}\ntraceback: {trace}")


class _Begun(NamedTuple):
    """Start of a run: calendar time, and time of a monotonic clock."""

    at: float
    clock: float


@dataclass(frozen=True)
class RunReport:
    """Result of a run: its folder, tasks by status, the failures, and its summary for the user."""

    folder: Path
    counts: Mapping[str, int]
    failures: tuple[tuple[str, str, Path], ...]  # label, reason, traceback file
    answer: Sequence[str] = ()
    warnings: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        """0, or 1 if a task failed, or 3 if the request is not possible: all tasks are infeasible or were skipped."""
        if self.failures:
            return 1
        return 3 if set(self.counts) in ({INFEASIBLE}, {SKIPPED}, {INFEASIBLE, SKIPPED}) else 0


def run_experiment(request: Request[object], options: RunOptions) -> RunReport:
    """Run every task of the request that is not stored yet, then write tables, figures and the comparison.

    Raises:
        UserError: before any work, if the plan or the folder is not usable.
        ResultsError: if results cannot be written. Stored records are kept.
    """
    folder = run_folder(options.results_dir, request.experiment, request.scale, options.tag)
    quiet = options.format == "quiet"
    doing("planning", quiet=quiet, line=True)
    tasks = plan_tasks(request, options.changed)
    request = with_data_of(request, tasks)
    store = RecordStore(options.results_dir, request.family)
    remove_leftovers(store.folder)
    with locked(folder, wait=options.wait):
        keys = [task_key(task) for task in tasks]
        planned = _planned_before(folder, options, keys)
        begun = _Begun(time.time(), time.monotonic())
        write_config(folder, request, options.command)
        write_json(folder / PLAN, _plan(request, options, tasks, keys))
        missing = _missing(tasks, keys, store, force=options.force)
        if missing or planned != keys:
            # until this plan has its tables, those in the folder are another plan's: an interruption leaves no finished
            # run
            (folder / RUN).unlink(missing_ok=True)
        log = RunLog(folder / NAME, " ".join(options.command))
        failed = compute(request, options, missing, store, folder, log, total=len(tasks))
        records = _read_records(tasks, keys, store, failed)
        doing("writing tables and figures", quiet=quiet, line=True)
        try:
            summary = _finish(request, options, folder, records, store, begun, len(missing), planned == keys)
        except OSError as error:
            raise cannot("write", folder, error) from error
        done()
        counts = Counter(record.status for record in records)
        log.end(counts)
    failures = tuple(_failures(records, store))
    return RunReport(folder, dict(counts), failures, summary.answer, summary.warnings)


def open_tasks(request: Request[object], options: RunOptions) -> list[Task[object]]:
    """Return the tasks of a request that would be computed: those without a stored or published record."""
    store, tasks = RecordStore(options.results_dir, request.family), plan_tasks(request, options.changed)
    return _missing(tasks, [task_key(task) for task in tasks], store, force=options.force)


def require_data(request: Request[object], options: RunOptions) -> None:
    """Raise if tasks need a dataset without its files. Stored records need no files.

    Raises:
        DataError: naming the file and its source.
    """
    if not any(data.absent for data in request.prepared):
        return
    for task in open_tasks(request, options):
        if task.dataset is not None and task.dataset.absent:
            raise DataError(task.dataset.absent, key="dataset")


def _missing(
    tasks: Sequence[Task[object]], keys: Sequence[str], store: RecordStore, *, force: bool
) -> list[Task[object]]:
    first = dict(zip(reversed(keys), reversed(tasks), strict=True))  # a plan may contain a computation twice
    return [
        task for key, task in reversed(first.items()) if force or not satisfies(store.get(key), task.budget_seconds)
    ]


def _read_records(
    tasks: Sequence[Task[object]], keys: Sequence[str], store: RecordStore, failed: Mapping[str, Record]
) -> list[Record]:
    """Return the plan's records in its order, with this plan's names.

    `failed` are the failures of this run by key. The run reports them even if an earlier answer is stored. A record
    that was damaged after it was stored is an error: results from only the others would be wrong.
    """
    found = []
    for task, key in zip(tasks, keys, strict=True):
        record = failed.get(key) or store.get(key)
        if record is None:
            raise ResultsError(
                f"{store.path(key)}: the record of {task.label} was removed or damaged during this run\n"
                "run the same command again",
                key=str(store.path(key)),
            )
        found.append(replace(record, experiment=task.experiment, label=task.label, axes=dict(task.axes)))
    return found


def _plan(
    request: Request[object], options: RunOptions, tasks: Sequence[Task[object]], keys: Sequence[str]
) -> dict[str, Any]:
    return {
        "experiment": request.experiment,
        "scale": request.scale,
        "tag": options.tag,
        "science": options.science,
        "changed": list(options.changed),
        "tasks": [
            {"key": key, "label": task.label, "budget_seconds": task.budget_seconds}
            for task, key in zip(tasks, keys, strict=True)
        ],
    }


def _planned_before(folder: Path, options: RunOptions, keys: Sequence[str]) -> list[str]:
    """Return the folder's tasks. Raise if its run_name has other settings, unless this run only adds tasks."""
    try:
        held = read_plan(folder / PLAN)
    except ResultsError:  # damaged, but run.json names the folder's run
        planned, other = [], (read_json(folder / RUN) or {}).get("science") != options.science
    else:
        planned = [] if held is None else [task.key for task in held.tasks]
        other = held is not None and held.science != options.science and not set(planned) < set(keys)
    if options.named and other:
        raise ResultsError(
            f"run_name={options.tag}: {folder} holds a run with other settings\n"
            "choose another run_name, or remove that folder",
            key="run_name",
        )
    return planned


def _finish(
    request: Request[object],
    options: RunOptions,
    folder: Path,
    records: Sequence[Record],
    store: RecordStore,
    begun: _Begun,
    computed: int,
    same_tasks: bool,
) -> Summary:
    write_records(folder, records)
    copy_arrays(folder, records, store)
    below = below_paper(request, options)
    try:
        summary = write_results(request, records, folder, options.conf_dir, options.changed, options.parts, below)
    except (UserError, OSError):
        raise
    except Exception as error:
        if computed == len(records):
            raise
        # another's record can be intact and still differ from what this experiment writes
        raise ResultsError(
            f"force=true: the stored records cannot be summarised ({type(error).__name__}: {str(error)[:100]})\n"
            "the same command with force=true computes them again",
            key="force",
            fix={"force": "true"},
        ) from error
    before, counts = read_json(folder / RUN) or {}, dict(Counter(record.status for record in records))
    same = same_tasks and (before.get("science"), before.get("tasks")) == (options.science, counts)
    if computed == 0 and same:
        # no record is new: the provenance is kept, and only the wording of sentences may differ
        if {**before, **_said(summary)} != before:
            write_json(folder / RUN, {**before, **_said(summary)})
        return summary
    write_json(folder / RUN, _provenance(request, options, records, store, begun, computed, summary))
    return summary


def below_paper(request: Request[object], options: RunOptions) -> str:
    """Return the parts of the paper's setting that `scale=paper` leaves out and the user has not changed."""
    stated = (options.meta or {}).get("below_paper") or {}
    if request.scale != "paper":
        return ""
    return ", ".join(text for key, text in stated.items() if key not in options.changed)


def _provenance(
    request: Request[object],
    options: RunOptions,
    records: Sequence[Record],
    store: RecordStore,
    begun: _Begun,
    computed: int,
    summary: Summary,
) -> dict[str, Any]:
    seconds = time.monotonic() - begun.clock
    meta = options.meta or {}
    return {
        "experiment": request.experiment,
        "title": meta.get("title"),
        "paper": meta.get("paper"),
        "figure": meta.get("figure"),
        "scale": request.scale,
        "tag": options.tag,
        "science": options.science,
        "changed": list(options.changed),
        "status": "failed" if any(record.status == ERROR for record in records) else "done",
        "command": list(options.command),
        "seed": request.seed,
        **dataset_provenance(request),
        "tasks": dict(Counter(record.status for record in records)),
        "computed": computed,
        "failures": [
            {"task": label, "reason": reason, "traceback": path.name}
            for label, reason, path in _failures(records, store)
        ],
        "left_out": list(options.parts.values()),
        **_said(summary),
        "below_paper": below_paper(request, options) or None,
        "versions": versions(),
        "git": git_state(),
        "machine": machine(),
        "threads": options.threads,
        "wall_seconds": round(seconds, 3),
        "cpu_seconds": round(sum(record.timing.get("cpu_seconds", 0.0) for record in records), 3),
        "peak_memory_mb": round(
            max([peak_memory_mb(), *(record.timing.get("peak_memory_mb", 0.0) for record in records)])
        ),
        "started": _iso(begun.at),
        "finished": _iso(begun.at + seconds),
    }


def _said(summary: Summary) -> dict[str, Any]:
    words = {"notes": list(summary.notes), "answer": list(summary.answer)}
    return {**words, "not_comparable": summary.not_comparable}


def _failures(records: Sequence[Record], store: RecordStore) -> list[tuple[str, str, Path]]:
    return [
        (record.label, record.reason, store.traceback_path(record.key)) for record in records if record.status == ERROR
    ]


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds")
