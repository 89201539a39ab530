"""Every command speaks JSON with numbers as numbers, `output=` is a file everywhere, and what certify is short for."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from gpsuite.commands import run
from tests.commands.conftest import Gpsuite

REGION = ("perturbation/region", "scale=smoke", "models=[lssvm_linear]", "m=20", "curve_points=5")
READERS = [
    ("list",), ("list", "robustness"), ("status",), ("compare",), ("doctor",), ("data", "list"), ("data", "verify"),
    ("data", "fetch", "diabetes"), ("show", "pac_bayes/kl_inverse"), ("completion", "bash"), ("report",),
    ("guide",), ("guide", "start"),
]  # fmt: skip
HEAD, ROWS = "area,age,price", [f"{i},{(i * 7) % 11},{i * 0.5 + (i * 7) % 11}" for i in range(40)]


@pytest.fixture
def houses(workplace: Path) -> Path:
    (workplace / "houses.csv").write_text("\n".join([HEAD, *ROWS]) + "\n", encoding="utf-8")
    return workplace


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_every_command_prints_one_json_object(gpsuite: Gpsuite, workplace: Path, words: tuple[str, ...]) -> None:
    (workplace / "results").mkdir()
    ended = gpsuite(*words, "--format", "json")
    found = json.loads(ended.out)
    assert isinstance(found, dict) and ended.out.count("\n") == 1
    assert all((workplace / path).is_file() for path in found.get("files", ()) if isinstance(path, str))


def test_a_run_names_every_file_and_gives_numbers(gpsuite: Gpsuite, workplace: Path) -> None:
    found = json.loads(gpsuite("run", *REGION, "format=json").out)
    on_disk = {str(path.relative_to(workplace)) for path in (workplace / found["folder"]).rglob("*") if path.is_file()}
    assert set(found["files"]) == on_disk
    cells = [cell for rows in found["tables"].values() for row in rows for cell in row.values()]
    assert any(isinstance(cell, float) for cell in cells)
    assert not any(isinstance(cell, str) and cell.replace(".", "", 1).isdigit() for cell in cells)


def test_output_is_a_file_for_every_command(gpsuite: Gpsuite, workplace: Path) -> None:
    printed = gpsuite("list", "methods").out
    ended = gpsuite("list", "methods", "output=methods.tsv")
    assert (ended.code, ended.out) == (0, "methods.tsv\n")
    assert Path("methods.tsv").read_text(encoding="utf-8") == printed
    again = gpsuite("list", "output=methods.tsv")
    assert again.code == 2 and "file exists" in again.err
    assert "existing folder" in gpsuite("list", "output=nowhere/a.txt").err


def test_predict_writes_no_file_called_json(gpsuite: Gpsuite, houses: Path) -> None:
    ended = gpsuite("predict", "results/guarantee/quick", "houses.csv", "output=json")
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == "gpsuite predict results/guarantee/quick houses.csv format=json"


CERTIFY = [
    (("certify", "houses.csv"), ["TARGET: which column", "area, age, price"], "gpsuite certify houses.csv price"),
    (("certify", "houses.csv", "prize"), ["prize: no column", "'price'"], "gpsuite certify houses.csv price"),
    (("certify", "huses.csv", "price"), ["huses.csv: no such file"], "gpsuite certify houses.csv price"),
    (
        ("certify", "houses.csv", "price", "--epsilonn", "2"),
        ["'epsilon'"],
        "gpsuite certify houses.csv price epsilon=2",
    ),
    (("certify", "houses.csv", "price", "--max-train-rows", "3"), ["max_train_rows=3: must be 8"], ""),
    (("certify",), ["name your table"], "gpsuite certify my.csv price"),
    (("certify", "houses.csv", "price", "dataset=diabetes"), ["first word"], "gpsuite certify my.csv price"),
]


@pytest.mark.parametrize(("words", "parts", "command"), CERTIFY, ids=[" ".join(words) for words, _, _ in CERTIFY])
def test_a_mistake_of_certify_is_reported_as_it_was_typed(
    gpsuite: Gpsuite, houses: Path, words: tuple[str, ...], parts: list[str], command: str
) -> None:
    ended = gpsuite(*words)
    assert ended.code == 2 and len(ended.err.splitlines()) <= 4
    assert all(part in ended.err for part in parts)
    assert "dataset.path" not in ended.err
    if command:
        assert ended.err.splitlines()[-1] == command


def test_certify_is_a_run_of_guarantee(houses: Path, gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []
    monkeypatch.setattr(run, "main", lambda words: given.append(words) or 0)
    assert gpsuite("certify", "houses.csv", "price", "--max-error", "5", "--predict=rows.csv").code == 0
    long = "experiment=guarantee dataset=csv dataset.path=houses.csv dataset.target=price max_error=5 predict=rows.csv"
    assert given == [shlex.split(long)]


@pytest.mark.parametrize("width", [80, 100])
def test_messages_have_four_lines_of_a_terminal(
    houses: Path, gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = [f"column_number_{place}" for place in range(40)]
    Path("wide.csv").write_text(",".join(long) + "\n" + ",".join("1" for _ in long) + "\n", encoding="utf-8")
    monkeypatch.setattr("gpsuite.commands.mistakes.sys.stderr.isatty", lambda: True, raising=False)
    for words in (("certify", "wide.csv", "zzz"), ("run", "pac_bayes/loss_exp", "dataset=csv"), ("run", "nosuch")):
        lines = gpsuite(*words).err.replace("\x1b[K", "").replace("\r", "").splitlines()
        assert len(lines) <= 4 and max(map(len, lines)) <= width, lines
