from __future__ import annotations

import gzip
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

from gpsuite.data.files import (
    OFFLINE_VARIABLE,
    PATH_VARIABLE,
    VERIFIED_FILE,
    LocatedFile,
    Missing,
    check,
    fetch,
    locate,
    read_verified,
    require,
    verify,
)
from gpsuite.errors import DataError
from tests.data.made_up_data import made_up, sha256

CONTENT = b"1 2 3\n" * 50


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders on the path and a cache, each with the dataset's sub-folder; no proxy, downloads allowed."""
    for name in ("first", "second", "cache"):
        (tmp_path / name / "made_up").mkdir(parents=True)
    monkeypatch.setenv(
        PATH_VARIABLE, os.pathsep.join([str(tmp_path / "first"), "", str(tmp_path / "second")])
    )
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
    assert found == Missing(
        "table.txt", tuple(tmp_path / name / "made_up" for name in ("first", "second", "cache"))
    )
    for name in ("cache", "second", "first"):
        path = tmp_path / name / "made_up" / "table.txt"
        path.write_bytes(CONTENT)
        assert locate(spec, spec.files[0], tmp_path / "cache") == LocatedFile("table.txt", path)


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
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
    forms = {
        "table.gz": gzip.compress(CONTENT, mtime=1),
        "table": CONTENT,
        "table.gz.xz": lzma.compress(CONTENT),
    }
    for name, stored in forms.items():
        (folder / name).write_bytes(stored)
        assert [state.state for state in verify(spec, tmp_path / "cache")] == ["ok"], name
        assert read_verified(spec, spec.files[0], folder / name) == CONTENT
        (folder / name).unlink()
    (folder / "table.gz").write_bytes(gzip.compress(CONTENT, mtime=2))  # the same content, packed again
    assert [state.state for state in verify(spec, tmp_path / "cache")] == ["ok"]


@pytest.mark.parametrize(
    ("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
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
    for part in (
        str(path),
        sha256(CONTENT),
        sha256(bytes(stored)),
        "https://example.org/table.txt",
        "data fetch",
    ):
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
    read_bytes = Path.read_bytes

    def noted(path: Path) -> bytes:
        if path.suffix != ".json":
            done.append(path)
        return read_bytes(path)

    monkeypatch.setattr("gpsuite.data.file_hashes._SETTLED_NS", 0)
    monkeypatch.setattr("gpsuite.data.file_hashes._known", {})
    monkeypatch.setattr(Path, "read_bytes", noted)
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
        monkeypatch.setattr("gpsuite.data.file_hashes._known", {})  # as in a new process
    assert reads == [path]
    (tmp_path / "cache" / VERIFIED_FILE).write_text('{"damaged": [1')
    assert require(spec, tmp_path / "cache") == {"table.txt": path}
    assert reads == [path] * 2
    path.write_bytes(CONTENT.replace(b"1", b"7"))
    with pytest.raises(DataError, match="not the expected file"):
        require(spec, tmp_path / "cache")


def test_an_unreadable_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first" / "made_up" / "table.txt").write_bytes(CONTENT)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
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
def test_a_failed_download_says_why_and_leaves_nothing(
    tmp_path: Path, server: str, page: str, reason: str
) -> None:
    spec = made_up(urls=(f"{server}/{page}",))
    began = time.monotonic()
    with pytest.raises(DataError, match=reason) as caught:
        require(spec, tmp_path / "cache", timeout=0.3)
    assert time.monotonic() - began < 5
    message = str(caught.value)
    for part in (
        "dataset=made_up",
        "'table.txt'",
        sha256(CONTENT),
        f"{server}/{page}",
        str(tmp_path / "first"),
    ):
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
