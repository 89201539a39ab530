"""Folders in which files come and go: only what gpsuite wrote itself, and nobody has changed since, is removed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path

from gpsuite.errors import ResultsError
from gpsuite.reporting.atomic import cannot, write_text
from gpsuite.reporting.reading import read_bytes, read_mapping


def manifest(folder: Path) -> Path:
    """Return where the files of such a folder are listed: name -> SHA-256 of each as it was written."""
    return folder.with_name(f".{folder.name}-written.json")


def remove_stale(folder: Path, wanted: Collection[str]) -> None:
    """Remove the files that an earlier call of `note_written` lists, unless they are wanted or were changed.

    A damaged list counts as empty: nothing is removed.

    Raises:
        ResultsError: if a file cannot be removed.
    """
    try:
        written = read_mapping(manifest(folder)) or {}
    except ResultsError:
        return
    for name, digest in written.items():
        path = folder / name
        found = _digest(path)
        if found is None or found != digest or name in wanted or path.parent != folder or path.is_symlink():
            continue
        try:
            path.unlink()
        except OSError as error:
            raise cannot("remove", path, error) from error


def note_written(folder: Path, names: Iterable[str]) -> None:
    """List the files of a folder that were written by gpsuite, in place of those listed before.

    Raises:
        ResultsError: if the list cannot be written.
    """
    digests = {name: _digest(folder / name) for name in names}
    if digests or manifest(folder).exists():
        write_text(manifest(folder), json.dumps(digests, indent=1) + "\n")


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except (OSError, ValueError):  # no such file, or no name that a file could have
        return None
