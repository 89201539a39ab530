from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpsuite.reporting.collect import collect_comparisons, find_runs, rows_of_runs
from gpsuite.reporting.comparison import Criterion, Statistic, claim, write_comparison
from gpsuite.reporting.tables import ours_text
from tests.reporting.test_comparison import only, published

PAPER = """
paper: p1
entries:
  - &one {id: X1, where: T, experiment: family/one, dataset: d, method: m, quantity: q, published: "5.0",
          unit: u, basis: result, statistic: risk, test: {kind: equality, value: 5.0, tolerance: 0.1}}
  - {<<: *one, id: X2, remark: "Another kernel."}
  - {<<: *one, id: X3, experiment: family/two}
"""


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    conf, results = tmp_path / "conf", tmp_path / "results"
    (conf / "paper").mkdir(parents=True)
    (conf / "paper" / "p1.yaml").write_text(PAPER)
    for folder in ("smoke", "quick", "quick~mine"):
        rows = [only(published(experiment="family/one"), Statistic("risk", 5.0, note=folder))]
        write_comparison(results / "family/one" / folder, rows)
    write_comparison(results / "published/family/one" / "paper", [])
    return results, conf


def summary(places: tuple[Path, Path], *experiments: str) -> list[tuple[str, str | None, list[tuple[str, str]]]]:
    return [
        (found.experiment, found.run and found.run.path.name, [(row.id, row.verdict) for row in found.rows])
        for found in collect_comparisons(*places, experiments=experiments or None)
    ]


def test_collect_shows_the_best_shipped_run_and_what_has_none(places: tuple[Path, Path]) -> None:
    assert summary(places) == [
        ("family/one", "quick", [("X1", "reproduced"), ("X2", "not run")]),
        ("family/two", None, [("X3", "not run")]),
    ]


def test_a_remark_is_the_papers_of_today_and_not_the_runs(places: tuple[Path, Path]) -> None:
    row = only(published(experiment="family/one", remark="An older one."), Statistic("risk", 5.2, note="n = 3"))
    write_comparison(places[0] / "family/one" / "quick", [row, replace(row, id="X2"), replace(row, id="X9")])
    (found, _) = collect_comparisons(*places)
    assert [row.why for row in found.rows] == ["n = 3", "n = 3. Another kernel.", "n = 3. An older one."]


@pytest.mark.parametrize(
    "then", [{"test": Criterion("at_least", 0.0)}, {"published": "5.1"}, {"condition": "Page's test"}]
)
def test_a_verdict_by_a_test_that_was_changed_since_does_not_count(
    places: tuple[Path, Path], then: dict[str, Any]
) -> None:
    row = only(published(experiment="family/one", **then), Statistic("risk", 5.0))
    assert row.verdict == "reproduced"
    write_comparison(places[0] / "family/one" / "quick", [row])
    shown = collect_comparisons(*places, experiments=["family/one"])
    (found,) = [each for each in shown if each.run is not None and each.run.path.name == "quick"]
    assert found.rows[0].verdict == "not run"
    assert "changed after this run" in found.rows[0].note


def test_collect_shows_all_runs_of_an_experiment_requested(places: tuple[Path, Path]) -> None:
    shown = ["paper", "quick", "smoke", "quick~mine"]  # of these paper is the published copy
    assert [name for _, name, _ in summary(places, "family/one")] == shown
    assert summary(places, "family/two") == [("family/two", None, [("X3", "not run")])]


def test_collect_shows_a_part_of_the_paper_s_run_where_that_alone_decides(places: tuple[Path, Path]) -> None:
    results, _ = places
    entry = published(experiment="family/one")
    write_comparison(results / "family/one" / "paper~aaa", [])
    write_run(results / "family/one" / "paper~aaa", "settings differ")
    assert summary(places)[0][1] == "quick"
    shown = ["paper", "quick", "smoke", "quick~mine"]  # of these paper is the published copy
    assert [name for _, name, _ in summary(places, "family/one")] == shown
    write_comparison(results / "family/one" / "paper~part", [only(entry, Statistic("risk", 5.0))])
    assert summary(places)[0][1] == "paper~part"
    write_comparison(results / "family/one" / "paper", [only(entry, Statistic("risk", 5.0))])
    assert summary(places)[0][1] == "paper"


