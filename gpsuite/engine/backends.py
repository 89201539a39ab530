"""Where groups of tasks run: this process, or worker processes that may die and are replaced."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpsuite.engine.reports import ReportFolder, Send
from gpsuite.engine.worker import (
    end_with_parent,
    execute_group,
    execute_group_here,
    failure,
    thread_environment,
)
from gpsuite.experiments.base import Record, Task

Group = Sequence[Task[object]]

IDLE_SECONDS = 600  # a worker without tasks for this long ends; importing TensorFlow again costs seconds
LOOK_SECONDS = 1.0  # a pool's workers may have become more
DEATHS_ALLOWED = 2  # a group is queued again this often after its worker died


class WorkerDiedError(BrokenExecutor):
    """A worker died that ran one group; no other group is suspect."""


class WorkerPool(Protocol):
    """Worker processes behind one `submit`; whoever offers this can run tasks (loky here, a cluster's client)."""

    @property
    def workers(self) -> int:
        """How many workers there are at present."""
        ...

    def submit(self, run: Callable[..., list[Record]], *arguments: Any) -> Future[list[Record]]:
        """Start `run(*arguments)` in a worker; the future raises `BrokenExecutor` when that worker dies."""
        ...

    def close(self) -> None:
        """End the workers at once."""
        ...


class LokyPool:
    """Local worker processes, started afresh after one died.

    Args:
        workers: number of processes.
        threads: BLAS and TensorFlow threads of each.
        environment: further variables of theirs.
    """

    def __init__(self, workers: int, threads: int, environment: Mapping[str, str] | None = None) -> None:
        self.workers = workers
        # TensorFlow's import alone adds 0.6 GB after the first task, which loky would take for a leak
        leak = {"LOKY_MAX_MEMORY_LEAK_SIZE": "4e9"}
        self._environment = {**thread_environment(threads), **leak, **(environment or {})}

    def _executor(self) -> Any:
        from loky import get_reusable_executor

        return get_reusable_executor(
            max_workers=self.workers,
            timeout=IDLE_SECONDS,
            env=self._environment,
            initializer=end_with_parent,
            initargs=(os.getpid(),),
        )

    def submit(self, run: Callable[..., list[Record]], *arguments: Any) -> Future[list[Record]]:
        """Start `run(*arguments)` in a worker, replacing a broken pool first."""
        try:
            future: Future[list[Record]] = self._executor().submit(run, *arguments)
        except BrokenExecutor:  # it broke between the look and the call: the next look starts a new one
            future = self._executor().submit(run, *arguments)
        return future

    def close(self) -> None:
        """End the worker processes."""
        self._executor().shutdown(wait=True, kill_workers=True)


@dataclass
class _Attempt:
    tasks: Group
    deaths: int = 0


def run_serial(
    groups: Sequence[Group], threads: int, send: Send | None = None, states: Path | None = None
) -> Iterator[Record]:
    """Run all groups in this process, yielding each record as its task ends; `send` hears how far it is."""
    for tasks in groups:
        yield from execute_group(tasks, threads, send, states)


def run_pool(
    groups: Sequence[Group],
    pool: WorkerPool,
    threads: int,
    reports: ReportFolder | None = None,
    states: Path | None = None,
) -> Iterator[Record]:
    """Run groups in a pool, yielding records as groups end, in whatever order that is.

    When a worker dies, every group in flight is suspect, unless the pool knows which one died with it; suspects run
    again one at a time, so that only the one that kills its worker keeps failing. After `DEATHS_ALLOWED` repetitions
    its tasks get status error. Workers on this machine can leave reports on running tasks in a folder, and the states
    of interrupted ones in another.
    """
    arguments = (threads,) if reports is None else (threads, reports.path, states)
    queue = deque(_Attempt(tasks) for tasks in groups)
    suspects: deque[_Attempt] = deque()
    flying: dict[Future[list[Record]], _Attempt] = {}
    while queue or suspects or flying:
        for attempt in _next_attempts(queue, suspects, len(flying), pool.workers):
            flying[pool.submit(execute_group_here, attempt.tasks, *arguments)] = attempt
        ended, _ = wait(flying, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        if reports is not None:
            reports.look()
        for future in ended:
            attempt = flying.pop(future)
            try:
                yield from future.result()
            except BrokenExecutor as error:
                if reports is not None:
                    reports.clear()  # the dead cannot withdraw theirs, and the living report again
                attempt.deaths += 1
                if attempt.deaths <= DEATHS_ALLOWED:
                    (queue if isinstance(error, WorkerDiedError) else suspects).append(attempt)
                else:
                    yield from (failure(task, _death_reason(attempt.deaths)) for task in attempt.tasks)


def _next_attempts(
    queue: deque[_Attempt], suspects: deque[_Attempt], flying: int, workers: int
) -> Iterator[_Attempt]:
    if suspects:
        if not flying:
            yield suspects.popleft()
        return
    while queue and flying <= workers:  # one more than the workers, so that none waits for the parent
        flying += 1
        yield queue.popleft()


def _death_reason(deaths: int) -> str:
    return f"the worker process died {deaths} times while running this task (killed, or out of memory)"
