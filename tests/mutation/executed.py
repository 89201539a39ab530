"""Which tests execute which lines, and how long they take: recorded once per test file, cached."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.faults import Fault

SOURCES = ("gpsuite/methods", "gpsuite/models")
TESTS = ("tests/methods", "tests/models")
_IMPORT, _SETUP = "import", "setup"
_LEAST_SECONDS, _SLOWER, _FIXTURES = 5.0, 8.0, 120.0
"""A test that takes this much longer than when it was recorded hangs; what its fixtures may take."""


@dataclass(frozen=True)
class TestFile:
    """What one test file executes: by test, by the fixtures of all, by import; lines by module."""

    __test__ = False
    name: str
    digest: str
    seconds: dict[str, float]
    lines: dict[str, dict[str, list[int]]]

    def executing(self, modules: dict[str, set[int]]) -> set[str]:
        """Return the tests that execute one of the lines, all of them where a fixture does."""
        found = {
            where
            for where, executed in self.lines.items()
            if any(not lines.isdisjoint(executed.get(module, ())) for module, lines in modules.items())
        }
        return set(self.seconds) if _SETUP in found else found & set(self.seconds)


def digest(*paths: Path) -> str:
    """Return a hash of the files' contents."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def shared_digest(root: Path) -> str:
    """Return a hash of what every test may depend on: the package and the tests' helpers."""
    helpers = [path for path in sorted((root / "tests").rglob("*.py")) if not path.name.startswith("test_")]
    kept = [path for path in helpers if path.parent.name != "mutation"]
    return digest(*sorted((root / "gpsuite").rglob("*.py")), *kept)


def record(root: Path, cache: Path, say: Callable[[str], None]) -> list[TestFile]:
    """Return what each test file executes; files recorded before are read from the cache."""
    shared, found = shared_digest(root), []
    for path in sorted(path for folder in TESTS for path in (root / folder).rglob("test_*.py")):
        numbers = path.with_name(f"{path.stem.removeprefix('test_')}.json.gz")  # of tests/golden.py
        own = digest(path, *([numbers] if numbers.exists() else []))
        stored = cache / f"executed-{shared}-{own}.json"
        if not stored.exists():
            start = time.perf_counter()
            in_child(functools.partial(_record_file, root, path, stored), seconds=3600)
            if not stored.exists():
                raise SystemExit(f"{path.relative_to(root)}: cannot be recorded, does it pass?")
            say(f"recorded {path.relative_to(root)} ({time.perf_counter() - start:.0f} s)")
        content = json.loads(stored.read_text(encoding="utf-8"))
        found.append(TestFile(path.relative_to(root).as_posix(), own, content["seconds"], content["lines"]))
    return found


def _record_file(root: Path, path: Path, stored: Path) -> None:
    import coverage

    data = coverage.Coverage(data_file=None, config_file=False, source=[str(root / folder) for folder in SOURCES])
    data.start()
    data.switch_context(_IMPORT)
    watch = _Recorder(data)
    run_tests(root, [path.relative_to(root).as_posix()], watch)
    data.stop()
    measured = data.get_data()
    lines: dict[str, dict[str, list[int]]] = {}
    for name in measured.measured_files():
        module = Path(name).relative_to(root).as_posix()
        for line, contexts in measured.contexts_by_lineno(name).items():
            for context in contexts:
                lines.setdefault(context, {}).setdefault(module, []).append(line)
    if not watch.failed:
        part = stored.with_suffix(".part")
        part.write_text(json.dumps({"seconds": watch.seconds, "lines": lines}), encoding="utf-8")
        part.replace(stored)


class _Recorder:
    """Switches the coverage context and the clock with the tests."""

    def __init__(self, data: Any) -> None:
        self.data, self.failed = data, False
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.data.switch_context(_SETUP)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.data.switch_context(item.nodeid)
        start = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - start
        self.data.switch_context(_SETUP)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= report.failed
        if report.skipped:
            self.seconds.pop(report.nodeid, None)


def run_tests(root: Path, names: list[str], *plugins: Any) -> int:
    """Run the fast tests among the names in this process, in their order, until one fails."""
    os.chdir(root)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the others cost more than most tests
    options = ["-x", "-q", "--tb=line", f"--rootdir={root}"]
    options += ["-p", "no:cacheprovider", "-p", "pytest_timeout", "--timeout=0"]
    options += ["-m", "not slow and not guarantee and not network"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, *names], plugins=[NoShrinking(), *plugins]))


class NoShrinking:
    """A first counterexample of hypothesis is enough."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.reuse, Phase.generate)
        settings.register_profile("mutation", settings.get_profile("ci"), phases=phases)
        settings.load_profile("mutation")


class TimeLimit:
    """Ends the process (SIGXCPU) when a test computes much longer than it did without a fault."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _limit(_FIXTURES)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        _limit(_LEAST_SECONDS + _SLOWER * self.seconds.get(item.nodeid, 0.0))


def _limit(seconds: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, resource.RLIM_INFINITY))


def in_child(work: Callable[[], None], seconds: float) -> None:
    """Run the work in a fork of this process and wait; its output is dropped."""
    os.waitpid(fork(work, seconds), 0)


def fork(work: Callable[[], None], seconds: float) -> int:
    """Return the process id of a fork that does the work, at most that many seconds by the clock."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(seconds))
        work()
    finally:
        os._exit(0)


def tests_for(fault: Fault, files: list[TestFile], root: Path, budget: float) -> dict[str, float]:
    """Return the tests to run and their seconds: executing the line first, then the others of their files.

    Files and tests with little to compute come first; together they take at most about `budget` seconds.
    The other tests of a file are there for what is computed once and kept.
    """
    wanted = _lines_of(fault, root)
    chosen = [(file, file.executing(wanted)) for file in files]
    chosen = [(file, names) for file, names in chosen if names]
    if not chosen:
        chosen = [(file, set(file.seconds)) for file in files if fault.path in file.lines.get(_IMPORT, {})]
    chosen.sort(key=lambda pair: (sum(pair[0].seconds[name] for name in pair[1]), pair[0].name))
    others = [(file, set(file.seconds) - names) for file, names in chosen]
    order: dict[str, float] = {}
    for file, names in [*chosen, *others]:
        for name in sorted(names, key=lambda name: (file.seconds[name], name)):
            if sum(order.values()) + file.seconds[name] <= budget or not order:
                order[name] = file.seconds[name]
    return order


def _lines_of(fault: Fault, root: Path) -> dict[str, set[int]]:
    """Return the lines that show the fault when executed: its own, or those that name a module's constant."""
    first, last = fault.lines
    constant = re.match(r"(\w+)(?::.*)? = ", _rows(root / fault.path)[first - 1])
    if constant is None:
        return {fault.path: set(range(first, last + 1))}
    word = re.compile(rf"\b{constant[1]}\b")
    return {
        path.relative_to(root).as_posix(): {k for k, row in enumerate(_rows(path), 1) if word.search(row)}
        for folder in SOURCES
        for path in (root / folder).rglob("*.py")
    }


@functools.cache
def _rows(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
