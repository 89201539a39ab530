from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpsuite import cli


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Gpsuite = Callable[..., Ended]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, without data path or network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    monkeypatch.setattr("gpsuite.waiting.FIRST_SECONDS", 3600.0)  # what is printed must not follow the machine's load
    return tmp_path


@pytest.fixture
def gpsuite(workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gpsuite:
    """Run the command line in this process, in the workplace."""

    def run(*words: str) -> Ended:
        monkeypatch.setattr("sys.argv", ["gpsuite", *words])
        code = cli.main()
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run
