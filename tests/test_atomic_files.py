from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np
import pytest

from gpsuite.atomic import write_atomically, write_described


def test_folders_are_made_and_content_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    for text in (b"first", b"second"):
        write_atomically(path, lambda stream, text=text: stream.write(text))
        assert path.read_bytes() == text
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def fail(stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="file"):
        write_atomically(path / "below", fail)


def test_a_description_that_cannot_be_written_leaves_both_files(tmp_path: Path) -> None:
    npz, other = tmp_path / "x.npz", tmp_path / "x.json"
    write_described(npz, other, {"bound": 1.0}, {"a": np.zeros(2)})
    before = npz.read_bytes(), other.read_bytes()
    with pytest.raises(ValueError, match="Out of range"):
        write_described(npz, other, {"bound": float("nan")}, {"a": np.ones(2)})
    assert (npz.read_bytes(), other.read_bytes()) == before
