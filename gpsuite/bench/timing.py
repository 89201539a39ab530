"""A family's benchmarks for `gpsuite bench`: our work next to a reference's."""

from __future__ import annotations

import csv
import io
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpsuite.engine.worker import peak_memory_mb
from gpsuite.reporting.files import read_bytes, write_text

Work = Callable[[], object]


@dataclass(frozen=True)
class BenchCase:
    """Ours against a reference.

    Attributes:
        case: what is computed, with its size.
        reference: what it is compared with.
        prepare: called once. Returns our work and the reference's work.
        goal: largest allowed ratio ours / reference.
        pairs: repetitions of both, where a slow reference allows fewer than usual.
        count: says from the result of either work how much it did ("163 boxes"); "" where it says nothing.
    """

    case: str
    reference: str
    prepare: Callable[[], tuple[Work, Work]]
    goal: float
    pairs: int | None = None
    count: Callable[[Any], str] | None = None


# Timing two ways of doing the same work, interleaved in one process, so that drift of the machine cancels.


PAIRS = 9  # interleaved repetitions per case
SHORT = 0.05  # seconds: shorter work is repeated within one timing
SLOW = 5.0  # seconds of CPU time: above this, the warm-up shows that once is enough
COLUMNS = ("family", "case", "seconds", "reference", "reference_seconds", "ratio", "goal")
MEMORY_COLUMNS = ("family", "case", "peak_memory_mb", "counted", "reference_counted")


@dataclass(frozen=True)
class BenchRow:
    """One line of bench.csv and of memory.csv. Seconds are medians of CPU seconds per call.

    `peak_memory_mb` is the process's peak resident memory once our work has run, before the reference has.
    `counted` and `reference_counted` are what the case counts in both works' results.
    """

    family: str
    case: str
    seconds: float
    reference: str
    reference_seconds: float
    ratio: float
    goal: float
    peak_memory_mb: float
    counted: str = ""
    reference_counted: str = ""


def run_cases(family: str, cases: Sequence[BenchCase], pairs: int = PAIRS) -> Iterator[BenchRow]:
    """Time every case with one thread and yield its row."""
    from threadpoolctl import threadpool_limits

    for case in cases:
        with threadpool_limits(limits=1):
            works = case.prepare()
            (mine, theirs), results, memory = _interleaved(works, case.pairs or pairs)
        counted = (case.count(each) if case.count else "" for each in results)
        ratio = mine / theirs
        yield BenchRow(family, case.case, mine, case.reference, theirs, ratio, case.goal, memory, *counted)


def write_bench(folder: Path, rows: Sequence[BenchRow]) -> Path:
    """Write bench.csv and memory.csv, keeping the rows of families that were not run now. Return the first."""
    for name, columns in (("memory.csv", MEMORY_COLUMNS), ("bench.csv", COLUMNS)):
        _write(folder / name, columns, rows)
    return folder / "bench.csv"


def _write(path: Path, columns: Sequence[str], rows: Sequence[BenchRow]) -> None:
    ran = {row.family for row in rows}
    kept = [row for row in _read(path, columns) if row["family"] not in ran]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept)
    writer.writerows([{name: getattr(row, name) for name in columns} for row in rows])
    write_text(path, buffer.getvalue())


def _read(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    if not path.exists():
        return []
    lines = io.StringIO(read_bytes(path).decode("utf-8"), newline="")
    return [{name: row.get(name) or "" for name in columns} for row in csv.DictReader(lines)]


def _interleaved(works: tuple[Work, Work], pairs: int) -> tuple[tuple[float, float], tuple[object, object], float]:
    """Time both works in turn, after a warm-up.

    Returns:
        the median seconds of both, their last results, and the peak memory in MB after our warm-up.
    """
    mine = _repeats(works[0])
    memory = peak_memory_mb()
    repeats = (mine, _repeats(works[1]))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        results = []
        for work, count, taken in zip(works, repeats, times, strict=True):
            seconds, result = _timed(work, count)
            taken.append(seconds)
            results.append(result)
    return (statistics.median(times[0]), statistics.median(times[1])), (results[0], results[1]), memory


def _repeats(work: Work) -> int:
    first, _ = _timed(work, 1)  # warm-up: compilation, page faults, caches
    if first > SLOW:
        return 1
    return max(1, round(SHORT / max(_timed(work, 1)[0], 1e-6)))


def _timed(work: Work, count: int) -> tuple[float, object]:
    """Return the CPU seconds of one call, the mean of `count`, and the last one's result."""
    start = time.process_time()
    for _ in range(count):
        result = work()
    return (time.process_time() - start) / count, result
