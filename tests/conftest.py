"""Settings shared by all tests."""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

# One thread: the numbers must not depend on the machine's core count. Set before numpy is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")
gc.disable()  # until the tests are collected

import matplotlib
import pytest
from hypothesis import HealthCheck, settings
from matplotlib.figure import Figure

from gpsuite.reporting import figures

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")

# embedding fonts takes a third of the time of a figure, and tests draw hundreds
matplotlib.rcParamsDefault["pdf.use14corefonts"] = True

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def drafts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save figures without a PDF and a palette, files without waiting for the disk: a quarter of all tests' time.

    Tests of reporting and of files do it as everybody does.
    """
    if request.path.parent.name in ("reporting", "tests"):
        return
    render = figures._render

    def draft(fig: Figure, ending: str, metadata: dict[str, str | None], below: float) -> bytes:
        return b"%PDF-" if ending == "pdf" else render(fig, ending, metadata, below)

    monkeypatch.setattr(figures, "_render", draft)
    monkeypatch.setattr(figures, "shrink", lambda png, picture=False: png)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resume", action="store_true", help="skip what passed before an interruption, same sources")


def pytest_collection_finish() -> None:
    """Leave the collected tests and the imported modules out of every garbage collection: 7 % of the time."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --resume, leave out the tests that passed since the sources last changed."""
    if not config.getoption("--resume"):
        return
    path = passed_file(config)
    passed = set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


class PassedTests:
    """Notes every passed test at once, so that a killed session loses only the test in flight."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(f"{report.nodeid}\n")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            self.path.unlink(missing_ok=True)  # complete: the next session starts again


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--resume"):
        config.pluginmanager.register(PassedTests(passed_file(config)))


def passed_file(config: pytest.Config) -> Path:
    """Return the file of passed tests for the present sources."""
    digest = hashlib.sha256()
    for folder in ("gpsuite", "conf", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml", ".json", ".j2"):
                digest.update(path.read_bytes())
    return Path(config.rootpath) / ".pytest_cache" / f"passed-{digest.hexdigest()[:16]}"


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    """Close what a test has drawn: another asks whether its own figures are closed."""
    yield
    if (plots := sys.modules.get("matplotlib.pyplot")) is not None:
        plots.close("all")
