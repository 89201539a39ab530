"""What recheck compares, refuses to check, and ends with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpsuite.engine.recheck import LEVELS, Agreement, Rechecked, draw
from gpsuite.engine.store import Archive, StoredRecord, pack
from gpsuite.reporting.files import ARCHIVE
from tests.commands.conftest import Gpsuite
from tests.commands.test_published_records import LINES, publish_and_move, publish_only


def test_one_disagreement_is_told_wherever_it_comes(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_and_move(gpsuite, LINES)
    level = {name: Agreement({**dict.fromkeys(LEVELS, 0), name: 1}, "", 0.0) for name in LEVELS}
    found = [Rechecked("a", "1", agreement=level["not"]), Rechecked("a", "2", agreement=level["bitwise"])]
    monkeypatch.setattr("gpsuite.engine.recheck.recheck", lambda due: iter(found))
    assert gpsuite("recheck", LINES, "sample=2").code == 1


def test_a_published_record_that_was_changed_does_not_agree(gpsuite: Gpsuite) -> None:
    publish_and_move(gpsuite, LINES)
    path = Path("results/published", LINES, "smoke", ARCHIVE)
    archive = Archive(path)
    records = [archive.get(key) for key in archive.keys]
    path.write_bytes(
        pack(StoredRecord({**each.fields, "reason": "changed"}, each.arrays) for each in records)
    )
    ended = gpsuite("recheck", LINES, "sample=1")
    assert ended.code == 1 and "\tno\t" in ended.out
    assert "do not match its checksum" in ended.out


def test_arrays_that_were_not_published_are_not_compared(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_only(monkeypatch, "none")
    publish_and_move(gpsuite, LINES)
    assert gpsuite("recheck", LINES, "sample=1").code == 0


def test_records_are_drawn_at_random_from_every_run() -> None:
    runs: list[Any] = [
        SimpleNamespace(name=name, archive=SimpleNamespace(keys=[f"{name}{number}" for number in range(50)]))
        for name in "ab"
    ]
    drawn = [draw(runs, 4, seed) for seed in range(5)]
    assert drawn[0] == draw(runs, 4, 0)
    assert len({frozenset(key for _, key in each) for each in drawn}) == 5
    assert all(sorted(run.name for run, _ in each) == list("aabb") for each in drawn)


@pytest.mark.parametrize("word", ["sample=-1", "seed=x", "sample=2.5", "seed="])
def test_a_number_that_is_none_is_named(gpsuite: Gpsuite, word: str) -> None:
    ended = gpsuite("recheck", word)
    assert (ended.code, ended.err) == (2, f"gpsuite: {word}: must be a whole number, not negative\n")
