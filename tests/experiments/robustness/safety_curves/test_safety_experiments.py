"""The safety and runtime experiments of Blaas et al. 2020 at scale smoke, without data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.experiments.base import EXPERIMENTS, Task
from tests.experiments.drawn import drawn
from tests.experiments.robustness.safety_runs import gpsuite, run

FIGURES = {
    "safety_synthetic2d": ("safety_synthetic2d", "safety_synthetic2d_accuracy"),
    "safety_spam": ("safety_spam", "safety_spam_accuracy"),
    "safety_mnist38": ("safety_mnist38", "safety_mnist38_accuracy"),
    "runtime_mnist38": ("runtime_mnist38_timing",),
}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)
    monkeypatch.chdir(tmp_path)


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request(list(words))
    return EXPERIMENTS.get(request.experiment).plan(request)


def named(experiment: str) -> set[str]:
    """Return the statistics that conf/paper asks of an experiment, those of kind context excepted."""
    from gpsuite.config.files import conf_dir
    from gpsuite.reporting.comparison import read_paper_values

    entries = read_paper_values(conf_dir(), f"robustness/{experiment}")
    return {entry.statistic for entry in entries if entry.test.kind != "context"}


@pytest.mark.parametrize("experiment", list(FIGURES))
def test_a_smoke_run_of_safety_curves_needs_no_data(experiment: str) -> None:
    folder = run(experiment)
    for name in FIGURES[experiment]:
        assert len(drawn(folder, name))
    table = (folder / "tables" / f"{experiment}.md").read_text(encoding="utf-8")
    if experiment != "safety_synthetic2d":
        assert "stand-in data" in table
    assert len((folder / "comparison.csv").read_text(encoding="utf-8").splitlines()) == 1  # the header alone
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert about["not_comparable"] in ("stand-in data", "smoke scale")
    if experiment != "runtime_mnist38":  # its statistics are named after cells that smoke leaves out
        found = set(pd.read_csv(folder / "tables" / "statistics.csv")["name"])
        assert not {name for name in named(experiment) - found if not name.startswith("class_percent")}
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["status"] == "done"


def test_points_and_panels_are_tasks_of_their_own() -> None:
    tasks = plan("experiment=robustness/safety_spam", "scale=smoke", "points=3")
    kinds = [(task.axes["features"], task.axes["part"]) for task in tasks]
    assert kinds.count(("first10", "point")) == kinds.count(("all", "point")) == 3
    assert kinds.count(("spambase_authors", "accuracy")) == kinds.count(("spambase11_authors", "accuracy")) == 1
    assert len({task_key(task) for task in tasks}) == len(tasks)
    assert [task.axes["part"] for task in tasks].count("map") == 1  # one contour plot serves both panels
    assert len({task.group for task in tasks if task.axes["part"] == "point"}) == 1  # one classifier


def test_the_attack_alone_is_a_task_that_leaves_the_others_as_they_are() -> None:
    words = ("experiment=robustness/safety_synthetic2d", "scale=smoke")
    none, some = plan(*words, "attack_gammas=[]"), plan(*words, "attack_gammas=[0.9,2.0]")
    keys = {task_key(task) for task in none}
    further = [task for task in some if task_key(task) not in keys]
    assert len(some) - len(none) == len(further) == 4
    assert {task.axes["part"] for task in further} == {"attack"}


def test_runtime_has_the_cells_of_both_bounds() -> None:
    tasks = plan("experiment=robustness/runtime_mnist38", "scale=smoke", "points=4", "reference_points=2",
                 "dimensions=[1,2,5]", "tolerance_dimension=5", "tolerances=[0.005,0.01,0.025]")  # fmt: skip
    cells = {(t.axes["gamma"], t.axes["d"], t.axes["eps"]) for t in tasks}
    assert len(cells) == 2 * (3 + 2)
    counted = [task.axes["bound"] for task in tasks]
    assert counted.count("rkhs_taylor") == 10 * 4
    assert counted.count("paper") == 10 * 2
    assert all(task.params.seconds is None for task in tasks)  # smoke stops by counts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gammas=[-0.1]"], "gammas=-0.1: a radius must be a number of 0 or more"),
        (["gammas=[0.2,0.1]"], "must increase"),
        (["bound=papr"], "Did you mean 'paper'?"),
        (["tolerance=0"], "tolerance=0.0: must be a number above 0"),
        (["points=11"], "points=11: must be 1 to 10"),
        (["boxes=-1"], "boxes=-1: must be 0 or more"),
        (["attack_gammas=[0.8]"], "attack_gammas=0.8: must be above 0.8, the last of gammas"),
        (["features=[first3]"], "features=first3: the dataset has 2 inputs"),
        (["features=[sift3]"], "needs scaling=pixels"),
        (["shown=[best]"], "valid: attack_fails, locally_linear, point<N>"),
        (["shown=[point1,point2]"], "one per entry of features"),
        (["shown_range=[0.2]"], "two increasing numbers, or []"),
        (["accuracy_splits=2"], "protocol=authors has one split"),
        (["evaluations=[1,2]"], "one per entry of features"),
    ],
)
def test_mistakes_exit_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpsuite("run", "experiment=robustness/safety_synthetic2d", "scale=smoke", *words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) <= 4


def test_no_boxes_is_the_trivial_bound_and_no_error() -> None:
    folder = run("safety_synthetic2d", "boxes=0", "points=2")
    records = pd.read_csv(folder / "records.csv")
    points = records[records["part"] == "point"]
    assert set(points["status"]) == {"budget"}
    curve = pd.read_csv(folder / "tables" / "safety_synthetic2d.csv")
    assert set(curve["outer"]) <= {0.0, 1.0}
    assert set(curve["verdict"]) == {"unknown"}
