from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gpsuite.engine import provenance


def test_versions_are_those_that_run() -> None:
    found = provenance.versions()
    assert found["numpy"] == np.__version__
    assert found["python"] == platform.python_version()
    assert "not installed" not in found.values()


def test_the_commit_is_gits() -> None:
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        pytest.skip("not a git checkout")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
    assert provenance.git_state()["commit"] == head.stdout.strip()


def test_an_installed_package_has_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        provenance, "__file__", str(tmp_path / "site-packages" / "gpsuite" / "engine" / "x.py")
    )
    assert provenance.git_state() == {"commit": None, "dirty": None}


def test_the_machine_is_described() -> None:
    found = provenance.machine()
    assert found["processor"]
    assert found["cores"] >= 1
    assert found["memory_gb"] is None or found["memory_gb"] > 0
