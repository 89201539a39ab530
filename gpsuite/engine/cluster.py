"""Groups of tasks on the workers of a running Dask scheduler (`parallel=dask`).

Workers read data files from the paths that planning found. So the cluster needs the same files at the same paths.
Records return to this process. Only it writes results.

A group is sent to one named worker. A worker process gets one group at a time regardless of its number of threads: BLAS
and TensorFlow settings are per process. So Dask does not move or repeat a group (unless a nanny restarts the worker
under the same address). If a worker disappears, only its group failed. `run_pool` decides what follows.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from gpsuite.engine.backends import WorkerDiedError
from gpsuite.errors import UserError
from gpsuite.text import visible

KEY = "parallel.address"
CONNECT_SECONDS = 5.0  # longest wait for the scheduler, and then for its first worker
FETCH_SECONDS = 30.0  # longest wait for a result. A result lost with its worker never comes
LOOK_SECONDS = 1.0  # time between checks of the workers
WORKERLESS_SECONDS = 300.0  # without workers the run ends then. Nannies replace dead workers sooner

# packages that decide the numbers of a task
DECISIVE = ("gpsuite", "numpy", "scipy", "scikit-learn", "gpflow", "tensorflow", "tensorflow-probability")
TENSORFLOW_THREADS = "threads of the TensorFlow it has loaded"

Run = Callable[..., list[Any]]


@dataclass
class _Job:
    run: Run
    arguments: tuple[Any, ...]
    future: Future[list[Any]] = field(default_factory=Future)


class DaskPool:
    """The workers of an existing Dask scheduler, including those that join later.

    One thread of this process communicates with the scheduler. `submit` only passes work to this thread.

    Args:
        address: the scheduler's address, such as `tcp://host:8786`.
        threads: BLAS and TensorFlow threads per task.
        most: number of workers to use, or None for all.

    Raises:
        UserError: if distributed is missing, nobody answers at the address, there is no worker, or a worker has other
            versions than this process.
    """

    def __init__(self, address: str, threads: int, most: int | None = None) -> None:
        self._address, self._threads, self._most = address, threads, most
        self._client = connect(address)
        self._waiting: deque[_Job] = deque()
        self._flying: dict[str, tuple[_Job, Any]] = {}  # job and Dask's future by worker
        self._workers: frozenset[str] = frozenset()
        self._refused: frozenset[str] = frozenset()
        self._paused: frozenset[str] = frozenset()  # workers short of memory or about to retire: they start no groups
        self._staffed = self._looked = time.monotonic()
        self._failure: BaseException | None = None
        self._closed = False
        self._wake = threading.Event()
        try:
            self._meet_scheduler()
            self._meet_first_workers()
        except BaseException as error:
            told = self._explained(error)
            self._disconnect()
            if told is error:
                raise
            raise told from error
        self._thread = threading.Thread(target=self._serve, name="gpsuite-dask", daemon=True)
        self._thread.start()

    @property
    def workers(self) -> int:
        """Worker processes in use at present, at least 1."""
        return max(min(len(self._workers), self._most or len(self._workers)), 1)

    def submit(self, run: Run, *arguments: Any) -> Future[list[Any]]:
        """Run on the next free worker. The future raises `WorkerDiedError` or, without scheduler, `UserError`."""
        job = _Job(run, arguments)
        self._waiting.append(job)
        self._wake.set()
        return job.future

    def close(self) -> None:
        """Disconnect: the scheduler drops waiting groups and results of running ones. The workers remain."""
        self._closed = True
        self._wake.set()
        self._thread.join(FETCH_SECONDS)
        self._disconnect()

    def _disconnect(self) -> None:
        with contextlib.suppress(Exception):  # the scheduler may already have ended
            self._client.close(timeout=CONNECT_SECONDS)

    def _meet_scheduler(self) -> None:
        # the scheduler unpickles the tasks that it passes on
        inspect = _inspection(("gpsuite",))
        text = _difference(inspect(), self._client.run_on_scheduler(inspect))
        if text:
            raise UserError(f"{KEY}={self._address}: the scheduler has {text}", key=KEY)

    def _meet_first_workers(self) -> None:
        end = time.monotonic() + CONNECT_SECONDS
        while not self._workers:
            self._workers, wrong = self._judged(set(self._present()))
            if wrong:
                first, *others = [f"worker {worker} has {text}" for worker, text in sorted(wrong.items())]
                more = f"\n{len(others)} other workers differ too" if others else ""
                raise UserError(f"{KEY}={self._address}: {first}{more}", key=KEY)
            if time.monotonic() > end:
                raise UserError(f"{KEY}={self._address}: the scheduler has no workers. Start some first", key=KEY)
            time.sleep(LOOK_SECONDS / 10)

    def _serve(self) -> None:
        while not self._closed:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            if self._failure is None:
                try:
                    self._collect()
                    self._look()
                    self._hand_out()
                except BaseException as error:  # after any error no future may wait for ever
                    self._failure = self._explained(error)
            if self._failure is not None:
                self._fail_all(self._failure)

    def _collect(self) -> None:
        for worker, (job, remote) in list(self._flying.items()):
            if remote.status == "finished":
                with contextlib.suppress(TimeoutError):  # the next check shows whether its worker is still running
                    result = remote.result(timeout=FETCH_SECONDS)
                    del self._flying[worker]
                    job.future.set_result(result)
            elif remote.status == "error":
                del self._flying[worker]
                job.future.set_exception(_translated(remote.exception(timeout=FETCH_SECONDS)))
            elif remote.status == "cancelled":
                raise ConnectionError("the scheduler dropped a task")

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        states = self._present()
        present = states.keys()
        joined, wrong = self._judged(present - self._workers - self._refused)
        for worker, text in wrong.items():
            print(f"gpsuite: {visible(f'worker {worker} is not used: it has {text}')}", file=sys.stderr)
        self._refused |= frozenset(wrong)
        self._workers = (self._workers & present) | joined
        self._paused = frozenset(worker for worker, state in states.items() if state != "running")
        for worker in [worker for worker in self._flying if worker not in present]:
            job, remote = self._flying.pop(worker)
            remote.cancel()
            job.future.set_exception(WorkerDiedError(f"worker {worker} is gone"))
        if self._flying or self._workers - self._paused:
            self._staffed = self._looked
        elif self._looked - self._staffed > WORKERLESS_SECONDS:
            raise UserError(self._ended(f"no usable worker for {WORKERLESS_SECONDS:.0f} s"), key=KEY)

    def _hand_out(self) -> None:
        for worker in sorted(self._workers - self._paused - self._flying.keys()):
            if not self._waiting or len(self._flying) >= self.workers:
                return
            job = self._waiting.popleft()
            remote = self._client.submit(
                job.run, *job.arguments, workers=[worker], allow_other_workers=False, pure=False
            )
            self._flying[worker] = job, remote
            remote.add_done_callback(lambda _: self._wake.set())

    def _present(self) -> dict[str, str]:
        """Return the state of the scheduler's workers by address. Raise OSError if it does not answer."""
        if self._client.status != "running":
            raise ConnectionError(f"the client is {self._client.status}")
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address: worker["status"] for address, worker in workers.items()}

    def _judged(self, workers: Iterable[str]) -> tuple[frozenset[str], dict[str, str]]:
        """Return the usable workers, and how the others differ. A worker that does not answer is in neither."""
        chosen = list(workers)
        if not chosen:
            return frozenset(), {}
        found = self._client.run(_inspection(DECISIVE), workers=chosen, on_error="return")
        ours = _inspection(DECISIVE)() | {TENSORFLOW_THREADS: str(self._threads)}
        answers = {worker: theirs for worker, theirs in found.items() if not isinstance(theirs, OSError)}
        texts = {worker: _difference(ours, theirs) for worker, theirs in answers.items()}
        wrong = {worker: text for worker, text in texts.items() if text}
        return frozenset(texts.keys() - wrong.keys()), wrong

    def _explained(self, error: BaseException) -> BaseException:
        # a lost scheduler is not an error of the program
        if isinstance(error, UserError | KeyboardInterrupt):
            return error
        if isinstance(error, OSError) or self._client.status != "running":
            return UserError(self._ended("the scheduler is gone, or was restarted"), key=KEY)
        return error

    def _ended(self, why: str) -> str:
        return f"{KEY}={self._address}: {why}\nwhat was computed is stored. Run the same command again to resume"

    def _fail_all(self, failure: BaseException) -> None:
        jobs = [job for job, _ in self._flying.values()]
        self._flying.clear()
        while self._waiting:  # one by one: `submit` may add more in the meantime
            jobs.append(self._waiting.popleft())
        for job in jobs:
            job.future.set_exception(failure)


