"""Records that travel: those of one run in one file made for git.

A zip with two members, each compressed as a whole: `records.jsonl`, one sealed record a line, and `arrays.npz`, the
arrays that were let go, named `<key>/<array>`. Sorted by key and without times, so that equal records give equal bytes;
fields and arrays keep their order, which tables and figures show.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpsuite.reporting.archives import FIELDS
from gpsuite.reporting.reading import read_bytes

_ARRAYS = "arrays.npz"
MOST_BYTES = 1 << 30  # of a member, unpacked: a small file can hold any number of zeros


@dataclass(frozen=True, eq=False)
class Sealed:
    """A record as it is stored, with all of its arrays or some.

    Attributes:
        fields: the JSON object of `seal`, which holds the digests of all arrays.
        arrays: name -> array.
    """

    fields: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    @property
    def key(self) -> str:
        """The hash of what the record's task computes."""
        return str(self.fields["key"])


def pack(records: Iterable[Sealed]) -> bytes:
    """Return the archive of records; the same bytes for the same records, in whatever order they come."""
    ordered = sorted(records, key=lambda record: record.key)
    named = {f"{each.key}/{name}": array for each in ordered for name, array in each.arrays.items()}
    arrays = io.BytesIO()
    np.savez(arrays, **named)
    lines = "".join(f"{_line(each)}\n" for each in ordered)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in ((FIELDS, lines.encode()), (_ARRAYS, arrays.getvalue())):
            member = zipfile.ZipInfo(name)  # dated 1980
            member.create_system, member.compress_type = 3, zipfile.ZIP_LZMA
            archive.writestr(member, content)
    return buffer.getvalue()


def _line(record: Sealed) -> str:
    # fields keep their order: it is that of the columns of tables
    return json.dumps(record.fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class Archive:
    """An archive on disk; what is wrong with it shows when it is first looked into.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: str) -> Sealed | None:
        """Return the record of a key, or None when it is not in here; unseal it before believing it.

        Raises:
            OSError, ValueError, zipfile.BadZipFile, ...: if the archive is damaged.
        """
        fields = self._fields.get(key)
        if fields is None:
            return None
        return Sealed(fields, {name: self._arrays[f"{key}/{name}"] for name in self._names.get(key, ())})

    @property
    def keys(self) -> list[str]:
        """The records' keys, sorted."""
        return list(self._fields)

    @cached_property
    def _fields(self) -> dict[str, dict[str, Any]]:
        # a text's own line separators, such as U+2028, stand in the JSON as they are: only "\n" ends a line
        lines = self._member(FIELDS).decode("utf-8").split("\n")
        return {str(each["key"]): each for each in map(json.loads, filter(None, lines))}

    @cached_property
    def _arrays(self) -> Any:
        return np.load(io.BytesIO(self._member(_ARRAYS)), allow_pickle=False)

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in self._arrays.files:
            key, _, name = each.partition("/")
            found.setdefault(key, []).append(name)
        return found

    def _member(self, name: str) -> bytes:
        with zipfile.ZipFile(io.BytesIO(read_bytes(self.path))) as archive:
            if (size := archive.getinfo(name).file_size) > MOST_BYTES:
                raise ValueError(f"{name} of {size:.3g} bytes: no run publishes so many")
            return archive.read(name)
