from __future__ import annotations

import sys

import pytest

from gpsuite.commands.tables import show_table

ROWS = [{"name": "first", "what": "a few words", "n": 1}, {"name": "second", "what": "x" * 90, "n": None}]


def test_off_a_terminal_cells_are_whole_and_tab_separated(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("t", ROWS)  # type: ignore[arg-type]
    assert capsys.readouterr().out == f"name\twhat\tn\nfirst\ta few words\t1\nsecond\t{'x' * 90}\t\n"


@pytest.mark.parametrize(("columns", "drawn"), [("200", True), ("40", False)])
def test_on_a_terminal_a_table_is_drawn_where_it_fits(
    columns: str, drawn: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_table("t", ROWS)  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    assert ("│" in printed) is drawn
    assert "x" * 90 in printed
    assert "first" in printed


def test_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("runs", [])
    assert capsys.readouterr().out == "runs: none\n"
