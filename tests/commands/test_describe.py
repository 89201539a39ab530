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
