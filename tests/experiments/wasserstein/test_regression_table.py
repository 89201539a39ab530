"""wasserstein/regression over several datasets: plan, choice of M, claim, and what luck on test rows gains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import DIVERGED, DONE, EXPERIMENTS, Record, Report, SharedWork
from gpsuite.experiments.wasserstein import regression
from gpsuite.experiments.wasserstein.fitting import fit_regression
from gpsuite.experiments.wasserstein.regression import (
    BEFORE,
    BETTER,
    CLAIMED,
    SHOWN,
    lucky_scores,
    network_claim,
    summarise,
)
from gpsuite.methods.wasserstein import regressors
from gpsuite.methods.wasserstein.fitting import DivergedError, GWIOptions, TrainingOptions, TrainingRows

TABLE = ["experiment=wasserstein/regression", "scale=smoke"]


def tasks_of(*words: str) -> list[Any]:
    return list(EXPERIMENTS.get("wasserstein/regression").plan(read_request([*TABLE, *words])[0]))


def test_every_dataset_has_its_folds_and_the_exact_gp_runs_where_rows_are_few() -> None:
    rows = {str(task.axes["dataset"]): task.require_dataset().rows for task in tasks_of("datasets=[diabetes,boston]")}
    smaller, larger = sorted(rows, key=lambda name: rows[name])
    assert rows[smaller] < rows[larger]
    tasks = tasks_of("datasets=[diabetes,boston]", f"exact_rows={rows[larger]}")
    assert len({task_key(task) for task in tasks}) == len(tasks) == 2 * (4 + 3)
    exact = [task for task in tasks if task.axes["method"] == "exact_gp"]
    assert {task.axes["dataset"] for task in exact} == {smaller}
    tried = {task.axes["method"]: (task.params.training.inducing, *task.params.further) for task in tasks}
    assert tried["gwi_regression"] == (0.5, 1.0)
    assert tried["gwi_kernel_regression"] == tried["svgp_regression"] == (1.0,)


def test_one_number_of_inducing_inputs_is_the_task_it_was_before_there_was_a_list() -> None:
    several, one = (tasks_of("dataset=diabetes", f"inducing={given}")[0] for given in ("[1.0,2.0]", "[1.0]"))
    assert several.params.further == (2.0,)
    assert one.params.further == ()
    assert task_key(one) != task_key(several)
    assert task_key(one) == task_key(tasks_of("datasets=[diabetes]", "inducing=[1.0]")[0])


def test_with_many_rows_no_number_of_inducing_inputs_is_chosen() -> None:
    """Diabetes has 442 rows. The task is that of a single number, so that its records count for both."""
    tried = ("dataset=diabetes", "inducing=[0.5,1.0,2.0]")
    assert tasks_of(*tried, "chosen_rows=442")[0].params.further == (1.0, 2.0)
    many = tasks_of(*tried, "chosen_rows=441")[0]
    assert (many.params.training.inducing, many.params.further) == (1.0, ())
    assert task_key(many) == task_key(tasks_of("dataset=diabetes", "inducing=[1.0]")[0])


def test_a_list_and_a_single_dataset_are_not_given_together() -> None:
    with pytest.raises(UserError, match="datasets"):
        tasks_of("dataset=diabetes", "datasets=[boston]")
    with pytest.raises(UserError, match="kernel_inducing=40"):
        tasks_of("kernel_inducing=[1.0,40.0]")


@dataclass
class Found:
    """A trained regression of which only the validation score matters."""

    validation_nll: float
    multiple: float
    status: str = "done"


def test_validation_rows_choose_the_number_of_inducing_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    held, test = {0.5: 3.0, 1.0: 1.0, 2.0: 2.0}, {0.5: 9.0, 1.0: 8.0, 2.0: 0.0}

    def trained(method: Any, training: Any, *_: Any) -> Found:
        return Found(held[training.inducing], training.inducing)

    def scored(model: Found, *_: Any) -> dict[str, float]:
        return {"nll_own": test[model.multiple], "rmse_test_own_units": 1.0}

    monkeypatch.setattr(regression, "fit_regression", trained)
    monkeypatch.setattr(regression, "regression_scores", scored)
    task = tasks_of("datasets=[diabetes]", "inducing=[0.5,1.0,2.0]")[0]
    outcome = regression.run(task, SharedWork())
    assert outcome.metrics["inducing_multiple"] == 1.0  # not 2, which the test rows would choose
    assert (outcome.metrics["nll_own"], outcome.metrics["nll_validation"]) == (8.0, 1.0)


def test_trials_have_splits_and_numbers_of_inducing_inputs_of_their_own() -> None:
    words = ("datasets=[diabetes]", "method=gwi_regression", "inducing=[0.5,1.0]")
    tasks = tasks_of(*words, "lucky_trials=20")
    trials = [task for task in tasks if "trial" in task.axes]
    assert len(tasks) - len(trials) == 2
    assert len({task.params.seed for task in trials}) == len(trials) == 40
    assert {task.params.training.inducing for task in trials} == {0.5, 1.0}
    assert not {task_key(task) for task in trials} & {task_key(task) for task in tasks_of(*words)}


def test_the_least_of_thirty_equal_trials_lies_two_deviations_low() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"method": "gwi_regression", "group": np.repeat(np.arange(400), 30)})
    frame["nll_own"] = 2.4 + 0.19 * rng.standard_normal(len(frame))
    found = lucky_scores(frame, ["method"]).set_index("metric")["mean"]
    u = np.linspace(0.0, 1.0, 100_001)[1:-1]
    expected = float(np.mean(norm.ppf(1.0 - (1.0 - u) ** (1.0 / 30.0))))  # mean of the least of 30 normal draws
    assert expected == pytest.approx(-2.04, abs=0.01)
    assert found["nll_luckiest"] - found["nll_mean"] == pytest.approx(0.19 * expected, abs=0.02)
    assert found["nll_gain_by_test_rows"] == pytest.approx(found["nll_mean"] - found["nll_luckiest"])
    assert lucky_scores(pd.DataFrame([]), ["method"]).empty


def table_frame(worse: tuple[str, ...] = (), missing: tuple[str, ...] = ()) -> pd.DataFrame:
    rows = []
    for name in set(CLAIMED) - set(missing):
        kernel = -1.0 if name in worse else 1.0  # the kernel's NLL above the network's
        for fold in range(3):
            rows.append({"dataset": name, "fold": fold, "method": BETTER[0], "nll_own": float(fold)})
            rows.append({"dataset": name, "fold": fold, "method": BETTER[1], "nll_own": fold + kernel})
    return pd.DataFrame(rows)


def test_the_claim_needs_all_of_its_datasets_and_counts_those_where_it_holds() -> None:
    [found] = network_claim(table_frame(worse=("power",)))
    assert (found.name, found.value, found.n) == ("share_network_mean_better", pytest.approx(6 / 7), 7)
    assert network_claim(table_frame(missing=("power",))) == []
    frame = table_frame()
    assert network_claim(frame[frame["method"] == "gwi_regression"]) == []


def test_statistics_carry_the_dataset_and_luck_is_a_table_of_its_own(tmp_path: Path) -> None:
    request: Any = read_request([*TABLE, "datasets=[diabetes,boston]", "method=exact_gp", "lucky_trials=2"])[0]
    names, records = (*SHOWN, *BEFORE), []
    for dataset in request.datasets:
        for fold in range(2):
            axes: dict[str, Any] = {"dataset": dataset, "method": "exact_gp", "fold": fold}
            records.append(Record("key", "", "", axes, "done", "", dict.fromkeys(names, 0.5 + 0.1 * fold), {}))
            for trial in range(2):
                axes = {"dataset": dataset, "method": "exact_gp", "group": fold, "trial": trial}
                records.append(Record("key", "", "", axes, "done", "", {"nll_own": float(trial)}, {}))
    found = {each.name: each.value for each in summarise(Report(request, records, tmp_path))}
    assert found["nll_own[dataset=boston,method=exact_gp]"] == pytest.approx(0.55)
    assert found["nll_gain_by_test_rows[dataset=diabetes,method=exact_gp]"] == pytest.approx(0.5)
    assert (tmp_path / "tables/lucky_trials.md").is_file()
    assert (tmp_path / "figures/regression.png").is_file()


def test_a_printed_value_stands_next_to_its_method_where_another_is_missing() -> None:
    printed = {"nll_own[dataset=wine_red,method=exact_gp]": 0.26, "nll_own[dataset=wine_red,method=svgp]": 0.9}
    report: Any = SimpleNamespace(printed=printed)
    assert regression._printed(report, "wine_red", ["gwi", "svgp"], 0.2) == [("svgp", pytest.approx(0.2), 0.9)]


@pytest.mark.parametrize("diverging", [(2.0,), (1.0, 2.0)])
def test_a_number_of_inducing_inputs_that_diverges_is_left_out(
    diverging: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sparse GP does on yacht, with many inducing inputs close to each other."""

    def some(options: Any, training: Any, *rest: Any) -> Any:
        if training.inducing in diverging:
            raise DivergedError("the loss is not finite in epoch 1")
        return fit_regression(options, training, *rest)

    monkeypatch.setattr(regression, "fit_regression", some)
    words = ("methods=[svgp_regression]", "kernel_inducing=[1.0,2.0]", "epochs=1")
    outcome = regression.run(tasks_of("datasets=[diabetes]", *words)[0], SharedWork())
    if len(diverging) == 1:
        assert (outcome.status, outcome.metrics["inducing_multiple"]) == (DONE, 1.0)
    else:
        assert (outcome.status, outcome.reason) == (DIVERGED, "the loss is not finite in epoch 1")


