"""What publish keeps back and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpsuite.engine.store import Archive
from gpsuite.reporting.files import ARCHIVE
from tests.commands.conftest import Gpsuite
from tests.commands.test_published_records import LINES, RUN, publish_and_move, publish_only


def test_arrays_that_an_experiment_keeps_back_are_not_in_the_archive(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_only(monkeypatch, "p")
    publish_and_move(gpsuite, LINES)
    archive = Archive(Path("results/published", LINES, "smoke", ARCHIVE))
    kept = {name for key in archive.keys if (found := archive.get(key)) for name in found.arrays}
    assert kept == {"p"}


def test_a_damaged_record_is_not_published(gpsuite: Gpsuite) -> None:
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    path = next(Path("results/.records").rglob("*.json"))
    path.write_text(path.read_text().replace('"status": "done"', '"status": "budget"'))
    ended = gpsuite("publish", LINES)
    assert ended.code == 2
    assert "missing or damaged" in ended.err


def test_the_size_is_of_all_that_is_published(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Path("results/published/pac_bayes/other/paper", ARCHIVE)
    other.parent.mkdir(parents=True)
    other.write_bytes(bytes(1_000_000))
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    monkeypatch.setattr("gpsuite.commands.publish.MOST_BYTES", 1_000_000)
    assert gpsuite("publish", LINES).code == 2


def test_a_run_to_try_something_out_is_not_published_beside_the_real_one(gpsuite: Gpsuite) -> None:
    words = ("run", "parallel=serial", f"experiment={LINES}")
    for more in (("scale=smoke",), ("scale=quick",), ("scale=smoke", "run_name=mine")):
        assert gpsuite(*words, *more).code == 0
    ended = gpsuite("publish", LINES)
    assert ended.code == 0
    assert f"gpsuite: results/{LINES}/smoke: left out, there is quick" in ended.err
    assert {path.name for path in Path("results/published", LINES).iterdir()} == {"quick", "smoke~mine"}


@pytest.mark.parametrize("dirty", [True, False])
def test_what_no_commit_has_computed_is_told(gpsuite: Gpsuite, dirty: bool) -> None:
    assert gpsuite(*RUN, f"experiment={LINES}").code == 0
    path = Path("results", LINES, "smoke/run.json")
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, "git": {"commit": "c0ffee", "dirty": dirty}}))
    ended = gpsuite("publish", LINES)
    assert ended.code == 0 and ("changes that no commit has" in ended.err) is dirty
