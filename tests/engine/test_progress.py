from __future__ import annotations

from dataclasses import replace

import pytest

from gpsuite.engine.progress import BarProgress, LineProgress, TaskProgress, clock, describe, progress
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import Record, SharedWork
from tests.engine import tiny


@pytest.fixture
def record() -> Record:
    made = execute(tiny.task(3), SharedWork())
    return replace(made, timing={"wall_seconds": 1.25}, headline="bound 0.3")


def test_plain_lines_show_both_ends_failures_and_time_left(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    with LineProgress("run", 4) as shown:
        shown.advance(record)
        shown.advance(record)
        shown.advance(replace(record, status="error", reason="ValueError: no"))
        shown.advance(record)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("]")[0] for line in lines] == ["[1/4", "[3/4", "[4/4"]
    assert lines[0].startswith("[1/4] done  number 3  bound 0.3  1.2 s | nearly done")
    assert lines[2].endswith("1.2 s")
    assert "ValueError: no" in lines[1]


def test_off_a_terminal_there_is_no_bar() -> None:
    assert isinstance(progress("run", 1), LineProgress)


def test_a_bar_keeps_a_line_for_what_did_not_simply_succeed(record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    with BarProgress("run", 2) as shown:
        shown.advance(record)
        shown.advance(replace(record, status="budget", reason="time is up"))
    printed = capsys.readouterr().err
    assert "time is up" in printed
    assert "2/2" in printed


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def report(number: int, share: float) -> TaskProgress:
    return TaskProgress(f"number {number}", share, f"{share * 1000:.0f} of 1000 evaluations, objective 0.2341")


def test_off_a_terminal_a_running_task_gets_a_line_a_minute(
    record: Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr("gpsuite.engine.progress.time", clock)
    with LineProgress("run", 4) as shown:
        for second in range(131):
            clock.now = float(second)
            shown.running([report(2, second / 200), report(3, second / 400)])
        clock.now = 140.0
        shown.advance(record)
    assert capsys.readouterr().err.splitlines() == [
        "[0/4] running  number 2: 300 of 1000 evaluations, objective 0.2341 | 7:53 left",
        "[0/4] running  number 3: 150 of 1000 evaluations, objective 0.2341 | 7:53 left",
        "[0/4] running  number 2: 600 of 1000 evaluations, objective 0.2341 | 6:53 left",
        "[0/4] running  number 3: 300 of 1000 evaluations, objective 0.2341 | 6:53 left",
        "[1/4] done  number 3  bound 0.3  1.2 s | 3:19 left",  # number 3 counts once, number 2 as 0.65
    ]


def test_short_tasks_get_no_line_while_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr("gpsuite.engine.progress.time", clock)
    with LineProgress("run", 100) as shown:
        for second in range(500):  # a new task every 50 s
            clock.now = float(second)
            shown.running([report(second // 50, 0.5)])
    assert capsys.readouterr().err == ""


def test_without_limits_the_time_left_is_not_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr("gpsuite.engine.progress.time", clock)
    with LineProgress("run", 2) as shown:
        for clock.now in (1.0, 61.0):
            shown.running([report(1, 0.0)])
    assert capsys.readouterr().err.endswith("| time left unknown\n")


def test_the_bar_shows_running_tasks_and_moves_by_fractions(
    record: Record, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    clock = Clock()
    monkeypatch.setattr("gpsuite.engine.progress.time", clock)
    bar = BarProgress("run", 2)
    clock.now = 10.0
    bar.running([report(2, 0.312), report(3, 0.188)])
    console = Console(width=100)
    console.print(bar._shown())
    printed = capsys.readouterr().out
    assert "number 2: 312 of 1000 evaluations, objective 0.2341" in printed
    assert "number 3: 188 of 1000" in printed
    assert "0/2" in printed  # none has ended
    assert "0:30 left" in printed
    bar.advance(record)
    console.print(bar._shown())
    printed = capsys.readouterr().out
    assert "number 3: " not in printed
    assert "1/2" in printed


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (61, "1:01"), (3661, "1:01:01")])
def test_the_clock_shows_minutes_and_hours(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_record_without_timing_can_be_described(record: Record) -> None:
    assert describe(replace(record, timing={}, headline="")) == "done  number 3"
