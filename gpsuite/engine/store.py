"""Records on disk: one JSON (and one npz) per task key, written atomically, never pickled, never believed unchecked.

A record that is not there is looked for among the published ones: what was computed once, anywhere, is not computed
again. A published record may lack arrays that no table and no figure needs.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpsuite.engine.archive import Sealed
from gpsuite.engine.published import PublishedRecords
from gpsuite.engine.sealed import DamagedRecordError, OtherFormatError, seal, unseal
from gpsuite.experiments.base import BUDGET, ERROR, SKIPPED, Record
from gpsuite.reporting.atomic import write_bytes, write_text
from gpsuite.reporting.reading import read_bytes
from gpsuite.text import visible


class RecordStore:
    """The records of one family under `results/.records/<family>`.

    A record that is damaged, or lies under another record's key, counts as missing; that is said once, on stderr.

    Args:
        results_dir: the results folder.
        family: first part of the experiments' names.
    """

    def __init__(self, results_dir: Path, family: str) -> None:
        self.place = (results_dir.absolute(), family)
        self.folder = results_dir / ".records" / family
        self.states = self.folder / ".states"  # of tasks in flight, a folder each
        self.published = PublishedRecords(results_dir, family)
        self._told: set[str] = set()

    def put(self, record: Record) -> None:
        """Store a record; the JSON, written last, marks it complete: it fits no arrays but these.

        Of a failure the traceback alone is kept where an answer is stored: it was computed, and is no worse for it.

        Raises:
            ResultsError: when the disk is full or read-only; nothing half-written is left.
        """
        if record.status == ERROR and (here := self._own(record.key)) and _answers(here[1]):
            write_text(self.traceback_path(record.key), record.traceback)
            return
        text = json.dumps(seal(record), indent=1, ensure_ascii=False)
        if record.arrays:
            buffer = io.BytesIO()
            arrays: dict[str, Any] = dict(record.arrays)
            np.savez_compressed(buffer, **arrays)
            write_bytes(self.arrays_path(record.key), buffer.getvalue())
        if record.traceback:
            write_text(self.traceback_path(record.key), record.traceback)
        write_text(self.path(record.key), text + "\n")

    def forget_states(self, keys: Iterable[str]) -> None:
        """Remove what interrupted tasks left, so that they begin anew."""
        for key in keys:
            shutil.rmtree(self.states / key, ignore_errors=True)

    def get(self, key: str) -> Record | None:
        """Return the record of a key, stored here or published, or None when there is none that can be believed."""
        found = self._find(key)
        return None if found is None else found[1]

    def sealed(self, key: str) -> Sealed | None:
        """Return the record that `get` returns as it is stored, to be copied."""
        found = self._find(key)
        return None if found is None else found[0]

    def _find(self, key: str) -> tuple[Sealed, Record] | None:
        here = self._own(key)
        if here is not None and _answers(here[1]):
            return here
        return self._checked(key, self.published.folder, self.published.get, partly=True) or here

    def _own(self, key: str) -> tuple[Sealed, Record] | None:
        return self._checked(key, self.path(key), self._stored, partly=False)

    def _checked(
        self, key: str, path: Path, read: Callable[[str], Sealed | None], *, partly: bool
    ) -> tuple[Sealed, Record] | None:
        try:
            found = read(key)
            return None if found is None else (found, unseal(key, found, partly=partly))
        except OtherFormatError as error:
            self._tell("format", f"{path}: {error}; it and its like count as missing")
        except DamagedRecordError as error:
            self._tell(key, f"{path}: damaged record, counts as missing: {error}")
        except Exception as error:  # a damaged archive raises a dozen kinds, from zlib.error to MemoryError
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            self._tell(key, f"{path}: damaged record, counts as missing: it cannot be read ({reason})")
        return None

    def _stored(self, key: str) -> Sealed | None:
        try:
            fields = json.loads(read_bytes(self.path(key)))
        except FileNotFoundError:
            return None
        named = fields.get("arrays") if isinstance(fields, dict) else None
        return Sealed(fields, self._read_arrays(key) if named else {})

    def path(self, key: str) -> Path:
        """Return where the record's fields are kept."""
        return self.folder / f"{key}.json"

    def arrays_path(self, key: str) -> Path:
        """Return where the record's arrays are kept."""
        return self.folder / f"{key}.npz"

    def traceback_path(self, key: str) -> Path:
        """Return where the traceback of a failed task is kept."""
        return self.folder / f"{key}.traceback.txt"

    def _read_arrays(self, key: str) -> Mapping[str, NDArray[Any]]:
        path = self.arrays_path(key)
        try:
            with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except Exception as error:  # a damaged archive raises a dozen kinds, from zlib.error to MemoryError
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise DamagedRecordError(f"its arrays in the npz beside it cannot be read ({reason})") from error

    def _tell(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            print(f"gpsuite: {visible(text)}", file=sys.stderr)


def satisfies(record: Record | None, budget_seconds: float | None) -> bool:
    """Whether a stored record answers a task: not an error, not limited by a budget that has grown.

    Nor skipped: what was missing then, a package say, may be there now, and skipping again costs nothing.
    """
    if record is None or not _answers(record):
        return False
    if record.status != BUDGET or record.budget_seconds is None:
        return True
    return budget_seconds is not None and budget_seconds <= record.budget_seconds


def _answers(record: Record) -> bool:
    return record.status not in (ERROR, SKIPPED)
