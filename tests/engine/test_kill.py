"""Killing a run, or one of its workers, at any point costs at most the task in flight."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

WORDS = ("experiment=pac_bayes/regression", "repetitions=20")  # 60 tasks
DEADLINE = 300.0  # seconds until the awaited number of records must exist


def start(folder: Path, mode: str, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "GPSUITE_OFFLINE": "1"}
    command = [sys.executable, "-m", "gpsuite.cli", "run", *WORDS, f"parallel={mode}", "parallel.workers=2", *words]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> str:
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, errors.decode()
    return errors.decode()


def records(folder: Path) -> int:
    return len(list((folder / "results" / ".records" / "pac_bayes").glob("*.json")))


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert process.poll() is None, "the run ended before the awaited moment"
        assert time.monotonic() < end
        time.sleep(0.01)


def tables(folder: Path) -> dict[str, bytes]:
    run = folder / "results" / "pac_bayes" / "regression"
    found = {path.name: path.read_bytes() for path in run.rglob("tables/*") if not path.stem.endswith("_timing")}
    assert found
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    finish(start(folder, "serial"))
    return tables(folder)


@pytest.mark.parametrize("mode", ["serial", "processes"])
@pytest.mark.parametrize("count", [1, 5, 50])
def test_a_killed_run_resumes_to_byte_identical_tables(
    tmp_path: Path, undisturbed: dict[str, bytes], mode: str, count: int
) -> None:
    process = start(tmp_path, mode)
    wait_until(lambda: records(tmp_path) >= count, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    survived = records(tmp_path)
    assert count <= survived < 60
    assert not list((tmp_path / "results").glob("pac_bayes/regression/*/run.json"))
    said = finish(start(tmp_path, mode))
    assert f"{survived} of 60 tasks are stored already" in said
    assert tables(tmp_path) == undisturbed


def test_processes_give_the_tables_of_serial(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    finish(start(tmp_path, "processes"))
    assert tables(tmp_path) == undisturbed


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds worker processes through /proc")
def test_a_killed_worker_costs_nothing(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    process = start(tmp_path, "processes")
    for count in (2, 20):
        wait_until(lambda count=count: records(tmp_path) >= count, process)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    finish(process)
    assert records(tmp_path) == 60
    assert tables(tmp_path) == undisturbed


def test_no_worker_outlives_a_killed_run(tmp_path: Path) -> None:
    process = start(tmp_path, "processes")
    wait_until(lambda: records(tmp_path) >= 2, process)
    workers = workers_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < end:
        time.sleep(0.2)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def workers_of(parent: int) -> list[int]:
    """Return the parent's children that run tasks (not the resource tracker)."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
            command = (status.parent / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if int(fields[1]) == parent and b"popen_loky" in command:
            found.append(int(status.parent.name))
    return sorted(found)
