from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.cli import main
from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import BUDGET, DIVERGED, EXPERIMENTS, SharedWork, Task
from gpsuite.experiments.robustness.classifiers import task_classifier
from gpsuite.experiments.robustness.probability_change import STUDIES, run_delta
from gpsuite.models.classification.approximation import NotConvergedError
from tests.experiments.drawn import drawn

SYNTHETIC = "experiment=robustness/distribution_synthetic2d"
OWN = ("dataset=synthetic2d", "protocol=own", "radii=[0.7,0.35,1.4]")
NAMES = {"synthetic2d": "synthetic2d", "spambase11": "spam", "mnist38": "mnist38"}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request([*words, "scale=smoke"])
    return EXPERIMENTS.get(request.experiment).plan(request)


def test_every_model_is_one_group_and_changed_trainings_use_the_first_radius_only() -> None:
    words = ["points=2", "draws=2", "evaluations=[2,3]", "radii=[0.2,0.1]", "trainings=[stated,small_box]"]
    tasks = plan(SYNTHETIC, *OWN[:2], *words)
    stated = [task for task in tasks if task.axes["training"] == "stated"]
    changed = [task for task in tasks if task.axes["training"] == "small_box"]
    assert len(stated) == 2 * 2 * 2 * 2 * 2  # draws, evaluations, methods, radii, points
    assert len({task.group for task in stated}) == 8
    assert {(task.axes["draw"], task.axes["radius"]) for task in changed} == {(0, 0.2)}
    assert {task.params.model.largest_variance for task in changed} == {100.0}
    assert len({task_key(task) for task in tasks}) == len(tasks)
    seeds = {(task.axes["draw"], task.params.model.draw_seed) for task in tasks}
    assert len(seeds) == 2  # both methods and all evaluations see the same rows


def test_the_study_over_all_datasets_has_the_same_tasks() -> None:
    everything = plan("experiment=robustness/posterior_quality", "points=2", "evaluations=[10]", "hmc_evaluations=10",
                      "train_rows=60", "test_rows=20", "boxes=20000")  # fmt: skip
    keys = {task_key(task) for task in everything}
    for dataset, name in NAMES.items():
        study = STUDIES[dataset]
        words = ["points=2", "evaluations=[10]", "boxes=20000", f"dataset={dataset}", "protocol=own"]
        words += [f"radii={list(study.radii)}", f"features={study.features}"]
        tasks = plan(f"experiment=robustness/distribution_{name}", *words)
        assert {task_key(task) for task in tasks} <= keys
        shipped, _ = read_request([f"experiment=robustness/distribution_{name}", "scale=smoke"])
        assert shipped.settings.radii[0] == study.radii[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["radii=[-0.1]"], "radii=-0.1: a radius"),
        (["radii=[0.1,0.1]"], "twice"),
        (["points=21"], "points=21: must be at most test_rows=20"),
        (["points=0"], "points=0"),
        (["evaluations=[]"], "evaluations"),
        (["trainings=[other]"], "trainings=other"),
        (["trainings=[stated,small_box]"], "protocol=authors has one training"),
        (["draws=2"], "draws=2: protocol=authors has one draw"),
        (["features=first3"], "features=first3: the dataset has 2 inputs"),
        (["features=some"], "features=some: unknown choice of inputs\nvalid: all"),
        (["features=gradient1"], "features=gradient1: is for images, and needs scaling=pixels"),
        (["classes=[1,1]"], "classes="),
        (["classes=[1,7]"], "no label 7"),
        (["scaling=log"], "scaling=log"),
        (["largest_variance=0.5"], "start_variance=1"),
        (["dataset=digits"], r"digits has 10 classes"),
        (["dataset=diabetes"], "dataset=diabetes: a regression dataset"),
        (["tolerance=0"], "tolerance"),
        (["method.inference=vi"], "method.inference=vi: unknown method.inference\nvalid: ep, laplace"),
    ],
)
def test_impossible_settings_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(SYNTHETIC, *words)


def test_the_range_holds_at_sampled_points_and_both_definitions_are_kept() -> None:
    task = next(task for task in plan(SYNTHETIC, "boxes=20000") if task.axes["radius"] == 1.4)
    shared = SharedWork()
    metrics = run_delta(task, shared).metrics
    numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
    classifier = task_classifier(task, shared)
    x = classifier.problem.X_test[task.params.point]
    rng = np.random.default_rng(0)
    found = classifier.posterior.probability(x + rng.uniform(-1.4, 1.4, (2000, 2)))
    assert numbers["minimum_proved"] <= found.min()
    assert found.max() <= numbers["maximum_proved"]
    assert numbers["delta"] >= np.ptp(found) - 1e-3  # the attack beats random points, nearly
    assert numbers["delta"] == pytest.approx(numbers["maximum"] - numbers["minimum"])
    p = classifier.posterior.probability(x[None])[0]
    assert numbers["deviation"] == pytest.approx(max(numbers["maximum"] - p, p - numbers["minimum"]))
    assert numbers["delta_proved"] - numbers["delta"] <= 2 * task.params.tolerance + 1e-9


def test_limits_and_failures_become_statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(task for task in plan(SYNTHETIC, "boxes=2") if task.axes["radius"] == 1.4)
    limited = run_delta(task, SharedWork())
    assert limited.status == BUDGET
    assert "boxes used up" in limited.reason
    assert limited.metrics["delta_proved"] is not None

    def fail(*_: Any) -> None:
        raise NotConvergedError("no start")

    monkeypatch.setattr("gpsuite.experiments.robustness.probability_change.task_classifier", fail)
    assert run_delta(task, SharedWork()).status == DIVERGED


@pytest.mark.parametrize("name", list(NAMES.values()))
def test_a_smoke_run_needs_no_data(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["points=2", "train_rows=30", "test_rows=5", "evaluations=[2,3,4]", f"results_dir={tmp_path}"]
    experiment = f"robustness/distribution_{name}"
    options = ["scale=smoke", f"data_dir={tmp_path / 'data'}", "run_name=t", "parallel=serial"]
    monkeypatch.setattr("sys.argv", ["gpsuite", "run", f"experiment={experiment}", *options, *words])
    assert main() == 0
    folder = tmp_path / experiment / "smoke~t"
    for table in ("", "_ratio", "_models", "_timing", "_tidy"):
        assert (folder / "tables" / f"distribution_{name}{table}.csv").exists()
    shown = drawn(folder, f"distribution_{name}")
    assert set(shown["evaluations"]) == {2, 3, 4} and shown["delta"].between(0.0, 1.0).all()
    statistics = pd.read_csv(folder / "tables" / "statistics.csv")
    expected = {
        "delta_ratio_laplace_over_ep",
        "share_ep_more_robust",
        "share_delta_falls_with_epochs",
        "share_ratio_about_five",
        "share_ep_smaller_by_sign",
        "share_ratio_about_five_by_value",
        "share_delta_falls_by_sign",
        "violations_delta_definitions",
        "dataset_rows",
    }
    assert expected <= set(statistics["name"])
    assert statistics.set_index("name").loc["violations_delta_definitions", "value"] == 0
