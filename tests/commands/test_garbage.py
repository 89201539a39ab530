"""status, compare, report, publish and list over a results folder in which anything may have happened."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.engine.store import RecordStore
from gpsuite.experiments.base import Record
from gpsuite.reporting.comparison import compare, read_paper_values, write_comparison
from tests.commands.conftest import Gpsuite

ROOT = Path(__file__).resolve().parents[2]
NAME, FAMILY = "pac_bayes/regression", "pac_bayes"
KEYS = ("0123456789abcdef0123", "fedcba9876543210fedc")
ABOUT = {
    "title": "A bound", "status": "done", "science": "s", "tag": None, "scale": "quick", "changed": ["epsilon"],
    "dataset": {"name": "diabetes", "stand_in": False, "content_hash": "c", "licence": "free"},
    "datasets": [{"name": "boston", "licence": "free"}], "tasks": {"done": 2}, "notes": ["n"], "command": ["gpsuite"],
    "failures": [{"task": "t", "reason": "r", "traceback": f"{KEYS[0]}.traceback.txt"}], "seed": 0, "threads": 1,
    "versions": {"numpy": "1"}, "git": {"commit": "c", "dirty": False}, "machine": {"cores": 2}, "paper": "p",
    "wall_seconds": 1.0, "cpu_seconds": 2.0, "peak_memory_mb": 3, "started": "a", "finished": "b", "figure": "Fig. 1",
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with two runs, as runs leave it."""
    root = tmp_path_factory.mktemp("whole")
    store = RecordStore(root, FAMILY)
    for key in KEYS:
        store.put(Record(key, NAME, "t", {"split": 0}, "done", "", {"B_kl": 0.3}, {}, arrays={"a": np.ones(3)}))
    (store.folder / f"{KEYS[0]}.traceback.txt").write_text("Traceback", encoding="utf-8")
    tasks = [{"key": key, "label": "t", "budget_seconds": None} for key in KEYS]
    published = read_paper_values(ROOT / "conf", "pac_bayes/epsilon_boston")[:3]
    for name in ("smoke", "quick~mine"):
        run = root / NAME / name
        for folder in ("tables", "figures", "artifacts"):
            (run / folder).mkdir(parents=True)
        (run / "plan.json").write_text(json.dumps({"science": "s", "tasks": tasks}), encoding="utf-8")
        (run / "run.json").write_text(json.dumps(ABOUT), encoding="utf-8")
        (run / "config.yaml").write_text("seed: 0\n", encoding="utf-8")
        (run / "tables" / "regression.csv").write_text("a,b\n1,2\n", encoding="utf-8")
        (run / "tables" / "regression.md").write_text("caption\n\n| a | b |\n", encoding="utf-8")
        (run / "figures" / "regression.png").write_bytes(b"\x89PNG" + bytes(40))
        write_comparison(run, compare(published, []))
    (root / "bench").mkdir()
    (root / "bench" / "bench.csv").write_text("family,case\npac_bayes,x\n", encoding="utf-8")
    return root


@pytest.fixture
def results(workplace: Path, whole: Path) -> Path:
    """A copy of them in the workplace."""
    return Path(shutil.copytree(whole, workplace / "results"))


COMMANDS = (("status",), ("compare",), ("compare", NAME), ("report",), ("publish", NAME), ("list", "methods"))


def survives(gpsuite: Gpsuite, *words: str) -> str:
    """Run a command over damaged results; return what it said on stderr."""
    ended = gpsuite(*words)
    assert ended.code in (0, 2), ended.err
    assert "Traceback (most" not in ended.err and "\x1b" not in ended.out + ended.err
    assert all(line.startswith("gpsuite: ") for line in ended.err.splitlines()[:1])
    return ended.err


SPOILERS = ("empty", "truncated", "binary", "folder", "loop", "dangling", "pipe", "long", "deep", "other", "removed")

MORE = ("empty", "binary", "long", "deep", "dangling")  # as good as others, for those with time


