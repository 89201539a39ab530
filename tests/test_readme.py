"""What README, guide and CONTRIBUTING show works as printed."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpsuite import cli
from gpsuite.commands import COMMANDS
from gpsuite.config.files import group_choices
from gpsuite.config.grammar import without_dashes
from gpsuite.config.request import read_request
from gpsuite.config.spelling import in_full

ROOT = Path(__file__).resolve().parents[1]
FAMILIES = sorted({name.split("/")[0] for name in group_choices()["experiment"] if "/" in name})
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / ".github/guide").glob("*.md"))
PYTHON = (ROOT / ".github/guide/python.md").read_text(encoding="utf-8")


def examples() -> list[str]:
    """Return the blocks of code in the guide's section on the algorithms."""
    [section] = re.findall(r"## Algorithms\n(.*?)(?=\n## |\Z)", PYTHON, flags=re.DOTALL)
    blocks = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", section, flags=re.MULTILINE)
    return ["\n".join(line[4:] for line in block.splitlines()) for block in blocks]


@pytest.mark.parametrize("code", examples(), ids=lambda code: code.splitlines()[-1][:24])
def test_a_python_example_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len([line for line in code.splitlines() if line]) <= 10
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((60, 2)), rng.standard_normal((20, 2))
    y, y_test = np.sin(X[:, 0]), np.sin(X_test[:, 0])
    names = {"X": X, "y": y, "X_test": X_test, "y_test": y_test, "labels": np.where(y > 0, 1.0, -1.0)}
    names["classes"] = (y > 0).astype(np.int64)
    gaps = np.where(np.arange(60)[:, None] % 2 == np.arange(2), np.column_stack([y, y**2]), np.nan)
    names |= {"Y": gaps, "z": 0.4 * X[:, 1], "candidates": X_test}
    if "MeasurementPlanner" in code:  # which samples: a third of the rows takes a third of the time
        names |= {name: names[name][:20] for name in ("X", "Y", "z")}
    exec(code, names)
    printed = capsys.readouterr().out
    if "bound_kl" in code:
        bound, risk = (float(word) for word in printed.split()[:2])
        assert 0 < risk < bound < 1
    elif "probability_range" in code:
        low, high = (float(word) for word in printed.split()[:2])
        assert 0 < low < high < 1
    elif "MeasurementPlanner" in code:
        chances = [float(line.split()[-1]) for line in printed.splitlines()]
        assert len(chances) == 3 and min(chances) > 0.95
    elif "fit_classifier" in code:
        probabilities = np.array(names["found"].probabilities)
        assert probabilities.shape == (20, 2) and ((probabilities[:, 1] > 0.5) == (y_test > 0)).mean() > 0.8
    else:
        assert printed.startswith("9/10 [ True False]")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_an_example_that_imports_only_its_exports(family: str) -> None:
    [code] = [code for code in examples() if f"from gpsuite.methods.{family} import" in code]
    assert re.findall(r"gpsuite[.\w]*", code) == [f"gpsuite.methods.{family}"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_exports_what_exists_and_needs_no_tensorflow(family: str) -> None:
    code = (
        f"import sys, gpsuite.methods.{family} as family; print([n for n in family.__all__ if not hasattr(family, n)], "
        "[name for name in ('tensorflow', 'gpflow', 'matplotlib', 'pandas') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[] []\n"


def commands(text: str, word: str) -> list[list[str]]:
    """Return the words of every `gpsuite WORD` command of a text."""
    joined = text.replace("\\\n", " ")
    return [
        shlex.split(line, comments=True)
        for line in re.findall(rf"^    gpsuite {word} (\S.*)", joined, flags=re.MULTILINE)
    ]


@pytest.fixture
def own_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the tables that the examples name into an empty current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    head = "id,region,day,age,dose,hc,o2,y,price,label,temperature"
    rows = "\n".join(
        f"{i},{i % 3 + 1},202401{i % 28 + 1:02},{i},{i % 7},{i % 5},{i % 3},{i % 11},{i * 0.5 + i % 7},{i % 2},{i / 80}"
        for i in range(40)
    )
    for file in ("my.csv", "measured.csv"):
        Path(file).write_text(f"{head}\n{rows}\n", encoding="utf-8")
    Path("other.csv").write_text(f"{head}\n{rows}\n".replace(",", ";").replace(".", ","), encoding="utf-8")
    Path("rows.csv").write_text("id,region,day,age,dose,hc,o2,y,label,temperature\n1,1,20240102,1,2,3,1,2,1,0.5\n")
    Path("candidates.csv").write_text("id,region,day,age,dose,y,price,label\n1,1,20240102,1,2,3,4,1\n")


SHOWN = [
    pytest.param(word, words, id=" ".join([path.stem, word, *words])[:80])
    for path in (ROOT / "README.md", *PAGES)
    for word in ("run", "certify")
    for words in commands(path.read_text(encoding="utf-8"), word)
    if path.stem not in ("start", "commands") and "NAME" not in " ".join(words) and words[0] != "patients.csv"
]


@pytest.mark.usefixtures("own_tables")
@pytest.mark.parametrize(("word", "words"), SHOWN)
def test_a_command_that_is_shown_composes(word: str, words: list[str]) -> None:
    if word == "certify":
        file = "other.csv" if "dataset.decimal=," in words else words[0]
        words = [
            "experiment=guarantee",
            "dataset=csv",
            f"dataset.path={file}",
            f"dataset.target={words[1]}",
            *words[2:],
        ]
    full = in_full(without_dashes(words))
    # of a sweep, its first run
    each = [each.partition(",")[0] if "-m" in full else each for each in full if each != "-m"]
    scaled = any(each.startswith(("scale=", "dataset.path=")) for each in each)
    smoke = ["scale=smoke" if word.startswith("scale=") else word for word in each]  # needs no files of datasets
    request, _ = read_request(smoke if scaled else [*smoke, "scale=smoke"])
    assert request.experiment == each[0].removeprefix("experiment=")


class Screen(io.StringIO):
    """What is written, on a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_first_two_commands_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "120")
    printed = ""
    for words in (["run", "pac_bayes/kl_inverse", "scale=paper"], ["compare", "pac_bayes/kl_inverse"]):
        assert f"    gpsuite {' '.join(words)}\n" in README
        stdout = Screen()
        monkeypatch.setattr("sys.stdout", stdout)
        assert cli.dispatch(words) == 0
        printed += stdout.getvalue()
    shown = re.findall(r"^    ( *results/pac_bayes.*|experiment and run.*|pac_bayes/.*)$", README, flags=re.MULTILINE)
    assert len(shown) == 6
    assert [line for line in shown if line not in [each.rstrip() for each in printed.splitlines()]] == []


def test_readme_is_short_and_names_every_command() -> None:
    assert len(README.splitlines()) <= 130
    assert [name for name in COMMANDS if f"`{name}`" not in README] == []


def anchors(text: str) -> set[str]:
    """Return the names by which the headings of a page are linked to, as a code host makes them."""
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / ".github/CONTRIBUTING.md", *PAGES], ids=lambda path: path.stem
)
def test_what_is_linked_to_exists(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
        file = path.parent / target if target else path
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), anchor


def test_contributing_names_files_that_exist_and_shows_the_figure_of_the_example() -> None:
    text = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:gpsuite|tests|conf|scripts|\.ci)/[\w./]+)`", text)
    assert len(named) > 8
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []
    example = (ROOT / "tests/plugin_example/gpsuite_example/slopes.py").read_text(encoding="utf-8")
    shown = re.findall(r"^    (with report.*|    \S.*)$", text, flags=re.MULTILINE)
    lines = [line.split("    #")[0].strip() for line in shown if "drawing" in line]
    assert len(lines) == 4 and all(line in example for line in lines)
