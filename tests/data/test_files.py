"""Files of datasets: where they are looked for, how they are verified and downloaded, which are optional."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpsuite.data import DatasetSpec, FileSpec, files, load, prepare
from gpsuite.data.files import (
    OFFLINE_VARIABLE,
    PATH_VARIABLE,
    VERIFIED_FILE,
    HashMemory,
    check,
    fetch,
    git_blob_sha1,
    hash_file,
    locate,
    read_verified,
    require,
    search_folders,
    verify,
)
from gpsuite.errors import DataError
from gpsuite.untrusted import read_file
from tests.data.made_up_data import made_up, sha256

CONTENT = b"1 2 3\n" * 50


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders on the path and a cache, each with the dataset's sub-folder; no proxy, downloads allowed."""
    for name in ("first", "second", "cache"):
        (tmp_path / name / "made_up").mkdir(parents=True)
    monkeypatch.setenv(PATH_VARIABLE, os.pathsep.join([str(tmp_path / "first"), "", str(tmp_path / "second")]))
    monkeypatch.delenv(OFFLINE_VARIABLE, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


class Handler(BaseHTTPRequestHandler):
    """Serves /good, /short (fewer bytes than announced), /wrong, /slow (nothing for a while); else 404."""

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(1.5)
            return
        body = {"/good": CONTENT, "/short": CONTENT, "/wrong": b"<html>moved</html>"}.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:100] if self.path == "/short" else body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() or path.name.startswith("."))


def test_folders_are_searched_in_order(tmp_path: Path) -> None:
    spec = made_up()
    found = locate(spec, spec.files[0], tmp_path / "cache")
    assert found is None
    folders = search_folders("made_up", tmp_path / "cache")
    assert folders == tuple(tmp_path / name / "made_up" for name in ("first", "second", "cache"))
    for name in ("cache", "second", "first"):
        path = tmp_path / name / "made_up" / "table.txt"
        path.write_bytes(CONTENT)
        assert locate(spec, spec.files[0], tmp_path / "cache") == path


@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_copies_are_accepted(tmp_path: Path, suffix: str, compress: type[bytes]) -> None:
    path = tmp_path / "second" / "made_up" / f"table.txt{suffix}"
    path.write_bytes(compress(CONTENT))
    spec = made_up()
    assert [state.state for state in verify(spec, tmp_path / "cache")] == ["ok"]
    assert require(spec, tmp_path / "cache") == {"table.txt": path}
    assert read_verified(spec, spec.files[0], path) == CONTENT


def test_a_canonically_compressed_file_may_be_stored_in_any_form(tmp_path: Path) -> None:
    spec = made_up(gzip.compress(CONTENT, mtime=1), file="table.gz")
    spec.files[0].uncompressed_sha256 = sha256(CONTENT)
    folder = tmp_path / "first" / "made_up"
    forms = {"table.gz": gzip.compress(CONTENT, mtime=1), "table": CONTENT, "table.gz.xz": lzma.compress(CONTENT)}
    for name, stored in forms.items():
        (folder / name).write_bytes(stored)
        assert [state.state for state in verify(spec, tmp_path / "cache")] == ["ok"], name
        assert read_verified(spec, spec.files[0], folder / name) == CONTENT
        (folder / name).unlink()
    (folder / "table.gz").write_bytes(gzip.compress(CONTENT, mtime=2))  # the same content, packed again
    assert [state.state for state in verify(spec, tmp_path / "cache")] == ["ok"]


