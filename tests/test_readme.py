"""What the README and the guide show works as printed."""

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
GUIDE = (ROOT / ".github/GUIDE.md").read_text(encoding="utf-8")


def examples() -> list[str]:
    """Return the blocks of code in the section on Python use."""
    [section] = re.findall(r"## Python use\n(.*?)(?=\n## |\Z)", GUIDE, flags=re.DOTALL)
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


@pytest.mark.parametrize("name", ["README.md", ".github/GUIDE.md"])
def test_the_run_commands_compose(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    head = "age,dose,hc,o2,y,price,label,temperature"
    rows = "\n".join(f"{i},{i % 7},{i % 5},{i % 3},{i % 11},{i * 0.5 + i % 7},{i % 2},{i / 80}" for i in range(40))
    for file in ("my.csv", "measured.csv"):
        Path(file).write_text(f"{head}\n{rows}\n", encoding="utf-8")
    Path("rows.csv").write_text("age,dose,y,label\n1,2,3,1\n", encoding="utf-8")
    Path("candidates.csv").write_text("age,dose,y,price,label\n1,2,3,4,1\n", encoding="utf-8")
    found = commands((ROOT / name).read_text(encoding="utf-8"), "run")
    shown = [in_full(without_dashes(words)) for words in found if "<" not in words[0] and "NAME" not in words[0]]
    assert len(shown) > 5
    for each in shown:  # a smoke run needs no files of datasets
        # of a sweep, its first run
        words = [word.partition(",")[0] if "-m" in each else word for word in each if word != "-m"]
        scaled = any(word.startswith(("scale=", "dataset.path=")) for word in words)
        smoke = ["scale=smoke" if word.startswith("scale=") else word for word in words]
        request, _ = read_request(smoke if scaled else [*smoke, "scale=smoke"])
        assert request.experiment == words[0].removeprefix("experiment=")


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


def test_readme_is_short_and_what_it_links_to_exists() -> None:
    assert len(README.splitlines()) <= 150
    for text, folder in ((README, ROOT), (GUIDE, ROOT / ".github")):
        for target in re.findall(r"\]\(([^)#]+)", text):
            assert (folder / target).exists(), target


def test_every_command_is_named() -> None:
    for name in COMMANDS:
        assert f"`{name}`" in README and f"gpsuite {name}" in GUIDE


def test_contributing_names_files_that_exist_and_shows_the_figure_of_the_example() -> None:
    text = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:gpsuite|tests|conf|scripts|\.ci)/[\w./]+)`", text)
    assert len(named) > 8
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []
    example = (ROOT / "tests/plugin_example/gpsuite_example/slopes.py").read_text(encoding="utf-8")
    shown = re.findall(r"^    (with report.*|    \S.*)$", text, flags=re.MULTILINE)
    lines = [line.split("    #")[0].strip() for line in shown if "drawing" in line]
    assert len(lines) == 4 and all(line in example for line in lines)
