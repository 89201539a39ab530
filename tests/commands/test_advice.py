"""What help, messages and damaged plans offer is taken when it is typed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.explain import explain_settings
from gpsuite.config.files import group_choices
from gpsuite.config.overrides import read_overrides
from gpsuite.config.request import read_request
from gpsuite.engine.plans import plan_tasks
from tests.commands.conftest import Gpsuite

KL = ("run", "experiment=pac_bayes/kl_inverse", "scale=smoke")


@pytest.mark.parametrize("plan", ['{"tasks": 5}', '{"tasks": null}', '{"tasks": [1]}', '{"tasks": [{"kex": "a"}]}'])
def test_a_plan_that_is_json_but_no_plan_is_written_again(gpsuite: Gpsuite, workplace: Path, plan: str) -> None:
    assert gpsuite(*KL).code == 0
    (workplace / "results/pac_bayes/kl_inverse/smoke/plan.json").write_text(plan, encoding="utf-8")
    assert gpsuite(*KL).code == 0


def test_json_output_of_the_tour_is_json_only(gpsuite: Gpsuite) -> None:
    ended = gpsuite("run", "experiment=tour", "scale=smoke", "stops=1", "format=json")
    for line in ended.out.splitlines():
        json.loads(line)


@pytest.mark.parametrize("word", ["method=laplace", "methods=[laplace]"])
def test_methods_are_refused_for_the_tour_by_the_key_that_was_typed(gpsuite: Gpsuite, word: str) -> None:
    ended = gpsuite("run", "experiment=tour", word)
    assert ended.code == 2
    assert ended.err.startswith(f"gpsuite: {word.split('=')[0]}: every stop of the tour")


@pytest.mark.parametrize("experiment", ["active_learning/toy", "pac_bayes/overfit_fitc"])
def test_every_model_that_help_lists_is_accepted(experiment: str) -> None:
    words = [f"experiment={experiment}", "scale=smoke"]
    settings = explain_settings(experiment, read_overrides(words, group_choices()))["parts"]
    listed = next(each for each in settings if each.key == "kernel").allowed.removeprefix("one of ")
    for name in listed.split(", "):
        request, options = read_request([*words, f"kernel={name}"])
        assert plan_tasks(request, options.changed)


def test_datasets_that_help_and_messages_call_valid_are_accepted(gpsuite: Gpsuite) -> None:
    command = ("show", "experiment=robustness/posterior_quality", "scale=smoke")
    refused = gpsuite(*command, "datasets=[boston]")
    for name in refused.err.partition("valid: ")[2].strip().split(", "):
        assert gpsuite(*command, f"datasets=[{name}]").code == 0


def test_the_method_that_is_suggested_is_one_of_the_experiment(gpsuite: Gpsuite) -> None:
    ended = gpsuite("run", "experiment=pac_bayes/regression", "scale=smoke", "method=lapalce")
    assert ended.code == 2
    assert "laplace" not in ended.err.replace("lapalce", "")


@pytest.mark.parametrize("words", [
    ("experiment=guarantee", "dataset=sin_sigmoid"),
    ("experiment=perturbation/region", "dataset=sin_sigmoid"),
    ("experiment=robustness/regression", "dataset=sin_sigmoid"),
    ("experiment=wasserstein/digits", "dataset=breast_cancer"),
])  # fmt: skip
def test_no_shipped_dataset_is_asked_for_settings_that_it_lacks(gpsuite: Gpsuite, words: tuple[str, ...]) -> None:
    ended = gpsuite("run", *words, "scale=smoke")
    assert ended.code == 2
    assert "dataset.target" not in ended.err and "dataset.inputs" not in ended.err


def test_the_multirun_that_is_proposed_can_be_pasted(gpsuite: Gpsuite) -> None:
    ended = gpsuite("run", "experiment=pac_bayes/regression", "seed=range(3)")
    line = re.search(r"gpsuite run -m .*", ended.err)
    assert line and subprocess.run(["bash", "-n", "-c", line[0]], capture_output=True).returncode == 0


def test_a_damaged_plan_does_not_give_a_name_away(gpsuite: Gpsuite, workplace: Path) -> None:
    assert gpsuite(*KL, "run_name=mine", "c_values=[0,1]").code == 0
    folder = workplace / "results/pac_bayes/kl_inverse/smoke~mine"
    table = (folder / "tables/kl_inverse.csv").read_bytes()
    (folder / "plan.json").write_bytes((folder / "plan.json").read_bytes()[:60])
    ended = gpsuite(*KL, "run_name=mine", "c_values=[0.5]")
    assert (folder / "tables/kl_inverse.csv").read_bytes() == table
    assert ended.code == 2 and "run_name=mine" in ended.err


def test_a_list_that_does_not_end_is_called_so(gpsuite: Gpsuite) -> None:
    ended = gpsuite(*KL, "c_values=[0.1")
    assert ended.code == 2 and "a bracket is missing: c_values=[A,B]" in ended.err


def test_the_linear_model_is_no_advice_against_copies_of_whole_rows(gpsuite: Gpsuite, workplace: Path) -> None:
    X = np.random.default_rng(1).normal(size=(8, 2))[np.arange(200) % 8]
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0]}).to_csv(workplace / "table.csv", index=False)
    own = ("dataset=csv", "dataset.path=table.csv", "dataset.target=y")
    words = ("run", "experiment=perturbation/region", "scale=smoke", *own)
    assert "lssvm_linear" not in gpsuite(*words).err
    told = gpsuite(*words, "models=[lssvm_linear]").err
    assert "lssvm_linear" not in told.partition("\n")[2]
    assert "192 more are their copies" in told


def test_a_familys_name_is_offered(gpsuite: Gpsuite) -> None:
    ended = gpsuite("status", "pac_bays")
    assert ended.code == 2 and "Did you mean 'pac_bayes'?" in ended.err


def test_a_training_that_ended_at_a_constant_says_how_to_start_elsewhere(gpsuite: Gpsuite) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 30))
    table = np.column_stack([X, X @ rng.normal(size=30)])
    names = ",".join([*(f"x{number}" for number in range(30)), "y"])
    np.savetxt("t.csv", table, delimiter=",", header=names, comments="")
    words = ("scale=smoke", "repetitions=1", "max_evaluations=40", "dataset=csv", "dataset.path=t.csv")
    run = ("run", "experiment=pac_bayes/regression", *words, "dataset.target=y")
    constant = gpsuite(*run, "methods=[kl_pac_gp,full_gp]").out
    advised = re.findall(r"In 1 of 1 splits the training ended at a constant; (.*) begins at other", constant)
    assert advised == ["method=kl_pac_gp method.starts=10"]  # a likelihood has no other starts
    assert "ended at a constant" not in gpsuite(*run, *advised[0].split()).out
