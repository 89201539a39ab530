"""A record as a JSON object that shows by itself whether anything in it, or in its arrays, was changed.

Every array has a digest of its own, which does not depend on how it is packed, and the checksum covers all fields and
digests: a copy that leaves some arrays behind can still be checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpsuite.engine.archive import Sealed
from gpsuite.engine.keys import short_hash
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import Outcome, Record

FORMAT = 2

# the arrays and the traceback have files of their own
_FIELDS = tuple(field.name for field in fields(Record) if field.name not in ("arrays", "traceback"))


class DamagedRecordError(ValueError):
    """A stored record is not what was put there; the message says what is wrong with it."""


class OtherFormatError(DamagedRecordError):
    """A stored record is of another version's format."""


def seal(record: Record) -> dict[str, Any]:
    """Return a record as a JSON object: format, checksum, fields, and the digests of its arrays by name."""
    content = {name: getattr(record, name) for name in _FIELDS}
    # JSON has no words for NaN and infinities
    content["metrics"] = {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in record.metrics.items()
    }
    content["arrays"] = {name: array_digest(array) for name, array in record.arrays.items()}
    return {"format": FORMAT, "checksum": _checksum(content), **content}


def require_storable(outcome: Outcome) -> None:
    """Refuse what no record can hold.

    Raises:
        TypeError: for a metric that JSON has no words for, such as a number of numpy's, or an array of objects.
    """
    for name, value in outcome.metrics.items():
        if not isinstance(value, (bool, int, float, str, type(None))):
            raise TypeError(
                f"metric {name}={value!r}: {type(value).__name__} cannot be stored, only plain numbers"
            )
    for name, array in outcome.arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise TypeError(f"array {name}: a record's array cannot hold Python objects")


def unseal(key: str, found: Sealed, *, partly: bool = False) -> Record:
    """Return the record of a key from what is stored of it.

    Args:
        key: the record's place: the hash of what its task computes.
        found: JSON object and arrays.
        partly: whether arrays may be missing; those that are there are checked all the same.

    Raises:
        OtherFormatError: if it is of another format.
        DamagedRecordError: if it is another task's, or anything in it or in the arrays is not as it was sealed.
    """
    stored, arrays = found.fields, found.arrays
    if not isinstance(stored, dict) or "format" not in stored:
        raise DamagedRecordError("it is not a record")
    if stored["format"] != FORMAT:
        raise OtherFormatError(f"it has format {stored['format']}, this version writes format {FORMAT}")
    content = {name: value for name, value in stored.items() if name not in ("format", "checksum")}
    try:
        same = stored.get("checksum") == _checksum(content)
    except ValueError:  # NaN, which no record has
        same = False
    if not same:
        raise DamagedRecordError("its fields do not match its checksum")
    if content["key"] != key:
        raise DamagedRecordError(f"it is the record of another task, {content['key']}")
    digests = content.pop("arrays")
    if not partly and set(digests) != set(arrays):
        raise DamagedRecordError("its arrays are not all there")
    if any(digests.get(name) != array_digest(array) for name, array in arrays.items()):
        raise DamagedRecordError("its arrays do not match their checksums")
    return replace(Record(**content), arrays=_Kept(arrays) if partly else dict(arrays))


class _Kept(dict[str, NDArray[Any]]):
    """Arrays of a published record; of one that was left behind it says how to have it."""

    def __missing__(self, name: str) -> NDArray[Any]:
        raise ResultsError(
            f"force=true: the published record has no array {name}, which this version draws\n"
            "the same command with force=true computes it again",
            key="force",
        )


def array_digest(array: NDArray[Any]) -> str:
    """Return the SHA-256 of an array's type, shape and values in row order.

    Raises:
        TypeError: for an array of Python objects, which cannot be stored.
    """
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise TypeError("a record's array cannot hold Python objects")
    digest = hashlib.sha256(f"{array.dtype.descr} {array.shape}".encode())
    digest.update(array.tobytes())
    return digest.hexdigest()


def _checksum(content: Mapping[str, Any]) -> str:
    return short_hash(content, 64)
