"""Running tasks inside one process: threads, timing, memory and failures."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpsuite.engine.keys import task_key
from gpsuite.engine.progress import Reporter, Send, send_to_file, tell_ended
from gpsuite.engine.provenance import origin, state_commit
from gpsuite.engine.store import RecordStore, require_storable, satisfies
from gpsuite.experiments.base import BUDGET, ERROR, EXPERIMENTS, Outcome, Record, SharedWork, Task, import_family
from gpsuite.untrusted import refuse_links

PARENT_CHECK_SECONDS = 0.5
WORKERS = "GPSUITE_WORKERS"  # environment variable of the number of worker processes
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)
_has_worked = threading.Event()  # whether this worker process has run a group


def thread_environment(threads: int) -> dict[str, str]:
    """Return the environment that gives BLAS and TensorFlow `threads` threads each.

    numpy and scipy each have an OpenBLAS with its own threads. Waiting threads sleep at once. By default they would
    block the other's cores for 2^26 cycles.
    """
    threaded = dict.fromkeys(THREAD_VARIABLES, str(threads))
    return {**threaded, "OPENBLAS_THREAD_TIMEOUT": "4", "TF_CPP_MIN_LOG_LEVEL": "3"}


def limit_threads(threads: int) -> None:
    """Give this process' BLAS and TensorFlow `threads` threads each, whether loaded already or later."""
    from threadpoolctl import threadpool_limits

    os.environ.update(thread_environment(threads))
    threadpool_limits(threads)


def execute_group(
    tasks: Sequence[Task[object]],
    threads: int,
    send: Send | None = None,
    store: RecordStore | None = None,
    began: float | None = None,
    *,
    force: bool = False,
) -> Iterator[Record]:
    """Run the tasks of one group in order, yielding each record as it ends. Failures are records too.

    `send` gets the progress of the running task. In the store each task has a folder for states that survive an
    interruption. If another run is computing a task, this run waits for it. With `force` all tasks are computed again.
    The first task's budget counts from `began`, so it includes imports and set-up.
    """
    os.environ.update(thread_environment(threads))
    reporter = Reporter(send) if send is not None else None
    shared = SharedWork(reporter.observe if reporter is not None else None)
    for number, task in enumerate(tasks):
        shared.began = began if began is not None and number == 0 else time.monotonic()
        if store is None:
            yield _limited(task, shared, reporter, threads)
            continue
        key = task_key(task)
        shared.states = store.states / key
        refuse_links(shared.states)
        with store.claimed(key):
            stored = None if force else store.get(key)
            found = stored if satisfies(stored, task.budget_seconds) else None
            record = found or _limited(task, shared, reporter, threads)
            yield record
        if record.status != BUDGET:  # a larger budget continues from this state
            shutil.rmtree(shared.states, ignore_errors=True)


def execute_group_there(tasks: Sequence[Task[object]], threads: int) -> list[Record]:
    """Run a group in a worker process that shares no folder with its parent."""
    return list(execute_group(tasks, threads))


def execute_group_here(
    tasks: Sequence[Task[object]],
    threads: int,
    progress: Path,
    results_dir: Path,
    family: str,
    commit: str,
    began: float | None = None,
    force: bool = False,
) -> list[Record]:
    """Run a group in a worker process on the parent's machine and store each record as its task ends. Return none.

    No record is lost if the parent is killed before the group ends. Files in the folder `progress` name the stored
    records. The worker's first task counts from `began`, the start of the command: both processes read the same clock.
    """
    state_commit(commit)
    store = RecordStore(results_dir, family)
    later = _has_worked.is_set()
    _has_worked.set()
    for record in execute_group(tasks, threads, send_to_file(progress), store, None if later else began, force=force):
        store.put(record)
        tell_ended(progress, record.key)
    return []


def _limited(task: Task[object], shared: SharedWork, reporter: Reporter | None, threads: int) -> Record:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=threads):
        return _followed(task, shared, reporter)


def _followed(task: Task[object], shared: SharedWork, reporter: Reporter | None) -> Record:
    if reporter is None:
        return execute(task, shared)
    reporter.begin(task.label)
    try:
        return execute(task, shared)
    finally:
        reporter.end()


def execute(task: Task[object], shared: SharedWork) -> Record:
    """Run one task. An exception becomes a record with status error and its traceback."""
    wall, cpu = time.perf_counter(), time.process_time()
    trace = ""
    try:
        import_family(task.experiment)
        outcome = EXPERIMENTS.get(task.experiment).run(task, shared)
        require_storable(outcome)
    except (Exception, SystemExit) as error:  # a failure of one task must not end the others
        trace = traceback.format_exc()
        outcome = Outcome({}, ERROR, f"{type(error).__name__}: {error}".splitlines()[0][:300])
    timing = {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "peak_memory_mb": peak_memory_mb(),
    }
    if (workers := int(os.environ.get(WORKERS, "1"))) > 1:
        timing["workers"] = float(workers)
    return _record(task, outcome, timing, trace)


def end_with_parent(parent: int) -> None:
    """End this worker process within about a second of its parent's death, even by SIGKILL."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def failure(task: Task[object], reason: str) -> Record:
    """Return the error record of a task whose worker died."""
    return _record(task, Outcome({}, ERROR, reason), {}, reason + "\n")


def peak_memory_mb() -> float:
    """Return this process's peak resident memory in MB. On Linux without the memory of the process that started it."""
    status = Path("/proc/self/status")
    text = status.read_text(encoding="ascii", errors="replace") if status.exists() else ""
    if found := re.search(r"^VmHWM:\s*(\d+) kB", text, re.MULTILINE):
        return int(found[1]) / 1e3
    # a large process passes this number on to the processes that it starts
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def _record(task: Task[object], outcome: Outcome, timing: dict[str, float], trace: str) -> Record:
    return Record(
        key=task_key(task),
        experiment=task.experiment,
        label=task.label,
        axes=dict(task.axes),
        status=outcome.status,
        reason=outcome.reason,
        metrics=dict(outcome.metrics),
        timing=timing,
        budget_seconds=task.budget_seconds,
        headline=outcome.headline,
        traceback=trace,
        origin=origin(),
        arrays=dict(outcome.arrays),
    )
