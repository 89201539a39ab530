"""Records with a right checksum and wrong types, as anybody can write them: each counts as missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpsuite.engine.store import RecordStore, StoredRecord, _checksum, add_checksum, pack
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import Record, SharedWork
from gpsuite.reporting.files import ARCHIVE
from tests.engine import tiny

HUGE = 10**400


def _any(*values: Any) -> tuple[Any, ...]:
    return values


WRONG: list[tuple[str, Any]] = [
    *((name, value) for name in ("metrics", "axes", "timing", "origin", "arrays") for value in _any(None, [], "x", 1)),
    *((name, {"a": value}) for name in ("metrics", "axes", "timing", "origin") for value in _any([], {}, HUGE, -HUGE)),
    *((name, {"a": None}) for name in ("axes", "timing", "origin", "arrays")),
    *(("arrays", {"a": value}) for value in _any([], 1, HUGE)),
    *(("status", value) for value in _any("unknown", "", None, 1, [], {})),
    *((name, value) for name in ("label", "reason", "experiment", "headline") for value in _any(None, 1, [], {})),
    *(("budget_seconds", value) for value in _any("1", [], HUGE, True, {})),
    ("timing", {"cpu_seconds": "1"}),
    ("origin", {"commit": 1}),
    ("unknown", 1),
    ("reason", ...),
]


def forged(record: Record, field: str, value: Any) -> dict[str, Any]:
    """Return a record's JSON with another value (... leaves it out) and the checksum that fits."""
    content = {name: each for name, each in add_checksum(record).items() if name not in ("format", "checksum")}
    content[field] = value
    if value is ...:
        del content[field]
    return {"format": 2, "checksum": _checksum(content), **content}


@pytest.mark.parametrize(("field", "value"), WRONG, ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("published", [False, True])
def test_a_record_of_wrong_types_counts_as_missing(
    tmp_path: Path, field: str, value: Any, published: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    record = execute(tiny.task(3), SharedWork())
    store = RecordStore(tmp_path, "tiny")
    wrong = forged(record, field, value)
    if published:
        path = tmp_path / "published/tiny/squares/quick" / ARCHIVE
        path.parent.mkdir(parents=True)
        path.write_bytes(pack([StoredRecord(wrong, {})]))
    else:
        store.put(record)
        store.path(record.key).write_text(json.dumps(wrong), encoding="utf-8")
    assert store.get(record.key) is None
    assert capsys.readouterr().err.count("\n") == 1
