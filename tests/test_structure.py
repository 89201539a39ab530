"""Promises about the code itself: light commands import nothing heavy, functions and modules stay short."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "gpsuite").rglob("*.py"))
LIGHT = [["--help"], ["run", "--help"], ["list"], ["status"], ["compare"], ["data", "list"], ["guide", "start"]]
HEAVY = ("tensorflow", "gpflow", "matplotlib", "sklearn", "pandas", "scipy.stats")


@pytest.mark.parametrize("words", LIGHT, ids=[" ".join(words) for words in LIGHT])
def test_a_light_command_imports_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['gpsuite', *sys.argv[1:]]; from gpsuite.cli import main; code = main()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ended.stderr.splitlines()[-1] == "[]"
    assert ended.stdout


def test_planning_and_summarising_import_no_tensorflow(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.engine.folder import write_results
from gpsuite.experiments.base import EXPERIMENTS, Record
request, options = read_request(["experiment=pac_bayes/regression", "scale=smoke"])
tasks = EXPERIMENTS.get(request.experiment).plan(request)
numbers = dict.fromkeys(["bound_kl", "bound_sqrt", "gibbs_risk_train", "gibbs_risk_test", "bayes_risk_test",
                         "mse_test", "nll_test", "kl_over_n", "noise_variance", "rmse_test_own_units",
                         "kl", "log_theta", "confidence", "n_train", "bound_bayes"], 0.5)
records = [Record(task_key(t), t.experiment, t.label, t.axes, "done", "", numbers, {}) for t in tasks]
write_results(request, records, Path("out"), options.conf_dir, options.changed, {}, "")
assert list(Path("out/figures").glob("*.png"))
print([name for name in ("tensorflow", "gpflow") if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.stdout == "[]\n", ended.stderr


def test_no_experiment_imports_tensorflow_to_plan(tmp_path: Path) -> None:
    code = """
import sys
from gpsuite.config.files import group_choices
from gpsuite.config.request import read_request
from gpsuite.experiments.base import EXPERIMENTS
for name in group_choices()["experiment"]:
    if name != "tour":
        request, _ = read_request([f"experiment={name}", "scale=smoke"])
        EXPERIMENTS.get(name).plan(request)
        loaded = [heavy for heavy in ("tensorflow", "gpflow", "matplotlib") if heavy in sys.modules]
        assert not loaded, (name, loaded)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_verify_imports_no_experiment() -> None:
    code = """
import sys
import gpsuite.certificates.verification, gpsuite.certificates.risk_verification, gpsuite.commands.verify
print([name for name in sys.modules if name.startswith(("gpsuite.experiments", "gpsuite.reporting", "omegaconf"))])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout == "[]\n", ended.stderr


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(ROOT)) for path in MODULES])
def test_modules_and_functions_stay_short(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 800
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            length = (node.end_lineno or 0) - start.lineno + 1
            assert length <= 40, f"{node.name}: {length} lines of body"


def _imported_modules() -> dict[str, set[str]]:
    """Which modules of the package import each one, wherever in their text the import stands."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in MODULES}
    importers: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for found in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                    importers.get(found, set()).add(name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    importers.get(alias.name, set()).add(name)
    return importers


def test_no_small_module_has_a_single_importer() -> None:
    importers = _imported_modules()
    small = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in MODULES
        if path.name != "__init__.py" and len(path.read_text(encoding="utf-8").splitlines()) < 30
    }
    assert not [name for name in sorted(small) if len(importers[name]) == 1]


PINNED = Path(__file__).parents[1] / "scripts" / "requirements.txt"


def pinned() -> dict[str, set[str]]:
    """Return the pinned packages and the extras each is pinned with."""
    lines = PINNED.read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line.rstrip("\\ ")) for line in lines if line[:1].isalnum()]
    return {canonicalize_name(pin.name): pin.extras for pin in pins}


def test_an_extra_that_a_package_asks_for_is_pinned_with_it() -> None:
    # pip looks for a package with extras apart from the package: without a pin of its own it takes the newest
    pins = pinned()
    missing = [
        f"{name} needs {asked}"
        for name, extras in pins.items()
        for asked in map(Requirement, requires(name) or [])
        if asked.extras - pins.get(canonicalize_name(asked.name), set())
        and (asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in {"", *extras}))
    ]
    assert not missing


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_folder(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = tmp_path.glob("gpsuite-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert {"gpsuite/conf/config.yaml", "gpsuite/guide/README.md", "gpsuite/guide/start.md"} <= set(names)
    for draws in ("ten_draws", "thousand_rows", "whole_tables"):
        assert f"gpsuite/published/league/paper~{draws}/tables/league_sizes.csv" in names
    assert not [name for name in names if name.startswith(("tests/", "conf/", "data/", "results/"))]
    work = tmp_path / "work"
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "GPSUITE_OFFLINE": "1"}
    where = "import gpsuite.config.files as f; print(f.conf_dir())"
    found = subprocess.run(
        [sys.executable, "-P", "-c", where], cwd=work, env=environment, check=True, capture_output=True, text=True
    )
    assert Path(found.stdout.strip()) == tmp_path / "installed" / "gpsuite" / "conf"
    page = [sys.executable, "-P", "-m", "gpsuite.cli", "guide", "start"]
    shown = subprocess.run(page, cwd=work, env=environment, check=True, capture_output=True, text=True)
    assert shown.stdout == (ROOT / ".github/guide/start.md").read_text(encoding="utf-8")
    run = [sys.executable, "-P", "-m", "gpsuite.cli", "run", "experiment=pac_bayes/regression", "scale=smoke"]
    ended = subprocess.run(run, cwd=work, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (work / "results/pac_bayes/regression/smoke/run.json").exists()
