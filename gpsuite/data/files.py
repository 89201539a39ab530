"""Finding, verifying and downloading the files of a dataset.

A file is looked for in every folder of `$GPSUITE_DATA_PATH`, then in the cache folder, each time in a sub-folder
named after the dataset and also with `.gz` or `.xz` appended. The first one found counts: a changed copy is an
error, never passed over in silence.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import lzma
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpsuite.data.spec import DatasetSpec, FileSpec
from gpsuite.errors import DataError

PATH_VARIABLE = "GPSUITE_DATA_PATH"
OFFLINE_VARIABLE = "GPSUITE_OFFLINE"
TIMEOUT_SECONDS = 10.0

_SUFFIXES = (".gz", ".xz")
_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
# A file written less than this before it was hashed may change again within one tick of its time stamp.
_SETTLED_NS = 2_000_000_000

_hashes: dict[tuple[str, int, int, int], tuple[str, str]] = {}


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
        expected: the SHA-256 it should have.
        found: the SHA-256 of the stored bytes, None if missing.
    """

    name: str
    state: Literal["ok", "missing", "changed"]
    path: Path | None
    expected: str
    found: str | None


def search_folders(name: str, cache_dir: Path) -> tuple[Path, ...]:
    """Return the folders in which the files of dataset `name` are looked for, in order."""
    entries = [entry for entry in os.environ.get(PATH_VARIABLE, "").split(os.pathsep) if entry.strip()]
    return (*(Path(entry).expanduser() / name for entry in entries), cache_dir / name)


def locate(spec: DatasetSpec, file: FileSpec, cache_dir: Path) -> LocatedFile | Missing:
    """Return the first copy of a file by presence only."""
    folders = search_folders(spec.name, cache_dir)
    for folder in folders:
        for candidate in _stored_names(file.name):
            if os.path.isfile(folder / candidate):
                return LocatedFile(file.name, folder / candidate)
    return Missing(file.name, folders)


def verify(spec: DatasetSpec, cache_dir: Path) -> list[FileState]:
    """Hash every file of a dataset and return one verdict each.

    Raises:
        DataError: if a file is there but cannot be read.
    """
    return [_verify_file(spec, file, cache_dir) for file in spec.files]


def require(spec: DatasetSpec, cache_dir: Path, *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Path]:
    """Return file name -> path of verified files; what is missing is downloaded.

    Raises:
        DataError: if a file is changed, or missing and not to be had; names both hashes and where to get it.
    """
    for state in verify(spec, cache_dir):
        if state.state == "changed":
            raise changed_error(spec, state)
    return fetch(spec, cache_dir, timeout=timeout)


def fetch(spec: DatasetSpec, cache_dir: Path, *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Path]:
    """Download the missing files of a dataset into `cache_dir/NAME`; return file name -> path of all its files.

    A download is moved into place only after its hash was found right.

    Args:
        spec: the dataset.
        cache_dir: the folder of downloads.
        timeout: seconds without an answer after which a server is given up.

    Raises:
        DataError: if no URL serves the right content, downloads are switched off, or the folder cannot be written.
    """
    paths = {}
    for file in spec.files:
        found = locate(spec, file, cache_dir)
        if isinstance(found, Missing):
            found = LocatedFile(file.name, _download(spec, file, found, cache_dir / spec.name, timeout))
        paths[file.name] = found.path
    return paths


def read_verified(spec: DatasetSpec, file: FileSpec, path: Path) -> bytes:
    """Return the uncompressed content of a file that has the expected hash.

    Raises:
        DataError: if the file cannot be read, or its content is not the expected one.
    """
    data = _read(spec, path)
    stored, content_hash, content = _hash(data)
    if not _accepted(file, stored, content_hash):
        raise changed_error(spec, FileState(file.name, "changed", path, file.sha256, stored))
    return content


def changed_error(spec: DatasetSpec, state: FileState) -> DataError:
    """Build the error for a file whose content is not the expected one."""
    return DataError(
        f"dataset={spec.name}: {state.path} is not the expected file\n"
        f"expected sha256 {state.expected}\n"
        f"found    sha256 {state.found}\n"
        f"remove it, then: gpsuite data fetch {spec.name}   (from {_origin(spec, state.name)})",
        key="dataset",
    )


def missing_error(spec: DatasetSpec, missing: Missing, reason: str) -> DataError:
    """Build the error for a file that is nowhere; `reason` says why it was not downloaded."""
    expected = next(file.sha256 for file in spec.files if file.name == missing.name)
    return DataError(
        f"dataset={spec.name}: file '{missing.name}' is missing (expected sha256 {expected}, found none)\n"
        f"looked in {', '.join(str(folder) for folder in missing.looked_in)}\n"
        f"download: {reason}\n"
        f"get it from {_origin(spec, missing.name)}; put it into {spec.name}/ in data/ or a folder of ${PATH_VARIABLE}",
        key="dataset",
    )


def _origin(spec: DatasetSpec, name: str) -> str:
    urls = next(file.urls for file in spec.files if file.name == name)
    return " or ".join(urls) if urls else "its authors (no public address is known)"


def _stored_names(name: str) -> list[str]:
    names = [name, *(name + suffix for suffix in _SUFFIXES)]
    stem, suffix = os.path.splitext(name)
    return [*names, stem] if suffix in _SUFFIXES else names


def _verify_file(spec: DatasetSpec, file: FileSpec, cache_dir: Path) -> FileState:
    found = locate(spec, file, cache_dir)
    if isinstance(found, Missing):
        return FileState(file.name, "missing", None, file.sha256, None)
    stored, content = _hashes_of(spec, found.path)
    state: Literal["ok", "changed"] = "ok" if _accepted(file, stored, content) else "changed"
    return FileState(file.name, state, found.path, file.sha256, stored)


def _accepted(file: FileSpec, stored: str, content: str) -> bool:
    """Whether the stored bytes or their uncompressed content are those of the canonical file."""
    return file.sha256 in (stored, content) or content == file.uncompressed_sha256


def _hashes_of(spec: DatasetSpec, path: Path) -> tuple[str, str]:
    """Return SHA-256 of the stored bytes and of the content, remembered while the file is untouched."""
    status = path.stat()
    key = (str(path.absolute()), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key not in _hashes:
        stored, content, _ = _hash(_read(spec, path))
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _SETTLED_NS:
            return stored, content
        _hashes[key] = (stored, content)
    return _hashes[key]


def _read(spec: DatasetSpec, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"dataset={spec.name}: cannot read {path}: {error.strerror}", key="dataset"
        ) from error


def _hash(data: bytes) -> tuple[str, str, bytes]:
    """Return the hash of the bytes, the hash of their uncompressed content, and that content."""
    stored = hashlib.sha256(data).hexdigest()
    content = _uncompressed(data)
    return stored, stored if content is data else hashlib.sha256(content).hexdigest(), content


def _uncompressed(data: bytes) -> bytes:
    """Return the content of a gzip or xz stream; other or damaged bytes are returned as they are."""
    try:
        if data.startswith(_GZIP_MAGIC):
            return gzip.decompress(data)
        if data.startswith(_XZ_MAGIC):
            return lzma.decompress(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        pass  # damaged: the hash of the stored bytes will not fit either, which is the error to report
    return data


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
            stored, content, _ = _hash(part.read_bytes())
            if not _accepted(file, stored, content):
                return f"wrong content, expected sha256 {file.sha256}, found {stored}"
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
