"""Damaged files of every kind under results/, each read by the commands that read it.

Every case runs in a process of its own that ends after ten seconds and has one gigabyte more than the interpreter.
It may refuse the file or leave it out. It may not end in a traceback, hang, read or write a file outside the working
folder, nor believe a damaged certificate or model.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite import cli
from gpsuite.engine.worker import limit_threads

SEED = 20261128
CASES = 2400
FAST_CASES = 2  # of each kind
SECONDS, MEMORY = 10, 1 << 30
SECRET = "the-planted-secret-4711"
ENDED_WELL = (0, 1, 2, 3)
KL = "pac_bayes/kl_inverse"
RUN_KL = ("run", f"experiment={KL}", "scale=smoke", "parallel=serial", "format=quiet")
TABLE = ("dataset=csv", "dataset.path=mine.csv", "dataset.target=y", "scale=smoke", "parallel=serial", "format=quiet")
SAFE = ("dataset=csv", "dataset.path=kinds.csv", "dataset.target=kind", *TABLE[3:], "certificates=true")
HOSTILE_TEXTS = (
    "\x1b[2J\x1b[1;1Hproved: at most 1 %\n", "<script>alert(1)</script>", "[c](javascript:alert(1))", "\u202e\u200b",
    "../../../secret.txt", "/etc/passwd", "a" * 70_000, "\udcff", "", "=cmd()",
)  # fmt: skip
HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 10**400, 2**63, [], {}, [[]], [None] * 3, {"a": {}}, *HOSTILE_TEXTS,
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Files of one kind, the commands that read them, and whether an altered one must never change what is said."""

    files: str
    commands: tuple[tuple[str, ...], ...]
    guarded: bool = False


def _verify(path: Path) -> tuple[str, ...]:
    return ("verify", str(path.with_suffix("")), *(TABLE[:3] if "pac_bayes" in path.parts else ()))


def _predict(path: Path) -> tuple[str, ...]:
    return ("predict", str(path.parent.parent), "new.csv")


READ = (("report",), ("status",), ("compare",))
KINDS = {
    "run": Kind("results/*/*/smoke*/run.json", (*READ, ("publish", KL))),
    "published run": Kind("results/published/*/*/*/run.json", (("report",), ("recheck", KL, "sample=1"))),
    "plan": Kind("results/*/*/smoke*/plan.json", (("status",), ("publish", KL))),
    "record": Kind("results/.records/pac_bayes/*.json", (("status",), RUN_KL)),
    "array": Kind("results/.records/pac_bayes/*.npz", (("status",), RUN_KL)),
    "archive": Kind("results/published/*/*/*/records.zip", (("report",), ("recheck", KL, "sample=1"), RUN_KL)),
    "certificate": Kind("results/*/*/smoke*/certificates/*.json", (("verify",),), guarded=True),
    "certificate arrays": Kind("results/*/*/smoke*/certificates/*.npz", (("verify",),), guarded=True),
    "model": Kind("results/guarantee/smoke*/model/model.json", (("predict",),), guarded=True),
    "model arrays": Kind("results/guarantee/smoke*/model/model.npz", (("predict",),), guarded=True),
    "table": Kind("results/*/*/smoke*/tables/*.csv", (("report",), ("publish", KL))),
    "caption": Kind("results/*/*/smoke*/tables/*.md", (("report",), ("publish", KL))),
    "comparison": Kind("results/*/*/smoke*/comparison.csv", (("compare",), ("report",))),
    "image": Kind("results/*/*/smoke*/figures/*.png", (("report",),)),
    "published image": Kind("results/published/*/*/*/figures/*.png", (("report",),)),
    "list of written files": Kind("results/pac_bayes/kl_inverse/smoke/.*-written.json", (RUN_KL,)),
    "config": Kind("results/*/*/smoke*/config.yaml", (("report",), RUN_KL)),
    "log": Kind("results/pac_bayes/kl_inverse/smoke/run.log", (RUN_KL,)),
}
WHOLE_FOLDERS = ("tables", "figures", "artifacts", "certificates", "model", "")


