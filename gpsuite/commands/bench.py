"""`gpsuite bench`: our time over a baseline's and over the LAPACK/BLAS floor's, in one run."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import asdict

from gpsuite.commands.bench_large import LARGE, bench_large
from gpsuite.commands.bench_peers import PEERS, bench_peers
from gpsuite.commands.tables import show_table
from gpsuite.commands.words import experiment_names, read_words
from gpsuite.engine.folder import write_json
from gpsuite.engine.provenance import machine, versions
from gpsuite.engine.worker import limit_threads
from gpsuite.errors import UserError, unknown_name

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

    from gpsuite.engine.bench import PAIRS, run_cases, write_bench

    print(f"one thread, medians of {PAIRS} interleaved pairs; BLAS: {', '.join(_blas())}", file=sys.stderr)
    rows = []
    for family in given.names or families:
        cases = importlib.import_module(f"gpsuite.experiments.{family}.bench").cases()
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
        if importlib.util.find_spec(f"gpsuite.experiments.{family}.bench") is not None:
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
