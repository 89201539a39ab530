"""Writing results: in one step, and with the user's words when it fails."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

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


# Reading what runs wrote, whatever has become of it since.


def present(path: Path) -> bool:
    """Whether anything is at this path: also a broken link, or what the system does not let us look at."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def list_folder(folder: Path) -> list[Path]:
    """Return what lies in a folder, by name; nothing when there is no such folder.

    Raises:
        ResultsError: naming the folder, when it is none or cannot be read.
    """
    try:
        return sorted(folder / name for name in os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot("read", folder, error) from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file; opening anything else could wait for ever.

    Raises:
        OSError: if there is none, or it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return path.read_bytes()


def read_mapping(path: Path) -> dict[str, Any] | None:
    """Return a JSON object; None when there is no file.

    Raises:
        ResultsError: naming the file, when it holds anything else or cannot be read.
    """
    try:
        value = json.loads(read_bytes(path).decode("utf-8"))
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise cannot("read", path, error) from error
    return value


def as_number(value: object) -> float | None:
    """Return a number of a JSON file as a float; None for anything else and for integers too large for one."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


# Published records as a report reads them: what each task cost.


ARCHIVE, FIELDS = "records.zip", "records.jsonl"
"""A run's published records, and the member of that zip with one JSON object a line for each."""


def task_seconds(archive: Path) -> dict[str, float]:
    """Return the CPU seconds of each record's task by its key; nothing when the archive cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(archive))) as members:
            lines = members.read(FIELDS).decode("utf-8").split("\n")
        records = [json.loads(line) for line in lines if line]
        return {str(each["key"]): float(each["timing"]["cpu_seconds"]) for each in records}
    except Exception:  # a damaged archive raises a dozen kinds, from LZMAError to MemoryError
        return {}
