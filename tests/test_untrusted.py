"""Files that anybody may have written: refused with one line naming them, before anything is allocated."""

from __future__ import annotations

import io
import json
import os
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite import untrusted
from gpsuite.text import visible_name
from gpsuite.untrusted import UnusableFileError, file_pair, parse_fields, read_arrays, read_description, real, words
from tests.arrays import Array

EXPECTED = {"a": (np.float64, 1), "b": (np.int64, 2)}
ARRAYS = {"a": np.array([1.0, np.inf]), "b": np.arange(6).reshape(2, 3)}


def npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def header(text: str, rest: bytes = b"") -> bytes:
    """An .npy file whose header is `text`."""
    filled = text.encode() + b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(filled)) + filled + rest


def zipped(path: Path, members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members:
            file.writestr(name, content)


def shape_of(shape: str) -> bytes:
    return header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}", b"\0" * 16)


A, B = ("a.npy", npy(ARRAYS["a"])), ("b.npy", npy(ARRAYS["b"]))


def test_what_savez_writes_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=ARRAYS["a"], b=np.asfortranarray(ARRAYS["b"]))
    found = read_arrays(tmp_path / "x.npz", EXPECTED)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.c_contiguous


BAD: dict[str, tuple[list[tuple[str, bytes]], str]] = {
    "ten gigabytes stated": ([("a.npy", shape_of("(1250000000,)")), B], "another size"),
    "beyond any integer": ([("a.npy", shape_of(f"({10**400},)")), B], "damaged"),
    "beyond 64 bits": ([("a.npy", shape_of(f"({10**40},)")), B], "another size"),
    "negative length": ([("a.npy", shape_of("(-2,)")), B], "damaged"),
    "too little stated": ([("a.npy", shape_of("(1,)")), B], "another size"),
    "a long header": ([("a.npy", header("{" + " " * 60000 + "}")), B], ""),
    "a header that is code": ([("a.npy", header("__import__('os').abort()")), B], ""),
    "a nested header": ([("a.npy", header("(" * 5000)), B], ""),
    "another version": ([("a.npy", b"\x93NUMPY\x02\x00" + b"\0" * 100), B], "another version"),
    "nested lengths": ([("a.npy", shape_of("((2,),)")), B], "damaged"),
    "structured": ([("a.npy", npy(np.zeros(2, dtype="f8,i8"))), B], "damaged"),
    "another type": ([("a.npy", npy(np.arange(2))), B], "not a float64 array"),
    "big-endian": ([("a.npy", npy(ARRAYS["a"].astype(">f8"))), B], "not a float64 array"),
    "objects": ([("a.npy", npy(np.array([{}, 1], dtype=object))), B], "no plain values"),
    "a long way to the header's end": (
        [("a.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }" + " " * 5000)), B],
        "damaged",
    ),
    "another number of axes": ([("a.npy", npy(np.zeros((1, 2)))), B], "with 1 axes"),
    "not a number": ([("a.npy", npy(np.array([np.nan]))), B], "not numbers"),
    "an empty member": ([("a.npy", b""), B], ""),
    "no array": ([("a.npy", b"hello"), B], ""),
    "unknown arrays": ([A, B, ("c.npy", npy(np.zeros(1)))], "unknown array 'c.npy'"),
    "a hostile name": ([A, B, ("\x1b[2J", b"")], "unknown array"),
    "missing arrays": ([A], "b.npy is missing"),
    "too many": ([(f"{k}.npy", b"") for k in range(70)], "more than 64"),
}


@pytest.mark.parametrize("how", BAD)
def test_bad_arrays_are_refused(tmp_path: Path, how: str) -> None:
    path, (members, text) = tmp_path / "x.npz", BAD[how]
    zipped(path, members)
    refuses(path, lambda: read_arrays(path, EXPECTED), text)


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with pytest.warns(UserWarning, match="Duplicate"):
        zipped(path, [A, A, B])
    refuses(path, lambda: read_arrays(path, EXPECTED), "twice")


