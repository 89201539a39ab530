from __future__ import annotations

import gzip
import json
import lzma
import os
from pathlib import Path

import pytest

from gpsuite.data import file_hashes
from gpsuite.data.file_hashes import HashMemory, git_blob_sha1, hash_file
from tests.data.made_up_data import sha256


def test_git_names_are_those_of_git() -> None:
    assert git_blob_sha1(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert git_blob_sha1(b"a\n") == "78981922613b2afb6025042ff6bd878ac1994e85"
    assert git_blob_sha1(b"1 2 3\n" * 50) == "f8a8bca8b1788cb1510dd330791a68ffadfece46"  # git hash-object


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_both_the_stored_bytes_and_their_content_are_hashed(compress: type[bytes]) -> None:
    stored = compress(b"content")
    hashes, content = hash_file(stored)
    assert content == b"content"
    assert (hashes.stored, hashes.content) == (sha256(stored), sha256(b"content"))
    assert (hashes.stored_git, hashes.content_git) == (git_blob_sha1(stored), git_blob_sha1(b"content"))
    damaged = stored[: len(stored) // 2]
    hashes, content = hash_file(damaged)
    assert content == damaged
    assert hashes.content == hashes.stored == sha256(damaged)


@pytest.fixture
def old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as settled, in a process that knows none."""
    monkeypatch.setattr(file_hashes, "_SETTLED_NS", 0)
    monkeypatch.setattr(file_hashes, "_known", {})
    (tmp_path / "file").write_bytes(b"content")
    return tmp_path / "file"


def forbidden(path: Path) -> bytes:
    raise AssertionError(f"{path} is read again")


def remembered(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    memory = HashMemory(old_file.parent / "memory" / "verified.json")
    memory.hashes(old_file, Path.read_bytes)
    memory.save()
    monkeypatch.setattr(file_hashes, "_known", {})  # as in a new process
    return old_file.parent / "memory" / "verified.json"


def test_hashes_come_back_from_disk(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = remembered(old_file, monkeypatch)
    assert HashMemory(store).hashes(old_file, forbidden).stored == sha256(b"content")
    monkeypatch.setattr(file_hashes, "_known", {})
    old_file.write_bytes(b"another")  # the same size
    assert HashMemory(store).hashes(old_file, Path.read_bytes).stored == sha256(b"another")


def test_a_file_in_its_place_is_read(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = remembered(old_file, monkeypatch)
    status = old_file.stat()
    (old_file.parent / "new").write_bytes(b"another")
    os.utime(old_file.parent / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(old_file.parent / "new", old_file)
    assert HashMemory(store).hashes(old_file, Path.read_bytes).stored == sha256(b"another")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"a": 1}', '{"a": [[1], ["x"]]}', '{"PATH": [["a"], ["a", "b", "c", "d"]]}']
)
def test_a_damaged_memory_is_ignored_and_replaced(
    old_file: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    store = remembered(old_file, monkeypatch)
    store.write_text(text.replace("PATH", str(old_file)))
    memory = HashMemory(store)
    assert memory.hashes(old_file, Path.read_bytes).stored == sha256(b"content")
    memory.save()
    assert str(old_file) in json.loads(store.read_text())


def test_entries_of_other_processes_are_kept(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = old_file.parent / "verified.json"
    (old_file.parent / "other").write_bytes(b"other")
    first, second = HashMemory(store), HashMemory(store)
    first.hashes(old_file, Path.read_bytes)
    second.hashes(old_file.parent / "other", Path.read_bytes)
    first.save()
    second.save()
    assert set(json.loads(store.read_text())) == {str(old_file), str(old_file.parent / "other")}


def test_nothing_is_remembered_of_a_file_just_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    memory = HashMemory(tmp_path / "verified.json")
    memory.hashes(path, Path.read_bytes)
    memory.save()
    assert not (tmp_path / "verified.json").exists()


def test_where_nothing_can_be_written_it_works_without(old_file: Path) -> None:
    memory = HashMemory(old_file / "below a file" / "verified.json")
    assert memory.hashes(old_file, Path.read_bytes).stored == sha256(b"content")
    memory.save()
    assert memory.hashes(old_file, forbidden).stored == sha256(b"content")


def test_nothing_is_remembered_of_a_file_just_put_in_place_with_an_old_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    os.utime(path, (1e9, 1e9))  # as `cp -p` does
    memory = HashMemory(tmp_path / "verified.json")
    memory.hashes(path, Path.read_bytes)
    memory.save()
    assert not (tmp_path / "verified.json").exists()
