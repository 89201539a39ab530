"""Backends that run groups of tasks: this process, or worker processes that may die and are replaced."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from typing import Any, Protocol

from gpsuite.engine.keys import task_key
from gpsuite.engine.progress import ProgressFolder, Send
from gpsuite.engine.provenance import origin
from gpsuite.engine.store import RecordStore
from gpsuite.engine.worker import (
    WORKERS,
    end_with_parent,
    execute_group,
    execute_group_here,
    execute_group_there,
    failure,
    thread_environment,
)
from gpsuite.experiments.base import Record, Task

Group = Sequence[Task[object]]

IDLE_SECONDS = 600  # a worker without tasks for this long ends. Importing TensorFlow again takes seconds
LOOK_SECONDS = 1.0  # a pool's workers may have become more
DEATHS_ALLOWED = 2  # number of times that a group is queued again after its worker died


class WorkerDiedError(BrokenExecutor):
    """Raised if a worker died while it ran one group. No other group is suspect."""


class WorkerPool(Protocol):
    """Interface of worker processes that run tasks (loky here, or a cluster's client)."""

    @property
    def workers(self) -> int:
        """Current number of workers."""
        ...

    def submit(self, run: Callable[..., list[Record]], *arguments: Any) -> Future[list[Record]]:
        """Start `run(*arguments)` in a worker. The future raises `BrokenExecutor` if that worker dies."""
        ...

    def close(self) -> None:
        """End the workers at once."""
        ...


class LokyPool:
    """Local worker processes, started again after one died.

    Args:
        workers: number of processes.
        threads: BLAS and TensorFlow threads of each process.
        environment: more environment variables for the processes.
    """

    def __init__(self, workers: int, threads: int, environment: Mapping[str, str] | None = None) -> None:
        self.workers = workers
        # TensorFlow's import adds 0.6 GB after the first task. loky would treat this as a leak
        leak = {"LOKY_MAX_MEMORY_LEAK_SIZE": "4e9"}
        side_by_side = {WORKERS: str(workers)}
        self._environment = {**thread_environment(threads), **leak, **side_by_side, **(environment or {})}

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
        except BrokenExecutor:  # it broke between the check and the call: the next check starts a new pool
            future = self._executor().submit(run, *arguments)
        return future

    def close(self) -> None:
        """End the worker processes."""
        self._executor().shutdown(wait=True, kill_workers=True)


@dataclass
class _Attempt:
    tasks: Group
    deaths: int = 0


@dataclass(frozen=True)
class Local:
    """State that workers on this machine share with their parent. The workers store records when tasks end.

    Attributes:
        began: start of the command by `time.monotonic`. Each worker's first task counts from there.
        force: whether to compute stored records again.
    """

    progress: ProgressFolder
    store: RecordStore
    began: float | None = None
    force: bool = False

    def stored(self) -> Iterator[Record]:
        """Yield the records stored since the last call."""
        for key in self.progress.ended():
            if (record := self.store.get(key)) is not None:
                yield record


def run_serial(
    groups: Sequence[Group],
    threads: int,
    send: Send | None = None,
    store: RecordStore | None = None,
    began: float | None = None,
    *,
    force: bool = False,
) -> Iterator[Record]:
    """Run all groups in this process, yielding each record as its task ends. `send` gets its progress."""
    for number, tasks in enumerate(groups):
        yield from execute_group(tasks, threads, send, store, began if number == 0 else None, force=force)


def run_pool(groups: Sequence[Group], pool: WorkerPool, threads: int, local: Local | None = None) -> Iterator[Record]:
    """Run groups in a pool and yield their records, in any order.

    Local workers store each record when its task ends. It is then yielded. Other workers return the records of a group
    together. If a worker dies, every running group is suspect, unless the pool knows which group the worker ran.
    Suspects run again one at a time, without their stored tasks. So only a task that kills its worker keeps failing.
    After `DEATHS_ALLOWED` repetitions it gets status error.
    """
    queue = deque(_Attempt(tasks) for tasks in groups)
    suspects: deque[_Attempt] = deque()
    flying: dict[Future[list[Record]], _Attempt] = {}
    ended: set[str] = set()
    while queue or suspects or flying:
        for attempt in _next_attempts(queue, suspects, len(flying), pool.workers):
            flying[_submit(pool, attempt.tasks, threads, local)] = attempt
        done, _ = wait(flying, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        if local is not None:
            local.progress.look()
            for record in local.stored():
                ended.add(record.key)
                yield record
        for future in done:
            attempt = flying.pop(future)
            try:
                yield from future.result()
            except BrokenExecutor as error:
                if local is not None:
                    local.progress.forget()
                again, failed = _after_death(attempt, ended, known=local is not None)
                (queue if isinstance(error, WorkerDiedError) else suspects).extend(again)
                for record in failed:
                    if local is not None:
                        local.store.put(record)
                    yield record


def _submit(pool: WorkerPool, tasks: Group, threads: int, local: Local | None) -> Future[list[Record]]:
    if local is None:
        return pool.submit(execute_group_there, tasks, threads)
    shared = (local.progress.path, *local.store.place, origin()["commit"], local.began, local.force)
    return pool.submit(execute_group_here, tasks, threads, *shared)


def _after_death(attempt: _Attempt, ended: Collection[str], *, known: bool) -> tuple[list[_Attempt], list[Record]]:
    """Return the parts of a group that run again after its worker died, and the error record of an abandoned task.

    If it is `known` which tasks ended, the first of the others was running. Otherwise each task must run without the
    others.
    """
    left = [task for task in attempt.tasks if task_key(task) not in ended]
    if not left:
        return [], []
    deaths = attempt.deaths + 1 if len(left) == len(attempt.tasks) else 1
    if deaths <= DEATHS_ALLOWED:
        return [_Attempt(left, deaths)], []
    if not known and len(left) > 1:
        return [_Attempt([task], DEATHS_ALLOWED) for task in left], []
    reason = f"the worker process died {deaths} times while running this task (killed, or out of memory)"
    return [_Attempt(left[1:])] if left[1:] else [], [failure(left[0], reason)]


def _next_attempts(queue: deque[_Attempt], suspects: deque[_Attempt], flying: int, workers: int) -> Iterator[_Attempt]:
    if suspects:
        if not flying:
            yield suspects.popleft()
        return
    while queue and flying <= workers:  # one more than the workers: no worker waits for the parent
        flying += 1
        yield queue.popleft()
