from __future__ import annotations

import csv
import itertools
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gpsuite.bench.timing import COLUMNS, BenchCase, Work, run_cases, write_bench
from gpsuite.engine.worker import peak_memory_mb


def burn(seconds: float) -> Work:
    def work() -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    return work


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_ratio_is_that_of_the_work(tmp_path: Path) -> None:
    case = BenchCase("short", "long", lambda: (burn(0.004), burn(0.012)), goal=0.5)
    [row] = run_cases("family", [case], pairs=7)
    assert 0.2 < row.ratio < 0.5  # a third, with room for a busy machine
    write_bench(tmp_path, [row])
    [read] = rows_of(tmp_path / "bench.csv")
    assert tuple(read) == COLUMNS
    assert float(read["ratio"]) == row.ratio


def test_the_memory_is_that_of_our_work_and_not_the_references() -> None:
    """In a fresh process: this one may be so large that going beyond its largest size takes seconds."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(_measure_memory).result()


def _measure_memory() -> None:
    before = peak_memory_mb()
    room = 200  # MB beyond the largest the process ever was
    taken = int(before + room) * 10**6 // 8
    cheap, large = burn(0.06), partial(np.ones, taken)
    [spared] = run_cases("family", [BenchCase("small", "large", lambda: (cheap, large), 1.0)], pairs=1)
    assert spared.peak_memory_mb < before + room / 2
    [used] = run_cases("family", [BenchCase("large", "small", lambda: (large, cheap), 1.0)], pairs=1)
    assert used.peak_memory_mb > before + room / 2


def test_families_not_run_now_keep_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "bench.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        writer.writerow(["old", "a", 1, "b", 2, 0.5, 1, 100])
        writer.writerow(["family", "a", 1, "b", 2, 0.5, 1, 100])
    [row] = run_cases("family", [BenchCase("c", "d", lambda: (burn(1e-3), burn(1e-3)), 2.0)], pairs=1)
    write_bench(path.parent, [row])
    assert [(line["family"], line["case"]) for line in rows_of(path)] == [("old", "a"), ("family", "c")]


def test_what_the_works_did_is_counted(tmp_path: Path) -> None:
    results = itertools.count()
    case = BenchCase("c", "d", lambda: (lambda: next(results), lambda: None), 2.0, 1, lambda found: f"{found} boxes")
    [row] = run_cases("family", [case])
    assert int(row.counted.removesuffix(" boxes")) > 0 and row.reference_counted == "None boxes"
    write_bench(tmp_path, [row])
    assert row.counted in (tmp_path / "memory.csv").read_text(encoding="utf-8")


def test_the_pac_bayes_cases_do_the_same_work() -> None:
    """Both sides of every case run, and ours is the objective that training minimises."""
    from gpsuite.bench import pac_bayes

    for case in pac_bayes.cases():
        if "n=404" in case.case:
            ours, reference = case.prepare()
            value, gradient, _ = ours()
            assert 0 < value <= 1
            assert len(gradient) == 2 + pac_bayes.INPUTS
            reference()


def test_a_case_with_a_slow_reference_runs_it_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def slow() -> None:
        calls.append(1)
        burn(0.02)()

    monkeypatch.setattr("gpsuite.bench.timing.SLOW", 0.01)
    case = BenchCase("short", "slow", lambda: (burn(0.001), slow), goal=0.5, pairs=1)
    [row] = run_cases("family", [case], pairs=7)
    assert len(calls) == 2  # one warm-up, one timing
    assert row.reference_seconds > 0.015
