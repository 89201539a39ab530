"""pac_bayes/loss_exp: its plan, and a run without data."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpsuite.cli import main
from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.experiments.base import EXPERIMENTS, Task
from tests.experiments.drawn import drawn

LOSSES = "experiment=pac_bayes/loss_exp"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)
    monkeypatch.chdir(tmp_path)


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request(list(words))
    return EXPERIMENTS.get(request.experiment).plan(request)


def test_one_task_per_dataset_number_split_and_training() -> None:
    tasks = plan(LOSSES, "scale=smoke", "inducing=[4,6]", "repetitions=3")
    axes = [(t.axes["dataset"], t.axes["inducing"], t.axes["method"], t.axes["trained_on"], t.axes["split"])
            for t in tasks]  # fmt: skip
    assert len(set(axes)) == len(tasks) == 3 * 2 * 4 * 3
    assert len({task_key(task) for task in tasks}) == len(tasks)
    assert all(task.dataset is not None and task.dataset.name == task.axes["dataset"] for task in tasks)
    trained = {(task.axes["method"], task.axes["trained_on"], task.params.loss.name) for task in tasks}
    assert trained == {
        ("kl_pac_sgp", "band01", "band01"),
        ("kl_pac_sgp", "exp", "exp"),
        ("vfe", "likelihood", "band01"),
        ("fitc", "likelihood", "band01"),
    }
    assert all(task.params.also == ("exp",) for task in tasks)


@pytest.mark.parametrize("name", ["pol", "kin40k", "sarcos"])
def test_the_fits_of_the_inducing_experiments_are_not_computed_again(name: str) -> None:
    stored = {task_key(task) for task in plan(f"experiment=pac_bayes/inducing_{name}", "scale=smoke")}
    tasks = plan(LOSSES, "scale=smoke", f"datasets=[{name}]")
    new = {task.axes["trained_on"] for task in tasks if task_key(task) not in stored}
    assert new == {"exp"}


def test_at_the_papers_scale_as_well() -> None:
    """Another dataset's records would be shared too; M, epsilon, splits and evaluations are the same."""
    words = ("scale=paper", "inducing=[300]", "repetitions=10")
    stored = plan("experiment=pac_bayes/inducing_pol", *words, "dataset=diabetes")
    tasks = plan(LOSSES, *words, "datasets=[diabetes]")
    shared = {task_key(task) for task in stored} & {task_key(task) for task in tasks}
    assert len(shared) == 30


def test_kernels_follow_the_dataset_and_the_model() -> None:
    def kernels(*words: str) -> set[tuple[object, Any]]:
        return {(t.axes["dataset"], t.params.ard) for t in plan(LOSSES, "scale=smoke", *words)}

    assert kernels() == {("pol", True), ("kin40k", True), ("sarcos", False)}
    assert kernels("model=se") == {("pol", False), ("kin40k", False), ("sarcos", False)}
    assert kernels("datasets=[pol,sarcos_test]") == {("pol", True), ("sarcos_test", False)}
    assert kernels("single_lengthscale=[pol]", "datasets=[pol,sarcos]") == {("pol", False), ("sarcos", True)}


def test_the_sqrt_objective_is_trained_on_both_losses_too() -> None:
    tasks = plan(LOSSES, "scale=smoke", "methods=[sqrt_pac_sgp]", "repetitions=1", "datasets=[pol]")
    assert [task.axes["trained_on"] for task in tasks] == ["band01", "exp"]


def run(*words: str) -> Path:
    assert main_(["run", LOSSES, *words]) == 0
    [folder] = [path for path in Path("results/pac_bayes/loss_exp").iterdir() if path.is_dir()]
    return folder


def main_(words: list[str]) -> int:
    import sys

    before, sys.argv = sys.argv, ["gpsuite", *words]
    try:
        return main()
    finally:
        sys.argv = before


def test_a_smoke_run_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    folder = run("scale=smoke", "parallel=serial")
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert [(data["name"], data["stand_in"]) for data in about["datasets"]] == [
        ("pol", True),
        ("kin40k", True),
        ("sarcos", True),
    ]
    assert about["notes"][0] == "stand-in data, not pol, kin40k, sarcos"
    for name in ("loss_exp.md", "loss_exp_mse.md"):
        assert "stand-in data" in (folder / "tables" / name).read_text(encoding="utf-8")
    table = pd.read_csv(folder / "tables" / "loss_exp.csv")
    assert len(table) == 12
    assert set(table["trained_on"]) == {"0-1 band loss", "exponential loss", "its own likelihood"}
    own = table[table["trained_on"] == "exponential loss"]
    assert (own["upper bound B_kl on the Gibbs risk"] == own["B_kl under the exponential loss"]).all()
    assert len(pd.read_csv(folder / "tables" / "loss_exp_mse.csv")) == 3
    assert len(drawn(folder, "loss_shapes")) == 601
    shown = drawn(folder, "loss_exp")
    assert set(shown["metric"]) == {"mse_change_percent", "bound_kl_exp"}
    assert set(shown.loc[shown["metric"] == "mse_change_percent", "dataset"]) == {"pol", "kin40k", "sarcos"}
    assert "printed" not in shown  # stand-in data: the paper's numbers do not belong beside them
    assert (verdicts(folder), about["not_comparable"]) == (set(), "stand-in data")
    assert main_(["report"]) == 0
    page = Path("results/report.html").read_text(encoding="utf-8")
    assert "made-up stand-in for kin40k" in page
    assert "own settings" not in page


def test_the_drawn_losses_are_those_of_the_paper() -> None:
    folder = run("scale=smoke", "datasets=[diabetes]", "repetitions=1", "method=kl_pac_sgp")
    shapes = pd.read_csv(folder / "figures" / "loss_shapes.csv")
    residual, losses = shapes["residual"] / 0.6, shapes.drop(columns="residual")
    assert ((losses >= 0) & (losses <= 1)).all(axis=None)
    assert (shapes.loc[residual.abs() < 0.999, "band01"] == 0).all()
    assert (shapes.loc[residual.abs() > 1.001, "band01"] == 1).all()
    near = residual.abs() < 0.1
    assert (shapes.loc[near, "exp"] - residual[near] ** 2).abs().max() < 1e-4


def test_a_run_on_other_datasets_answers_nothing_of_the_paper() -> None:
    folder = run("datasets=[diabetes]", "inducing=[5]", "repetitions=2", "max_evaluations=3")
    assert verdicts(folder) == set()
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert about["not_comparable"].startswith("settings differ from the shipped experiment: ")
    statistics = (folder / "tables" / "statistics.csv").read_text(encoding="utf-8")
    assert "mse_change_percent[dataset=diabetes]" in statistics
    assert "share_bound_lowest[datasets=diabetes]" in statistics


def test_the_shipped_settings_on_other_datasets_leave_the_papers_open() -> None:
    folder = run("datasets=[diabetes]", "scale=quick")
    assert verdicts(folder) == {"not run"}


def verdicts(folder: Path) -> set[str]:
    with (folder / "comparison.csv").open(encoding="utf-8", newline="") as stream:
        return {row["verdict"] for row in csv.DictReader(stream)}
