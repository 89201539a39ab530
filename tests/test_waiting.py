"""What is shown while nothing can be counted."""

from __future__ import annotations

import io
import sys
import time

import pytest

from gpsuite import waiting


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


def test_a_terminal_sees_a_spinner_within_a_second_and_no_trace_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("os.get_terminal_size", lambda _: type("Size", (), {"columns": 20}))
    waiting.doing("planning")
    time.sleep(0.5)
    waiting.done()
    assert "planning" in stream.getvalue() and stream.getvalue().endswith(waiting.CLEAR)
    length = len(stream.getvalue())
    time.sleep(0.3)
    assert len(stream.getvalue()) == length


def test_off_a_terminal_long_work_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "FIRST_SECONDS", 0.05)
    for keys in ({"line": True}, {}, {"line": True, "quiet": True}):
        waiting.doing("planning", **keys)
        time.sleep(0.3)
        waiting.done()
    assert capsys.readouterr().err == "planning ...\n"


def test_short_work_gets_no_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(waiting, "FIRST_SECONDS", 60.0)
    waiting.doing("planning", line=True)
    waiting.done()
    assert sys.stderr is not None and capsys.readouterr().err == ""
