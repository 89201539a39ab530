"""Files that are either the old one or the complete new one, also after a full disk or a kill."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place; folders are made as needed.

    Raises:
        OSError: if it cannot be written; nothing is left behind, and an older file at `path` stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # not `path.name` plus a suffix: that could exceed the file system's name limit
    temporary = path.parent / f".tmp-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:  # also on an interrupt; after the rename there is nothing left to remove
        temporary.unlink(missing_ok=True)
