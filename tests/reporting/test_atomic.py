from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gpsuite.errors import ResultsError
from gpsuite.reporting.files import write_bytes, write_text


def test_writes_and_replaces_exactly(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "table.csv"
    write_text(path, "a\r\nε\n")
    assert path.read_bytes() == "a\r\nε\n".encode()
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_full_disk_leaves_the_old_file_and_nothing_else(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(ResultsError, match=r"cannot write .*table\.csv: No space left on device"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_interrupt_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_folder_that_cannot_be_made_is_a_results_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultsError, match="cannot write"):
        write_text(tmp_path / "file" / "table.csv", "x")
