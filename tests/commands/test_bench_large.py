"""`gpsuite bench large` on small works."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpsuite.bench import large
from tests.commands.conftest import Gpsuite


def test_a_work_that_takes_more_than_it_may_is_said_to(
    gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Here:
        """A pool that works in this process."""

        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> Here:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, function: Callable[..., Any], *arguments: object) -> Here:
            self.result: Callable[[], Any] = partial(function, *arguments)
            return self

    monkeypatch.setattr("gpsuite.commands.bench.ProcessPoolExecutor", Here)
    works = [
        large.LargeCase("full", partial(large.full_certificate, 40), 100.0, 1e6),
        large.LargeCase("sparse", partial(large.sparse_evaluation, 60, 5, 0.0), 100.0, 1.0),
    ]
    monkeypatch.setattr(large, "cases", lambda: works)
    assert gpsuite("bench", "large").code == 0
    with (workplace / "results/bench/large.csv").open(encoding="utf-8") as stream:
        full, sparse = csv.DictReader(stream)
    assert (full["reached"], sparse["reached"]) == ("yes", "no")
    assert full["result"].startswith("risk <= ") and sparse["result"].startswith("objective ")
    assert float(full["seconds"]) > 0.0 and float(full["peak_memory_mb"]) > 1.0


def test_the_goals_are_those_of_the_sizes() -> None:
    full, vfe, fitc = large.cases()
    assert (full.seconds, full.memory_mb) == (600.0, 8000.0)
    assert {(each.seconds, each.memory_mb) for each in (vfe, fitc)} == {(60.0, 4000.0)}
    assert "n=20000" in full.case and all("n=1000000, M=500" in each.case for each in (vfe, fitc))