def test_a_bomb_is_not_uncompressed(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    zipped(path, [("a.npy", shape_of("(6250000,)") + b"\0" * (5 * 10**7 - 16)), B], zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**6
    refuses(path, lambda: read_arrays(path, EXPECTED), "compressed")


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """Every directory entry points to the first member."""
    path = tmp_path / "x.npz"
    big = npy(np.zeros(1000))
    zipped(path, [(f"{k}.npy", big) for k in range(3)])
    content = bytearray(path.read_bytes())
    start = content.find(b"PK\x01\x02")
    kept = content[: len(big) + 35]
    entries = content[start:-22]
    size = len(entries) // 3
    for k in range(3):
        entries[k * size + 42 : k * size + 46] = struct.pack("<L", 0)
    end = bytearray(content[-22:])
    end[16:20] = struct.pack("<L", len(kept))
    path.write_bytes(bytes(kept + entries + end))
    expected = {f"{k}": (np.float64, 1) for k in range(3)}
    refuses(path, lambda: read_arrays(path, expected), "")


@pytest.mark.parametrize("extra", [b"PK\x06\x07" + b"\0" * 16, b""])
def test_only_the_plain_end_of_a_zip_is_read(tmp_path: Path, extra: bytes) -> None:
    path = tmp_path / "x.npz"
    zipped(path, [A, B])
    content = path.read_bytes()
    path.write_bytes(content[:-22] + extra + content[-22:] + (b"" if extra else b"comment"))
    refuses(path, lambda: read_arrays(path, EXPECTED), "damaged")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    zipped(path, [A, B])
    content = path.read_bytes()
    for length in range(0, len(content), 17):
        path.write_bytes(content[:length])
        refuses(path, lambda: read_arrays(path, EXPECTED), "")


def test_flipped_bytes_are_refused_or_change_nothing(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "x.npz"
    zipped(path, [A, B])
    content, refused = path.read_bytes(), 0
    for _ in range(200):
        changed = bytearray(content)
        changed[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(changed))
        try:
            found = read_arrays(path, EXPECTED)
        except UnusableFileError:
            refused += 1
            continue
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array)
    assert refused > 120


DESCRIPTIONS: dict[str, tuple[str, str]] = {
    "nothing": ("", "not JSON"),
    "half": ('{"a": 1', "not JSON"),
    "a list": ("[]", "not a JSON object"),
    "nested lists": ("[" * 200_000, "nested too deeply"),
    "nested objects": ('{"a":' * 200_000, "nested too deeply"),
    "nested and closed": ('{"a":' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply"),
    "twice": ('{"a": 1, "a": 2}', "not JSON"),
    "not a number": ('{"a": NaN}', "not JSON"),
    "infinite": ('{"a": -Infinity}', "not JSON"),
    "beyond floats": ('{"a": 1e400}', "not JSON"),
    "many digits": ('{"a": 1' + "0" * 5000 + "}", "not JSON"),
    "latin": ('{"a": "\udce9"}', "not JSON"),
}


@pytest.mark.parametrize("how", DESCRIPTIONS)
def test_bad_descriptions_are_refused(tmp_path: Path, how: str) -> None:
    path, (text, reason) = tmp_path / "x.json", DESCRIPTIONS[how]
    path.write_bytes(text.encode(errors="surrogateescape"))
    refuses(path, lambda: read_description(path), reason)


def test_a_good_description_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": [1, 2.5, null], "b": {"c": "\\u00e9"}}', encoding="utf-8")
    assert read_description(path) == {"a": [1, 2.5, None], "b": {"c": "é"}}


def test_only_regular_files_of_limited_size_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    refuses(tmp_path / "pipe.json", lambda: read_description(tmp_path / "pipe.json"), "not a regular file")
    refuses(tmp_path, lambda: read_description(tmp_path), "not a regular file")
    refuses(Path("/dev/zero"), lambda: read_arrays(Path("/dev/zero"), {}), "not a regular file")
    refuses(tmp_path / "none", lambda: read_description(tmp_path / "none"), "No such file")
    with (tmp_path / "large.npz").open("wb") as stream:
        stream.truncate(untrusted.LARGEST_ARRAYS + 1)  # sparse: takes no disk
    monkeypatch.setattr(untrusted, "LARGEST_ARRAYS", 1000)
    refuses(tmp_path / "large.npz", lambda: read_arrays(tmp_path / "large.npz", {}), "larger than")
    monkeypatch.setattr(untrusted, "LARGEST_TEXT", 10)
    (tmp_path / "long.json").write_text(json.dumps({"a": "b" * 10}))
    refuses(tmp_path / "long.json", lambda: read_description(tmp_path / "long.json"), "larger than")


def refuses(path: Path, read: Callable[[], Any], text: str) -> None:
    """Expect one line that names the file, within a second and without allocating much."""
    started = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(UnusableFileError) as caught:
            read()
        largest = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 2
    assert largest < 50 << 20
    message = str(caught.value)
    assert text in message and str(path) in message
    assert message.isprintable() and len(message) < 400


@pytest.mark.parametrize("name", ["x", "x.npz", "x.json"])
def test_either_name_means_the_pair(name: str) -> None:
    assert file_pair(Path("d") / name) == (Path("d/x.npz"), Path("d/x.json"))
    assert file_pair(Path("point.3"))[0] == Path("point.3.npz")
    with pytest.raises(UnusableFileError):
        file_pair(Path("."))


@pytest.mark.parametrize("value", [10**400, True, "1", None, [1], float("nan"), float("inf")])
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(UnusableFileError, match=r"c\.json: not usable"):
        parse_fields(Path("c.json"), lambda: real(value))
    assert real(3) == 3.0


def test_missing_and_wrong_fields_name_the_file() -> None:
    with pytest.raises(UnusableFileError, match=r"c\.json: incomplete, 'a' is missing"):
        parse_fields(Path("c.json"), lambda: {}["a"])
    nothing: Any = None
    for wrong in (lambda: words(3), lambda: nothing["a"], lambda: nothing.items(), lambda: real("x")):
        with pytest.raises(UnusableFileError, match=r"c\.json: not usable"):
            parse_fields(Path("c.json"), wrong)


def test_printable_texts_move_no_cursor() -> None:
    assert visible_name("a b é") == "a b é"
    assert visible_name("a\x1b[2J\n\u202e") == r"a\x1b[2J\n\u202e"
    assert visible_name("x" * 200) == "x" * 77 + "..."
    assert len(visible_name("\x1b" * 200)) == 80


def test_one_value_that_is_no_number_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    zipped(path, [("a.npy", npy(np.array([1.0, np.nan]))), B])
    refuses(path, lambda: read_arrays(path, EXPECTED), "not numbers")


def test_one_compressed_member_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(*A)
        file.writestr(*B, compress_type=zipfile.ZIP_DEFLATED)
    refuses(path, lambda: read_arrays(path, EXPECTED), "compressed")


@pytest.mark.parametrize("stated", ["<HH", "<H"])
def test_a_directory_that_understates_its_entries_is_refused(tmp_path: Path, stated: str) -> None:
    path = tmp_path / "x.npz"
    zipped(path, [(f"{k:0100}.npy", b"") for k in range(300)])
    content = bytearray(path.read_bytes())
    counts = struct.pack(stated, *[2] * (len(stated) - 1))
    content[-14 : -14 + len(counts)] = counts
    path.write_bytes(bytes(content))
    refuses(path, lambda: read_arrays(path, EXPECTED), "more than 64")


def test_a_member_inside_another_is_refused(tmp_path: Path) -> None:
    path, inner = tmp_path / "x.npz", npy(np.zeros(1000, dtype=np.int64))
    zipped(path, [("b.npy", inner)])
    local = path.read_bytes().partition(b"PK\x01\x02")[0]
    local = b"\0" * (-len(local) % 8) + local
    outer = npy(np.frombuffer(local, dtype=np.int64))
    zipped(path, [("a.npy", outer), ("b.npy", inner)])
    content = path.read_bytes()
    kept, end = content[: 35 + len(outer)], bytearray(content[-22:])
    entries = bytearray(content[content.find(b"PK\x01\x02") : -22])
    second = entries.rfind(b"PK\x01\x02") + 42
    entries[second : second + 4] = struct.pack("<L", len(kept) - len(local.lstrip(b"\0")))
    end[16:20] = struct.pack("<L", len(kept))
    path.write_bytes(kept + entries + end)
    refuses(path, lambda: read_arrays(path, {"a": (np.int64, 1), "b": (np.int64, 1)}), "overlap")
