from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.engine.store import RecordStore, StoredRecord, add_checksum, pack, satisfies
from gpsuite.engine.worker import execute
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import Record, SharedWork
from gpsuite.reporting.files import ARCHIVE
from tests.engine import tiny


def record_of(number: int = 3, behaviour: str = "square") -> Record:
    return execute(tiny.task(number, behaviour), SharedWork())


def test_a_record_comes_back_as_it_was_put(tmp_path: Path) -> None:
    store, record = RecordStore(tmp_path, "tiny"), record_of()
    store.put(record)
    back = store.get(record.key)
    assert back is not None
    np.testing.assert_array_equal(back.arrays["powers"], record.arrays["powers"])
    assert back.metrics == {**record.metrics, "nothing": None}  # JSON has no NaN
    assert (back.status, back.axes, back.timing) == (record.status, record.axes, record.timing)


def test_a_failure_keeps_its_traceback_beside_the_record(tmp_path: Path) -> None:
    store, record = RecordStore(tmp_path, "tiny"), record_of(behaviour="fail")
    store.put(record)
    assert "no square of 3" in store.traceback_path(record.key).read_text(encoding="utf-8")
    assert record.reason == "ValueError: no square of 3"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 99}', '{"format": 1}', "\x00\xff"])
def test_a_damaged_record_counts_as_absent(tmp_path: Path, damage: str) -> None:
    store, record = RecordStore(tmp_path, "tiny"), record_of()
    store.put(record)
    (store.folder / f"{record.key}.json").write_text(damage, encoding="utf-8")
    assert store.get(record.key) is None


def test_a_full_disk_leaves_the_old_record_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, record = RecordStore(tmp_path, "tiny"), record_of()
    store.put(record)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match="No space left"):
        store.put(replace(record, reason="new"))
    monkeypatch.undo()
    back = store.get(record.key)
    assert back is not None
    assert back.reason == ""
    assert not [path for path in store.folder.iterdir() if path.suffix not in (".json", ".npz")]


def test_what_a_stored_record_satisfies() -> None:
    done, failed = record_of(), record_of(behaviour="fail")
    limited = replace(record_of(behaviour="budget"), budget_seconds=10.0)
    assert not satisfies(None, None)
    assert satisfies(done, 1.0)
    assert not satisfies(failed, None)
    assert not satisfies(replace(done, status="skipped"), None)  # what was missing may be there now
    assert satisfies(limited, 10.0)
    assert satisfies(limited, 5.0)
    assert not satisfies(limited, 20.0)  # the budget has grown
    assert not satisfies(limited, None)
    assert satisfies(replace(limited, budget_seconds=None), None)  # limited by counts, which are in the key


def archived(folder: Path, *records: Record) -> None:
    folder.mkdir(parents=True)
    (folder / ARCHIVE).write_bytes(pack([StoredRecord(add_checksum(each), each.arrays) for each in records]))


def test_an_own_record_comes_before_the_published_one(tmp_path: Path) -> None:
    record = record_of()
    archived(tmp_path / "published/tiny/squares/quick", replace(record, status="budget", budget_seconds=1.0))
    store = RecordStore(tmp_path, "tiny")
    assert stored(store, record.key).status == "budget"
    store.put(record)
    assert stored(store, record.key).status == "done"


def test_an_own_record_without_one_of_its_arrays_is_missing(tmp_path: Path) -> None:
    store, made = RecordStore(tmp_path, "tiny"), record_of()
    record = replace(made, arrays={**made.arrays, "roots": np.ones(2)})
    store.put(record)
    np.savez_compressed(store.arrays_path(record.key), powers=record.arrays["powers"])
    assert store.get(record.key) is None


def test_of_two_archives_the_first_has_the_record(tmp_path: Path) -> None:
    record = record_of()
    for name in ("a", "b"):
        archived(tmp_path / "published/tiny/squares" / name, replace(record, reason=name))
    assert stored(RecordStore(tmp_path, "tiny"), record.key).reason == "a"


def stored(store: RecordStore, key: str) -> Record:
    record = store.get(key)
    assert record is not None
    return record
