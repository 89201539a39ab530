"""Seconds of tasks that ran side by side are said not to be comparable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from gpsuite.engine.worker import WORKERS, execute
from gpsuite.experiments.base import Record, SharedWork
from tests.engine import tiny
from tests.experiments.made_up_report import made_up_report


def test_a_worker_notes_that_others_ran_next_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for workers, noted in ((None, None), ("1", None), ("3", 3.0)):
        if workers is not None:
            monkeypatch.setenv(WORKERS, workers)
        assert execute(tiny.task(3), SharedWork()).timing.get("workers") == noted


@pytest.mark.parametrize("note", [None, "smoke scale"])
def test_tables_of_seconds_say_so_and_no_others(tmp_path: Path, note: str | None) -> None:
    def written(name: str, *workers: float | None) -> str:
        records = [
            Record(str(number), "a/b", "task", {}, "done", "", {}, {} if each is None else {"workers": each})
            for number, each in enumerate(workers)
        ]
        report = replace(made_up_report(tmp_path, note=note), planned=records, written=[])
        report.table(pd.DataFrame({"a": [1.0]}), name, "caption")
        return (tmp_path / f"tables/{name}.md").read_text(encoding="utf-8").splitlines()[0]

    said = "2 of 3 tasks shared the machine among 4 processes: no comparable seconds"
    before = f"{note}; " if note else ""
    assert f"caption ({before}{said})" in written("own_timing", 2.0, None, 4.0)
    for other in (written("own", 2.0, None, 4.0), written("own_timing", None)):
        assert "comparable" not in other and (note or "caption") in other
