from __future__ import annotations

import os
import platform
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gpsuite.engine.backends import DEATHS_ALLOWED, LokyPool, run_pool, run_serial
from gpsuite.engine.runner import choose_mode, groups_of
from gpsuite.engine.store import RecordStore
from gpsuite.engine.worker import limit_threads
from gpsuite.experiments.base import Record
from tests.engine import tiny


class MortalPool:
    """Runs groups at once; a group that holds a killer takes every group in flight with it, as a real pool does."""

    def __init__(self, workers: int, killers: dict[int, int]) -> None:
        self.workers = workers
        self.killers = killers  # number -> how many workers it still kills
        self.submitted: list[int] = []

    def submit(self, run: Callable[..., list[Record]], *arguments: Any) -> Future[list[Record]]:
        number = arguments[0][0].params.number
        self.submitted.append(number)
        future: Future[list[Record]] = Future()
        if self.killers.get(number, 0) > 0:
            self.killers[number] -= 1
            future.set_exception(BrokenExecutor("worker died"))
        else:
            future.set_result(run(*arguments))
        return future

    def close(self) -> None:
        return None


def numbers(records: list[Record]) -> list[int]:
    return sorted(int(record.axes["number"]) for record in records)


def test_serial_and_pool_give_the_same_records() -> None:
    groups = groups_of([tiny.task(number) for number in range(5)])
    serial = {record.key: record.metrics["square"] for record in run_serial(groups, 1)}
    pool = {record.key: record.metrics["square"] for record in run_pool(groups, MortalPool(2, {}), 1)}
    assert serial == pool


def test_threads_are_limited_although_blas_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with threadpool_limits(2):
        assert 2 in {pool["num_threads"] for pool in threadpool_info()}
        limit_threads(1)
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"


def test_a_dead_worker_costs_nothing() -> None:
    groups = groups_of([tiny.task(number) for number in range(6)])
    records = list(run_pool(groups, MortalPool(2, {2: 1}), 1))
    assert numbers(records) == list(range(6))
    assert all(record.status == "done" for record in records)


def test_a_task_that_keeps_killing_its_worker_gets_status_error_and_the_others_survive() -> None:
    groups = groups_of([tiny.task(number) for number in range(6)])
    pool = MortalPool(2, {2: 100})
    records = list(run_pool(groups, pool, 1))
    assert numbers(records) == list(range(6))
    failed = [record for record in records if record.status == "error"]
    assert numbers(failed) == [2]
    assert "died" in failed[0].reason
    assert pool.submitted.count(2) == 1 + DEATHS_ALLOWED


def test_groups_share_work_and_run_in_order() -> None:
    tasks = [tiny.task(1, group="g"), tiny.task(2), tiny.task(3, group="g")]
    records = {int(record.axes["number"]): record for record in run_serial(groups_of(tasks), 1)}
    assert [records[n].metrics["nth_of_group"] for n in (1, 3, 2)] == [1, 2, 1]


@pytest.mark.parametrize(
    ("mode", "seconds", "workers", "chosen"),
    [
        ("auto", 1.0, 2, "serial"),
        ("auto", 100.0, 2, "processes"),
        ("auto", 100.0, 1, "serial"),
        ("serial", 100.0, 2, "serial"),
        ("processes", 1.0, 2, "processes"),
    ],
)
def test_the_automatic_choice_depends_on_work_and_workers(mode: str, seconds: float, workers: int, chosen: str) -> None:
    from dataclasses import replace

    groups = [[replace(tiny.task(number), cost=seconds / 2)] for number in range(2)]
    assert choose_mode(mode, groups, workers) == chosen


def test_a_task_has_a_folder_for_its_state_until_it_has_ended(tmp_path: Path) -> None:
    store = RecordStore(tmp_path, "tiny")
    running = run_serial([[tiny.task(1, "leave")], [tiny.task(2)]], 1, None, store)
    first = next(running)
    assert [path.name for path in store.states.iterdir()] == [first.key]
    list(running)
    assert not list(store.states.iterdir())


def test_the_state_of_a_task_that_its_budget_ended_stays_until_it_is_forgotten(tmp_path: Path) -> None:
    store = RecordStore(tmp_path, "tiny")
    limited = [tiny.task(number, "leave budget") for number in range(2)]
    keys = [record.key for record in run_serial(groups_of(limited), 1, None, store)]
    assert {path.name for path in store.states.iterdir()} == set(keys)
    store.forget_states(keys[:1])
    assert [path.name for path in store.states.iterdir()] == keys[1:]


def _kernels() -> list[Any]:
    import numpy  # noqa: F401 - loads the BLAS that threadpoolctl then finds
    from threadpoolctl import threadpool_info

    return [pool["architecture"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels named are of x86")
@pytest.mark.parametrize("kernels", ["Nehalem", "Sandybridge"])
def test_a_workers_environment_is_there_before_its_blas(kernels: str) -> None:
    with closing(LokyPool(1, 1, {"OPENBLAS_CORETYPE": kernels})) as pool:
        assert set(pool.submit(_kernels).result()) == {kernels}