def part(results: Path, tag: str, cpu_seconds: float, **ours: float) -> None:
    """Write a part of the paper's run of family/one, with its rows X1 and X2 and what it computed of them."""
    entries = [published(id=name, experiment="family/one") for name in ("X1", "X2")]
    rows = [
        only(entry, Statistic("risk" if entry.id in ours else "another", ours.get(entry.id, 0.0))) for entry in entries
    ]
    folder = results / "family/one" / f"paper~{tag}"
    write_comparison(folder, rows)
    (folder / "run.json").write_text(json.dumps({"cpu_seconds": cpu_seconds}))


def test_the_largest_part_answers_and_the_next_one_fills_its_gaps(places: tuple[Path, Path]) -> None:
    results, _ = places
    part(results, "a_small", 10.0, X1=9.0, X2=9.0)
    part(results, "large", 300.0, X1=5.0)
    part(results, "middle", 100.0, X2=5.0)
    assert summary(places) == [
        ("family/one", "paper~large", [("X1", "reproduced")]),
        ("family/one", "paper~middle", [("X2", "reproduced")]),
        ("family/two", None, [("X3", "not run")]),
    ]
    own = {path.name: [(row.id, row.verdict) for row in rows] for path, rows in rows_of_runs(*places).items()}
    assert own["paper~large"] == [("X1", "reproduced"), ("X2", "not run")]
    assert own["paper~a_small"] == [("X1", "differs"), ("X2", "differs")]


def test_a_smaller_scale_fills_no_gap(places: tuple[Path, Path]) -> None:
    part(places[0], "large", 300.0, X1=5.0)
    entry = published(id="X2", experiment="family/one")
    write_comparison(places[0] / "family/one" / "quick", [only(entry, Statistic("risk", 5.0))])
    assert summary(places)[0] == ("family/one", "paper~large", [("X1", "reproduced"), ("X2", "not run")])


def test_collect_takes_a_published_run_where_there_is_no_better_one(places: tuple[Path, Path]) -> None:
    results, _ = places
    entry = published(experiment="family/one")
    write_comparison(results / "published/family/one/paper", [only(entry, Statistic("risk", 9.0))])
    assert summary(places)[0] == ("family/one", "paper", [("X1", "differs"), ("X2", "not run")])
    write_comparison(results / "family/one/paper", [only(entry, Statistic("risk", 5.0))])
    assert summary(places)[0] == ("family/one", "paper", [("X1", "reproduced"), ("X2", "not run")])


def write_run(folder: Path, why_not: str) -> None:
    (folder / "run.json").write_text(json.dumps({"not_comparable": why_not}))


def test_a_run_that_is_not_held_against_the_paper_says_why(places: tuple[Path, Path]) -> None:
    folder = places[0] / "family/two" / "smoke"
    write_comparison(folder, [])
    write_run(folder, "stand-in data")
    (found,) = collect_comparisons(*places, experiments=["family/two"])
    assert [(row.verdict, row.ours, row.note) for row in found.rows] == [("not run", None, "smoke: stand-in data")]


def test_without_any_result_every_value_is_not_run(places: tuple[Path, Path], tmp_path: Path) -> None:
    found = collect_comparisons(tmp_path / "nowhere", places[1])
    assert [row.verdict for item in found for row in item.rows] == ["not run"] * 3


def test_comparing_imports_neither_pandas_nor_tensorflow() -> None:
    code = (
        "import sys, gpsuite.reporting.comparison, gpsuite.reporting.pages, gpsuite.reporting.publish,"
        " gpsuite.reporting.tables, gpsuite.reporting.figures;"
        "print([m for m in ('pandas', 'numpy', 'matplotlib', 'jinja2', 'tensorflow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("experiments", "others"), [([], ["quick~mine"]), (["family/one"], ["paper", "smoke", "quick~mine"])]
)
def test_a_comparison_that_cannot_be_read_is_passed_over_and_said_once(
    places: tuple[Path, Path], experiments: list[str], others: list[str]
) -> None:
    path = places[0] / "family/one/quick/comparison.csv"
    path.write_bytes(path.read_bytes()[:-3])
    found = collect_comparisons(*places, experiments=experiments or None)
    assert [str(path) in item.problem for item in found if item.problem] == [True]
    assert [item.run.path.name for item in found if item.run is not None and item.rows] == others


