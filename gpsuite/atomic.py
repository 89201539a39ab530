"""Files that are either the old one or the complete new one, also after a full disk or a kill."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import secrets
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

_HERE = f"{zlib.crc32(platform.node().encode()):08x}"  # on a shared disk another machine's processes are not known
_TEMPORARY = re.compile(r"\.tmp-([0-9a-f]{8})-([1-9][0-9]{0,8})-[0-9a-f]{8}")
_ABANDONED_SECONDS = 86_400.0  # no file takes as long to write


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Let `write` fill a temporary file in the folder of `path`, then move it into place. Folders are made as needed.

    Raises:
        OSError: if it cannot be written. Nothing is left behind, and an older file at `path` stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # not `path.name` plus a suffix: that could exceed the file system's name limit
    temporary = path.parent / f".tmp-{_HERE}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with temporary.open("xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:  # also on an interrupt. After the rename there is nothing left to remove
        temporary.unlink(missing_ok=True)


def remove_leftovers(*folders: Path) -> None:
    """Remove the temporary files that `write_atomically` left in these folders when its process was killed."""
    for folder in folders:
        with contextlib.suppress(OSError):  # not there, or not ours. The next write there reports it
            for name in os.listdir(folder):
                if (found := _TEMPORARY.fullmatch(name)) and _abandoned(folder / name, found[1], int(found[2])):
                    (folder / name).unlink()


def _abandoned(path: Path, machine: str, process: int) -> bool:
    if time.time() - path.lstat().st_mtime > _ABANDONED_SECONDS:
        return True
    if machine != _HERE:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it runs, for another user
        return False
    return False


def write_described(npz: Path, other: Path, description: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write plain arrays to an .npz file and their description to a JSON file, each whole or not at all.

    Raises:
        OSError: if a file cannot be written.
        ValueError: if the description holds a number that is not finite. Nothing is written then.
    """
    import numpy as np

    text = json.dumps(description, indent=2, allow_nan=False) + "\n"
    write_atomically(npz, lambda stream: np.savez(stream, **arrays))
    write_atomically(other, lambda stream: stream.write(text.encode()))
