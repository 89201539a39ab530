"""Which share of random small faults do the fast tests notice? `make mutants`, or `python -m tests.mutation --help`.

Faults (a comparison, an operator, a constant, min for max, swapped arguments) are planted one at a time, in memory
only: this process has imported TensorFlow and forks; the fork imports the changed module and runs the tests that
execute the changed line, cheapest first, until one fails. Every outcome is stored at once under a hash of the package,
the fault and the tests, so the same command goes on after an interruption. Faults that change nothing that is promised
are listed with the reason in equivalent.toml and are not counted.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import functools
import gc
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import linecache
import os
import resource
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.mutation.executed import (
    SOURCES,
    TestFile,
    TimeLimit,
    digest,
    fork,
    record,
    run_tests,
    shared_digest,
    tests_for,
)
from tests.mutation.faults import Fault, faults, plant

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".mutants"
PRELOADED = ("scipy.optimize", "scipy.stats", "sklearn.cluster", "hypothesis.extra.numpy", "pandas", "clarabel",
             "tensorflow", "tensorflow_probability", "gpflow")  # fmt: skip
_MEMORY = 6 << 30


@dataclass(frozen=True)
class Trial:
    """One fault and the tests that can notice it."""

    fault: Fault
    change: str
    seconds: dict[str, float]
    key: str
    tests: dict[str, str]

    def __str__(self) -> str:
        return f"{self.fault.path}:{self.fault.line}: {self.change}"


class Planted(importlib.abc.MetaPathFinder):
    """Imports one module with its fault, from memory."""

    def __init__(self, fault: Fault) -> None:
        self.name, self.fault = fault.path.removesuffix(".py").replace("/", "."), fault
        self.name = self.name.removesuffix(".__init__")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert found is not None and found.origin is not None
        number = self.fault.number

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                tree, _ = plant(Path(self.path).read_text(encoding="utf-8"), number)
                text = ast.unparse(tree)
                # TensorFlow's AutoGraph reads the source of what it traces
                linecache.cache[self.path] = (len(text), None, text.splitlines(keepends=True), self.path)
                return compile(text, self.path, "exec", dont_inherit=True)

        return importlib.util.spec_from_file_location(fullname, found.origin, loader=Loader(fullname, found.origin))


class Noticed:
    """Writes which test failed."""

    def __init__(self, outcome: int) -> None:
        self.outcome = outcome

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.pwrite(self.outcome, f"hangs {nodeid}\n".ljust(1000).encode(), 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os.pwrite(self.outcome, f"fails {report.nodeid}\n".ljust(1000).encode(), 0)


def sample(paths: list[str], seed: int, size: int) -> Iterator[tuple[Fault, str]]:
    """Yield faults and their changes in random order; the order of the others does not depend on an edit elsewhere."""
    with Path(__file__).with_name("equivalent.toml").open("rb") as stream:
        equivalent = tomllib.load(stream)["equivalent"]
    files = sorted({file for name in paths for file in [ROOT / name, *(ROOT / name).rglob("*.py")] if file.is_file()})
    seen: Counter[tuple[str, str]] = Counter()
    order = []
    for fault in (fault for file in files for fault in faults(ROOT, file)):
        seen[fault.path, fault.text] += 1
        same = seen[fault.path, fault.text]
        word = f"{seed} {fault.path} {fault.text} {same}"
        order.append((hashlib.sha256(word.encode()).hexdigest(), fault))
    counted = 0
    for _, fault in sorted(order, key=lambda pair: pair[0]):
        if counted == size:
            return
        _, change = plant((ROOT / fault.path).read_text(encoding="utf-8"), fault.number)
        if not any(_matches(entry, fault, change) for entry in equivalent):
            counted += 1
            yield fault, change


def _matches(entry: dict[str, str], fault: Fault, change: str) -> bool:
    """Say whether an entry of the equivalent faults is about this one; * means anything."""
    pairs = (("file", fault.path), ("line", fault.text), ("change", change))
    return all(fnmatch.fnmatchcase(text, entry.get(name, "*").replace("[", "[[]")) for name, text in pairs)


def trials(arguments: argparse.Namespace, files: list[TestFile], shared: str) -> list[Trial]:
    """Return the sample with its tests."""
    found = []
    for fault, change in sample(arguments.paths, arguments.seed, arguments.sample):
        seconds = tests_for(fault, files, ROOT, arguments.seconds)
        used = {name.split("::")[0] for name in seconds}
        tests = {file.name: file.digest for file in files if file.name in used}
        key = hashlib.sha256(f"{shared} {fault} {change}".encode()).hexdigest()[:24]
        found.append(Trial(fault, change, seconds, key, tests))
    return found


def run(trial: Trial, outcome: Path) -> int:
    """Plant the fault in a fork that runs its tests and writes what it saw; return its process id."""

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (_virtual_memory() + _MEMORY,) * 2)
        sys.meta_path.insert(0, Planted(trial.fault))
        with outcome.open("wb", buffering=0) as stream:
            os.pwrite(stream.fileno(), b"fails at import\n", 0)
            code = run_tests(ROOT, list(trial.seconds), TimeLimit(trial.seconds), Noticed(stream.fileno()))
            if code == pytest.ExitCode.OK:
                os.pwrite(stream.fileno(), b"not noticed\n".ljust(1000), 0)

    return fork(work, 60 + 20 * sum(trial.seconds.values()))


def _virtual_memory() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


def measure(todo: list[Trial], processes: int, stored: Path) -> None:
    """Run the trials and append each outcome as it ends."""
    running: dict[int, tuple[Trial, Path]] = {}
    waiting = list(reversed(todo))
    done = 0
    while waiting or running:
        while waiting and len(running) < processes:
            trial = waiting.pop()
            outcome = CACHE / f"{trial.key}.running"
            if trial.seconds:
                running[run(trial, outcome)] = (trial, outcome)
            else:
                _store(stored, trial, "not noticed: no test executes it")
        if running:
            child, _ = os.wait()
            trial, outcome = running.pop(child)
            text = outcome.read_text(encoding="utf-8").split("\n")[0].strip()
            outcome.unlink()
            done += 1
            _store(stored, trial, text)
            print(f"{done:4d}/{len(todo)} {trial}\n          {text}", flush=True)


def _store(stored: Path, trial: Trial, outcome: str) -> None:
    """Append an outcome; it holds as long as the test that noticed does not change, or all of them if none did."""
    test = outcome.split(" ", 1)[1].split("::")[0]
    row = {"key": trial.key, "tests": trial.tests.get(test, _all(trial)), "fault": str(trial), "outcome": outcome}
    with stored.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")


def _all(trial: Trial) -> str:
    return hashlib.sha256(" ".join(sorted(trial.tests.values())).encode()).hexdigest()[:24]


def outcomes(stored: Path, trials: list[Trial]) -> dict[str, str]:
    """Return the stored outcomes that still hold; a line cut off by an interruption is left out."""
    rows = stored.read_text(encoding="utf-8").splitlines() if stored.exists() else []
    found = {(row["key"], row["tests"]): row["outcome"] for row in map(json.loads, filter(_whole, rows))}
    return {
        trial.key: found[trial.key, tests]
        for trial in trials
        for tests in [_all(trial), *trial.tests.values()]
        if (trial.key, tests) in found
    }


def _whole(row: str) -> bool:
    return row.startswith("{") and row.endswith("}")


def summary(trials: list[Trial], found: dict[str, str]) -> str:
    """Return the faults that no test noticed and the shares, with exact 95 % intervals."""
    from scipy.stats import binomtest

    missed = [trial for trial in trials if found[trial.key].startswith("not noticed")]
    lines = [f"{trial}\n    {trial.fault.text}\n    {found[trial.key]}" for trial in missed]
    rooms = Counter(_room(trial) for trial in trials)
    for name, count in [*sorted(rooms.items()), ("all", len(trials))]:
        noticed = count - sum(name in ("all", _room(trial)) for trial in missed)
        low, high = binomtest(noticed, count).proportion_ci(0.95, "exact")
        lines.append(f"{name:24s} {noticed:4d} of {count:4d} noticed: {noticed / count:.3f} [{low:.3f}, {high:.3f}]")
    return "\n".join(lines)


def _room(trial: Trial) -> str:
    return "/".join(Path(trial.fault.path).parts[1 : 3 if "methods" in trial.fault.path else 2])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="*", default=SOURCES, help="folders or files to plant faults in")
    parser.add_argument("--sample", type=int, default=150, help="number of faults (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="faults tried at a time (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="at most so many seconds of tests a fault (default %(default)s)"
    )
    arguments = parser.parse_args()
    for name, value in (
        ("OMP_NUM_THREADS", "1"),
        ("OPENBLAS_NUM_THREADS", "1"),
        ("TF_NUM_INTRAOP_THREADS", "1"),
        ("TF_NUM_INTEROP_THREADS", "1"),
        ("TF_CPP_MIN_LOG_LEVEL", "3"),
        ("MPLBACKEND", "Agg"),
    ):
        os.environ.setdefault(name, value)
    CACHE.mkdir(exist_ok=True)
    sys.dont_write_bytecode, sys.pycache_prefix = False, str(CACHE / "bytecode")
    for name in PRELOADED:
        importlib.import_module(name)
    assert not any(name.startswith("gpsuite") for name in sys.modules), "the fork must import it with its fault"
    gc.freeze()  # TensorFlow's objects: a collection in a fork would copy and walk them all
    files = record(ROOT, CACHE, functools.partial(print, flush=True))
    stored = CACHE / "outcomes.jsonl"
    shared = shared_digest(ROOT) + digest(Path(__file__).with_name("faults.py"))
    chosen = trials(arguments, files, shared)
    before = outcomes(stored, chosen)
    start = time.perf_counter()
    measure([trial for trial in chosen if trial.key not in before], arguments.processes, stored)
    print(summary(chosen, outcomes(stored, chosen)))
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
