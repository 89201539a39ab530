"""Records on disk: with checksums, a JSON (and npz) per task key, and a run's records packed in one file for git.

Every array has a digest, which does not depend on its packing. The checksum covers all fields and digests. So a copy
without some arrays can still be checked. Nothing is pickled, and everything is checked before use.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpsuite.engine.keys import short_hash
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import BUDGET, ERROR, SKIPPED, STATUSES, Outcome, Record
from gpsuite.reporting.files import ARCHIVE, FIELDS, as_number, read_bytes, record_lines, write_bytes, write_text
from gpsuite.text import visible
from gpsuite.untrusted import (
    LARGEST_MEMBER,
    LARGEST_RECORD_ARRAYS,
    guard_links,
    inside,
    parse_json,
    read_member,
    unpack_arrays,
)

FORMAT = 2
_ARRAYS = "arrays.npz"
CLAIMS = ".claims"  # an empty file with a place for each key. Whoever computes the key locks its place
# the arrays and the traceback have separate files
_FIELDS = tuple(field.name for field in fields(Record) if field.name not in ("arrays", "traceback"))
LARGEST_FIELDS = 16 << 20  # largest size in bytes of a record without its arrays
LARGEST_FAMILY = 512 << 20  # largest size of all published records of a family without their arrays


@dataclass(frozen=True, eq=False)
class StoredRecord:
    """A stored record: the JSON object of `add_checksum`, with the digests of all arrays, and some arrays."""

    fields: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def pack(records: Iterable[StoredRecord]) -> bytes:
    """Return the archive of records: a zip of records.jsonl and arrays.npz, with arrays named `<key>/<array>`.

    It is sorted by key and has no times. So equal records in any order give equal bytes. Fields and arrays keep their
    order, because tables and figures show it.
    """
    ordered = sorted(((str(each.fields["key"]), each) for each in records), key=lambda pair: pair[0])
    named = {f"{key}/{name}": array for key, each in ordered for name, array in each.arrays.items()}
    arrays = io.BytesIO()
    np.savez(arrays, **named)
    plain: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}
    lines = "".join(f"{json.dumps(each.fields, **plain)}\n" for _, each in ordered)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in ((FIELDS, lines.encode()), (_ARRAYS, arrays.getvalue())):
            member = zipfile.ZipInfo(name)  # with the date 1980
            member.create_system, member.compress_type = 3, zipfile.ZIP_LZMA
            archive.writestr(member, content)
    return buffer.getvalue()


class Archive:
    """An archive on disk. Its faults are found at the first access."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: str) -> StoredRecord | None:
        """Return the record of a key, or None if it is not here. `check_record` finds damage.

        Raises:
            OSError, ValueError, ...: if the archive is damaged.
        """
        line = self._lines.get(key)
        return None if line is None else StoredRecord(parse_json(line), self._arrays.get(key, {}))

    @property
    def size(self) -> int:
        """Size in bytes of the records without their arrays."""
        return sum(map(len, self._lines.values()))

    @property
    def keys(self) -> list[str]:
        """The records' keys, sorted."""
        return list(self._lines)

    @cached_property
    def _lines(self) -> dict[str, bytes]:
        # kept as text: as Python objects a hostile line needs twenty times the memory
        return {str(parse_json(line)["key"]): line for line in record_lines(self.path) if line}

    @cached_property
    def _arrays(self) -> dict[str, dict[str, NDArray[Any]]]:
        content = read_member(read_bytes(self.path), _ARRAYS, LARGEST_MEMBER)
        found: dict[str, dict[str, NDArray[Any]]] = {}
        for each, array in unpack_arrays(content, LARGEST_MEMBER).items():
            key, _, name = each.partition("/")
            found.setdefault(key, {})[name] = array
        return found


class DamagedRecordError(ValueError):
    """Raised if a stored record has changed since it was stored. The message names the fault."""


class OtherFormatError(DamagedRecordError):
    """Raised if a stored record has another version's format."""


def add_checksum(record: Record) -> dict[str, Any]:
    """Return a record as a JSON object: format, checksum, fields, and the digests of its arrays by name."""
    content = {name: getattr(record, name) for name in _FIELDS}
    # JSON cannot represent NaN and infinities
    content["metrics"] = {
        name: None if isinstance(value, float) and not isfinite(value) else value
        for name, value in record.metrics.items()
    }
    content["arrays"] = {name: array_digest(array) for name, array in record.arrays.items()}
    return {"format": FORMAT, "checksum": _checksum(content), **content}


def require_storable(outcome: Outcome) -> None:
    """Raise if no record can store the outcome.

    Raises:
        TypeError: for a metric that JSON cannot represent, such as a numpy number, or an array of objects.
    """
    for name, value in outcome.metrics.items():
        if not isinstance(value, (bool, int, float, str, type(None))):
            raise TypeError(f"metric {name}={value!r}: {type(value).__name__} cannot be stored, only plain numbers")
    for name, array in outcome.arrays.items():
        if np.asarray(array).dtype.kind not in "biufcSU":
            raise TypeError(f"array {name}: a record's array holds numbers or texts")
    if (size := sum(np.asarray(array).nbytes for array in outcome.arrays.values())) > LARGEST_RECORD_ARRAYS:
        raise TypeError(f"arrays of {size >> 20} MB: a record holds at most {LARGEST_RECORD_ARRAYS >> 20} MB")