def test_finds_run_folders_in_the_order_shown(tmp_path: Path) -> None:
    for name in (
        *("robustness/a/quick", "pac_bayes/b/smoke", "pac_bayes/b/paper", "pac_bayes/b/paper~t", "tour/quick"),
        *(
            "published/pac_bayes/b/paper",
            "published/pac_bayes/b/paper~u",
            "published/tour/quick",
            ".records/pac_bayes/quick",
            "pac_bayes/b/other",
        ),
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "pac_bayes/b/quick").mkdir()  # empty: not a run
    runs = find_runs(tmp_path)
    assert [run.name for run in runs] == [
        *("pac_bayes/b/paper", "pac_bayes/b/smoke", "pac_bayes/b/paper~t", "pac_bayes/b/paper~u"),
        *("robustness/a/quick", "tour/quick"),
    ]
    assert [run.name for run in runs if run.published] == ["pac_bayes/b/paper~u"]  # the others have own runs
    assert [(run.family, run.experiment, run.scale, run.tag) for run in runs[2:3]] == [
        ("pac_bayes", "pac_bayes/b", "paper", "t")
    ]


PARTS = """
paper: p1
entries:
  - &one {id: S1a, part_of: S1, where: T, experiment: family/one, dataset: d, method: m, quantity: q, published: always,
          unit: share, basis: claim, statistic: risk, test: {kind: all_of}, remark: "Of one."}
  - {<<: *one, id: S1b, experiment: family/two, dataset: "d, e", remark: "Of two. Needed: more."}
  - {<<: *one, id: S1c, experiment: family/three}
  - {<<: *one, id: X9, part_of: ""}
"""


def judge_part(places: tuple[Path, Path], name: str, experiment: str, cells: list[bool | None]) -> None:
    made = {"id": name, "experiment": experiment, "basis": "claim", "published": "always", "condition": ""}
    row = only(published(Criterion("all_of"), **made), claim("risk", cells))
    write_comparison(places[0] / experiment / "paper", [row])


@pytest.mark.parametrize(
    ("second", "verdict", "remark", "where"),
    [
        ([True, None], "undecided", "Of two. Needed: more.", "family/two"),
        ([True, False], "differs", "Of two. Needed: more.", "family/two"),
        ([True, True], "reproduced", "Of one.", "family/one"),
    ],
)
def test_parts_of_a_statement_are_one_row(
    places: tuple[Path, Path], second: list[bool | None], verdict: str, remark: str, where: str
) -> None:
    (places[1] / "paper" / "p1.yaml").write_text(PARTS)
    judge_part(places, "S1a", "family/one", [True, True])
    judge_part(places, "S1b", "family/two", second)
    found = [(item, row) for item in collect_comparisons(*places) for row in item.rows if row.id != "X9"]
    [(item, row)] = found
    assert (item.experiment, row.id, row.verdict, row.remark) == (where, "S1", verdict, remark)
    assert (row.n, ours_text(row)) == (4, f"{2 + sum(map(bool, second))} of 4")
    assert row.note.startswith("toy: reproduced, 2 of 2 cells; toy: ") and row.note.endswith("; d: not run")
    assert item.parts == {"S1": "S1b" if where == "family/two" else "S1a"}
    alone = collect_comparisons(*places, experiments=["family/two"])
    assert [row.id for item in alone for row in item.rows] == ["S1b"]


def test_a_statement_without_a_run_is_one_row_too(places: tuple[Path, Path]) -> None:
    (places[1] / "paper" / "p1.yaml").write_text(PARTS)
    rows = [row for item in collect_comparisons(places[0] / "no", places[1]) for row in item.rows]
    assert [(row.id, row.verdict) for row in rows] == [("S1", "not run"), ("X9", "not run")]
