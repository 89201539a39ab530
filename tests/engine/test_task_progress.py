from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpsuite.budget import Budget
from gpsuite.engine import progress
from gpsuite.engine.backends import Local, run_pool, run_serial
from gpsuite.engine.plans import RunOptions
from gpsuite.engine.progress import ProgressFolder, Reporter, TaskProgress, send_to_file, spending
from gpsuite.engine.runner import run_experiment
from gpsuite.engine.store import RecordStore
from gpsuite.engine.worker import execute_group
from tests.engine import tiny


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("gpsuite.engine.progress.time", made)
    return made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "REPORT_SECONDS", 0.0)


def test_reports_come_at_most_once_a_second_and_short_tasks_send_none(clock: Clock) -> None:
    sent: list[TaskProgress | None] = []
    reporter, budget = Reporter(sent.append), Budget(evaluations=1000)
    reporter.begin("short")
    clock.now = 0.9
    reporter.observe(budget)
    reporter.end()
    assert sent == []
    clock.now = 1.0
    reporter.begin("long")
    for tenth in range(35):
        clock.now = 1.0 + tenth / 10
        budget.spend(evaluations=1, best=1.0 / (tenth + 1))
        reporter.observe(budget)
    reporter.end()
    texts = [report.text if report else None for report in sent]
    assert texts == [
        "11 of 1000 evaluations, objective 0.090909",
        "21 of 1000 evaluations, objective 0.047619",
        "31 of 1000 evaluations, objective 0.032258",
        None,
    ]
    assert {report.label for report in sent if report} == {"long"}


def test_a_listener_that_cannot_be_reached_harms_no_task(at_once: None) -> None:
    def broken(report: TaskProgress | None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    reporter = Reporter(broken)
    reporter.begin("task")
    reporter.observe(Budget())
    reporter.end()


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(evaluations=1000, spent_evaluations=312, best=0.23413), "312 of 1000 evaluations, objective 0.23413"),
        (Budget(spent_evaluations=7), "7 evaluations"),
        (Budget(boxes=50, spent_boxes=9), "9 of 50 boxes"),
        (Budget(evaluations=9, spent_evaluations=1, run=2, runs=5), "start 2 of 5, 1 of 9 evaluations"),
    ],
)  # fmt: skip
def test_spending_is_said_in_words(budget: Budget, text: str) -> None:
    assert spending(budget) == text


def test_a_worker_keeps_its_latest_report_in_a_file_and_withdraws_it(tmp_path: Path) -> None:
    folder = ProgressFolder(tmp_path / "run", lambda told: None)
    send = send_to_file(folder.path)
    assert folder.read() == []
    for share in (0.1, 0.2):
        send(TaskProgress("number 1", share, "words"))
    assert folder.read() == [TaskProgress("number 1", 0.2, "words")]
    (folder.path / "9.json").write_text("{", encoding="utf-8")  # damaged: passed over
    assert len(folder.read()) == 1
    send(None)
    assert folder.read() == []
    folder.clear()
    assert not folder.path.exists()
    folder.clear()


@pytest.mark.parametrize("where", ["write_text", "replace"])
def test_a_full_disk_changes_no_record(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((Path, where, full) if where == "write_text" else (os, where, full)))
    [record] = execute_group([tiny.task(3, "spend")], 1, send_to_file(tmp_path / "run"))
    assert (record.status, record.metrics["square"]) == ("done", 9.1)
    assert ProgressFolder(tmp_path / "run", lambda told: None).read() == []


def test_serial_tasks_report_and_withdraw(at_once: None) -> None:
    sent: list[TaskProgress | None] = []
    records = list(run_serial([[tiny.task(1, "spend"), tiny.task(2)]], 1, sent.append))
    assert [record.status for record in records] == ["done", "done"]
    assert [(told.label, told.share) if told else None for told in sent] == [
        ("number 1", 0.25),
        ("number 1", 0.5),
        None,
    ]


class ThreadPool:
    """One worker, beside this thread."""

    workers = 1

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1)

    def submit(self, run: Callable[..., list[Any]], *arguments: Any) -> Future[list[Any]]:
        return self._executor.submit(run, *arguments)

    def close(self) -> None:
        self._executor.shutdown()


def test_the_parent_sees_running_tasks_of_its_workers(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpsuite.engine.backends.LOOK_SECONDS", 0.01)
    seen: list[Sequence[TaskProgress]] = []
    pool, folder = ThreadPool(), ProgressFolder(tmp_path / "run", seen.append)

    def wait_until_seen(seconds: float) -> None:
        """Between its spendings the task waits until the parent has looked."""
        end = time.monotonic() + 20.0
        while not any(seen) and time.monotonic() < end:
            time.sleep(0.01)

    monkeypatch.setattr(tiny, "pause", wait_until_seen)
    [record] = run_pool([[tiny.task(1, "spend")]], pool, 1, Local(folder, RecordStore(tmp_path, "tiny")))
    pool.close()
    assert record.status == "done"
    [told] = next(told for told in seen if told)
    assert (told.label, told.text) == ("number 1", "1 of 4 evaluations, objective 1")
    assert folder.read() == []  # withdrawn before the record came


@pytest.mark.parametrize("mode", ["serial", "processes"])
def test_reports_leave_nothing_in_the_run_folder(
    tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    from gpsuite.config.files import conf_dir

    monkeypatch.setattr("gpsuite.engine.runner.LokyPool", lambda *given: ThreadPool())
    left_over = tmp_path / "tiny/squares/quick" / progress.FOLDER
    left_over.mkdir(parents=True)  # by a killed run
    (left_over / "1.json").write_text("{}", encoding="utf-8")
    report = run_experiment(
        tiny.request(n1="spend"), RunOptions(tmp_path, conf_dir(), science="s", mode=mode, workers=1)
    )
    assert report.counts == {"done": 6}
    names = {path.name for path in (tmp_path / "tiny/squares/quick").iterdir()}
    assert (progress.FOLDER in names) == (mode == "serial")  # serial runs use no files
    stored = [path.read_text(encoding="utf-8") for path in (tmp_path / ".records").rglob("*.json")]
    assert not any("evaluations" in text for text in stored)


def test_the_reports_of_dead_workers_are_forgotten(tmp_path: Path) -> None:
    class DyingPool(ThreadPool):
        died = False

        def submit(self, run: Callable[..., list[Any]], *arguments: Any) -> Future[list[Any]]:
            if self.died:
                return super().submit(run, *arguments)
            self.died = True
            send_to_file(arguments[2])(TaskProgress("number 1", 0.5, "of the dead"))
            future: Future[list[Any]] = Future()
            future.set_exception(BrokenExecutor("killed"))
            return future

    pool, folder = DyingPool(), ProgressFolder(tmp_path / "run", lambda told: None)
    [record] = run_pool([[tiny.task(1)]], pool, 1, Local(folder, RecordStore(tmp_path, "tiny")))
    pool.close()
    assert record.status == "done"
    assert folder.read() == []
