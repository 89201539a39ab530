from __future__ import annotations

import io
import random
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.engine.store import (
    Archive,
    DamagedRecordError,
    RecordStore,
    StoredRecord,
    add_checksum,
    check_record,
    pack,
)
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import Record, SharedWork, only_arrays
from gpsuite.reporting.files import ARCHIVE
from tests.engine import tiny


def record_of(number: int) -> Record:
    made = execute(tiny.task(number), SharedWork())
    return replace(made, arrays={**made.arrays, "rows": np.ones((2, 3)), "words": np.array(["a", "é"])})


RECORDS = [record_of(number) for number in range(4)]
SEALED = [StoredRecord(add_checksum(record), record.arrays) for record in RECORDS]


def published(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "published" / "tiny" / "squares" / "paper" / ARCHIVE
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def test_equal_records_give_equal_bytes_in_whatever_order_they_come() -> None:
    shuffled = random.Random(0).sample(SEALED, len(SEALED))
    assert pack(shuffled) == pack(SEALED)


def test_a_packed_record_comes_back_whole_with_its_fields_in_order(tmp_path: Path) -> None:
    archive = Archive(published(tmp_path, pack(SEALED)))
    assert archive.keys == sorted(record.key for record in RECORDS)
    for record in RECORDS:
        found = archive.get(record.key)
        assert found is not None
        back = check_record(record.key, found)
        assert list(back.metrics) == list(record.metrics)
        assert back.origin == record.origin
        assert set(back.arrays) == set(record.arrays)
        for name, array in record.arrays.items():
            np.testing.assert_array_equal(back.arrays[name], array)


def test_arrays_left_behind_are_missed_only_where_all_are_asked_for(tmp_path: Path) -> None:
    record = RECORDS[1]
    (kept,) = only_arrays("pow*", "w?rds")([record])
    assert kept == {"powers", "words"}
    found = StoredRecord(add_checksum(record), {name: record.arrays[name] for name in kept})
    assert set(check_record(record.key, found, partly=True).arrays) == kept
    with pytest.raises(DamagedRecordError, match="not all there"):
        check_record(record.key, found)


@pytest.mark.parametrize("partly", [True, False])
def test_a_changed_array_or_field_is_damage_also_in_a_part(partly: bool) -> None:
    record = RECORDS[2]
    other = {**record.arrays, "rows": record.arrays["rows"] + 1e-16 * 3}
    with pytest.raises(DamagedRecordError, match="arrays do not match"):
        check_record(
            record.key,
            StoredRecord(add_checksum(record), {**other, "rows": np.full((2, 3), 2.0)}),
            partly=partly,
        )
    with pytest.raises(DamagedRecordError, match="arrays do not match"):
        check_record(
            record.key,
            StoredRecord(add_checksum(record), {**record.arrays, "more": np.ones(1)}),
            partly=True,
        )
    fields = {**add_checksum(record), "status": "done!"}
    with pytest.raises(DamagedRecordError, match="checksum"):
        check_record(record.key, StoredRecord(fields, record.arrays), partly=partly)


def test_the_store_looks_among_the_published_for_what_it_does_not_hold(tmp_path: Path) -> None:
    published(tmp_path, pack(SEALED))
    store = RecordStore(tmp_path, "tiny")
    here = replace(RECORDS[0], reason="computed here")
    store.put(here)
    first, second = store.get(RECORDS[0].key), store.get(RECORDS[1].key)
    assert first is not None
    assert first.reason == "computed here"
    assert second is not None
    assert second.metrics == {**RECORDS[1].metrics, "nothing": None}
    assert RecordStore(tmp_path, "other").get(RECORDS[1].key) is None


def test_a_damaged_record_here_is_replaced_by_the_published_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published(tmp_path, pack(SEALED))
    store = RecordStore(tmp_path, "tiny")
    store.put(RECORDS[0])
    store.path(RECORDS[0].key).write_text("{", encoding="utf-8")
    assert store.get(RECORDS[0].key) is not None
    assert capsys.readouterr().err.count("damaged record") == 1


def _without_arrays(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as whole, zipfile.ZipFile(buffer, "w") as part:
        part.writestr("records.jsonl", whole.read("records.jsonl"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda c: c[: len(c) // 2], lambda c: c[:-9], _without_arrays], ids=range(4)
)
def test_a_damaged_archive_is_named_once_and_its_records_count_as_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Any
) -> None:
    path = published(tmp_path, damage(pack(SEALED)))
    store = RecordStore(tmp_path, "tiny")
    assert [store.get(RECORDS[0].key), store.get(RECORDS[0].key)] == [None, None]
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(path.parent.parent.parent) in said


def test_the_archive_does_not_say_when_it_was_packed() -> None:
    with zipfile.ZipFile(io.BytesIO(pack(SEALED))) as archive:
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x1e", "\r", "\n"])
def test_a_line_separator_in_a_text_does_not_part_a_record(tmp_path: Path, separator: str) -> None:
    made = record_of(1)
    record = replace(made, reason=f"a{separator}b")
    path = tmp_path / ARCHIVE
    path.write_bytes(pack([StoredRecord(add_checksum(record), record.arrays)]))
    found = Archive(path)
    assert found.keys == [record.key]
    checksummed = found.get(record.key)
    assert checksummed is not None and checksummed.fields["reason"] == record.reason
