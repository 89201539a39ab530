"""A stored record is what was put there, or it is missing: nothing in it can be changed unnoticed."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.engine.store import (
    DamagedRecordError,
    RecordStore,
    StoredRecord,
    add_checksum,
    array_digest,
    check_record,
)
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import Record, SharedWork
from tests.engine import tiny

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    found = RecordStore(tmp_path, "tiny")
    for number in (3, 4):
        found.put(record_of(number))
    return found


def record_of(number: int = 3) -> Record:
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
    path = store.path(record_of().key)
    stored = json.loads(path.read_text(encoding="utf-8"))
    edit(stored)
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert store.get(record_of().key) is None
    assert store.get(record_of().key) is None
    [line] = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert store.get(record_of(4).key) is not None


def test_a_record_copied_over_anothers_key_is_missing(store: RecordStore) -> None:
    mine, other = record_of(3).key, record_of(4).key
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
    key = record_of().key
    damage(store.arrays_path(key))
    assert store.get(key) is None
    assert f"{key}" in capsys.readouterr().err


def test_a_kill_between_arrays_and_fields_leaves_the_record_missing(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpsuite.engine import store as module

    def killed(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    record = record_of()
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
        path = store.path(record_of(number).key)
        stored = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**stored, "format": 1}), encoding="utf-8")
        assert store.get(record_of(number).key) is None
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
    others = [
        array.T,
        array.ravel(),
        array.astype(">f8"),
        array.astype("f4"),
        array + 1e-12,
        array.view("i8"),
    ]
    assert len({array_digest(other) for other in (array, *others)}) == 7
    with pytest.raises(TypeError):
        array_digest(np.array([{}], dtype=object))


def test_a_copy_without_its_arrays_still_tells_whether_its_fields_are_right() -> None:
    record = record_of()
    stored = add_checksum(record)
    assert set(stored["arrays"]) == {"powers"}
    with pytest.raises(DamagedRecordError, match="arrays"):
        check_record(record.key, StoredRecord(stored, {}))
    assert (
        check_record(record.key, StoredRecord(stored, {}), partly=True).metrics["square"]
        == record.metrics["square"]
    )
    with pytest.raises(DamagedRecordError, match="checksum"):
        check_record(record.key, StoredRecord({**stored, "status": "budget"}, {}), partly=True)


def test_an_array_that_was_never_sealed_is_not_taken_up_either() -> None:
    record = record_of()
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
    store, record = RecordStore(tmp_path, "tiny"), record_of()
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
