"""What `data describe` recommends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import Gpsuite


def test_a_command_that_would_be_refused_is_not_recommended(
    gpsuite: Gpsuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rare.csv").write_text(
        "a,label\n" + "".join(f"{row},{'B' if row == 7 else 'A'}\n" for row in range(40))
    )
    shown = gpsuite("data", "describe", "rare.csv")
    assert shown.code == 0
    assert "- not for robustness/safety: test_rows=" in shown.out
    assert "gpsuite run experiment=robustness/safety" not in shown.out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("dataset.target=bb", "no column 'bb'; did you mean 'b'?"),
        ("dataset.ignore=[a, c]", "no column 'c'"),
        ("target=b", "target: unknown setting; did you mean 'dataset.target'?"),
        ("output=json", "output: unknown setting"),
    ],
)
def test_a_setting_of_no_effect_is_refused(
    gpsuite: Gpsuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a,b\n" + "".join(f"{row},{row % 7}.5\n" for row in range(40)))
    ended = gpsuite("data", "describe", "table.csv", word)
    assert ended.code == 2 and said in ended.err and "Traceback" not in ended.err
    assert gpsuite("data", "describe", "table.csv", "dataset.target=b").code == 0


def test_a_large_table_is_described_without_planning_runs_on_it(
    gpsuite: Gpsuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpsuite.commands.data.LARGEST_TRIED", 50)
    Path("rare.csv").write_text(
        "a,label\n" + "".join(f"{row},{'B' if row == 7 else 'A'}\n" for row in range(40))
    )
    shown = gpsuite("data", "describe", "rare.csv")
    assert shown.code == 0 and "the commands below are not tried on it" in shown.out
    assert "gpsuite run experiment=robustness/safety" in shown.out
