"""What `list`, `compare` and `status` show on a terminal of 100 columns, and that a pipe gets everything."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpsuite.commands.tables import show_lines
from gpsuite.config.files import group_choices
from gpsuite.reporting.comparison import Verdict, write_comparison
from tests.commands.conftest import Gpsuite
from tests.reporting.test_contents import ROW

NAME = "perturbation/lssvm_parameter_space"
VERDICTS: tuple[Verdict, ...] = ("reproduced", "not reproduced", "partly", "not run", "not comparable")


@pytest.fixture
def lines(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    def shown(*words: str, most: int = 100) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setenv("COLUMNS", "100")
            patch.setattr(sys.stdout, "isatty", lambda: True)
            ended = gpsuite(*words)
        assert ended.code == 0, ended.err
        found = ended.out.splitlines()
        assert [line for line in found if len(line) > most] == []
        return found

    return shown


@pytest.fixture
def published(workplace: Path) -> Path:
    """Publish a run of one experiment, with long texts."""
    folder = workplace / "results/published" / NAME / "paper"
    rows = [
        replace(
            ROW,
            id=f"X{number}",
            experiment=NAME,
            verdict=verdict,
            quantity="a long quantity " * 9,
            remark="because",
        )
        for number, verdict in enumerate(VERDICTS)
    ]
    write_comparison(folder, rows)
    (folder / "run.json").write_text(json.dumps({"tasks": {"done": 7, "budget": 2}}), encoding="utf-8")
    return folder


def test_list_shows_an_experiment_a_line_with_the_cost_asked_for(lines: Callable[..., list[str]]) -> None:
    names = group_choices()["experiment"]
    quick, paper = lines("list", "experiments"), lines("list", "experiments", "scale=paper")
    for found in (quick, paper):
        assert [line.split()[0] for line in found] == ["experiment", *names]
    [before] = [line for line in quick if line.startswith("active_learning/engine")]
    [after] = [line for line in paper if line.startswith("active_learning/engine")]
    assert "8 min" in before and "2.5 h" in after and "gengine1" in before


def test_list_has_no_addresses_and_all_three_lists_have_a_head(lines: Callable[..., list[str]]) -> None:
    found = lines("list")
    assert [line for line in found if "://" in line] == []
    assert [line for line in found if line.isupper()] == ["EXPERIMENTS", "DATASETS", "METHODS"]


@pytest.mark.parametrize(("name", "told"), [(NAME, "Fig. 2"), ("boston", "506 x 13"), ("vfe", "Titsias")])
def test_list_name_tells_everything_of_it(lines: Callable[..., list[str]], name: str, told: str) -> None:
    found = "\n".join(lines("list", name, most=200))
    assert found.startswith(name) or f"│ {name}" in found
    assert told in found


def test_compare_counts_by_experiment_and_names_the_misses(
    lines: Callable[..., list[str]], published: Path
) -> None:
    found = lines("compare")
    [counts] = [line.split() for line in found if line.startswith(NAME)]
    assert (counts[:5], counts[6:]) == (
        [NAME, "paper*", *"111"],
        ["1"],
    )  # conf/paper has more, which are not run
    assert [line.split()[0] for line in found if line.startswith("X")] == ["X1", "X2"]
    assert found[-1].startswith("total: reproduced 1, partly 1, not reproduced 1, not run ")
    assert not any("because" in line for line in found)
    details = lines("compare", NAME)
    assert {f"X{number}" for number in range(5)} <= {line.split()[0] for line in details if line}
    assert sum("because" in line for line in details) == 2


def test_status_leaves_out_what_is_zero_everywhere_and_lists_published_runs(
    lines: Callable[..., list[str]], published: Path, gpsuite: Gpsuite
) -> None:
    head, row = lines("status", NAME)
    assert head.split() == ["experiment", "run", "tasks", "done", "budget", "tables"]
    assert row.split() == [NAME, "paper", "9", "7", "2", "published"]
    piped = gpsuite("status", NAME).out.splitlines()
    assert "infeasible" in piped[0].split("\t") and piped[1].split("\t")[-1] == "published"


def test_a_pipe_gets_every_value_whole(gpsuite: Gpsuite, published: Path) -> None:
    head, *rows = (line.split("\t") for line in gpsuite("compare", NAME).out.splitlines())
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert {f"X{number}" for number in range(5)} <= {row["id"] for row in found}
    mine = [row for row in found if row["id"] == "X0"]
    assert mine[0]["quantity"] == ("a long quantity " * 9).strip() and mine[0]["remark"] == "because"
    assert "://" in gpsuite("list", "datasets").out


def test_a_wrong_scale_is_named(gpsuite: Gpsuite) -> None:
    ended = gpsuite("list", "scale=papr")
    assert ended.code == 2 and "paper" in ended.err


def test_the_first_column_is_never_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show_lines([{"name": "n" * 30, "what": "w" * 50, "n": 3}])
    assert capsys.readouterr().out.splitlines() == [f"{'name':30}  what      n", f"{'n' * 30}  wwwwwww…  3"]
