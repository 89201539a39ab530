"""Timing two ways of doing the same work, interleaved in one process, so that drift of the machine cancels."""

from __future__ import annotations

import csv
import io
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpsuite.engine.worker import peak_memory_mb
from gpsuite.experiments.benchmark import BenchCase, Work
from gpsuite.reporting.atomic import write_text

PAIRS = 9  # interleaved repetitions per case
SHORT = 0.05  # seconds: shorter work is repeated within one timing
SLOW = 5.0  # seconds of CPU time: beyond, the warm-up alone says that once is enough
COLUMNS = ("family", "case", "seconds", "reference", "reference_seconds", "ratio", "goal")
MEMORY_COLUMNS = ("family", "case", "peak_memory_mb")


@dataclass(frozen=True)
class BenchRow:
    """One line of bench.csv and of memory.csv; seconds are medians of CPU seconds per call.

    `peak_memory_mb` is the process's peak resident memory once our work has run, before the reference has.
    """

    family: str
    case: str
    seconds: float
    reference: str
    reference_seconds: float
    ratio: float
    goal: float
    peak_memory_mb: float


def run_cases(family: str, cases: Sequence[BenchCase], pairs: int = PAIRS) -> Iterator[BenchRow]:
    """Time every case with one thread and yield its row."""
    from threadpoolctl import threadpool_limits

    for case in cases:
        with threadpool_limits(limits=1):
            ours, reference = case.prepare()
            mine, theirs, memory = _interleaved(ours, reference, case.pairs or pairs)
        yield BenchRow(family, case.case, mine, case.reference, theirs, mine / theirs, case.goal, memory)


def write_bench(folder: Path, rows: Sequence[BenchRow]) -> Path:
    """Write bench.csv and memory.csv, keeping the rows of families that were not run now; return the first."""
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


def read_bench(path: Path) -> list[dict[str, str]]:
    """Return the rows of bench.csv as text; none when there is no such file."""
    return _read(path, COLUMNS)


def _read(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return [{name: row.get(name) or "" for name in columns} for row in csv.DictReader(stream)]


def _interleaved(ours: Work, reference: Work, pairs: int) -> tuple[float, float, float]:
    """Return the median seconds of both, after a warm-up, run in turn, and the peak memory in MB after our warm-up."""
    mine = _repeats(ours)
    memory = peak_memory_mb()
    repeats = [mine, _repeats(reference)]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        for work, count, taken in zip((ours, reference), repeats, times, strict=True):
            taken.append(_cpu_seconds(work, count))
    return statistics.median(times[0]), statistics.median(times[1]), memory


def _repeats(work: Work) -> int:
    first = _cpu_seconds(work, 1)  # warm-up: compilation, page faults, caches
    if first > SLOW:
        return 1
    return max(1, round(SHORT / max(_cpu_seconds(work, 1), 1e-6)))


def _cpu_seconds(work: Work, count: int) -> float:
    start = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - start) / count
