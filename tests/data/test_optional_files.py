from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpsuite.data import DatasetSpec, FileSpec, load, prepare
from gpsuite.data.file_hashes import git_blob_sha1
from gpsuite.data.files import OFFLINE_VARIABLE, fetch, read_verified, require, verify
from gpsuite.errors import DataError
from tests.data.made_up_data import made_up

MAIN, EXTRA = b"1 2\n3 4\n", b"5 6\n"


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch, no_data_path: None) -> DatasetSpec:
    """A table of two rows and an optional file of one more, known by its git hash."""
    from gpsuite.data.sources import LOADERS, Reader, make_dataset

    def rows(spec: DatasetSpec, read: Reader) -> Any:
        import numpy as np

        table = np.array(b"".join(read(file.name) for file in spec.files).split(), float).reshape(-1, 2)
        return make_dataset(spec, table[:, :1], table[:, 1:], ("a",), ("b",))

    monkeypatch.setitem(LOADERS._items, "rows", rows)
    monkeypatch.setenv(OFFLINE_VARIABLE, "1")
    described = replace(made_up(MAIN), loader="rows", rows=2, n_inputs=1, note="Two.")
    described.files.append(FileSpec("extra.txt", git_blob_sha1=git_blob_sha1(EXTRA), optional=True))
    return described


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up" / "table.txt").write_bytes(MAIN)
    return tmp_path / "made_up"


def test_without_the_optional_file(spec: DatasetSpec, folder: Path) -> None:
    prepared = prepare(spec, cache_dir=folder.parent)
    assert (prepared.rows, list(prepared.paths)) == (2, ["table.txt"])
    dataset = load(prepared)
    assert dataset.X[:, 0].tolist() == [1.0, 3.0]
    assert dataset.note == "Two. Not found and not used: extra.txt."
    assert not prepare(spec, cache_dir=folder.parent, allow_stand_in=True).stand_in
    assert [(state.state, state.optional) for state in verify(spec, folder.parent)] == [
        ("ok", False),
        ("missing", True),
    ]


def test_an_absent_dataset_is_the_one_without_the_optional_file(spec: DatasetSpec, folder: Path) -> None:
    there = prepare(spec, cache_dir=folder.parent)
    (folder / "table.txt").unlink()
    absent = prepare(spec, cache_dir=folder.parent, allow_absent=True)
    assert (absent.content_hash, absent.rows) == (there.content_hash, there.rows)
    assert "table.txt" in absent.absent


def test_with_the_optional_file(spec: DatasetSpec, folder: Path) -> None:
    without = prepare(spec, cache_dir=folder.parent)
    (folder / "extra.txt").write_bytes(EXTRA)
    prepared = prepare(spec, cache_dir=folder.parent)
    assert prepared.rows == 3
    assert prepared.content_hash != without.content_hash
    dataset = load(prepared)
    assert dataset.X[:, 0].tolist() == [1.0, 3.0, 5.0]
    assert dataset.note == "Two."
    assert read_verified(spec, spec.files[1], folder / "extra.txt") == EXTRA


def test_a_changed_optional_file_is_an_error_that_names_the_git_hashes(
    spec: DatasetSpec, folder: Path
) -> None:
    (folder / "extra.txt").write_bytes(b"5 7\n")
    for allow in (False, True):
        with pytest.raises(DataError) as caught:
            prepare(spec, cache_dir=folder.parent, allow_stand_in=allow)
        message = str(caught.value)
        assert f"expected git blob sha1 {git_blob_sha1(EXTRA)}" in message
        assert f"found    git blob sha1 {git_blob_sha1(b'5 7' + bytes([10]))}" in message
        assert len(message.splitlines()) <= 4
    with pytest.raises(DataError, match="git blob sha1"):
        read_verified(spec, spec.files[1], folder / "extra.txt")


def test_fetching_leaves_out_what_is_not_to_be_had(spec: DatasetSpec, folder: Path) -> None:
    assert list(fetch(spec, folder.parent)) == ["table.txt"]
    (folder / "table.txt").unlink()
    for get in (fetch, require):
        with pytest.raises(DataError, match=r"'table\.txt' is missing"):
            get(spec, folder.parent)


def test_a_missing_file_known_by_its_git_hash_is_named(spec: DatasetSpec, folder: Path) -> None:
    spec.files[1].optional = False
    with pytest.raises(
        DataError, match=rf"'extra\.txt' is missing \(expected git blob sha1 {git_blob_sha1(EXTRA)}"
    ):
        prepare(spec, cache_dir=folder.parent)


def test_a_missing_file_found_where_its_message_wants_it(spec: DatasetSpec, folder: Path) -> None:
    spec.files[1].optional = False
    with pytest.raises(DataError, match=rf"put it into {folder} or made_up/ in a folder of") as caught:
        prepare(spec, cache_dir=folder.parent)
    assert f"looked in {folder}" in str(caught.value).splitlines()[1]
    (folder / "extra.txt").write_bytes(EXTRA)
    assert set(prepare(spec, cache_dir=folder.parent).paths) == {"table.txt", "extra.txt"}


def test_a_run_does_not_try_to_download_an_optional_file(
    spec: DatasetSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(OFFLINE_VARIABLE)
    spec.files[1].urls = ["http://127.0.0.1:9/never"]
    monkeypatch.setattr("gpsuite.data.files._try_url", lambda *_: pytest.fail("the network was used"))
    assert list(require(spec, folder.parent)) == ["table.txt"]