# How a file is damaged.


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _insert(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    return content[:place] + rng.randbytes(rng.choice((1, 10, 1000))) + content[place:]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    first, last = sorted(rng.randrange(len(content)) for _ in range(2))
    return content[:last] + content[first:last] * rng.choice((1, 5)) + content[last:]


def _number(content: bytes, rng: random.Random) -> bytes:
    """Put another number in place of one that is written out."""
    found = list(re.finditer(rb"\d+(\.\d+)?", content))
    if not found:
        return _flip(content, rng)
    one = rng.choice(found)
    other = rng.choice((b"0", b"-1", b"9", b"1e309", b"NaN", b"9" * 5000, str(rng.random()).encode()))
    return content[: one.start()] + other + content[one.end() :]


def _text(content: bytes, rng: random.Random) -> bytes:
    """Put a hostile text in place of a word."""
    found = list(re.finditer(rb"[A-Za-z_]{3,}", content))
    if not found:
        return _flip(content, rng)
    one, other = rng.choice(found), rng.choice(HOSTILE_TEXTS)
    return content[: one.start()] + other.encode("utf-8", "surrogatepass") + content[one.end() :]


def _value(content: bytes, rng: random.Random) -> bytes:
    """Put a hostile value somewhere into a JSON file, or a hostile text into another one."""
    try:
        whole = json.loads(content)
    except ValueError:
        return _text(content, rng)
    places = list(_places(whole))
    if not places:
        return _flip(content, rng)
    inside, key = rng.choice(places)
    inside[key] = rng.choice((*HOSTILE_VALUES, [0] * 100_000))
    return json.dumps(whole).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


def _nested(content: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"[", b'{"a":')) * 100_000


def _bomb(content: bytes, rng: random.Random) -> bytes:
    """Return a zip whose members unpack to three gigabytes, under the names of the members it had."""
    names = ["a.npy"]
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            names = file.namelist() or names
    made = io.BytesIO()
    block = np.lib.format.magic(1, 0) + bytes(64 << 20)
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name in names[:1] if len(content) % 2 else names[:3]:
            file.writestr(name, block)
    return made.getvalue()


def _pickle(content: bytes, rng: random.Random) -> bytes:
    made = io.BytesIO()
    np.savez(made, a=np.array([{"x": 1}, None], dtype=object))
    return made.getvalue()


def _image(content: bytes, rng: random.Random) -> bytes:
    """Return PostScript, or a PNG that states a giant size."""
    if rng.random() < 0.3:
        return b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(secret.txt) (r) file\n"
    size = rng.choice((13_000, 100_000, 2**31 - 1)).to_bytes(4, "big")
    return content[:16] + size * 2 + content[24:] if len(content) > 24 else b"\x89PNG\r\n\x1a\n" + size * 6


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _cut, _insert, _repeat, _number, _text, _value, _value, _nested, _bomb, _pickle, _image,
)  # fmt: skip


def _place(path: Path, rng: random.Random, secret: Path) -> None:
    """Put something that is not a file of its own in the file's place."""
    folder = path.parent if rng.random() < 0.3 and path.parent.name in WHOLE_FOLDERS else path
    whole_folder = folder.is_dir()
    (shutil.rmtree if whole_folder else os.unlink)(folder)
    makers: tuple[Callable[[], object], ...] = (
        lambda: folder.symlink_to(secret.parent if whole_folder else secret),
        lambda: folder.symlink_to("/dev/zero"),
        lambda: folder.symlink_to(folder.name),
        lambda: folder.symlink_to(secret.parent),
        lambda: os.mkfifo(folder),
        lambda: folder.mkdir(),
        lambda: folder.write_bytes(b""),
    )
    rng.choice(makers)()


# One case.


@dataclass(frozen=True)
class Ended:
    """How a command ended in a process of its own."""

    code: int
    out: str
    seconds: float
    bytes: int


def _run(words: Sequence[str], folder: Path) -> Ended:
    """Run the command line in a child process with limits; a signal that ended it is a negative code."""
    log = folder.parent / "said"
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        _be_the_child(words, folder, log)
    _, status, usage = os.wait4(child, 0)
    said = log.read_bytes().decode("utf-8", "replace")
    return Ended(os.waitstatus_to_exitcode(status), said, time.perf_counter() - start, usage.ru_maxrss << 10)


