"""Hashes of stored files, and remembering them while a file is untouched."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import lzma
import time
import zlib
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TypeAlias

from gpsuite.atomic import write_atomically

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
# A file written less than this before it was hashed may change again within one tick of its time stamp.
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True)
class FileHashes:
    """The hashes a file may be recognised by.

    Attributes:
        stored: SHA-256 of the stored bytes.
        content: SHA-256 of the uncompressed content.
        stored_git: git blob SHA-1 of the stored bytes.
        content_git: git blob SHA-1 of the uncompressed content.
    """

    stored: str
    content: str
    stored_git: str
    content_git: str


Stamp: TypeAlias = tuple[int, ...]  # size, times of modification and of status change in ns, inode
Known: TypeAlias = dict[str, tuple[Stamp, FileHashes]]

_known: Known = {}  # absolute path -> what this process has read


def hash_file(data: bytes) -> tuple[FileHashes, bytes]:
    """Return the hashes of a file's bytes, and their uncompressed content."""
    content = _uncompressed(data)
    stored = (_sha256(data), git_blob_sha1(data))
    inner = stored if content is data else (_sha256(content), git_blob_sha1(content))
    return FileHashes(stored[0], inner[0], stored[1], inner[1]), content


def git_blob_sha1(data: bytes) -> str:
    """Return the name git gives to a file of this content: SHA-1 of the header `blob SIZE`, a zero byte, the bytes."""
    digest = hashlib.sha1(b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class HashMemory:
    """The hashes of files that were read before and have not been touched since.

    A file counts as untouched while its size, both times and inode are the same. What is remembered on disk only
    saves time: a damaged or unwritable file is as good as none.

    Args:
        file: where to remember them between processes; None: in this process only.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._stored = _read_known(file)
        self._asked: Known = {}

    def hashes(self, path: Path, read: Callable[[Path], bytes]) -> FileHashes:
        """Return the hashes of the file at `path`; `read` is called only when they are not known."""
        status = path.stat()
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        name = str(path.absolute())
        for known in (_known.get(name), self._stored.get(name)):
            if known is not None and known[0] == stamp:
                self._asked[name] = known
                return known[1]
        hashes, _ = hash_file(read(path))
        if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) >= _SETTLED_NS:
            _known[name] = self._asked[name] = (stamp, hashes)
        return hashes

    def save(self) -> None:
        """Remember on disk what was asked for, if there is anything new."""
        if self._file is None or self._asked.items() <= self._stored.items():
            return
        known = {**_read_known(self._file), **self._asked}  # another process may have written meanwhile
        plain = {name: [stamp, astuple(hashes)] for name, (stamp, hashes) in sorted(known.items())}
        text = json.dumps(plain, indent=1)
        with contextlib.suppress(OSError):
            write_atomically(self._file, lambda stream: stream.write(text.encode()))


def _read_known(file: Path | None) -> Known:
    try:
        plain = {} if file is None else json.loads(file.read_bytes())
        return {
            name: (tuple(stamp), FileHashes(*map(str, hashes))) for name, (stamp, hashes) in plain.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
