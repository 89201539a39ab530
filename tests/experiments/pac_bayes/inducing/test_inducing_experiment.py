from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpsuite.cli import main
from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Task
from gpsuite.experiments.pac_bayes.inducing import selected
from gpsuite.methods.pac_bayes.bounds import Terms, certify
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL
from tests.experiments.drawn import drawn

POL = "experiment=pac_bayes/inducing_pol"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)  # the numbers of rows are the stand-in's


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request([POL, "scale=smoke", *words])
    return EXPERIMENTS.get(request.experiment).plan(request)


def test_both_kernels_are_planned_where_asked() -> None:
    tasks = plan("other_kernel=[vfe]", "inducing=[7]", "other_kernel_inducing=[7]", "repetitions=1")
    kernels = {(task.axes["method"], task.axes["kernel"], task.params.ard) for task in tasks}
    assert ("vfe", "se", False) in kernels
    assert ("vfe", "se_ard", True) in kernels
    assert ("fitc", "se", False) not in kernels
    assert {task.params.method.inducing for task in tasks} == {7}
    assert len({task_key(task) for task in tasks}) == len(tasks) == 6


def test_the_other_kernel_can_be_left_to_some_numbers() -> None:
    tasks = plan("inducing=[5,10]", "other_kernel_inducing=[5]", "repetitions=1")
    assert {task.axes["inducing"] for task in tasks if task.axes["kernel"] == "se"} == {5}


def test_small_numbers_of_inducing_inputs_come_first_and_vfe_trains_once() -> None:
    tasks = plan("inducing=[3,6]", "repetitions=2")
    order = [task.axes["inducing"] for task in tasks]
    assert order == sorted(order)
    groups = {name: {task.group for task in tasks if task.axes["method"] == name} for name in METHODS}
    assert groups["vfe"] == groups["vfe_fitc_posterior"]
    assert len(groups["vfe"]) == 4
    assert not groups["vfe"] & groups["fitc"]


METHODS = ("kl_pac_sgp", "sqrt_pac_sgp", "vfe", "vfe_fitc_posterior", "fitc")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inducing=[]"], "inducing=.*at least one"),
        (["inducing=[0]"], "inducing=.*1 or more"),
        (["inducing=[5,5]"], "twice"),
        (["inducing=[20000]"], "inducing=20000: must be at most the 320 training rows of pol"),
        (["other_kernel=[full_gp]"], "other_kernel=full_gp: not a method of this run"),
        (["epsilon=0"], "epsilon"),
        (["methods=[full_gp]"], "method"),
    ],
)
def test_impossible_settings_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(*words)


def test_a_run_writes_tables_figure_and_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [
        "run",
        POL,
        "scale=smoke",
        "inducing=[3,5]",
        "other_kernel_inducing=[3,5]",
        "repetitions=2",
        "max_evaluations=2",
        "parallel=serial",
    ]
    monkeypatch.setattr("sys.argv", ["gpsuite", *words, f"results_dir={tmp_path}"])
    assert main() == 0
    (folder,) = (tmp_path / "pac_bayes" / "inducing_pol").iterdir()
    table = pd.read_csv(folder / "tables" / "inducing_pol.csv")
    assert len(table) == 2 * 6
    assert set(table["method"]) == {"kl-PAC-SGP", "sqrt-PAC-SGP", "VFE", "VFE, FITC posterior", "FITC"}
    cost = pd.read_csv(folder / "tables" / "inducing_pol_timing.csv")
    assert (cost["evaluations"] == 2).all()
    shown = drawn(folder, "inducing_pol")
    bounds = shown[shown["metric"] == "bound_kl"].pivot_table(
        index="inducing", columns="method", values="mean"
    )
    factors = shown[shown["metric"] == "bound_factor"].set_index("inducing")["mean"]
    better = bounds[["vfe", "fitc"]].min(axis=1) / bounds["kl_pac_sgp"]
    assert factors.to_dict() == pytest.approx(better.to_dict())
    assert "printed_low" not in shown  # a part of the paper's setting on other data


def test_the_bound_of_the_chosen_number_pays_for_the_choice() -> None:
    rows = [
        {
            "method": "kl_pac_sgp",
            "inducing": m,
            "split": split,
            "gibbs_risk_train": risk,
            "kl": 30.0,
            "n_train": 1000,
        }
        for split, risks in enumerate([(0.2, 0.1, 0.15), (0.1, 0.2, 0.15)])
        for m, risk in zip((10, 20, 30), risks, strict=True)
    ]
    frame = pd.DataFrame(rows).assign(n_hyperparameters=2)
    frame["bound_kl"] = [
        certify(RiskAndKL(risk, 30.0), Terms(1000, 2, 0.01)).bound_kl for risk in frame["gibbs_risk_train"]
    ]
    best = selected(frame, 0.01)
    assert list(best["chosen_m"]) == [20.0, 10.0]
    expected = certify(RiskAndKL(0.1, 30.0 + math.log(3)), Terms(1000, 2, 0.01)).bound_kl
    assert best["bound_of_choice"].to_list() == pytest.approx([expected] * 2, rel=1e-12)
