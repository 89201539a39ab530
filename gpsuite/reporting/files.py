"""Writing results in one step, reading what runs wrote and others may have changed, messages for both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpsuite.atomic import write_atomically
from gpsuite.errors import ResultsError
from gpsuite.untrusted import LARGEST_LINES, LeavingLinkError, inside, parse_json, read_file, read_member

# a run's published records, and the member of that zip with one JSON object per line
ARCHIVE, FIELDS = "records.zip", "records.jsonl"
RECHECKED = "recheck.json"  # next to it: when records were last computed again, and how that ended
LARGEST_FILE = 256 << 20
LARGEST_DESCRIPTION = 64 << 20  # a plan of as many tasks as a run may have takes 20 MB


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step. Missing parent folders are made.

    Raises:
        ResultsError: if the disk is full, the folder read-only, a link leads out of the results, .... An older file at
            `path` stays.
    """
    inside(path)
    try:
        write_atomically(path, lambda stream: stream.write(data))
    except OSError as error:
        raise cannot("write", path, error) from error


def write_text(path: Path, text: str) -> None:
    r"""Write `text` as UTF-8. Bytes of file names that are not UTF-8 become escapes such as `\udce9`, as in JSON."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def cannot(verb: str, path: Path, error: Exception) -> ResultsError:
    """Build the user's message for a file operation that failed: what, where, why."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ResultsError(f"cannot {verb} {path}: {reason}", key=str(path))


def present(path: Path) -> bool:
    """Return whether anything is at this path: also a broken link, or what we may not look at."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def list_folder(folder: Path) -> list[Path]:
    """Return the paths in a folder, by name. None if there is no such folder, a ResultsError if it cannot be read."""
    inside(folder)
    try:
        return sorted(folder / name for name in os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot("read", folder, error) from error


def read_bytes(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """Return the content of a regular file of at most so many bytes. Errors as `read_file`."""
    return read_file(path, largest)


def read_mapping(path: Path) -> dict[str, Any] | None:
    """Return a JSON object. None if there is no file, a ResultsError if it is anything else or cannot be read."""
    try:
        value = parse_json(read_bytes(path, LARGEST_DESCRIPTION))
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise cannot("read", path, error) from error
    return value


def as_number(value: object) -> float | None:
    """Return a number of a JSON file as a float. None for anything else, also for integers too large for one."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def task_seconds(archive: Path) -> dict[str, float]:
    """Return key -> CPU seconds of each record's task. Nothing if the archive cannot be read."""
    try:
        records = map(parse_json, filter(None, record_lines(archive)))
        return {str(each["key"]): float(each["timing"]["cpu_seconds"]) for each in records}
    except (OSError, ValueError, TypeError, KeyError, OverflowError, LeavingLinkError):
        return {}


def record_lines(archive: Path) -> list[bytes]:
    """Return the lines of a run's published records, one JSON object each.

    Raises:
        OSError, ValueError: if the archive cannot be read, is damaged or too large.
    """
    # a text's own line separators, such as U+2028, are unescaped in the JSON: only "\n" ends a line
    return read_member(read_bytes(archive), FIELDS, LARGEST_LINES).split(b"\n")
