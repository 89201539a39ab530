"""Records on disk: one JSON (and one npz) per task key, written atomically, never pickled."""

from __future__ import annotations

import io
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.experiments.base import BUDGET, ERROR, SKIPPED, Record
from gpsuite.reporting.atomic import write_bytes, write_text

FORMAT = 1


class RecordStore:
    """The records of one family under `results/.records/<family>`.

    Args:
        results_dir: the results folder.
        family: first part of the experiments' names.
    """

    def __init__(self, results_dir: Path, family: str) -> None:
        self.folder = results_dir / ".records" / family

    def put(self, record: Record) -> None:
        """Store a record; the JSON is written last and marks it complete.

        Raises:
            ResultsError: when the disk is full or read-only; nothing half-written is left.
        """
        if record.arrays:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **record.arrays)
            write_bytes(self.arrays_path(record.key), buffer.getvalue())
        if record.traceback:
            write_text(self.traceback_path(record.key), record.traceback)
        fields = asdict(replace(record, arrays={}, traceback=""))
        for name in ("arrays", "traceback"):
            fields.pop(name)
        fields["metrics"] = {name: _storable(value) for name, value in fields["metrics"].items()}
        text = json.dumps({"format": FORMAT, **fields}, indent=1, ensure_ascii=False)
        write_text(self.folder / f"{record.key}.json", text + "\n")

    def get(self, key: str, *, arrays: bool = False) -> Record | None:
        """Return the stored record, or None when there is none, it is unreadable or of another format."""
        try:
            fields = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
            if fields.pop("format") != FORMAT:
                return None
            record = Record(**fields)
            return replace(record, arrays=self._read_arrays(key)) if arrays else record
        except (OSError, ValueError, KeyError, TypeError):
            return None  # absent or damaged: the task is simply computed again

    def arrays_path(self, key: str) -> Path:
        """Return where the record's arrays are kept."""
        return self.folder / f"{key}.npz"

    def traceback_path(self, key: str) -> Path:
        """Return where the traceback of a failed task is kept."""
        return self.folder / f"{key}.traceback.txt"

    def _read_arrays(self, key: str) -> dict[str, Any]:
        path = self.arrays_path(key)
        if not path.exists():
            return {}
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}


def satisfies(record: Record | None, budget_seconds: float | None) -> bool:
    """Whether a stored record answers a task: not an error, not limited by a budget that has grown.

    Nor skipped: what was missing then, a package say, may be there now, and skipping again costs nothing.
    """
    if record is None or record.status in (ERROR, SKIPPED):
        return False
    if record.status != BUDGET or record.budget_seconds is None:
        return True
    return budget_seconds is not None and budget_seconds <= record.budget_seconds


def _storable(value: Any) -> Any:
    """Return None for NaN and infinities, which JSON has no words for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
