"""What failures and interruptions cost: the task in flight, and no answer that was there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.commands.status import _counts
from gpsuite.config.files import conf_dir
from gpsuite.engine.backends import LokyPool, run_pool
from gpsuite.engine.folder import pack_run
from gpsuite.engine.keys import task_key
from gpsuite.engine.plans import RunOptions
from gpsuite.engine.runner import run_experiment
from gpsuite.engine.store import RecordStore
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import EXPERIMENTS, INFEASIBLE, Outcome, every_array
from gpsuite.reporting.publish import publish
from tests.engine import slow_group, tiny


def options(tmp_path: Path, **changes: Any) -> RunOptions:
    return replace(RunOptions(results_dir=tmp_path, conf_dir=conf_dir(), science="s", mode="serial"), **changes)


def test_a_failure_does_not_replace_what_was_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    entry = EXPERIMENTS.get(tiny.NAME)

    def out_of_memory(task: Any, shared: Any) -> Outcome:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setitem(EXPERIMENTS._items, tiny.NAME, replace(entry, runs=out_of_memory))
        report = run_experiment(tiny.request(), options(tmp_path, force=True))
    assert (report.exit_code, report.counts) == (1, {"error": 6})  # but the run tells of it
    store = RecordStore(tmp_path, "tiny")
    kept = [store.get(task_key(task)) for task in tiny.plan(tiny.request())]
    assert {record.status for record in kept if record} == {"done"}


def test_a_failure_here_does_not_hide_the_published_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, replace(EXPERIMENTS.get(tiny.NAME), published=every_array))
    run_experiment(tiny.request(), options(tmp_path / "there"))
    packed = pack_run(tiny.NAME, tmp_path / "there/tiny/squares/quick/plan.json", tmp_path / "there")
    target = tmp_path / "here/published/tiny/squares/quick/records.zip"
    target.parent.mkdir(parents=True)
    target.write_bytes(packed)
    store = RecordStore(tmp_path / "here", "tiny")
    key = task_key(tiny.task(3))
    done = store.get(key)
    assert done is not None and done.status == "done"
    store.put(replace(done, status="error", reason="killed", metrics={}, arrays={}))
    found = RecordStore(tmp_path / "here", "tiny").get(key)
    assert found is not None and found.status == "done"


@pytest.fixture
def old_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose run was killed after the last record of a newer version and before its tables."""
    entry = replace(EXPERIMENTS.get(tiny.NAME), published=every_array)
    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, entry)
    run_experiment(tiny.request(), options(tmp_path))

    def killed(report: Any) -> Any:
        raise KeyboardInterrupt

    newer = replace(
        entry,
        plan=lambda request: [replace(task, version=2) for task in tiny.plan(request)],
        runs=lambda task, shared: replace(tiny.run(task, shared), metrics={"square": -1.0}),
        summarise=killed,
    )
    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, newer)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny.request(), options(tmp_path))
    folder = tmp_path / "tiny/squares/quick"
    assert "16.1" in (folder / "tables/squares.csv").read_text()  # of version 1
    return folder


def test_what_is_published_is_one_run(old_tables: Path, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"run\.json is missing"):
        publish(old_tables, tmp_path, lambda: {"records.zip": pack_run(tiny.NAME, old_tables / "plan.json", tmp_path)})


def test_status_does_not_call_old_tables_complete(old_tables: Path, tmp_path: Path) -> None:
    assert _counts(old_tables, RecordStore(tmp_path, "tiny"))["tables"] == "run again to complete"


def test_tasks_of_a_group_are_stored_as_they_end(tmp_path: Path) -> None:
    """A killed run finds again the tasks that had ended, although their group had not."""
    program = "import sys, pathlib; from tests.engine import slow_group; slow_group.main(pathlib.Path(sys.argv[1]))"
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=Path(__file__).parents[2])
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "third").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert (tmp_path / "third").exists()
        time.sleep(2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    labels = [json.loads(p.read_text())["label"] for p in (tmp_path / "results/.records/tiny").glob("*.json")]
    assert sorted(labels) == ["number 0", "number 1", "number 5"]


def test_a_task_that_kills_its_worker_does_not_fail_the_others_of_its_group() -> None:
    tasks = [slow_group.task(number, "die" if number == 2 else "") for number in range(4)]
    with closing(LokyPool(1, 1)) as pool:
        records = list(run_pool([tasks], pool, 1))
    assert {r.axes["number"]: r.status for r in records} == {0: "done", 1: "done", 2: "error", 3: "done"}


@pytest.mark.parametrize("wrong", ["metric", "object array"])
def test_an_outcome_that_cannot_be_stored_fails_without_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    entry = EXPERIMENTS.get(tiny.NAME)

    def run(task: Any, shared: Any) -> Outcome:
        if task.params.number != 2:
            return tiny.run(task, shared)
        if wrong == "metric":
            return Outcome({"square": np.int64(4)})  # type: ignore[dict-item]
        return Outcome({"square": 4.0}, arrays={"words": np.array(["a", None], dtype=object)})

    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, replace(entry, runs=run))
    report = run_experiment(tiny.request(), options(tmp_path))
    assert report.counts == {"done": 5, "error": 1}


def test_a_task_that_exits_fails_without_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(task: Any, shared: Any) -> Outcome:
        return tiny.run(task, shared) if task.params.number != 2 else sys.exit(0)

    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, replace(EXPERIMENTS.get(tiny.NAME), runs=run))
    report = run_experiment(tiny.request(), options(tmp_path))
    assert report.counts == {"done": 5, "error": 1}


def test_a_failure_of_the_same_task_that_another_run_fixed_is_none_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EXPERIMENTS.get(tiny.NAME)

    def run(task: Any, shared: Any) -> Outcome:
        if task.params.number == 2:
            raise MemoryError
        return tiny.run(task, shared)

    with monkeypatch.context() as patch:
        patch.setitem(EXPERIMENTS._items, tiny.NAME, replace(entry, runs=run))
        assert run_experiment(tiny.request(), options(tmp_path)).exit_code == 1
    run_experiment(tiny.request(), options(tmp_path, tag="other", named=True))
    run_experiment(tiny.request(), options(tmp_path))  # nothing to compute, and nothing failed any more
    about = json.loads((tmp_path / "tiny/squares/quick/run.json").read_text(encoding="utf-8"))
    assert (about["status"], about["tasks"], about["failures"]) == ("done", {"done": 6}, [])


def test_an_interrupted_force_leaves_no_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_experiment(tiny.request(), options(tmp_path))

    def run(task: Any, shared: Any) -> Outcome:
        if task.params.number == 4:
            raise KeyboardInterrupt
        return tiny.run(task, shared)

    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, replace(EXPERIMENTS.get(tiny.NAME), runs=run))
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny.request(), options(tmp_path, force=True))
    assert not (tmp_path / "tiny/squares/quick/run.json").exists()


def test_arrays_of_what_was_not_possible_are_next_to_the_run_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Outcome({}, INFEASIBLE, "nothing is safe", {"seen": np.arange(3.0)})
    entry = replace(EXPERIMENTS.get(tiny.NAME), runs=lambda task, shared: found)
    monkeypatch.setitem(EXPERIMENTS._items, tiny.NAME, entry)
    report = run_experiment(tiny.request(), options(tmp_path))
    assert (report.exit_code, report.counts) == (3, {"infeasible": 6})
    assert len(list((report.folder / "artifacts").glob("*.npz"))) == 6