def test_a_training_without_a_finite_loss_says_that_it_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = SimpleNamespace(status="diverged", reason="not finite in epoch 1", state=SimpleNamespace(best_epoch=0))
    monkeypatch.setattr(regressors, "train", lambda *given: ended)
    rows = TrainingRows(np.zeros((8, 1)), np.zeros(8), np.zeros((2, 1)), np.ones(2))
    fit = regressors.RegressionFit(rows, GWIOptions(), TrainingOptions(1, (8,), (0.01,), 1, 1), 0, Budget())
    with pytest.raises(DivergedError, match="epoch 1"):
        fit.trained(SimpleNamespace(), lambda X: (X, X))


@pytest.mark.parametrize(
    ("module", "words"),
    [("wasserstein.toy_bands", ["experiment=wasserstein/toy_bands"]),
     ("league.run", ["experiment=league", "datasets=[diabetes]", "methods=[gwi_regression]"])],
)  # fmt: skip
def test_a_task_of_one_diverged_training_says_so(
    module: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverges(*given: Any, **named: Any) -> Any:
        raise DivergedError("not finite in epoch 1")

    monkeypatch.setattr(f"gpsuite.experiments.{module}.fit_regression", diverges)
    request = read_request([*words, "scale=smoke"])[0]
    experiment = EXPERIMENTS.get(request.experiment)
    task = next(task for task in experiment.plan(request) if task.axes.get("method") == "gwi_regression")
    assert (experiment.run(task, SharedWork()).status, task.axes["method"]) == (DIVERGED, "gwi_regression")
