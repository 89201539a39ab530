from __future__ import annotations

from dataclasses import replace

import pytest

from gpsuite.engine.progress import BarProgress, LineProgress, clock, describe, progress
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import Record, SharedWork
from tests.engine import tiny


@pytest.fixture
def record() -> Record:
    made = execute(tiny.task(3), SharedWork())
    return replace(made, timing={"wall_seconds": 1.25}, headline="bound 0.3")


def test_plain_lines_show_both_ends_failures_and_time_left(
    record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    with LineProgress("run", 4) as shown:
        shown.advance(record)
        shown.advance(record)
        shown.advance(replace(record, status="error", reason="ValueError: no"))
        shown.advance(record)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("]")[0] for line in lines] == ["[1/4", "[3/4", "[4/4"]
    assert lines[0].startswith("[1/4] done  number 3  bound 0.3  1.2 s | 0:00 left")
    assert "ValueError: no" in lines[1]


def test_off_a_terminal_there_is_no_bar() -> None:
    assert isinstance(progress("run", 1), LineProgress)


def test_a_bar_keeps_a_line_for_what_did_not_simply_succeed(
    record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    with BarProgress("run", 2) as shown:
        shown.advance(record)
        shown.advance(replace(record, status="budget", reason="time is up"))
    printed = capsys.readouterr().err
    assert "time is up" in printed
    assert "2/2" in printed


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (61, "1:01"), (3661, "1:01:01")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_record_without_timing_can_be_described(record: Record) -> None:
    assert describe(replace(record, timing={}, headline="")) == "done  number 3"
