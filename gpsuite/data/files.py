"""Finding, verifying and downloading the files of a dataset.

A file is looked for in every folder of `$GPSUITE_DATA_PATH`, then in the cache folder, each time in a sub-folder
named after the dataset and also with `.gz` or `.xz` appended. The first one found counts: a changed copy is an
error, never passed over in silence.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpsuite.data.file_hashes import FileHashes, HashMemory, hash_file
from gpsuite.data.spec import DatasetSpec, FileSpec
from gpsuite.errors import DataError, MissingDataError

PATH_VARIABLE = "GPSUITE_DATA_PATH"
OFFLINE_VARIABLE = "GPSUITE_OFFLINE"
TIMEOUT_SECONDS = 10.0

_SUFFIXES = (".gz", ".xz")
VERIFIED_FILE = Path(".parsed", "verified.json")  # in the cache folder


@dataclass(frozen=True)
class LocatedFile:
    """A file of a dataset that is there; its content is not verified yet."""

    name: str
    path: Path


@dataclass(frozen=True)
class Missing:
    """A file of a dataset that is nowhere; `looked_in` are the folders that were searched, in order."""

    name: str
    looked_in: tuple[Path, ...]


@dataclass(frozen=True)
class FileState:
    """The verdict on one file.

    Attributes:
        name: file name in the dataset's folder.
        state: `ok`, `missing` or `changed`.
        path: where it was found, None if missing.
        expected: the hash it should have, of the kind `hash_kind`.
        found: that hash of the stored bytes, None if missing.
        hash_kind: `sha256`, or `git blob sha1` when no SHA-256 is known.
        optional: the dataset is usable without the file.
    """

    name: str
    state: Literal["ok", "missing", "changed"]
    path: Path | None
    expected: str
    found: str | None
    hash_kind: str = "sha256"
    optional: bool = False


def search_folders(name: str, cache_dir: Path) -> tuple[Path, ...]:
    """Return the folders in which files of sub-folder `name` are looked for, in order."""
    entries = [entry for entry in os.environ.get(PATH_VARIABLE, "").split(os.pathsep) if entry.strip()]
    return (*(Path(entry).expanduser() / name for entry in entries), cache_dir / name)


def locate(spec: DatasetSpec, file: FileSpec, cache_dir: Path) -> LocatedFile | Missing:
    """Return the first copy of a file by presence only."""
    folders = search_folders(spec.folder_name, cache_dir)
    for folder in folders:
        for candidate in _stored_names(file.name):
            if os.path.isfile(folder / candidate):
                return LocatedFile(file.name, folder / candidate)
    return Missing(file.name, folders)


def verify(spec: DatasetSpec, cache_dir: Path) -> list[FileState]:
    """Read and hash every file of a dataset and return one verdict each.

    Raises:
        DataError: if a file is there but cannot be read.
    """
    return [
        _judge(spec, file, cache_dir, lambda path: hash_file(_read(spec, path))[0]) for file in spec.files
    ]


def check(spec: DatasetSpec, cache_dir: Path) -> list[FileState]:
    """Return the verdicts of `verify`, but believe the hashes of files that were not touched since they were read.

    Within a process they are always remembered; between processes, in the cache folder, only for datasets with
    `cache: true`, whose files take long to read.

    Raises:
        DataError: if a file is there but cannot be read.
    """
    memory = HashMemory(cache_dir / VERIFIED_FILE if spec.cache else None)
    states = [
        _judge(spec, file, cache_dir, lambda path: memory.hashes(path, lambda path: _read(spec, path)))
        for file in spec.files
    ]
    memory.save()
    return states


def require(spec: DatasetSpec, cache_dir: Path, *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Path]:
    """Return file name -> path of verified files; what is missing is downloaded.

    Where only optional files are missing nothing is downloaded: a run's data must not depend on the network.

    Raises:
        DataError: if a file is changed; names both hashes and where to get it.
        MissingDataError: if one is missing and not to be had; says the same.
    """
    states = _unchanged(spec, cache_dir)
    if any(state.state == "missing" and not state.optional for state in states):
        return fetch(spec, cache_dir, timeout=timeout)
    return {state.name: state.path for state in states if state.path is not None}


def fetch(spec: DatasetSpec, cache_dir: Path, *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Path]:
    """Download the missing files of a dataset into `cache_dir/FOLDER`; return file name -> path of all its files.

    A download is moved into place only after its hash was found right. An optional file that is not to be had is
    left out.

    Args:
        spec: the dataset.
        cache_dir: the folder of downloads.
        timeout: seconds without an answer after which a server is given up.

    Raises:
        DataError: if a file that is there is changed, no URL serves the right content, downloads are switched off, or
            the folder cannot be written.
    """
    paths, states = {}, _unchanged(spec, cache_dir)
    for file, state in zip(spec.files, states, strict=True):
        if state.path is not None:
            paths[file.name] = state.path
            continue
        found = locate(spec, file, cache_dir)
        assert isinstance(found, Missing)
        with contextlib.suppress(DataError) if file.optional else contextlib.nullcontext():
            paths[file.name] = _download(spec, file, found, cache_dir / spec.folder_name, timeout)
    return paths


def _unchanged(spec: DatasetSpec, cache_dir: Path) -> list[FileState]:
    """Return the verdicts of `check`.

    Raises:
        DataError: if a file is changed, or cannot be read.
    """
    states = check(spec, cache_dir)
    for state in states:
        if state.state == "changed":
            raise changed_error(spec, state)
    return states


def read_verified(spec: DatasetSpec, file: FileSpec, path: Path) -> bytes:
    """Return the uncompressed content of a file that has the expected hash.

    Raises:
        DataError: if the file cannot be read, or its content is not the expected one.
    """
    hashes, content = hash_file(_read(spec, path))
    if not _accepted(file, hashes):
        raise changed_error(spec, _state(file, path, hashes))
    return content


def changed_error(spec: DatasetSpec, state: FileState) -> DataError:
    """Build the error for a file whose content is not the expected one."""
    return DataError(
        f"dataset={spec.name}: {state.path} is not the expected file\n"
        f"expected {state.hash_kind} {state.expected}\n"
        f"found    {state.hash_kind} {state.found}\n"
        f"remove it, then: gpsuite data fetch {spec.name}   (from {_origin(spec, state.name)})",
        key="dataset",
    )


def missing_error(spec: DatasetSpec, missing: Missing, reason: str) -> MissingDataError:
    """Build the error for a file that is nowhere; `reason` says why it was not downloaded."""
    expected = next(f"{file.hash_kind} {file.expected}" for file in spec.files if file.name == missing.name)
    return MissingDataError(
        f"dataset={spec.name}: file '{missing.name}' is missing (expected {expected}, found none)\n"
        f"looked in {', '.join(str(folder) for folder in missing.looked_in)}\n"
        f"download: {reason}\n"
        f"get it from {_origin(spec, missing.name)}; "
        f"put it into {missing.looked_in[-1]} or {spec.folder_name}/ in a folder of ${PATH_VARIABLE}",
        key="dataset",
    )


def _origin(spec: DatasetSpec, name: str) -> str:
    urls = next(file.urls for file in spec.files if file.name == name)
    return " or ".join(urls) if urls else "its authors (no public address is known)"


def _stored_names(name: str) -> list[str]:
    names = [name, *(name + suffix for suffix in _SUFFIXES)]
    stem, suffix = os.path.splitext(name)
    return [*names, stem] if suffix in _SUFFIXES else names


def _judge(
    spec: DatasetSpec, file: FileSpec, cache_dir: Path, hashes_of: Callable[[Path], FileHashes]
) -> FileState:
    found = locate(spec, file, cache_dir)
    if isinstance(found, Missing):
        return FileState(file.name, "missing", None, file.expected, None, file.hash_kind, file.optional)
    return _state(file, found.path, hashes_of(found.path))


def _state(file: FileSpec, path: Path, hashes: FileHashes) -> FileState:
    state: Literal["ok", "changed"] = "ok" if _accepted(file, hashes) else "changed"
    known = (hashes.stored, hashes.content) if file.sha256 else (hashes.stored_git, hashes.content_git)
    found = file.expected if file.expected in known else known[0]
    return FileState(file.name, state, path, file.expected, found, file.hash_kind, file.optional)


def _accepted(file: FileSpec, hashes: FileHashes) -> bool:
    """Whether the stored bytes or their uncompressed content are those of the canonical file."""
    if not file.sha256:
        return file.git_blob_sha1 in (hashes.stored_git, hashes.content_git)
    return file.sha256 in (hashes.stored, hashes.content) or hashes.content == file.uncompressed_sha256


def _read(spec: DatasetSpec, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"dataset={spec.name}: cannot read {path}: {error.strerror}", key="dataset"
        ) from error


def _download(spec: DatasetSpec, file: FileSpec, missing: Missing, folder: Path, timeout: float) -> Path:
    """Download one file to `folder`; tries the URLs in order."""
    if os.environ.get(OFFLINE_VARIABLE, "").strip().lower() not in ("", "0", "false", "no"):
        raise missing_error(spec, missing, f"not tried, {OFFLINE_VARIABLE} is set")
    reasons = []
    for url in file.urls:
        reason = _try_url(spec, file, url, folder, timeout)
        if reason is None:
            return folder / file.name
        reasons.append(f"{url}: {reason}")
    with contextlib.suppress(OSError):  # not there, or it holds other files
        folder.rmdir()
    raise missing_error(spec, missing, "; ".join(reasons) or "not possible, no address is known")


def _try_url(spec: DatasetSpec, file: FileSpec, url: str, folder: Path, timeout: float) -> str | None:
    """Download one URL into place; return why it failed, or None."""
    import tempfile

    import pooch
    import requests

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as work:
            part = Path(work) / "part"
            downloader = pooch.HTTPDownloader(timeout=(min(timeout, 5.0), timeout), chunk_size=1 << 16)
            downloader(url, str(part), None)
            state = _state(file, part, hash_file(part.read_bytes())[0])
            if state.state != "ok":
                return f"wrong content, expected {state.hash_kind} {state.expected}, found {state.found}"
            os.replace(part, folder / file.name)
    except requests.exceptions.RequestException as error:
        return _network_reason(error, timeout)
    except OSError as error:
        raise DataError(
            f"dataset={spec.name}: cannot write to {folder}: {error.strerror}", key="dataset"
        ) from error
    return None


def _network_reason(error: Exception, timeout: float) -> str:
    """Return a network failure in a few words; the libraries' own texts run over many lines."""
    import requests

    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    # a time-out while the body is read arrives wrapped in a ConnectionError
    if isinstance(error, requests.exceptions.Timeout) or "timed out" in str(error):
        return f"no answer within {timeout:g} s"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection"
    return type(error).__name__
