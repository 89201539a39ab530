"""`gpsuite bench`: our time over a baseline's and over the LAPACK/BLAS floor's, in one run."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from pathlib import Path

from gpsuite.commands.tables import show_table
from gpsuite.commands.words import experiment_names, read_words
from gpsuite.engine.folder import write_json
from gpsuite.engine.provenance import machine, versions
from gpsuite.engine.worker import limit_threads, peak_memory_mb, thread_environment
from gpsuite.errors import UserError, unknown_name
from gpsuite.reporting.files import write_text

# `gpsuite bench large`: time and memory of single works on large data.


LARGE = "large"
THREADS = 2


def bench_large(results_dir: Path) -> int:
    """Run every case in a process of its own, print what it took, and write large.csv to results_dir/bench."""
    os.environ.update(thread_environment(THREADS))  # of a case's process, which loads BLAS
    from gpsuite.bench.large import cases

    rows = []
    for each in cases():
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            seconds, cpu_seconds, memory, result = pool.submit(measured, each.work).result()
        row = {
            "case": each.case,
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "goal_seconds": each.seconds,
            "peak_memory_mb": memory,
            "goal_memory_mb": each.memory_mb,
            "reached": "yes" if seconds <= each.seconds and memory <= each.memory_mb else "no",
            "result": result,
        }
        print(
            f"{each.case}: {seconds:.0f} s (goal {each.seconds:g}; {cpu_seconds:.0f} CPU s),"
            f" {memory:.0f} MB (goal {each.memory_mb:g}); {result}",
            file=sys.stderr,
        )
        rows.append(row)
    path = results_dir / "bench" / "large.csv"
    write_csv(path, list(rows[0]), rows)
    show_table("bench large", rows)
    print(path)
    return 0


def measured(work: Callable[[], str]) -> tuple[float, float, float, str]:
    """Return what some work took, making its data included: seconds, CPU seconds, peak memory in MB; and its result."""
    begun, cpu_begun = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - begun, time.process_time() - cpu_begun, peak_memory_mb(), result


# `gpsuite bench peers`: our time beside other libraries', each in the environment that `make peers` builds.


PEERS = "peers"


def bench_peers(results_dir: Path) -> int:
    """Run every case, print each ratio as it comes, and write peers.csv to results_dir/bench."""
    from gpsuite.bench.peers import PeerRow, cases, compare, peer_python

    peer_python()
    rows = []
    for row in compare(cases()):
        print(
            f"{row.case} / {row.peer}: {row.ratio:.3g} [{row.low:.3g}, {row.high:.3g}] (goal {row.goal:g}),"
            f" {row.verdict}; {row.peer_accuracy}; set-up {row.peer_set_up:.1f} s",
            file=sys.stderr,
        )
        rows.append(row)
    path = results_dir / "bench" / "peers.csv"
    write_csv(path, [field.name for field in fields(PeerRow)], [asdict(row) for row in rows])
    show_table("bench peers", [asdict(row) for row in rows])
    print(path)
    return 0


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[dict[str, object]]) -> None:
    """Write rows of these columns in one step."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, buffer.getvalue())


HELP = """
gpsuite bench [family ...] [results_dir=DIR]
gpsuite bench peers [results_dir=DIR]
gpsuite bench large [results_dir=DIR]

Medians of interleaved CPU times, one thread. ratio = ours / reference; goal = largest allowed ratio.
peak_memory_mb: of the process once our work has run, imports and earlier
cases included; counted: the boxes of a search. Writes bench.csv, memory.csv
and machine.json to results/bench. Compare ratios, not seconds: machines drift.

peers: other libraries on the same numbers, in the environment that `make peers` builds;
ratios with 95 % intervals, ours against ours for the noise; writes peers.csv.
large: single works on large data, each in a process of its own with two threads; writes large.csv.
"""


def main(words: list[str]) -> int:
    """Run the benches of the families named, all by default, and write bench.csv."""
    given = read_words(words)
    if list(given.names) == [PEERS]:
        return bench_peers(given.results_dir)
    if list(given.names) == [LARGE]:
        return bench_large(given.results_dir)
    for name in (PEERS, LARGE):
        if name in given.names:
            raise UserError(f"bench {name}: runs alone\nfirst gpsuite bench, then gpsuite bench {name}")
    families = _families()
    for name in given.names:
        if name not in families:
            raise unknown_name("family", name, [*families, PEERS, LARGE])
    limit_threads(1)

    from gpsuite.bench.timing import PAIRS, run_cases, write_bench

    print(f"one thread, medians of {PAIRS} interleaved pairs; BLAS: {', '.join(_blas())}", file=sys.stderr)
    rows = []
    for family in given.names or families:
        cases = importlib.import_module(f"gpsuite.bench.{family}").cases()
        for row in run_cases(family, cases):
            counted = " against ".join(filter(None, (row.counted, row.reference_counted)))
            print(
                f"{row.case} / {row.reference}: {row.ratio:.2f} (goal {row.goal:g}), {row.peak_memory_mb:.0f} MB"
                + f", {counted}" * bool(counted),
                file=sys.stderr,
            )
            rows.append(row)
    shown = [{**asdict(row), "reached": "yes" if row.ratio <= row.goal else "no"} for row in rows]
    show_table("bench", shown)  # first: what was measured is not lost where it cannot be written
    folder = given.results_dir / "bench"
    path = write_bench(folder, rows)
    write_json(
        folder / "machine.json", {**machine(), "blas": _blas(), "versions": versions(), "pairs": PAIRS}
    )
    print(path)
    return 0


def _families() -> list[str]:
    return sorted(set(_with_bench()))


def _with_bench() -> Iterator[str]:
    for family in {name.split("/")[0] for name in experiment_names(())}:
        if importlib.util.find_spec(f"gpsuite.bench.{family}") is not None:
            yield family


def _blas() -> list[str]:
    """Return which BLAS kernels are timed: the ratios depend on them."""
    import numpy  # noqa: F401 - loads the BLAS that threadpoolctl then finds
    import scipy.linalg  # noqa: F401 - scipy brings its own
    from threadpoolctl import threadpool_info

    return [
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
