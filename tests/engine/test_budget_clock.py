"""A task's budget counts from the moment it begins, the first one's from the moment its command began."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from gpsuite.engine import worker
from gpsuite.engine.backends import run_serial
from gpsuite.engine.store import RecordStore
from gpsuite.experiments.base import Record, SharedWork, Task
from tests.engine import tiny

AGO = 100.0


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What tasks find left of 1,000 seconds, in order."""
    found: list[float] = []
    execute = worker.execute

    def noting(task: Task[object], shared: SharedWork) -> Record:
        found.append(1000.0 - (shared.budget(1000.0).left or 0.0))
        return execute(task, shared)

    monkeypatch.setattr(worker, "execute", noting)
    return found


def test_the_first_task_of_all_counts_from_the_command(left: list[float], tmp_path: Path) -> None:
    groups = [[tiny.task(1), tiny.task(2)], [tiny.task(3)]]
    list(run_serial(groups, 1, None, RecordStore(tmp_path, "tiny"), time.monotonic() - AGO))
    assert left[0] == pytest.approx(AGO, abs=5.0)
    assert max(left[1:]) < 5.0


def test_without_a_command_every_task_counts_from_its_beginning(left: list[float]) -> None:
    list(run_serial([[tiny.task(1)], [tiny.task(2)]], 1))
    assert max(left) < 5.0


def test_the_first_task_of_a_worker_counts_from_the_command(
    left: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_has_worked", threading.Event())
    monkeypatch.setattr(worker, "state_commit", lambda commit: None)  # it would stay this process's
    for number in range(2):
        where = (tmp_path / "progress", tmp_path / "results", "tiny", "commit")
        worker.execute_group_here([tiny.task(number)], 1, *where, time.monotonic() - AGO)
    assert left[0] == pytest.approx(AGO, abs=5.0)
    assert left[1] < 5.0


def holding(store: RecordStore, record: Record, seconds: float, *, stores: bool) -> int:
    """Start a process that holds a record's key for a while, as one that computes it, and return its number."""
    child = os.fork()
    if child == 0:
        with store.claimed(record.key):
            time.sleep(seconds)
            if stores:
                store.put(record)
        os._exit(0)
    time.sleep(0.3)
    return child


def test_what_another_run_computes_at_the_same_time_is_waited_for_and_taken(tmp_path: Path) -> None:
    store, task = RecordStore(tmp_path, "tiny"), tiny.task(7)
    [theirs] = run_serial([[task]], 1)
    child = holding(store, theirs, 1.0, stores=True)
    [ours] = run_serial([[task]], 1, None, store)
    os.waitpid(child, 0)
    assert ours.timing == theirs.timing
    [again] = run_serial([[task]], 1, None, store, force=True)
    assert again.timing != theirs.timing


def test_the_key_of_a_killed_process_is_free(tmp_path: Path) -> None:
    store, task = RecordStore(tmp_path, "tiny"), tiny.task(7)
    [theirs] = run_serial([[task]], 1)
    child = holding(store, theirs, 60.0, stores=True)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    [ours] = run_serial([[task]], 1, None, store)
    assert ours.timing != theirs.timing