def check_record(key: str, found: StoredRecord, *, partly: bool = False) -> Record:
    """Return the record of a key from its stored form. With `partly` arrays may be missing. The others are checked.

    Raises:
        OtherFormatError: if it has another format.
        DamagedRecordError: if it is another task's, or anything in it or in the arrays has changed.
    """
    stored, arrays = found.fields, found.arrays
    if not isinstance(stored, dict) or "format" not in stored:
        raise DamagedRecordError("it is not a record")
    if stored["format"] != FORMAT:
        raise OtherFormatError(f"it has format {stored['format']}, this version writes format {FORMAT}")
    content = {name: value for name, value in stored.items() if name not in ("format", "checksum")}
    try:
        same = stored.get("checksum") == _checksum(content)
    except ValueError:  # NaN does not occur in records
        same = False
    if not same:
        raise DamagedRecordError("its fields do not match its checksum")
    if fault := _wrong_type(content):
        raise DamagedRecordError(fault)
    if content["key"] != key:
        raise DamagedRecordError(f"it is the record of another task, {content['key']}")
    digests = content.pop("arrays")
    if not partly and set(digests) != set(arrays):
        raise DamagedRecordError("its arrays are not all there")
    if any(digests.get(name) != array_digest(array) for name, array in arrays.items()):
        raise DamagedRecordError("its arrays do not match their checksums")
    return replace(Record(**content), arrays=_Kept(arrays) if partly else dict(arrays))


def _wrong_type(content: Mapping[str, Any]) -> str:
    """Return the first fault of the fields, or an empty string: anybody can compute a checksum."""
    if set(content) != {*_FIELDS, "arrays"}:
        return "its fields are not a record's"
    texts = ("key", "experiment", "label", "status", "reason", "headline")
    wrong = [name for name in texts if not isinstance(content[name], str)]
    if not wrong and content["status"] not in STATUSES:
        wrong.append("status")
    if not (content["budget_seconds"] is None or _is_number(content["budget_seconds"])):
        wrong.append("budget_seconds")
    mappings: Mapping[str, Callable[[Any], bool]] = {
        "axes": lambda value: isinstance(value, str) or _is_number(value),
        "metrics": lambda value: value is None or isinstance(value, str | bool) or _is_number(value),
        "timing": _is_number,
        "origin": lambda value: isinstance(value, str),
        "arrays": lambda value: isinstance(value, str),
    }
    for name, fits in mappings.items():
        if not isinstance(content[name], dict) or not all(map(fits, content[name].values())):
            wrong.append(name)
    return f"its {wrong[0]} is of another type than a record's" if wrong else ""


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and as_number(value) is not None


class _Kept(dict[str, NDArray[Any]]):
    """Arrays of a published record. For a missing array the error says how to get it."""

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


class PublishedRecords:
    """The published records of a family. An unreadable archive is named once, on stderr, and left out."""

    def __init__(self, results_dir: Path, family: str) -> None:
        self.folder = results_dir / "published" / family
        self.used = False  # whether a record was taken from here

    def get(self, key: str) -> StoredRecord | None:
        """Return the record of a key from the first archive that has it, or None."""
        archive = self._places.get(key)
        self.used = self.used or archive is not None
        return None if archive is None else archive.get(key)

    @cached_property
    def _places(self) -> dict[str, Archive]:
        places: dict[str, Archive] = {}
        for archive, keys in self._readable():
            for key in keys:
                places.setdefault(key, archive)
        return places

    def _readable(self) -> Iterator[tuple[Archive, list[str]]]:
        left = LARGEST_FAMILY
        for path in sorted(self.folder.rglob(ARCHIVE)):  # an experiment without a family has one folder less
            archive = Archive(path)
            try:
                left -= archive.size
                if left < 0:
                    raise ValueError(f"the family's records are larger than {LARGEST_FAMILY >> 20} MB together")
                yield archive, archive.keys
            except Exception as error:  # damage raises many kinds of errors, from LZMAError to MemoryError
                text = f"{path}: damaged records, count as missing ({type(error).__name__}: {error})"
                print(f"gpsuite: {visible(text)}", file=sys.stderr)