def connect(address: str) -> Any:
    """Return a client of the scheduler. Raise UserError if distributed is missing, or nobody answers in time."""
    try:
        from distributed import Client
    except ImportError as error:
        raise UserError("parallel=dask needs the extra: pip install 'gpsuite[cluster]'", key="parallel") from error
    for name in ("distributed", "distributed.client"):  # its messages on lost connections are long. Ours is one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{KEY}={address}: no Dask scheduler answers there ({reason})", key=KEY) from error


def _inspection(names: tuple[str, ...]) -> Callable[[], dict[str, str]]:
    """Return a function that returns versions. It is nested: sent by value, it also works without gpsuite there."""
    label = TENSORFLOW_THREADS

    def inspect() -> dict[str, str]:
        import sys
        from importlib.metadata import PackageNotFoundError, version

        found = {}
        for name in names:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "not installed"
        config = getattr(sys.modules.get("tensorflow"), "config", None)
        if config is not None:  # its number of threads can no longer be changed
            found[label] = str(config.threading.get_intra_op_parallelism_threads())
        return found

    return inspect


def _difference(ours: Mapping[str, str], theirs: Mapping[str, str] | Exception) -> str:
    if isinstance(theirs, Exception):
        return f"no answer: {theirs}"
    return ", ".join(
        f"{name} {theirs[name]} (here {value})" for name, value in ours.items() if theirs.get(name, value) != value
    )


def _translated(error: BaseException) -> BaseException:
    from distributed import KilledWorker

    return WorkerDiedError(str(error)) if isinstance(error, KilledWorker) else error
