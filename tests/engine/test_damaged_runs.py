"""Runs over damaged records, and what happens to files in a run folder that are not ours."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.files import conf_dir
from gpsuite.engine.keys import task_key
from gpsuite.engine.plans import RunOptions
from gpsuite.engine.runner import run_experiment
from gpsuite.engine.store import RecordStore
from gpsuite.errors import ResultsError
from tests.engine import tiny

FOLDER = "tiny/squares/quick"


def options(results: Path, **changes: Any) -> RunOptions:
    base = RunOptions(results_dir=results, conf_dir=conf_dir(), science="s", mode="serial")
    return replace(base, **changes)


def edit_metric(store: RecordStore, key: str) -> None:
    stored = json.loads(store.path(key).read_text(encoding="utf-8"))
    stored["metrics"]["square"] = 0.0
    store.path(key).write_text(json.dumps(stored), encoding="utf-8")


def copy_another(store: RecordStore, key: str) -> None:
    other = task_key(tiny.task(5))
    shutil.copy(store.path(other), store.path(key))
    shutil.copy(store.arrays_path(other), store.arrays_path(key))


DAMAGES: dict[str, Callable[[RecordStore, str], Any]] = {
    "edited metric": edit_metric,
    "copied over another key": copy_another,
    "empty npz": lambda store, key: store.arrays_path(key).write_bytes(b""),
    "truncated npz": lambda store, key: store.arrays_path(key).write_bytes(b"PK\x03\x04"),
    "no npz": lambda store, key: store.arrays_path(key).unlink(),
    "empty json": lambda store, key: store.path(key).write_bytes(b""),
    "binary json": lambda store, key: store.path(key).write_bytes(b"\xff\x00" * 40),
    "deep json": lambda store, key: store.path(key).write_text("[" * 200_000),
    "link to itself": lambda store, key: (store.path(key).unlink(), store.path(key).symlink_to(f"{key}.json")),
}


@pytest.mark.parametrize("names", [list(DAMAGES)[:5], list(DAMAGES)[5:]], ids=" ".join)
def test_a_damaged_record_is_named_once_and_computed_again(
    tmp_path: Path, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    table = tmp_path / FOLDER / "tables" / "squares.csv"
    whole, keys = table.read_bytes(), [task_key(tiny.task(number)) for number in range(len(names))]
    for name, key in zip(names, keys, strict=True):
        DAMAGES[name](RecordStore(tmp_path, "tiny"), key)
    capsys.readouterr()
    report = run_experiment(tiny.request(), options(tmp_path))
    said = capsys.readouterr().err
    assert [sum(key in line for line in said.splitlines()) for key in keys] == [1] * len(keys)
    assert f"{6 - len(names)} of 6 tasks are stored already" in said
    assert report.counts == {"done": 6}
    assert table.read_bytes() == whole  # no row was dropped
    run_experiment(tiny.request(), options(tmp_path))
    said = capsys.readouterr().err
    assert "6 of 6 tasks are stored already" in said and "damaged" not in said


def test_a_record_that_is_damaged_while_the_run_goes_on_stops_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RecordStore.put

    def torn(store: RecordStore, record: Any) -> None:
        real(store, record)
        store.arrays_path(record.key).write_bytes(b"")

    monkeypatch.setattr(RecordStore, "put", torn)
    with pytest.raises(ResultsError, match="removed or damaged"):
        run_experiment(tiny.request(), options(tmp_path))
    assert not (tmp_path / FOLDER / "run.json").exists()
    monkeypatch.undo()
    assert run_experiment(tiny.request(), options(tmp_path)).counts == {"done": 6}


def test_force_replaces_damaged_records_too(tmp_path: Path) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    store, key = RecordStore(tmp_path, "tiny"), task_key(tiny.task(2))
    edit_metric(store, key)
    run_experiment(tiny.request(), options(tmp_path, force=True))
    assert RecordStore(tmp_path, "tiny").get(key) is not None


def test_what_is_done_to_an_artifact_does_not_reach_its_record(tmp_path: Path) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    store, key = RecordStore(tmp_path, "tiny"), task_key(tiny.task(2))
    artifact = tmp_path / FOLDER / "artifacts" / f"{key}.npz"
    with artifact.open("r+b") as stream:
        stream.write(b"overwritten in place")
    assert store.get(key) is not None
    run_experiment(tiny.request(), options(tmp_path))
    assert artifact.read_bytes() == store.arrays_path(key).read_bytes()  # and is mended


@pytest.mark.parametrize("link", [None, "the file", "the folder"])
def test_a_file_that_is_not_ours_is_never_removed(tmp_path: Path, link: str | None) -> None:
    folder, outside = tmp_path / FOLDER, tmp_path / "outside"
    outside.mkdir()
    artifacts = folder / "artifacts"
    if link == "the folder":
        folder.mkdir(parents=True)
        artifacts.symlink_to(outside)
    run_experiment(tiny.request(), options(tmp_path))
    mine = artifacts / "mine.npz"
    if link == "the file":
        np.savez(outside / "mine.npz", mine=np.ones(2))
        mine.symlink_to(outside / "mine.npz")
    else:
        np.savez(mine, mine=np.ones(2))
    changed, dropped = (f"{task_key(tiny.task(number))}.npz" for number in (1, 2))
    np.savez(artifacts / changed, mine=np.ones(3))  # the user's by now
    fewer = {f"n{number}": "fail" for number in (1, 2)}  # their records have no arrays
    run_experiment(tiny.request(**fewer), options(tmp_path))
    assert np.load(mine)["mine"].tolist() == [1.0, 1.0]
    assert np.load(artifacts / changed)["mine"].tolist() == [1.0, 1.0, 1.0]
    assert not (artifacts / dropped).exists()  # ours, and of no record of this plan
    if link is not None:
        assert (outside / "mine.npz").is_file()


MINE = hashlib.sha256(b"mine").hexdigest()
UP = "../../../../outside.txt"


@pytest.mark.parametrize("listed", ["[1]", {UP: MINE, "mine.npz": None, "": 3, "a\0": MINE, "x" * 300: None}])
def test_a_damaged_list_of_our_files_removes_nothing(tmp_path: Path, listed: Any) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    folder = tmp_path / FOLDER
    (tmp_path / "outside.txt").write_bytes(b"mine")
    (folder / "artifacts" / "mine.npz").mkdir()
    assert (folder / "artifacts" / UP).is_file()
    (folder / ".artifacts-written.json").write_text(json.dumps(listed), encoding="utf-8")
    run_experiment(tiny.request(n1="fail"), options(tmp_path))
    assert (tmp_path / "outside.txt").exists()
    assert (folder / "artifacts" / "mine.npz").is_dir()
    assert (folder / "artifacts" / f"{task_key(tiny.task(1))}.npz").is_file()


def test_an_artifact_that_is_a_link_to_its_record_becomes_a_copy(tmp_path: Path) -> None:
    run_experiment(tiny.request(), options(tmp_path))
    store = RecordStore(tmp_path, "tiny")
    hard, soft = (store.arrays_path(task_key(tiny.task(number))) for number in (1, 2))
    artifacts = tmp_path / "tiny/squares/quick/artifacts"
    for source in (hard, soft):
        (artifacts / source.name).unlink()
    (artifacts / hard.name).hardlink_to(hard)
    (artifacts / soft.name).symlink_to(soft)
    run_experiment(tiny.request(), options(tmp_path))
    assert not (artifacts / hard.name).samefile(hard)
    assert not (artifacts / soft.name).is_symlink()