class RecordStore:
    """The records of one family under `results/.records/<family>`, and after them the published ones.

    A record that is damaged, or has another record's key, counts as missing. This is reported once, on stderr. A
    published record may lack arrays that no table or figure needs.
    """

    def __init__(self, results_dir: Path, family: str) -> None:
        self.place = (results_dir.absolute(), family)
        self.folder = guard_links(results_dir) / ".records" / family
        self.states = inside(self.folder / ".states")  # folders of running tasks
        self.published = PublishedRecords(results_dir, family)
        self._told: set[str] = set()

    def put(self, record: Record) -> None:
        """Store a record. The JSON is written last and marks it complete: its digests fit only these arrays.

        If an answer is already stored, only the traceback of a failure is stored: the answer is still valid.

        Raises:
            ResultsError: if the disk is full or read-only. No partial files are left.
        """
        if record.status == ERROR and (here := self._own(record.key)) and _answers(here[1]):
            write_text(self.traceback_path(record.key), record.traceback)
            return
        text = json.dumps(add_checksum(record), indent=1, ensure_ascii=False)
        if record.arrays:
            buffer = io.BytesIO()
            arrays: dict[str, Any] = dict(record.arrays)
            np.savez_compressed(buffer, **arrays)
            write_bytes(self.arrays_path(record.key), buffer.getvalue())
        if record.traceback:
            write_text(self.traceback_path(record.key), record.traceback)
        write_text(self.path(record.key), text + "\n")

    @contextmanager
    def claimed(self, key: str) -> Iterator[None]:
        """Hold a task's key: no two processes compute it at once. The system releases it if this process is killed.

        Two keys share a place with probability 2^-60. Then one waits without need.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            stream = inside(self.folder / CLAIMS).open("ab")
        except OSError:  # read-only: storing the record will fail too, and that is reported
            yield
            return
        with stream:
            fcntl.lockf(stream, fcntl.LOCK_EX, 1, int(key[:15], 16))
            yield

    def forget_states(self, keys: Iterable[str]) -> None:
        """Remove the states of interrupted tasks: they then begin again."""
        for key in keys:
            shutil.rmtree(self.states / key, ignore_errors=True)

    def get(self, key: str) -> Record | None:
        """Return the record of a key, stored here or published, or None if there is no undamaged one."""
        found = self._find(key)
        return None if found is None else found[1]

    def checksummed(self, key: str) -> StoredRecord | None:
        """Return the record of `get` in its stored form, for copying."""
        found = self._find(key)
        return None if found is None else found[0]

    def _find(self, key: str) -> tuple[StoredRecord, Record] | None:
        here = self._own(key)
        if here is not None and _answers(here[1]):
            return here
        return self._checked(key, self.published.folder, self.published.get, partly=True) or here

    def _own(self, key: str) -> tuple[StoredRecord, Record] | None:
        return self._checked(key, self.path(key), self._stored, partly=False)

    def _checked(
        self, key: str, path: Path, read: Callable[[str], StoredRecord | None], *, partly: bool
    ) -> tuple[StoredRecord, Record] | None:
        try:
            found = read(key)
            return None if found is None else (found, check_record(key, found, partly=partly))
        except OtherFormatError as error:
            self._tell("format", f"{path}: {error}. It and its like count as missing")
        except DamagedRecordError as error:
            self._tell(key, f"{path}: damaged record, counts as missing: {error}")
        except Exception as error:  # damage raises many kinds of errors, from zlib.error to MemoryError
            self._tell(key, f"{path}: damaged record, counts as missing: it cannot be read ({_reason(error)})")
        return None

    def _stored(self, key: str) -> StoredRecord | None:
        try:
            fields = parse_json(read_bytes(self.path(key), LARGEST_FIELDS))
        except FileNotFoundError:
            return None
        named = fields.get("arrays") if isinstance(fields, dict) else None
        return StoredRecord(fields, self._read_arrays(key) if named else {})

    def path(self, key: str) -> Path:
        """Return the path of the record's fields."""
        return self.folder / f"{key}.json"

    def arrays_path(self, key: str) -> Path:
        """Return the path of the record's arrays."""
        return self.folder / f"{key}.npz"

    def traceback_path(self, key: str) -> Path:
        """Return the path of a failed task's traceback."""
        return self.folder / f"{key}.traceback.txt"

    def _read_arrays(self, key: str) -> Mapping[str, NDArray[Any]]:
        path = self.arrays_path(key)
        try:
            return unpack_arrays(read_bytes(path), LARGEST_RECORD_ARRAYS)
        except (OSError, ValueError) as error:
            raise DamagedRecordError(f"its arrays in {path.name} cannot be read ({_reason(error)})") from error

    def _tell(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            print(f"gpsuite: {visible(text)}", file=sys.stderr)


def _reason(error: Exception) -> object:
    return error.strerror if isinstance(error, OSError) and error.strerror else error


def satisfies(record: Record | None, budget_seconds: float | None) -> bool:
    """Return whether a stored record answers a task: it is no error, and no smaller budget limited it.

    Skipped tasks are not stored: something missing then, such as a package, may exist now. Skipping again takes no
    time.
    """
    if record is None or not _answers(record):
        return False
    if record.status != BUDGET or record.budget_seconds is None:
        return True
    return budget_seconds is not None and budget_seconds <= record.budget_seconds


def _answers(record: Record) -> bool:
    return record.status not in (ERROR, SKIPPED)
