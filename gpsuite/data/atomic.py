"""Writing a file so that a reader finds it whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place; folders are made as needed.

    Raises:
        OSError: if it cannot be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}-{secrets.token_hex(8)}")  # two processes may write the same file
    try:
        with part.open("xb") as stream:
            write(stream)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
