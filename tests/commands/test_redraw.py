"""Published runs are drawn again from their records alone, without their data, and a changed number is found."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.conftest import Gpsuite
from tests.commands.test_published_records import LINES, publish_and_move

ROOT = Path(__file__).resolve().parents[2]
BOSTON = "pac_bayes/epsilon_boston"
Redraw = Callable[[], tuple[int, list[str]]]
SCALED = f"{BOSTON}/paper~scaling_train"


@pytest.fixture
def redraw(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Redraw]:
    """Return a function that runs the script in this process: its exit code and the lines it printed."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import redraw as script  # type: ignore[import-not-found]

    def run() -> tuple[int, list[str]]:
        capsys.readouterr()
        code = script.main([])
        return code, capsys.readouterr().out.splitlines()

    yield run
    sys.modules.pop("redraw")


def test_a_run_on_a_dataset_that_is_not_here(gpsuite: Gpsuite, redraw: Redraw) -> None:
    shutil.copytree(ROOT / "results/published" / SCALED, Path("results/published", SCALED))
    code, (line, total) = redraw()
    if "no record" in line:
        pytest.skip("its records are of another version: publish them anew")
    assert (code, total.startswith("1 of 1 runs as published")) == (0, True)
    assert line.startswith(SCALED)
    assert not list(Path("results/.records").rglob("*.json"))
    wanted = ("run", f"experiment={BOSTON}", "scale=paper", "scaling=train", "repetitions=2", "run_name=few")
    assert gpsuite(*wanted).code == 0  # a part of what is published
    ended = gpsuite(*wanted[:-1], "run_name=more", "delta=0.02")
    assert ended.code == 2
    assert "'housing.data' is missing" in ended.err
    assert not Path("results", BOSTON, "paper~more").exists()


def test_every_run_is_refused_before_the_first_is_computed(gpsuite: Gpsuite, redraw: Redraw) -> None:
    ended = gpsuite("run", "-m", f"experiment={LINES},{BOSTON}", "scale=quick", "parallel=serial")
    assert ended.code == 2
    assert "'housing.data' is missing" in ended.err
    assert not Path("results", LINES).exists()


def test_a_number_that_was_published_otherwise_is_named(gpsuite: Gpsuite, redraw: Redraw) -> None:
    publish_and_move(gpsuite, LINES)
    assert redraw()[0] == 0
    table = next(Path("results/published", LINES, "smoke/tables").glob("kl_inverse*.csv"))
    rows = [line.split(",") for line in table.read_text().splitlines()]
    line, column = next(
        (number, place)
        for number, row in enumerate(rows)
        for place, cell in enumerate(row)
        if cell.startswith("0.") and float(cell) > 0
    )
    for factor, code in ((1 + 1e-12, 0), (1 + 1e-6, 1)):
        changed = [list(row) for row in rows]
        changed[line][column] = repr(float(rows[line][column]) * factor)
        table.write_text("\n".join(",".join(row) for row in changed) + "\n")
        found, lines = redraw()
        assert (found, f"line {line + 1} has" in lines[0]) == (code, bool(code)), lines
