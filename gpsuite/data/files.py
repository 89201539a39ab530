"""Finding, verifying and downloading the files of a dataset.

A file is searched in every folder of `$GPSUITE_DATA_PATH`, then in the cache folder. Each time it is in a sub-folder
named after the dataset, and `.gz` or `.xz` may be appended. The first copy found counts. If it is changed, that is an
error and no other copy is tried.

pooch downloads. Its registry does not support several folders and addresses for a file, or hashes of compressed copies
and of git.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import lzma
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from gpsuite.atomic import write_atomically
from gpsuite.data.spec import DatasetSpec, FileSpec
from gpsuite.errors import DataError, MissingDataError
from gpsuite.untrusted import LARGEST_TEXT, parse_json, read_file

PATH_VARIABLE = "GPSUITE_DATA_PATH"
OFFLINE_VARIABLE = "GPSUITE_OFFLINE"
TIMEOUT_SECONDS = 10.0
LARGEST_DATA = 4 << 30
VERIFIED_FILE = Path(".parsed", "verified.json")  # in the cache folder
_SUFFIXES = (".gz", ".xz")
_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
# if a file was written less than this before hashing, it may change again within one tick of its time stamp
_SETTLED_NS = 2_000_000_000

Hashes: TypeAlias = tuple[str, str]  # hashes of the stored bytes and of their uncompressed content
Stamp: TypeAlias = tuple[str | int, ...]  # kind of hash, size, times of modification and of status change, inode
Known: TypeAlias = dict[str, tuple[Stamp, Hashes]]

_known: Known = {}  # hashes that this process has read, by absolute path


@dataclass(frozen=True)
class FileState:
    """The verdict on one file.

    Attributes:
        name: file name in the dataset's folder.
        state: `ok`, `missing` or `changed`.
        path: its path, None if missing.
        expected: the expected hash, of the kind `hash_kind`.
        found: hash of the stored bytes, None if missing.
        hash_kind: `sha256`, or `git blob sha1` if no SHA-256 is known.
        optional: whether the dataset is usable without the file.
    """

    name: str
    state: Literal["ok", "missing", "changed"]
    path: Path | None
    expected: str
    found: str | None
    hash_kind: str = "sha256"
    optional: bool = False


def search_folders(name: str, cache_dir: Path) -> tuple[Path, ...]:
    """Return the folders to search for files of sub-folder `name`, in order."""
    entries = [entry for entry in os.environ.get(PATH_VARIABLE, "").split(os.pathsep) if entry.strip()]
    return (*(Path(entry).expanduser() / name for entry in entries), cache_dir / name)


def locate(spec: DatasetSpec, file: FileSpec, cache_dir: Path) -> Path | None:
    """Return the first existing copy of a file without reading it, or None if there is none."""
    for folder in search_folders(spec.folder_name, cache_dir):
        for candidate in _stored_names(file.name):
            if os.path.isfile(folder / candidate):
                return folder / candidate
    return None


def _stored_names(name: str) -> list[str]:
    names = [name, *(name + suffix for suffix in _SUFFIXES)]
    stem, suffix = os.path.splitext(name)
    return [*names, stem] if suffix in _SUFFIXES else names


def hash_file(file: FileSpec, data: bytes) -> tuple[Hashes, bytes]:
    """Return the hashes of a file's bytes, of the kind by which it is known, and the uncompressed content."""
    digest = _sha256 if file.sha256 else git_blob_sha1
    content, stored = _uncompressed(data), digest(data)
    return (stored, stored if content is data else digest(content)), content


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def git_blob_sha1(data: bytes) -> str:
    """Return the name git gives to a file of this content: SHA-1 of the header `blob SIZE`, a zero byte, the bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _uncompressed(data: bytes) -> bytes:
    """Return the content of a gzip or xz stream. Other or damaged bytes are returned as they are."""
    try:
        if data.startswith(_GZIP_MAGIC):
            return gzip.decompress(data)
        if data.startswith(_XZ_MAGIC):
            return lzma.decompress(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        pass  # damaged: the hash of the stored bytes will also be wrong, and that error is reported
    return data


def verify(spec: DatasetSpec, cache_dir: Path) -> list[FileState]:
    """Read and hash every file of a dataset and return one verdict each.

    Raises:
        DataError: if a file is there but cannot be read.
    """
    return _states(spec, cache_dir, lambda file, path: hash_file(file, _read(spec, path))[0])


def check(spec: DatasetSpec, cache_dir: Path) -> list[FileState]:
    """Return the verdicts of `verify`, with remembered hashes for files that were not touched since they were read.

    Within a process hashes are always remembered. Between processes they are remembered in the cache folder, but only
    for datasets with `cache: true`. Their files take long to read.

    Raises:
        DataError: if a file is there but cannot be read.
    """
    memory = HashMemory(cache_dir / VERIFIED_FILE if spec.cache else None)
    states = _states(spec, cache_dir, lambda file, path: memory.hashes(file, path, lambda: _read(spec, path)))
    memory.save()
    return states


class HashMemory:
    """The hashes of files that were read before and have not been touched since.

    A file counts as untouched as long as its size, both times and inode are the same. The memory on disk only saves
    time: a damaged or unwritable one is ignored.

    Args:
        store: file of the memory between processes. None: only in this process.
    """

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._stored = _read_known(store)
        self._asked: Known = {}

    def hashes(self, file: FileSpec, path: Path, read: Callable[[], bytes]) -> Hashes:
        """Return the hashes of the file at `path`. `read` is called only if they are not known."""
        status = path.stat()
        times = (status.st_mtime_ns, status.st_ctime_ns)
        stamp, name = (file.hash_kind, status.st_size, *times, status.st_ino), str(path.absolute())
        for known in (_known.get(name), self._stored.get(name)):
            if known is not None and known[0] == stamp:
                self._asked[name] = known
                return known[1]
        hashes, _ = hash_file(file, read())
        if time.time_ns() - max(times) >= _SETTLED_NS:
            _known[name] = self._asked[name] = (stamp, hashes)
        return hashes

    def save(self) -> None:
        """Write the requested hashes to disk, if any is new."""
        if self._store is None or self._asked.items() <= self._stored.items():
            return
        known = {**_read_known(self._store), **self._asked}  # another process may have written meanwhile
        text = json.dumps(dict(sorted(known.items())), indent=1)
        with contextlib.suppress(OSError):
            write_atomically(self._store, lambda stream: stream.write(text.encode()))


def _read_known(store: Path | None) -> Known:
    try:
        plain = {} if store is None else parse_json(read_file(store, LARGEST_TEXT))
        return {name: (tuple(stamp), (str(own), str(inner))) for name, (stamp, (own, inner)) in plain.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def require(spec: DatasetSpec, cache_dir: Path, *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Path]:
    """Return the paths of verified files by name. Missing files are downloaded.

    If only optional files are missing, nothing is downloaded: a run's data must not depend on the network.

    Raises:
        DataError: if a file is changed. Names both hashes and the source.
        MissingDataError: if a file is missing and cannot be downloaded. Names the same.
    """
    states = _unchanged(spec, cache_dir)
    if any(state.state == "missing" and not state.optional for state in states):
        return fetch(spec, cache_dir, timeout=timeout)
    return {state.name: state.path for state in states if state.path is not None}


def fetch(spec: DatasetSpec, cache_dir: Path, *, timeout: float = TIMEOUT_SECONDS) -> dict[str, Path]:
    """Download the missing files of a dataset into `cache_dir/FOLDER`. Return the paths of all its files by name.

    A download is moved into place only after its hash was verified. An optional file that cannot be downloaded is left
    out.

    Args:
        spec: the dataset.
        cache_dir: the folder of downloads.
        timeout: seconds without an answer after which the next server is tried.

    Raises:
        DataError: if an existing file is changed, no URL serves the right content, downloads are switched off, or the
            folder cannot be written.
    """
    paths = {}
    for file, state in zip(spec.files, _unchanged(spec, cache_dir), strict=True):
        if state.path is not None:
            paths[file.name] = state.path
            continue
        with contextlib.suppress(DataError) if file.optional else contextlib.nullcontext():
            paths[file.name] = _download(spec, file, cache_dir, timeout)
    return paths


def read_verified(spec: DatasetSpec, file: FileSpec, path: Path) -> bytes:
    """Return the uncompressed content of a file that has the expected hash.

    Raises:
        DataError: if the file cannot be read, or its content is not the expected one.
    """
    hashes, content = hash_file(file, _read(spec, path))
    state = _state(file, path, hashes)
    if state.state == "changed":
        raise changed_error(spec, state)
    return content


def changed_error(spec: DatasetSpec, state: FileState) -> DataError:
    """Return the error for a file with another content than expected."""
    return DataError(
        f"dataset={spec.name}: {state.path} is not the expected file\n"
        f"expected {state.hash_kind} {state.expected[:16]}, found {str(state.found)[:16]}\n"
        f"remove it, then: gpsuite data fetch {spec.name}   (from {_origin(spec, state.name)})\n"
        f"expected {state.hash_kind} {state.expected}, found    {state.hash_kind} {state.found}",
        key="dataset",
    )


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


def _states(spec: DatasetSpec, cache_dir: Path, hashes_of: Callable[[FileSpec, Path], Hashes]) -> list[FileState]:
    found = [(file, locate(spec, file, cache_dir)) for file in spec.files]
    return [_state(file, path, hashes_of(file, path) if path else ()) for file, path in found]


def _state(file: FileSpec, path: Path | None, hashes: Hashes | tuple[()]) -> FileState:
    """Return the verdict: whether the stored bytes or their uncompressed content are those of the canonical file."""
    known = (file.hash_kind, file.optional)
    if path is None or not hashes:
        return FileState(file.name, "missing", None, file.expected, None, *known)
    accepted = file.expected in hashes or (bool(file.sha256) and hashes[1] == file.uncompressed_sha256)
    found = file.expected if file.expected in hashes else hashes[0]
    return FileState(file.name, "ok" if accepted else "changed", path, file.expected, found, *known)


def _read(spec: DatasetSpec, path: Path) -> bytes:
    try:
        return read_file(path, LARGEST_DATA)
    except OSError as error:
        raise DataError(f"dataset={spec.name}: cannot read {path}: {error.strerror}", key="dataset") from error


def _download(spec: DatasetSpec, file: FileSpec, cache_dir: Path, timeout: float) -> Path:
    """Download one file. Try the URLs in order."""
    folder = cache_dir / spec.folder_name
    if os.environ.get(OFFLINE_VARIABLE, "").strip().lower() not in ("", "0", "false", "no"):
        raise _missing_error(spec, file, cache_dir, f"not tried, {OFFLINE_VARIABLE} is set")
    reasons = []
    for url in file.urls:
        reason = _try_url(spec, file, url, folder, timeout)
        if reason is None:
            return folder / file.name
        reasons.append(f"{url}: {reason}")
    with contextlib.suppress(OSError):  # missing, or with other files in it
        folder.rmdir()
    reason = "; ".join(reasons) or "not possible, no address is known"
    raise _missing_error(spec, file, cache_dir, reason)


def _missing_error(spec: DatasetSpec, file: FileSpec, cache_dir: Path, reason: str) -> MissingDataError:
    looked_in = search_folders(spec.folder_name, cache_dir)
    return MissingDataError(
        f"dataset={spec.name}: file '{file.name}' is missing ({file.hash_kind} {file.expected[:10]})\n"
        f"looked in {', '.join(map(str, looked_in))}; download: {reason}\n"
        f"put it into {looked_in[-1]} or {spec.folder_name}/ in a folder of ${PATH_VARIABLE}\n"
        f"get it from {_origin(spec, file.name)} (expected {file.hash_kind} {file.expected}, found none)",
        key="dataset",
    )


def _origin(spec: DatasetSpec, name: str) -> str:
    urls = next(file.urls for file in spec.files if file.name == name)
    return " or ".join(urls) if urls else "its authors (no public address is known)"


def _try_url(spec: DatasetSpec, file: FileSpec, url: str, folder: Path, timeout: float) -> str | None:
    """Download one URL into place. Return why it failed, or None."""
    import tempfile

    import pooch
    import requests

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as work:
            part = Path(work) / "part"
            downloader = pooch.HTTPDownloader(timeout=(min(timeout, 5.0), timeout), chunk_size=1 << 16)
            downloader(url, str(part), None)
            state = _state(file, part, hash_file(file, part.read_bytes())[0])
            if state.state != "ok":
                return f"wrong content, expected {state.hash_kind} {state.expected}, found {state.found}"
            os.replace(part, folder / file.name)
    except requests.exceptions.RequestException as error:
        return _network_reason(error, timeout)
    except OSError as error:
        raise DataError(f"dataset={spec.name}: cannot write to {folder}: {error.strerror}", key="dataset") from error
    return None


def _network_reason(error: Exception, timeout: float) -> str:
    """Return a network failure in a few words. The libraries' texts have many lines."""
    import requests

    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    # a time-out while reading the body is wrapped in a ConnectionError
    if isinstance(error, requests.exceptions.Timeout) or "timed out" in str(error):
        return f"no answer within {timeout:g} s"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection"
    return type(error).__name__