@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_flipped_byte_is_found_and_named(tmp_path: Path, suffix: str, compress: type[bytes]) -> None:
    path = tmp_path / "first" / "made_up" / f"table.txt{suffix}"
    path.write_bytes(compress(CONTENT))
    # a good copy further down the path must not hide the bad one
    (tmp_path / "second" / "made_up" / "table.txt").write_bytes(CONTENT)
    spec = made_up(urls=("https://example.org/table.txt",))
    assert verify(spec, tmp_path / "cache")[0].state == "ok"
    stored = bytearray(path.read_bytes())
    stored[len(stored) // 2] ^= 1
    path.write_bytes(stored)
    state = verify(spec, tmp_path / "cache")[0]
    assert (state.state, state.path, state.found) == ("changed", path, sha256(bytes(stored)))
    with pytest.raises(DataError) as caught:
        require(spec, tmp_path / "cache")
    message = str(caught.value)
    for part in (str(path), sha256(CONTENT), sha256(bytes(stored)), "https://example.org/table.txt", "data fetch"):
        assert part in message
    assert len(message.splitlines()) <= 4
    with pytest.raises(DataError, match="not the expected file"):
        read_verified(spec, spec.files[0], path)


def test_an_old_hash_is_not_believed_after_a_change(tmp_path: Path) -> None:
    path = tmp_path / "first" / "made_up" / "table.txt"
    path.write_bytes(CONTENT)
    os.utime(path, (1e9, 1e9))
    spec = made_up()
    assert check(spec, tmp_path / "cache")[0].state == "ok"
    path.write_bytes(CONTENT.replace(b"1", b"7"))
    os.utime(path, (1e9, 1e9))  # same size, same modification time
    assert check(spec, tmp_path / "cache")[0].state == "changed"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The data files read since; files count as settled at once, and the process knows none of them."""
    done: list[Path] = []

    def noted(path: Path, largest: int) -> bytes:
        if path.suffix != ".json":
            done.append(path)
        return read_file(path, largest)

    monkeypatch.setattr("gpsuite.data.files._SETTLED_NS", 0)
    monkeypatch.setattr("gpsuite.data.files._known", {})
    monkeypatch.setattr("gpsuite.data.files.read_file", noted)
    return done


def test_an_untouched_file_is_read_once_but_verified_every_time(tmp_path: Path, reads: list[Path]) -> None:
    path = tmp_path / "first" / "made_up" / "table.txt"
    path.write_bytes(CONTENT)
    for _ in range(3):
        assert require(made_up(), tmp_path / "cache") == {"table.txt": path}
    assert reads == [path]
    for _ in range(3):
        assert verify(made_up(), tmp_path / "cache")[0].state == "ok"
    assert reads == [path] * 4
    assert not (tmp_path / "cache" / ".parsed").exists()


def test_hashes_of_a_cached_dataset_are_remembered_for_other_processes(
    tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "first" / "made_up" / "table.txt"
    path.write_bytes(CONTENT)
    spec = replace(made_up(), cache=True)
    for _ in range(3):
        assert require(spec, tmp_path / "cache") == {"table.txt": path}
        monkeypatch.setattr("gpsuite.data.files._known", {})  # as in a new process
    assert reads == [path]
    (tmp_path / "cache" / VERIFIED_FILE).write_text('{"damaged": [1')
    assert require(spec, tmp_path / "cache") == {"table.txt": path}
    assert reads == [path] * 2
    path.write_bytes(CONTENT.replace(b"1", b"7"))
    with pytest.raises(DataError, match="not the expected file"):
        require(spec, tmp_path / "cache")


def test_an_unreadable_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first" / "made_up" / "table.txt").write_bytes(CONTENT)

    def refuse(path: Path, largest: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gpsuite.data.files.read_file", refuse)
    with pytest.raises(DataError, match=r"cannot read .*table\.txt: Permission denied"):
        verify(made_up(), tmp_path / "cache")


def test_a_download_is_stored_and_found_again(tmp_path: Path, server: str) -> None:
    spec = made_up(urls=(f"{server}/gone", f"{server}/good"))
    path = tmp_path / "cache" / "made_up" / "table.txt"
    assert require(spec, tmp_path / "cache") == {"table.txt": path}
    assert path.read_bytes() == CONTENT
    assert left_over(tmp_path / "cache") == ["table.txt"]
    spec.files[0].urls = []
    assert fetch(spec, tmp_path / "cache") == {"table.txt": path}


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("gone", "the server answers 404 Not Found"),
        ("wrong", f"wrong content, expected sha256 {sha256(CONTENT)}, found {sha256(b'<html>moved</html>')}"),
        ("slow", "no answer within 0.3 s"),
        ("short", "ChunkedEncodingError|no connection|IncompleteRead"),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(tmp_path: Path, server: str, page: str, reason: str) -> None:
    spec = made_up(urls=(f"{server}/{page}",))
    began = time.monotonic()
    with pytest.raises(DataError, match=reason) as caught:
        require(spec, tmp_path / "cache", timeout=0.3)
    assert time.monotonic() - began < 5
    message = str(caught.value)
    for part in ("dataset=made_up", "'table.txt'", sha256(CONTENT), f"{server}/{page}", str(tmp_path / "first")):
        assert part in message
    assert len(message.splitlines()) <= 4
    assert not (tmp_path / "cache" / "made_up").exists()


def test_nobody_listening_is_a_clean_error(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(DataError, match="no connection"):
        require(made_up(urls=(f"http://127.0.0.1:{port}/good",)), tmp_path / "cache")


def test_offline_and_without_address_nothing_is_tried(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="no address is known"):
        require(made_up(), tmp_path / "cache")
    monkeypatch.setenv(OFFLINE_VARIABLE, "1")
    with pytest.raises(DataError, match="not tried, GPSUITE_OFFLINE is set"):
        require(made_up(urls=(f"{server}/good",)), tmp_path / "cache")
    monkeypatch.setenv(OFFLINE_VARIABLE, "0")
    assert require(made_up(urls=(f"{server}/good",)), tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, server: str) -> None:
    (tmp_path / "plain").write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"cannot write to .*plain"):
        require(made_up(urls=(f"{server}/good",)), tmp_path / "plain")


BY_SHA = FileSpec("file", sha256="0")
BY_GIT = FileSpec("file", git_blob_sha1="0")


def test_git_names_are_those_of_git() -> None:
    assert git_blob_sha1(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert git_blob_sha1(b"a\n") == "78981922613b2afb6025042ff6bd878ac1994e85"
    assert git_blob_sha1(b"1 2 3\n" * 50) == "f8a8bca8b1788cb1510dd330791a68ffadfece46"  # git hash-object


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_both_the_stored_bytes_and_their_content_are_hashed(compress: type[bytes]) -> None:
    stored = compress(b"content")
    for file, digest in ((BY_SHA, sha256), (BY_GIT, git_blob_sha1)):
        assert hash_file(file, stored) == ((digest(stored), digest(b"content")), b"content")
        damaged = stored[: len(stored) // 2]
        assert hash_file(file, damaged) == ((digest(damaged), digest(damaged)), damaged)


@pytest.fixture
def old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as settled, in a process that knows none."""
    monkeypatch.setattr(files, "_SETTLED_NS", 0)
    monkeypatch.setattr(files, "_known", {})
    (tmp_path / "file").write_bytes(b"content")
    return tmp_path / "file"


def forbidden() -> bytes:
    raise AssertionError("the file is read again")


def remembered(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    memory = HashMemory(old_file.parent / "memory" / "verified.json")
    memory.hashes(BY_SHA, old_file, old_file.read_bytes)
    memory.save()
    monkeypatch.setattr(files, "_known", {})  # as in a new process
    return old_file.parent / "memory" / "verified.json"


def test_hashes_come_back_from_disk(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = remembered(old_file, monkeypatch)
    assert HashMemory(store).hashes(BY_SHA, old_file, forbidden)[0] == sha256(b"content")
    monkeypatch.setattr(files, "_known", {})
    old_file.write_bytes(b"another")  # the same size
    assert HashMemory(store).hashes(BY_SHA, old_file, old_file.read_bytes)[0] == sha256(b"another")


def test_a_file_in_its_place_is_read(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = remembered(old_file, monkeypatch)
    status = old_file.stat()
    (old_file.parent / "new").write_bytes(b"another")
    os.utime(old_file.parent / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(old_file.parent / "new", old_file)
    assert HashMemory(store).hashes(BY_SHA, old_file, old_file.read_bytes)[0] == sha256(b"another")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": [[1], ["x"]]}', '{"PATH": [["a"], ["a", "b"]]}'])
def test_a_damaged_memory_is_ignored_and_replaced(old_file: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    store = remembered(old_file, monkeypatch)
    store.write_text(text.replace("PATH", str(old_file)))
    memory = HashMemory(store)
    assert memory.hashes(BY_SHA, old_file, old_file.read_bytes)[0] == sha256(b"content")
    memory.save()
    assert str(old_file) in json.loads(store.read_text())


def test_entries_of_other_processes_are_kept(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = old_file.parent / "verified.json"
    (old_file.parent / "other").write_bytes(b"other")
    first, second = HashMemory(store), HashMemory(store)
    first.hashes(BY_SHA, old_file, old_file.read_bytes)
    second.hashes(BY_SHA, old_file.parent / "other", (old_file.parent / "other").read_bytes)
    first.save()
    second.save()
    assert set(json.loads(store.read_text())) == {str(old_file), str(old_file.parent / "other")}


def test_nothing_is_remembered_of_a_file_just_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    memory = HashMemory(tmp_path / "verified.json")
    memory.hashes(BY_SHA, path, path.read_bytes)
    memory.save()
    assert not (tmp_path / "verified.json").exists()


def test_where_nothing_can_be_written_it_works_without(old_file: Path) -> None:
    memory = HashMemory(old_file / "below a file" / "verified.json")
    assert memory.hashes(BY_SHA, old_file, old_file.read_bytes)[0] == sha256(b"content")
    memory.save()
    assert memory.hashes(BY_SHA, old_file, forbidden)[0] == sha256(b"content")


def test_nothing_is_remembered_of_a_file_just_put_in_place_with_an_old_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    os.utime(path, (1e9, 1e9))  # as `cp -p` does
    memory = HashMemory(tmp_path / "verified.json")
    memory.hashes(BY_SHA, path, path.read_bytes)
    memory.save()
    assert not (tmp_path / "verified.json").exists()


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


def test_without_the_optional_file_the_other_rows_are_read_and_a_note_is_made(spec: DatasetSpec, folder: Path) -> None:
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


def test_an_optional_file_adds_its_rows_and_changes_the_hash(spec: DatasetSpec, folder: Path) -> None:
    without = prepare(spec, cache_dir=folder.parent)
    (folder / "extra.txt").write_bytes(EXTRA)
    prepared = prepare(spec, cache_dir=folder.parent)
    assert prepared.rows == 3
    assert prepared.content_hash != without.content_hash
    dataset = load(prepared)
    assert dataset.X[:, 0].tolist() == [1.0, 3.0, 5.0]
    assert dataset.note == "Two."
    assert read_verified(spec, spec.files[1], folder / "extra.txt") == EXTRA


def test_a_changed_optional_file_is_an_error_that_names_the_git_hashes(spec: DatasetSpec, folder: Path) -> None:
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
    with pytest.raises(DataError, match=rf"'extra\.txt' is missing \(git blob sha1 {git_blob_sha1(EXTRA)[:10]}"):
        prepare(spec, cache_dir=folder.parent)


def test_a_missing_file_is_found_where_its_message_wants_it(spec: DatasetSpec, folder: Path) -> None:
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
