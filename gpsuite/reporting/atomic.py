"""Writing results: in one step, and with the user's words when it fails."""

from __future__ import annotations

from pathlib import Path

from gpsuite.atomic import write_atomically
from gpsuite.errors import ResultsError


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step; missing parent folders are made.

    Raises:
        ResultsError: if the disk is full, the folder read-only, ...; an older file at `path` stays.
    """
    try:
        write_atomically(path, lambda stream: stream.write(data))
    except OSError as error:
        raise cannot("write", path, error) from error


def write_text(path: Path, text: str) -> None:
    r"""Write `text` as UTF-8 with the line ends it has; otherwise as `write_bytes`.

    Bytes of a file name that are no UTF-8 become escapes such as `\udce9`, which JSON reads back.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def cannot(verb: str, path: Path, error: Exception) -> ResultsError:
    """Build the user's message for a file operation that failed: what, where, why."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ResultsError(f"cannot {verb} {path}: {reason}", key=str(path))