def spoil(path: Path, how: str) -> None:
    """Turn a file into something else."""
    content = path.read_bytes() if path.is_file() else b""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    makers = {
        "empty": lambda: path.write_bytes(b""),
        "truncated": lambda: path.write_bytes(content[: len(content) * 2 // 3]),
        "binary": lambda: path.write_bytes(b"\xff\xfe\x00\x1b[2J" * 50),
        "folder": path.mkdir,
        "loop": lambda: path.symlink_to(path.name),
        "dangling": lambda: path.symlink_to("nowhere"),
        "pipe": lambda: os.mkfifo(path),
        "long": lambda: path.write_bytes(b'"' + b"x" * 300_000),
        "deep": lambda: path.write_bytes(b"[" * 100_000),
        "other": lambda: path.write_text('{"a": 1}', encoding="utf-8"),
        "removed": lambda: None,
    }
    makers[how]()


READERS = {"run.json": "report", "plan.json": "status", "comparison.csv": "compare"}


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=[pytest.mark.slow] if how in MORE else []) for how in SPOILERS[:-2]]
)
def test_a_spoilt_file_is_named_by_the_command_that_reads_it(gpsuite: Gpsuite, results: Path, how: str) -> None:
    for name, command in READERS.items():
        path = results / NAME / "smoke" / name
        spoil(path, how)
        said = survives(gpsuite, command)
        absent = how == "dangling" and name != "comparison.csv"
        assert absent or str(path.relative_to(results.parent)) in said


def test_one_spoilt_run_does_not_hide_the_others(gpsuite: Gpsuite, results: Path) -> None:
    for name in ("comparison.csv", "plan.json", "run.json"):
        spoil(results / NAME / "smoke" / name, "truncated")
    ended = gpsuite("compare", NAME)
    assert ended.code == 2 and "quick~mine" in ended.out and "comparison.csv" in ended.err
    rows = [line.split("\t") for line in gpsuite("status").out.splitlines()]
    assert [(row[1], row[2], row[-1]) for row in rows[1:]] == [
        ("quick~mine", "2", "complete"),
        ("smoke", "", "no usable plan.json: run again"),
    ]
    (results / NAME / "smoke").rename(results / NAME / "quick")  # of one scale, as all that is published
    ended = gpsuite("publish", NAME)
    assert ended.code == 2 and "run.json" in ended.err
    assert ended.out == f"results/published/{NAME}/quick~mine\n"
    assert gpsuite("report").code == 0
    page = (results / "report.html").read_text(encoding="utf-8")
    assert "quick/run.json" in page and "quick~mine" in page


def test_a_damaged_record_is_missing_in_status(gpsuite: Gpsuite, results: Path) -> None:
    path = results / ".records" / FAMILY / f"{KEYS[0]}.npz"
    path.write_bytes(path.read_bytes()[:-10])
    ended = gpsuite("status")
    rows = [line.split("\t") for line in ended.out.splitlines()]
    for row in rows[1:]:
        shown = dict(zip(rows[0], row, strict=True))
        assert (shown["done"], shown["missing"], shown["tables"]) == ("1", "1", "run again to complete")
    assert ended.err.count("\n") == 1 and KEYS[0] in ended.err  # once, though two runs have it


def values(rng: np.random.Generator) -> Any:
    """Return a JSON value of some kind or other."""
    pool: list[Any] = [
        None, True, 0, -1, 10**400, 1e308, float("nan"), "", "\x1b[31m", "\u202e$x_{", "../../etc", "a\0b", "x" * 300,
        "\ud800", [], [[]], [None, {}], {}, {"a": {"b": []}}, {"tasks": 3}, ["0123"], {"done": "x", "error": []},
    ]  # fmt: skip
    return pool[int(rng.integers(len(pool)))]


def nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of everything within a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in list(pairs):
        yield value, key
        yield from nodes(inside)


