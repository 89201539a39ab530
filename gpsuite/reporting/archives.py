"""Published records as a report reads them: what each task cost."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from gpsuite.reporting.reading import read_bytes

ARCHIVE, FIELDS = "records.zip", "records.jsonl"
"""A run's published records, and the member of that zip with one JSON object a line for each."""


def task_seconds(archive: Path) -> dict[str, float]:
    """Return the CPU seconds of each record's task by its key; nothing when the archive cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(archive))) as members:
            lines = members.read(FIELDS).decode("utf-8").split("\n")
        records = [json.loads(line) for line in lines if line]
        return {str(each["key"]): float(each["timing"]["cpu_seconds"]) for each in records}
    except Exception:  # a damaged archive raises a dozen kinds, from LZMAError to MemoryError
        return {}
