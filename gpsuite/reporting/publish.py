"""Copies of runs that may be committed, and folders from which only unchanged files of our own are removed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from gpsuite.errors import ResultsError
from gpsuite.reporting.files import cannot, present, read_bytes, read_mapping, write_bytes, write_text
from gpsuite.untrusted import guard_links, inside, refuse_links

_FILES = ("config.yaml", "comparison.csv", "run.json")
_FOLDERS = ("tables", "figures")


def publish(run_folder: Path, results_dir: Path, packed: Callable[[], Mapping[str, bytes]]) -> Path:
    """Copy a finished run to `results_dir`/published, under the same path. An earlier copy is replaced whole.

    records.csv and artifacts are not copied. What others put into the earlier copy is kept.

    Args:
        run_folder: results/<family>/<name>/<scale>[~<tag>].
        results_dir: the folder that holds it.
        packed: makes further files of the copy, name -> content, once the run is known to have finished.

    Returns:
        The copy's folder.

    Raises:
        ResultsError: if the run is not in `results_dir`, has not finished, its run.json is damaged, or the copy
            fails. An earlier copy then stays.
    """
    guard_links(results_dir)
    refuse_links(run_folder)
    if read_mapping(run_folder / "run.json") is None:
        raise ResultsError(f"{run_folder}: no finished run here (run.json is missing)", key=str(run_folder))
    try:
        place = run_folder.resolve().relative_to(results_dir.resolve())
    except ValueError as error:
        raise ResultsError(f"{run_folder}: not inside {results_dir}", key=str(run_folder)) from error
    further = packed()
    target = inside(results_dir / "published" / place)
    fresh, old = target.with_name(f".new-{target.name}"), target.with_name(f".old-{target.name}")
    try:
        _recover(target, fresh, old)
        for source in _sources(run_folder):
            write_bytes(fresh / source.relative_to(run_folder), read_bytes(source))
        for name, content in further.items():
            write_bytes(fresh / name, content)
        _keep_others(target, fresh, further)
        _swap(target, fresh, old)
    except OSError as error:
        raise cannot("publish", run_folder, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target


def _sources(run_folder: Path) -> list[Path]:
    """Return the files to copy. OSError for a folder that we may not look into."""
    listed = [run_folder / name for name in _FILES]
    for folder in filter(present, (run_folder / name for name in _FOLDERS)):
        for place, _, names in os.walk(folder, onerror=_raise):
            listed += sorted(Path(place) / name for name in names)
    return [path for path in listed if path.is_file() and not path.name.startswith(".")]


def _raise(error: OSError) -> None:
    raise error


def _recover(target: Path, fresh: Path, old: Path) -> None:
    """Clear what a killed publish left. Its old copy counts if the new one was not yet in place."""
    shutil.rmtree(fresh, ignore_errors=True)
    if old.exists() and not target.exists():
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _keep_others(target: Path, fresh: Path, further: Collection[str]) -> None:
    for path in target.iterdir() if target.exists() else ():
        if path.name in (*_FILES, *_FOLDERS, *further):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, fresh / path.name, symlinks=True)
        else:
            shutil.copy2(path, fresh / path.name, follow_symlinks=False)


def _swap(target: Path, fresh: Path, old: Path) -> None:
    if target.exists():
        target.rename(old)
    try:
        fresh.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def manifest(folder: Path) -> Path:
    """Return the list of a folder's files: name -> SHA-256 of each as it was written."""
    return folder.with_name(f".{folder.name}-written.json")


def remove_stale(folder: Path, wanted: Collection[str]) -> None:
    """Remove the files that an earlier call of `note_written` lists, unless they are wanted or were changed.

    A damaged list counts as empty: nothing is removed.
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
    """List the files of a folder that were written by gpsuite, instead of those listed before."""
    digests = {name: _digest(folder / name) for name in names}
    if digests or manifest(folder).exists():
        write_text(manifest(folder), json.dumps(digests, indent=1) + "\n")


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(read_bytes(path)).hexdigest()
    except (OSError, ValueError):  # no such file, or no name that a file could have
        return None