def vandalise(results: Path, rng: np.random.Generator) -> None:
    """Do something to one file or folder of the results."""
    files = sorted(path for path in results.rglob("*") if "published" not in path.parts)
    path = files[int(rng.integers(len(files)))]
    spoilable = path.suffix in (".json", ".csv") and path.is_file()
    kind = int(rng.integers(3)) if spoilable else 0
    try:
        content = path.read_bytes() if path.is_file() else b""
        plain = json.loads(content) if path.suffix == ".json" else None
    except (ValueError, RecursionError):
        plain, kind = None, 0
    if kind == 0:
        spoil(path, SPOILERS[int(rng.integers(len(SPOILERS)))])
    elif kind == 1 and plain is not None and list(nodes(plain)):
        inside = list(nodes(plain))
        where, key = inside[int(rng.integers(len(inside)))]
        where[key] = values(rng)
        path.write_text(json.dumps(plain), encoding="utf-8")
    else:
        spoilt = bytearray(content or b"x")
        for _ in range(1 + int(rng.integers(4))):
            spoilt[int(rng.integers(len(spoilt)))] = int(rng.integers(256))
        path.write_bytes(bytes(spoilt))


@pytest.mark.parametrize("rounds", [2, pytest.param(250, marks=pytest.mark.slow)])
def test_no_command_falls_over_for_any_results(gpsuite: Gpsuite, results: Path, whole: Path, rounds: int) -> None:
    rng = np.random.default_rng(14)
    for _ in range(rounds):
        shutil.rmtree(results)
        shutil.copytree(whole, results)
        for _ in range(int(rng.integers(1, 9))):
            vandalise(results, rng)
        for words in COMMANDS:
            survives(gpsuite, *words)


def test_a_folder_that_the_system_does_not_let_us_read_is_named(
    gpsuite: Gpsuite, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not stop the superuser, so the refusal of the system is simulated."""
    run, listdir, lstat = results / NAME / "smoke", os.listdir, Path.lstat

    def refused(path: Any) -> list[str]:
        if Path(path).name in ("figures", "tables"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listdir(path)

    def hidden(path: Path) -> os.stat_result:
        if path.parent.name == "quick~mine":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return lstat(path)

    monkeypatch.setattr(os, "listdir", refused)
    monkeypatch.setattr(Path, "lstat", hidden)
    said = survives(gpsuite, "report")
    assert f"{run.relative_to(results.parent)}/figures: Permission denied" in said
    assert "quick~mine" in gpsuite("status").out


def test_a_report_of_nothing_makes_no_folder(gpsuite: Gpsuite, workplace: Path) -> None:
    ended = gpsuite("report", "results_dir=nowhere/results")
    assert ended.code == 2 and "results_dir=nowhere/results" in ended.err
    assert list(workplace.iterdir()) == []


def test_publishing_again_keeps_what_others_put_there(gpsuite: Gpsuite, results: Path) -> None:
    gpsuite("publish", NAME)
    published = results / "published" / NAME / "quick~mine"
    (published / "notes.md").write_text("mine", encoding="utf-8")
    (published / "more").mkdir()
    (published / "more" / "a.txt").write_text("mine", encoding="utf-8")
    (published / "link").symlink_to("nowhere")
    assert gpsuite("publish", NAME).code == 0
    assert (published / "notes.md").read_text(encoding="utf-8") == "mine"
    assert (published / "more" / "a.txt").is_file() and (published / "link").is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("how", SPOILERS[:-1])
def test_a_plan_starts_again_where_the_artifacts_of_earlier_ones_are_spoilt(
    gpsuite: Gpsuite, workplace: Path, how: str
) -> None:
    rows = [f"{i / 10 - 1},{(i * 7) % 5},{0.3 * (i / 10 - 1) ** 2}" for i in range(17)]
    (workplace / "cand.csv").write_text("x\n-0.51\n0.52\n", encoding="utf-8")
    words = ("dataset=csv", "dataset.path=m.csv", "dataset.target=y", "dataset.safety=z", "dataset.limit=<=1")
    for known in (16, 17):
        (workplace / "m.csv").write_text("\n".join(["x,y,z", *rows[:known]]), encoding="utf-8")
        ended = gpsuite("run", "experiment=active_learning/plan", "scale=smoke", *words, "dataset.candidates=cand.csv")
        assert ended.code == 0, ended.err
        for path in (workplace / "results").rglob("artifacts/*.npz"):
            spoil(path, how)
