"""A real Dask scheduler and real workers, all on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("distributed")

from gpsuite.cli import main
from gpsuite.config.request import read_request
from gpsuite.config.typed import ParallelSettings
from gpsuite.engine import backends
from gpsuite.engine import cluster as room
from gpsuite.engine.backends import DEATHS_ALLOWED, run_pool, run_serial
from gpsuite.engine.cluster import TENSORFLOW_THREADS, DaskPool
from gpsuite.engine.runner import groups_of
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Record, Task
from gpsuite.experiments.settings import check_settings
from tests.engine import tiny

DEADLINE = 120.0  # seconds for anything awaited
HOST = "127.0.0.1"
SMOKE = ("experiment=pac_bayes/regression", "scale=smoke")
LONGER = ("experiment=pac_bayes/regression", "repetitions=20")  # 60 tasks


def wait_until(condition: Callable[[], bool], *processes: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert all(process.poll() is None for process in processes), "ended before the awaited moment"
        assert time.monotonic() < end
        time.sleep(0.01)


class Cluster:
    """A scheduler and its workers as processes of ours, without nannies or dashboards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        note = folder / "scheduler.json"
        self.scheduler = self.start("scheduler", "--port", "0", "--scheduler-file", str(note), "--no-show")
        wait_until(lambda: note.exists() and note.read_text().rstrip().endswith("}"), self.scheduler)
        self.address: str = json.loads(note.read_text())["address"]

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        environment = {name: value for name, value in os.environ.items() if name not in threads}
        with (self.folder / f"log{len(self.processes)}.txt").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--host", HOST, "--no-dashboard"],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def worker(self, threads: int = 1) -> subprocess.Popen[bytes]:
        words = ("--nthreads", str(threads), "--no-nanny", "--local-directory", str(self.folder))
        return self.start("worker", self.address, *words)

    def wait_for_a_worker(self) -> None:
        logs = [self.folder / f"log{number}.txt" for number in range(1, len(self.processes))]
        wait_until(lambda: any("Registered to" in log.read_text() for log in logs), *self.processes)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait(timeout=DEADLINE)


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    with closing(Cluster(tmp_path)) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with closing(Cluster(tmp_path_factory.mktemp("cluster"))) as started:
        started.worker(), started.worker()
        with closing(DaskPool(started.address, 1)) as pool:
            wait_until(lambda: pool.workers == 2, *started.processes)
        yield started


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gpsuite.cli", "run", *words]
    environment = {**os.environ, "GPSUITE_OFFLINE": "1"}
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> str:
    try:
        _, errors = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert process.returncode == 0, errors.decode()
    return errors.decode()


def records(folder: Path) -> int:
    return len(list((folder / "results" / ".records" / "pac_bayes").glob("*.json")))


def tables(folder: Path) -> dict[str, bytes]:
    run = folder / "results" / "pac_bayes" / "regression"
    found = {p.name: p.read_bytes() for p in run.rglob("tables/*") if not p.stem.endswith("_timing")}
    assert found
    return found


def on_dask(cluster: Cluster) -> tuple[str, str]:
    return "parallel=dask", f"parallel.address={cluster.address}"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    finish(start(folder, *LONGER, "parallel=serial"))
    return tables(folder)


# settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ParallelSettings("dask"), "parallel.address: missing"),
        (ParallelSettings("dask", address="host"), "parallel.address=host: must be tcp://HOST:PORT"),
        (ParallelSettings("dask", address="http://host:1"), "parallel.address=http://host:1: must be"),
        (ParallelSettings("serial", address="tcp://host:1"), "needs parallel=dask, not serial"),
        (ParallelSettings("cluster"), "parallel.mode=cluster: unknown parallel.mode"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: ParallelSettings, expected: str) -> None:
    with pytest.raises(UserError, match=expected.replace(".", r"\.")):
        check_settings(settings, "parallel.")


@pytest.mark.parametrize("address", ["tcp://host:8786", "tls://10.0.0.1:8786", "tcp://[::1]:8786"])
def test_a_scheduler_address_is_accepted(address: str) -> None:
    check_settings(ParallelSettings("dask", address=address), "parallel.")


def test_without_distributed_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"pip install 'gpsuite\[cluster\]'"):
        DaskPool(f"tcp://{HOST}:1", 1)


