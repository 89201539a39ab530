"""Reading what runs wrote, whatever has become of it since."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from gpsuite.reporting.atomic import cannot


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
