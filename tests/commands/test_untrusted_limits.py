"""Sizes are known before anything is unpacked: zip and JSON bombs, pipes, endless numbers, too little memory."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gpsuite.reporting.files import read_mapping, task_seconds
from gpsuite.untrusted import parse_json, read_member, unpack_arrays
from tests.commands.conftest import Gpsuite

MB = 1 << 20
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)


def zipped(content: bytes, name: str, kind: int, *, stated: int | None = None) -> bytes:
    """Return a zip with one member, which may state another size than it has."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as file:
        file.writestr(name, content)
    whole = made.getvalue()
    if stated is not None:
        true, false = (size.to_bytes(4, "little") for size in (len(content), stated))
        assert whole.count(true) >= 2
        whole = whole.replace(true, false)
    return whole


def most_memory(code: str) -> int:
    """Return by how many bytes the memory of a process grows that runs the code after its imports."""
    start = "import resource, sys; from gpsuite.untrusted import *; import numpy, io, zipfile, lzma\n"
    peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
    script = f"{start}before = {peak}\n{code}\nprint({peak} - before)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return int(ended.stdout.split()[-1]) << 10


@pytest.mark.parametrize("kind", PACKED)
def test_a_member_is_read_whole(kind: int) -> None:
    content = np.random.default_rng(0).bytes(100_000) + bytes(100_000)
    assert read_member(zipped(content, "a", kind), "a", MB) == content


@pytest.mark.parametrize("kind", PACKED)
def test_a_member_that_states_too_much_is_not_unpacked(kind: int) -> None:
    with pytest.raises(ValueError, match="larger than 1 MB"):
        read_member(zipped(bytes(2 * MB), "a", kind), "a", MB)


@pytest.mark.parametrize("kind", PACKED[1:])
def test_a_member_that_states_too_little_unpacks_to_no_more(kind: int, tmp_path: Path) -> None:
    """zipfile's own `read` would unpack all of it before it looks at the size."""
    path = tmp_path / "bomb.zip"
    path.write_bytes(zipped(bytes(512 * MB), "a", kind, stated=1000))
    code = f"try: read_member(open({str(path)!r}, 'rb').read(), 'a', 1 << 20)\nexcept ValueError: pass"
    assert most_memory(code) < 100 * MB


def test_bzip2_makes_a_gigabyte_of_a_few_bytes_so_it_is_refused() -> None:
    with pytest.raises(ValueError, match="does not use"):
        read_member(zipped(bytes(1000), "a", zipfile.ZIP_BZIP2), "a", MB)


def test_a_missing_member_a_cut_zip_and_an_encrypted_one_are_value_errors() -> None:
    whole = zipped(bytes(1000), "a", zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="b is missing"):
        read_member(whole, "b", MB)
    for end in range(0, len(whole), 7):
        with pytest.raises(ValueError, match=r"."):
            read_member(whole[:end], "a", MB)


def saved(**arrays: object) -> bytes:
    made = io.BytesIO()
    np.savez_compressed(made, **arrays)  # type: ignore[arg-type]
    return made.getvalue()


def test_arrays_are_read_as_numpy_reads_them() -> None:
    rng = np.random.default_rng(1)
    arrays = {
        "f": rng.normal(size=(3, 4)), "t": rng.normal(size=(3, 4)).T, "i": np.arange(5), "b": np.array([True, False]),
        "s": np.array(["a", "ü"]), "empty": np.empty((0, 3)), "scalar": np.array(2.5), "text": np.array("{}"),
        "c": np.array([1j]), "u": np.arange(3, dtype=np.uint8), "f4": np.ones(2, dtype=np.float32),
    }  # fmt: skip
    found = unpack_arrays(saved(**arrays), MB)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array), name


def test_arrays_that_unpack_to_too_much_are_refused_together() -> None:
    content = saved(**{f"a{number}": np.zeros(40_000) for number in range(4)})
    assert len(content) < 10_000 and len(unpack_arrays(content, 2 * MB)) == 4
    with pytest.raises(ValueError, match="larger than 1 MB"):
        unpack_arrays(content, MB)