# connecting


def test_an_address_nobody_listens_at_is_named_within_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(room, "CONNECT_SECONDS", 1.0)
    monkeypatch.chdir(tmp_path)
    words = ["gpsuite", "run", *SMOKE, "parallel=dask", f"parallel.address=tcp://{HOST}:1"]
    monkeypatch.setattr(sys, "argv", words)
    assert main() == 2
    said = capsys.readouterr().err
    assert f"parallel.address=tcp://{HOST}:1: no Dask scheduler answers there" in said
    assert len(said.splitlines()) <= 4


def test_a_scheduler_without_workers_is_refused(own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "CONNECT_SECONDS", 1.0)
    with pytest.raises(UserError, match="has no workers"):
        DaskPool(own_cluster.address, 1)


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        ("numpy", r"parallel\.address=.*: worker .* has numpy .* \(here 0\.9\)\n1 other workers"),
        ("gpsuite", r"parallel\.address=.*: the scheduler has gpsuite .* \(here 0\.9\)$"),
    ],
)
def test_another_version_is_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, package: str, expected: str
) -> None:
    here, inspection = os.getpid(), room._inspection

    def changed_here(names: tuple[str, ...]) -> Callable[[], dict[str, str]]:
        inspect = inspection(names)
        changed = {package: "0.9"} if package in names else {}
        return lambda: inspect() | (changed if os.getpid() == here else {})  # sent by value

    monkeypatch.setattr(room, "_inspection", changed_here)
    with pytest.raises(UserError, match=expected):
        DaskPool(cluster.address, 1)


def test_a_package_the_worker_lacks_is_named() -> None:
    theirs = {"numpy": "not installed"}
    assert room._difference({"numpy": "1.26.4"}, theirs) == "numpy not installed (here 1.26.4)"
    assert room._difference({TENSORFLOW_THREADS: "1"}, {}) == ""


# running


def test_records_equal_those_of_serial_and_threads_are_set(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    request, _ = read_request(("experiment=perturbation/coverage", "scale=smoke"))
    groups = groups_of(EXPERIMENTS.get(request.experiment).plan(request))
    assert len(groups) > 2
    with closing(DaskPool(cluster.address, 1)) as pool:
        dask = {record.key: record for record in run_pool(groups, pool, 1)}
        # the workers were started without thread limits
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result(DEADLINE) == "1"  # type: ignore[arg-type]
    serial = {record.key: record for record in run_serial(groups, 1)}
    assert serial.keys() == dask.keys()
    for key, record in serial.items():
        assert record.usable
        assert dask[key].metrics == record.metrics
        assert dask[key].arrays.keys() == record.arrays.keys()
        assert all(np.array_equal(dask[key].arrays[name], record.arrays[name]) for name in record.arrays)


def test_a_running_tensorflow_with_others_is_refused(own_cluster: Cluster) -> None:
    def import_its_face() -> None:  # nested: sent by value; the real import takes five seconds
        threading = types.SimpleNamespace(get_intra_op_parallelism_threads=lambda: 1)
        sys.modules["tensorflow"] = types.SimpleNamespace(config=types.SimpleNamespace(threading=threading))  # type: ignore[assignment]

    own_cluster.worker()
    with closing(DaskPool(own_cluster.address, 1)) as pool:
        pool.submit(import_its_face).result(DEADLINE)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"has {TENSORFLOW_THREADS} 1 \\(here 2\\)"):
        DaskPool(own_cluster.address, 2)


def test_a_worker_that_dies_breaks_its_own_group_only_and_a_later_one_is_used(own_cluster: Cluster) -> None:
    own_cluster.worker(threads=2)
    with closing(DaskPool(own_cluster.address, 1)) as pool:
        assert pool.workers == 1  # one group at a time, whatever the threads
        own_cluster.worker()
        wait_until(lambda: pool.workers == 2)
        killer = pool.submit(os._exit, 1)
        other = pool.submit(time.sleep, 1.0)  # type: ignore[arg-type]
        with pytest.raises(BrokenExecutor, match="is gone"):
            killer.result(DEADLINE)
        assert other.result(DEADLINE) is None
        assert pool.submit(abs, -3).result(DEADLINE) == 3
        assert pool.workers == 1
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result(DEADLINE)


