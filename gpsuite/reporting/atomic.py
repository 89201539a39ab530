"""Files that are either the old one or the complete new one, also after a full disk or a kill."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from gpsuite.errors import ResultsError


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step: temporary file in the same folder, fsync, rename.

    Missing parent folders are made.

    Raises:
        ResultsError: if the disk is full, the folder read-only, ...; an older file at `path` stays.
    """
    # not `path.name` plus a suffix: that could exceed the file system's name limit
    temporary = path.parent / f".tmp-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:  # also on an interrupt; after the rename there is nothing left to remove
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise cannot("write", path, error) from error


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 with the line ends it has; otherwise as `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def cannot(verb: str, path: Path, error: Exception) -> ResultsError:
    """Build the user's message for a file operation that failed: what, where, why."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ResultsError(f"cannot {verb} {path}: {reason}", key=str(path))