def test_objects_are_never_unpickled() -> None:
    with pytest.raises(ValueError, match="no plain values"):
        unpack_arrays(saved(a=np.array([{"x": 1}, None], dtype=object)), MB)


def test_a_header_that_states_another_size_is_refused() -> None:
    member = io.BytesIO()
    np.save(member, np.zeros(10))
    for stated in ("(11,)", "(9,)", "(10, 1000000000)"):
        changed = member.getvalue().replace(b"(10,), }" + b" " * len(stated), f"{stated}, }}     ".encode())
        assert changed != member.getvalue()
        with pytest.raises(ValueError, match="another size"):
            unpack_arrays(zipped(changed, "a.npy", zipfile.ZIP_DEFLATED), 1 << 40)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"9" * 5000, b"{", b""])
def test_what_is_not_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)


def test_nesting_has_a_limit() -> None:
    """Python reads far deeper, but whoever walks through what was read could run out of stack."""
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        assert parse_json(opening * 63 + b"[]" + closing * 63)
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(opening * 64 + b"[]" + closing * 64)


def test_a_pipe_is_never_waited_for(tmp_path: Path, gpsuite: Gpsuite) -> None:
    run = tmp_path / "results" / "guarantee" / "quick"
    (run / "model").mkdir(parents=True)
    for name in ("model.json", "model.npz"):
        os.mkfifo(run / "model" / name)
    os.mkfifo(tmp_path / "cert.json")
    os.mkfifo(tmp_path / "cert.npz")
    os.mkfifo(tmp_path / "rows.csv")
    (tmp_path / "new.csv").write_text("x\n1\n")
    for words in (("predict", str(run), "new.csv"), ("verify", "cert"), ("data", "describe", "rows.csv")):
        ended = gpsuite(*words)
        assert ended.code == 2 and len(ended.err.splitlines()) <= 4, ended


def test_records_of_others_unpack_to_no_more_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = json.dumps({"key": "k", "timing": {"cpu_seconds": 2.0}}).encode() + b"\n"
    archive = tmp_path / "records.zip"
    archive.write_bytes(zipped(line, "records.jsonl", zipfile.ZIP_LZMA))
    assert task_seconds(archive) == {"k": 2.0}
    monkeypatch.setattr("gpsuite.reporting.files.LARGEST_LINES", 10)
    assert task_seconds(archive) == {}


def test_a_description_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpsuite.reporting.files.LARGEST_DESCRIPTION", MB)
    path = tmp_path / "run.json"
    path.write_text('{"a": 1}')
    assert read_mapping(path) == {"a": 1}
    path.write_text(json.dumps({"a": "x" * MB}))
    with pytest.raises(Exception, match=r"run\.json.*larger than 1 MB"):
        read_mapping(path)


@pytest.mark.parametrize("word", ["epsilon", "seed"])
def test_an_endless_number_is_one_sentence(gpsuite: Gpsuite, word: str) -> None:
    for digits in (5000, 200_000):
        ended = gpsuite("run", "experiment=pac_bayes/regression", "scale=smoke", f"{word}={'9' * digits}")
        assert ended.code == 2 and len(ended.err) < 200 and word in ended.err


def limited(words: list[str], folder: Path, largest: int) -> int:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (largest, largest))

    command = [sys.executable, "-m", "gpsuite.cli", *words]
    ended = subprocess.run(command, cwd=folder, preexec_fn=limit, capture_output=True, text=True, timeout=100)
    assert "Traceback" not in ended.stderr, ended.stderr
    assert "not enough memory" in ended.stderr
    return ended.returncode


@pytest.mark.parametrize("size", [100, 250, 265, 272, 390, 510])  # 265 and 272 once hung, 390 gave a traceback
def test_too_little_memory_is_one_sentence(size: int, tmp_path: Path) -> None:
    assert limited(["run", "experiment=pac_bayes/regression", "scale=smoke"], tmp_path, size * MB) == 2