def test_a_group_that_keeps_killing_workers_kills_three_and_becomes_an_error(
    own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def square_or_die(tasks: list[Task[Any]], threads: int) -> list[Record]:  # nested: sent by value
        from gpsuite.engine.worker import failure

        if tasks[0].params.number == 2:
            os._exit(1)
        return [replace(failure(task, ""), status="done") for task in tasks]

    monkeypatch.setattr(backends, "execute_group_there", square_or_die)
    workers = [own_cluster.worker() for _ in range(DEATHS_ALLOWED + 2)]
    own_cluster.wait_for_a_worker()  # so many start slowly on a busy machine
    with closing(DaskPool(own_cluster.address, 1)) as pool:
        wait_until(lambda: pool.workers == len(workers))
        found = list(run_pool([[tiny.task(number)] for number in range(6)], pool, 1))
    assert {record.axes["number"]: record.status for record in found} == {
        **dict.fromkeys((0, 1, 3, 4, 5), "done"),
        2: "error",
    }
    assert sum(worker.poll() is None for worker in workers) == 1


def test_a_run_left_without_workers_gives_up_in_the_end(own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "WORKERLESS_SECONDS", 1.0)
    worker = own_cluster.worker()
    with closing(DaskPool(own_cluster.address, 1)) as pool:
        worker.kill()
        with pytest.raises(UserError, match=r"no usable worker for 1 s\nwhat was computed is stored"):
            while True:
                with suppress(BrokenExecutor):  # until the loss is noticed
                    pool.submit(abs, 1).result(DEADLINE)


def test_a_pool_takes_no_more_workers_than_requested(cluster: Cluster) -> None:
    with closing(DaskPool(cluster.address, 1, most=1)) as pool:
        wait_until(lambda: len(pool._workers) == 2)
        assert pool.workers == 1
        pids = {pool.submit(os.getpid) for _ in range(6)}  # type: ignore[arg-type]
        assert len({future.result(DEADLINE) for future in pids}) == 1


def test_a_lost_scheduler_fails_what_is_in_flight_and_what_follows(own_cluster: Cluster) -> None:
    own_cluster.worker()
    with closing(DaskPool(own_cluster.address, 1)) as pool:
        running = [pool.submit(time.sleep, 60) for _ in range(2)]  # type: ignore[arg-type]
        time.sleep(0.5)
        own_cluster.scheduler.kill()
        for future in running:
            with pytest.raises(UserError, match=r"scheduler is gone.*\nwhat was computed is stored"):
                future.result(DEADLINE)
        with pytest.raises(UserError, match="scheduler is gone"):
            pool.submit(abs, 1).result(DEADLINE)


# killing, as seen by the user


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tables_equal_those_of_serial(cluster: Cluster, tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    finish(start(tmp_path, *LONGER, *on_dask(cluster)))
    assert tables(tmp_path) == undisturbed


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [1, 20])
def test_a_killed_worker_costs_nothing(
    own_cluster: Cluster, tmp_path: Path, undisturbed: dict[str, bytes], count: int
) -> None:
    first, _ = own_cluster.worker(), own_cluster.worker()
    process = start(tmp_path / "run", *LONGER, *on_dask(own_cluster))
    wait_until(lambda: records(tmp_path / "run") >= count, process)
    first.send_signal(signal.SIGKILL)
    assert records(tmp_path / "run") < 60
    finish(process)
    assert records(tmp_path / "run") == 60
    assert tables(tmp_path / "run") == undisturbed


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_without_its_scheduler_ends_with_2_and_resumes_elsewhere(
    own_cluster: Cluster, cluster: Cluster, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    own_cluster.worker()
    run = tmp_path / "run"
    process = start(run, *LONGER, *on_dask(own_cluster))
    wait_until(lambda: records(run) >= 5, process)
    own_cluster.scheduler.kill()
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 2
    said = errors.decode()
    assert "the scheduler is gone" in said and "run the same command again to resume" in said
    assert "Traceback" not in said
    assert 5 <= (survived := records(run)) < 60
    assert not list(run.glob("results/pac_bayes/regression/*/run.json"))
    assert f"{survived} of 60 tasks are stored already" in finish(start(run, *LONGER, *on_dask(cluster)))
    assert tables(run) == undisturbed
