"""`gpsuite bench`: our time over a baseline's, the LAPACK/BLAS floor's and other libraries'. Large inputs."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields

from gpsuite.commands.tables import show_json, show_table
from gpsuite.commands.words import Words, experiment_names, read_words
from gpsuite.engine.folder import write_json
from gpsuite.engine.provenance import machine, versions
from gpsuite.engine.worker import limit_threads, peak_memory_mb, thread_environment
from gpsuite.errors import UserError, unknown
from gpsuite.reporting.files import write_text

PEERS, LARGE = "peers", "large"
THREADS = 2
HELP = """
gpsuite bench [family ...] [results_dir=DIR]
gpsuite bench peers [results_dir=DIR]
gpsuite bench large [results_dir=DIR]

Medians of interleaved CPU times, one thread. ratio is ours / reference, goal the largest allowed ratio.
peak_memory_mb is that of the process after our work, imports and earlier cases included. counted is the number of
boxes of a search. Writes bench.csv, memory.csv and machine.json to results/bench. Compare ratios, not seconds:
machines drift.

peers: other libraries on the same numbers, in the environment that `make peers` builds.
Ratios with 95 % intervals, ours against ours for the noise. Writes peers.csv.
large: single cases on large data, each in its own process with two threads. Writes large.csv.
"""


def main(words: list[str]) -> int:
    """Run the benches of the families named, all by default, and write bench.csv."""
    given = read_words(words)
    if list(given.names) == [PEERS]:
        return bench_peers(given)
    if list(given.names) == [LARGE]:
        return bench_large(given)
    for name in (PEERS, LARGE):
        if name in given.names:
            raise UserError(f"bench {name}: is a separate run\nfirst gpsuite bench, then gpsuite bench {name}")
    families = _families()
    for name in given.names:
        if name not in families:
            raise unknown(f"{name}: nothing to time", name, [*families, PEERS, LARGE])
    limit_threads(1)

    from gpsuite.bench.timing import PAIRS, run_cases, write_bench

    print(f"one thread, medians of {PAIRS} interleaved pairs. BLAS: {', '.join(_blas())}", file=sys.stderr)
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
    if not given.json:
        show_table("bench", shown)  # first: measurements are printed even if they cannot be written
    folder = given.results_dir / "bench"
    path = write_bench(folder, rows)
    here = {**machine(), "blas": _blas(), "versions": versions(), "pairs": PAIRS}
    write_json(folder / "machine.json", here)
    if given.json:
        show_json({"bench": shown, "files": [path, folder / "machine.json"]})
    else:
        print(path)
    return 0


def bench_peers(given: Words) -> int:
    """Run every case, print each ratio as it comes, and write peers.csv to results_dir/bench."""
    from gpsuite.bench.peers import PeerRow, cases, compare, peer_python

    peer_python()
    rows = []
    for row in compare(cases()):
        print(
            f"{row.case} / {row.peer}: {row.ratio:.3g} [{row.low:.3g}, {row.high:.3g}] (goal {row.goal:g}),"
            f" {row.verdict}; {row.peer_accuracy}. Set-up {row.peer_set_up:.1f} s",
            file=sys.stderr,
        )
        rows.append(row)
    return _finish(given, PEERS, [field.name for field in fields(PeerRow)], [asdict(row) for row in rows])


def bench_large(given: Words) -> int:
    """Run every case in its own process, print what it took, and write large.csv to results_dir/bench."""
    os.environ.update(thread_environment(THREADS))  # for the cases' processes, which load BLAS
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
    return _finish(given, LARGE, list(rows[0]), rows)


def _finish(given: Words, name: str, columns: Sequence[str], rows: Sequence[dict[str, object]]) -> int:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = given.results_dir / "bench" / f"{name}.csv"
    write_text(path, buffer.getvalue())
    if given.json:
        show_json({"bench": rows, "files": [path]})
    else:
        show_table(f"bench {name}", rows)
        print(path)
    return 0


def measured(work: Callable[[], str]) -> tuple[float, float, float, str]:
    """Return what some work took, including its data: seconds, CPU seconds, peak memory in MB, and its result."""
    begun, cpu_begun = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - begun, time.process_time() - cpu_begun, peak_memory_mb(), result


def _families() -> list[str]:
    families = {name.split("/")[0] for name in experiment_names(())}
    return sorted(name for name in families if importlib.util.find_spec(f"gpsuite.bench.{name}") is not None)


def _blas() -> list[str]:
    # the ratios depend on which kernels are timed
    import numpy  # noqa: F401 - loads the BLAS that threadpoolctl then finds
    import scipy.linalg  # noqa: F401 - scipy brings its own
    from threadpoolctl import threadpool_info

    return [
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
