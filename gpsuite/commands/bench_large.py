"""`gpsuite bench large`: time and memory of single works on large data."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from gpsuite.commands.bench_peers import write_csv
from gpsuite.commands.tables import show_table
from gpsuite.engine.worker import peak_memory_mb, thread_environment

LARGE = "large"
THREADS = 2


def bench_large(results_dir: Path) -> int:
    """Run every case in a process of its own, print what it took, and write large.csv to results_dir/bench."""
    os.environ.update(thread_environment(THREADS))  # of a case's process, which loads BLAS
    from gpsuite.experiments.large import cases

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