def _be_the_child(words: Sequence[str], folder: Path, log: Path) -> None:
    code = 99
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        present = int(re.findall(r"VmSize:\s*(\d+)", Path("/proc/self/status").read_text())[0]) << 10
        resource.setrlimit(resource.RLIMIT_AS, (present + MEMORY, present + MEMORY))
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(target), "w", encoding="utf-8") for _ in range(2))
        os.dup2(target, 1), os.dup2(target, 2)
        os.chdir(folder)
        sys.argv = ["gpsuite", *words]
        code = cli.main()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _state(outside: Path) -> str:
    """Return a hash of names and contents of everything outside the working folder."""
    digest = hashlib.sha256()
    for path in sorted(outside.rglob("*")):
        digest.update(str(path.relative_to(outside)).encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _holds_secret(folder: Path, since: float) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        about = path.lstat()
        if path.is_symlink() or not path.is_file() or about.st_mtime < since:
            continue
        if SECRET.encode() in path.read_bytes():
            found.append(str(path.relative_to(folder)))
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three kinds with certificates, a model and published records, as the commands leave them."""
    folder = tmp_path_factory.mktemp("whole") / "work"
    folder.mkdir()
    rng = np.random.default_rng(SEED)
    rows = [f"{a:.4f},{b:.4f},{2 * a + b + 0.1 * e:.4f}" for a, b, e in rng.normal(size=(60, 3))]
    (folder / "mine.csv").write_text("\n".join(["x,z,y", *rows]) + "\n")
    (folder / "new.csv").write_text("x,z\n0.1,0.2\n-1,0.5\n")
    kinds = [f"{a:.4f},{b:.4f},{'up' if a + b > 0 else 'down'}" for a, b in rng.normal(size=(60, 2))]
    (folder / "kinds.csv").write_text("\n".join(["x,z,kind", *kinds]) + "\n")
    limit_threads(1)
    for words in (
        RUN_KL,
        ("run", "experiment=guarantee", *TABLE),
        ("run", "experiment=pac_bayes/regression", *TABLE),
        ("run", "experiment=robustness/safety", *SAFE),
        ("publish", KL),
        ("report",),
    ):
        ended = _run_unlimited(words, folder)
        assert ended == 0, words
    return folder


def _run_unlimited(words: Sequence[str], folder: Path) -> int:
    here, words_before = Path.cwd(), sys.argv
    try:
        os.chdir(folder)
        sys.argv = ["gpsuite", *words]
        return cli.main()
    finally:
        sys.argv = words_before
        os.chdir(here)


def _words(kind: Kind, path: Path, rng: random.Random) -> tuple[str, ...]:
    words = rng.choice(kind.commands)
    named = {("verify",): _verify, ("predict",): _predict}
    return named[words](path) if words in named else words


@pytest.fixture(scope="module")
def as_it_was(whole: Path) -> dict[tuple[str, ...], Ended]:
    return {}  # command -> how it ended with undamaged files


def _failure(kind_name: str, number: int, whole: Path, as_it_was: dict[tuple[str, ...], Ended], place: Path) -> str:
    """Damage one file, run a command that reads it, and return what went wrong, or an empty text."""
    rng, kind = random.Random(f"{SEED} {kind_name} {number}"), KINDS[kind_name]
    outside, folder = place / "outside", place / "work"
    outside.mkdir(parents=True)
    (outside / "secret.txt").write_text(f"{SECRET}\n")
    shutil.copytree(whole, folder)
    files = sorted(path.relative_to(folder) for path in folder.glob(kind.files))
    assert files, f"no file of this kind: {kind.files}"
    path = rng.choice(files)
    words = _words(kind, path, rng)
    if kind.guarded and words not in as_it_was:
        as_it_was[words] = _run(words, folder)
        assert as_it_was[words].code == 0, as_it_was[words].out
    if rng.random() < 0.2:
        how = "_place"
        _place(folder / path, rng, outside / "secret.txt")
    else:
        damaging = rng.choice(BYTES)
        how = damaging.__name__
        (folder / path).write_bytes(damaging((folder / path).read_bytes(), rng))
    before, since = _state(outside), time.time()
    ended = _run(words, folder)
    wrong = _wrong(ended, as_it_was[words] if kind.guarded else None)
    if SECRET in ended.out or _holds_secret(folder, since):
        wrong.append("the secret was read")
    if _state(outside) != before or {each.name for each in place.iterdir()} != {"outside", "work", "said"}:
        wrong.append("written outside the working folder")
    shutil.rmtree(place)
    command = f"{kind_name} {number}: {how} of {path}, then {' '.join(words)}"
    return f"{command}: {'; '.join(wrong)}\n{ended.out[-1200:]}" if wrong else ""


def _wrong(ended: Ended, as_it_was: Ended | None) -> list[str]:
    wrong = []
    if ended.code not in ENDED_WELL:
        wrong.append(f"exit {ended.code} after {ended.seconds:.1f} s, {ended.bytes >> 20} MB")
    if "Traceback (most" in ended.out:
        wrong.append("traceback")
    if any(acting in ended.out for acting in ("\x1b", "\u202e", "\u200b")):
        wrong.append("acting characters on the terminal")
    if as_it_was is not None and ended.code == 0 and ended.out != as_it_was.out:
        wrong.append("believed")
    if as_it_was is not None and ended.code not in (0, 2):
        wrong.append(f"exit {ended.code}: a damaged file is not a refuted statement")
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_some_damaged_files_are_refused_without_a_traceback(
    kind: str, whole: Path, as_it_was: dict[tuple[str, ...], Ended], tmp_path: Path
) -> None:
    found = [_failure(kind, number, whole, as_it_was, tmp_path / str(number)) for number in range(FAST_CASES)]
    assert not any(found), "\n\n".join(filter(None, found))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_files_are_refused_without_a_traceback(
    kind: str, whole: Path, as_it_was: dict[tuple[str, ...], Ended], tmp_path: Path
) -> None:
    numbers = range(FAST_CASES, CASES // len(KINDS))
    found = [_failure(kind, number, whole, as_it_was, tmp_path / str(number)) for number in numbers]
    assert not any(found), "\n\n".join(filter(None, found))
