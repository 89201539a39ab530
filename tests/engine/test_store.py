from __future__ import annotations

import errno
import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable
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
    array_digest,
    check_record,
    pack,
    satisfies,
)
from gpsuite.engine.worker import execute
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import Record, SharedWork, only_arrays
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


def test_a_failure_keeps_its_traceback_next_to_the_record(tmp_path: Path) -> None:
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


def test_a_stored_record_satisfies_no_larger_budget() -> None:
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


Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    found = RecordStore(tmp_path, "tiny")
    for number in (3, 4):
        found.put(powers_record(number))
    return found


def powers_record(number: int = 3) -> Record:
    return execute(tiny.task(number), SharedWork())


def equal(found: Record, record: Record) -> bool:
    same = found.arrays.keys() == record.arrays.keys() and all(
        np.array_equal(array, record.arrays[name]) for name, array in found.arrays.items()
    )
    return same and add_checksum(found) == add_checksum(record)


EDITS: dict[str, Edit] = {
    "metric": lambda stored: stored["metrics"].update(square=0.0),
    "metric in the last digit": lambda stored: stored["metrics"].update(square=9.100000000000001),
    "further metric": lambda stored: stored["metrics"].update(cube=1.0),
    "status": lambda stored: stored.update(status="budget"),
    "reason": lambda stored: stored.update(reason="none"),
    "label": lambda stored: stored.update(label="number 4"),
    "axes": lambda stored: stored.update(axes={"number": 4}),
    "timing": lambda stored: stored.update(timing={}),
    "budget": lambda stored: stored.update(budget_seconds=5.0),
    "headline": lambda stored: stored.update(headline="better"),
    "experiment": lambda stored: stored.update(experiment="tiny/other"),
    "key": lambda stored: stored.update(key="0" * 20),
    "digest of an array": lambda stored: stored["arrays"].update(powers="0" * 64),
    "no arrays": lambda stored: stored.update(arrays={}),
    "arrays of another kind": lambda stored: stored.update(arrays=["powers"]),
    "further field": lambda stored: stored.update(more=1),
    "missing field": lambda stored: stored.pop("headline"),
    "no checksum": lambda stored: stored.pop("checksum"),
    "checksum of another kind": lambda stored: stored.update(checksum=None),
    "not a number": lambda stored: stored["metrics"].update(square=float("nan")),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_record_counts_as_missing_and_is_named_once(
    store: RecordStore, edit: Edit, capsys: pytest.CaptureFixture[str]
) -> None:
    path = store.path(powers_record().key)
    stored = json.loads(path.read_text(encoding="utf-8"))
    edit(stored)
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert store.get(powers_record().key) is None
    assert store.get(powers_record().key) is None
    [line] = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert store.get(powers_record(4).key) is not None


def test_a_record_copied_over_anothers_key_is_missing(store: RecordStore) -> None:
    mine, other = powers_record(3).key, powers_record(4).key
    shutil.copy(store.path(other), store.path(mine))
    assert store.get(mine) is None  # neither with its own arrays
    shutil.copy(store.arrays_path(other), store.arrays_path(mine))
    assert store.get(mine) is None  # nor with those it came with


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-30]),
    "junk": lambda path: path.write_bytes(b"\x00\xffjunk" * 20),
    "removed": Path.unlink,
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
    "other numbers": lambda path: np.savez(path, powers=np.arange(3.0)),
    "other type": lambda path: np.savez(path, powers=(np.arange(3.0) ** 3).astype(np.float32)),
    "other shape": lambda path: np.savez(path, powers=np.arange(3.0)[:, None] ** 3),
    "further array": lambda path: np.savez(path, powers=np.arange(3.0) ** 3, more=np.zeros(1)),
    "pickled": lambda path: np.savez(path, powers=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_arrays_make_the_record_missing(
    store: RecordStore, damage: Callable[[Path], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    key = powers_record().key
    damage(store.arrays_path(key))
    assert store.get(key) is None
    assert f"{key}" in capsys.readouterr().err


def test_a_kill_between_arrays_and_fields_leaves_the_record_missing(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpsuite.engine import store as module

    def killed(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    record = powers_record()
    monkeypatch.setattr(module, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        changed = Record(**{**vars(record), "arrays": {"powers": np.zeros(3)}})
        store.put(changed)
    monkeypatch.undo()
    assert store.get(record.key) is None


def test_a_record_of_an_earlier_format_is_missing_and_its_like_are_named_once(
    store: RecordStore, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (3, 4):
        path = store.path(powers_record(number).key)
        stored = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**stored, "format": 1}), encoding="utf-8")
        assert store.get(powers_record(number).key) is None
    [line] = capsys.readouterr().err.splitlines()
    assert "format 1" in line


def test_the_digest_is_of_the_values_not_of_their_packing() -> None:
    array = np.arange(12.0).reshape(3, 4)
    for same in (np.asfortranarray(array), array[::-1][::-1], array.copy()):
        assert array_digest(same) == array_digest(array)
    for save in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        save(buffer, array=np.asfortranarray(array))
        buffer.seek(0)
        assert array_digest(np.load(buffer)["array"]) == array_digest(array)
    others = [array.T, array.ravel(), array.astype(">f8"), array.astype("f4"), array + 1e-12, array.view("i8")]
    assert len({array_digest(other) for other in (array, *others)}) == 7
    with pytest.raises(TypeError):
        array_digest(np.array([{}], dtype=object))


def test_a_copy_without_its_arrays_still_tells_whether_its_fields_are_right() -> None:
    record = powers_record()
    stored = add_checksum(record)
    assert set(stored["arrays"]) == {"powers"}
    with pytest.raises(DamagedRecordError, match="arrays"):
        check_record(record.key, StoredRecord(stored, {}))
    assert check_record(record.key, StoredRecord(stored, {}), partly=True).metrics["square"] == record.metrics["square"]
    with pytest.raises(DamagedRecordError, match="checksum"):
        check_record(record.key, StoredRecord({**stored, "status": "budget"}, {}), partly=True)


def test_an_array_that_was_never_sealed_is_not_taken_up_either() -> None:
    record = powers_record()
    more = {**record.arrays, "roots": np.ones(2)}
    with pytest.raises(DamagedRecordError, match="arrays"):
        check_record(record.key, StoredRecord(add_checksum(record), more), partly=True)


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with some changed, cut out, cut off or put in."""
    content = bytearray(data)
    kind, at = rng.integers(4), int(rng.integers(len(content)))
    if kind == 0:
        content[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del content[at : at + int(rng.integers(1, 40))]
    elif kind == 2:
        del content[at:]
    else:
        content[at:at] = rng.bytes(int(rng.integers(1, 20)))
    return bytes(content)


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_change_of_any_byte_gives_another_record(tmp_path: Path, count: int) -> None:
    store, record = RecordStore(tmp_path, "tiny"), powers_record()
    store.put(record)
    files = [store.path(record.key), store.arrays_path(record.key)]
    whole = [path.read_bytes() for path in files]
    rng = np.random.default_rng(14)
    noticed = 0
    for number in range(count):
        path, content = files[number % 2], whole[number % 2]
        path.write_bytes(mutate(content, rng))
        found = store.get(record.key)
        assert found is None or equal(found, record)  # bytes that mean nothing, such as white space
        noticed += found is None
        path.write_bytes(content)
    assert noticed > 0.7 * count


def archived_record(number: int) -> Record:
    made = execute(tiny.task(number), SharedWork())
    return replace(made, arrays={**made.arrays, "rows": np.ones((2, 3)), "words": np.array(["a", "é"])})


RECORDS = [archived_record(number) for number in range(4)]
SEALED = [StoredRecord(add_checksum(record), record.arrays) for record in RECORDS]


def published(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "published" / "tiny" / "squares" / "paper" / ARCHIVE
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("place", ["squares/paper", "paper"], ids=["of a family", "without a family"])
def test_published_records_are_found(place: str, tmp_path: Path) -> None:
    path = tmp_path / "published/tiny" / place / ARCHIVE
    path.parent.mkdir(parents=True)
    path.write_bytes(pack(SEALED))
    store = RecordStore(tmp_path, "tiny")
    assert all(store.get(record.key) is not None for record in RECORDS)


def test_equal_records_give_equal_bytes_in_any_order() -> None:
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


def test_arrays_left_behind_are_missed_only_where_all_are_requested(tmp_path: Path) -> None:
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
            record.key, StoredRecord(add_checksum(record), {**other, "rows": np.full((2, 3), 2.0)}), partly=partly
        )
    with pytest.raises(DamagedRecordError, match="arrays do not match"):
        check_record(record.key, StoredRecord(add_checksum(record), {**record.arrays, "more": np.ones(1)}), partly=True)
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
    made = archived_record(1)
    record = replace(made, reason=f"a{separator}b")
    path = tmp_path / ARCHIVE
    path.write_bytes(pack([StoredRecord(add_checksum(record), record.arrays)]))
    found = Archive(path)
    assert found.keys == [record.key]
    checksummed = found.get(record.key)
    assert checksummed is not None and checksummed.fields["reason"] == record.reason
