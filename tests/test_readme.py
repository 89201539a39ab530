"""What the README shows works as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpsuite.cli import COMMANDS
from gpsuite.config.request import read_request

FAMILIES = ("pac_bayes", "robustness", "perturbation", "active_learning")
ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def examples() -> list[str]:
    """Return the blocks of code in the section on Python use."""
    [section] = re.findall(r"## Python use\n(.*?)\n## ", README, flags=re.DOTALL)
    blocks = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", section, flags=re.MULTILINE)
    return ["\n".join(line[4:] for line in block.splitlines()) for block in blocks]


@pytest.mark.parametrize("code", examples(), ids=lambda code: code.splitlines()[-1][:24])
def test_a_python_example_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len([line for line in code.splitlines() if line]) <= 10
    rng = np.random.default_rng(0)
    X, X_test = rng.standard_normal((60, 2)), rng.standard_normal((20, 2))
    y, y_test = np.sin(X[:, 0]), np.sin(X_test[:, 0])
    names = {"X": X, "y": y, "X_test": X_test, "y_test": y_test, "labels": np.where(y > 0, 1.0, -1.0)}
    gaps = np.where(np.arange(60)[:, None] % 2 == np.arange(2), np.column_stack([y, y**2]), np.nan)
    names |= {"Y": gaps, "z": 0.4 * X[:, 1], "candidates": X_test}
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
    else:
        assert printed.startswith("9/10 [ True False]")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_an_example_that_imports_from_its_face_alone(family: str) -> None:
    [code] = [code for code in examples() if f"from gpsuite.methods.{family} import" in code]
    assert re.findall(r"gpsuite[.\w]*", code) == [f"gpsuite.methods.{family}"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_face_names_what_it_exports_and_needs_no_tensorflow(family: str) -> None:
    code = (
        f"import sys, gpsuite.methods.{family} as face; print([n for n in face.__all__ if not hasattr(face, n)], "
        "[name for name in ('tensorflow', 'gpflow', 'matplotlib', 'pandas') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[] []\n"


def test_the_run_commands_compose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    rows = "\n".join(f"{i},{i % 7},{i * 0.5 + i % 7}" for i in range(40))
    Path("my.csv").write_text(f"a,b,price\n{rows}\n", encoding="utf-8")
    lines = re.findall(
        r"^    gpsuite run (experiment=pac_bayes/regression[^#\n]*)", README, flags=re.MULTILINE
    )
    assert lines
    for line in lines:
        words = line.split()
        if "dataset=boston" in words:  # its file is not here; a smoke run needs none
            words.append("scale=smoke")
        request, _ = read_request(words)
        assert request.methods


def test_every_command_is_named() -> None:
    for name in COMMANDS:
        assert f"gpsuite {name}" in README


def test_contributing_names_files_that_exist_and_shows_the_figure_of_the_example() -> None:
    text = (ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:gpsuite|tests|conf|scripts|\.ci)/[\w./]+)`", text)
    assert len(named) > 8
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []
    example = (ROOT / "tests/experiments/own_experiment/slopes.py").read_text(encoding="utf-8")
    shown = re.findall(r"^    (with report.*|    \S.*)$", text, flags=re.MULTILINE)
    lines = [line.split("    #")[0].strip() for line in shown if "drawing" in line]
    assert len(lines) == 4 and all(line in example for line in lines)
