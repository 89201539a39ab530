"""The wheel carries conf/ and runs far from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_folder(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = tmp_path.glob("gpsuite-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert "gpsuite/conf/config.yaml" in names
    assert not [name for name in names if name.startswith(("tests/", "conf/", "data/", "results/"))]
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "GPSUITE_OFFLINE": "1"}
    where = "import gpsuite.config.files as f; print(f.conf_dir())"
    found = subprocess.run(
        [sys.executable, "-P", "-c", where],
        cwd=work,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(found.stdout.strip()) == tmp_path / "installed" / "gpsuite" / "conf"
    run = [sys.executable, "-P", "-m", "gpsuite.cli", "run", "experiment=pac_bayes/regression", "scale=smoke"]
    ended = subprocess.run(run, cwd=work, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (work / "results/pac_bayes/regression/smoke/run.json").exists()
