from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Task
from gpsuite.experiments.pac_bayes.fits import split_seed

REGRESSION = "experiment=pac_bayes/regression"
BOSTON = "experiment=pac_bayes/epsilon_boston"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request(list(words))
    return EXPERIMENTS.get(request.experiment).plan(request)


def test_one_task_per_split_method_and_goal() -> None:
    tasks = plan(BOSTON, "scale=smoke", "repetitions=3", "epsilons=[0.2,0.6]")
    cells = Counter((task.axes["method"], task.axes["epsilon"], task.axes["split"]) for task in tasks)
    assert len(cells) == len(tasks) == 3 * 3 * 2
    assert len({task_key(task) for task in tasks}) == len(tasks)


def test_every_method_sees_the_same_splits() -> None:
    tasks = plan(REGRESSION, "repetitions=4")
    seeds = {
        name: [task.params.split_seed for task in tasks if task.axes["method"] == name]
        for name in ("kl_pac_gp", "sqrt_pac_gp", "full_gp")
    }
    assert seeds["kl_pac_gp"] == seeds["sqrt_pac_gp"] == seeds["full_gp"] == [0, 1, 2, 3]


def test_experiment_seeds_share_no_split() -> None:
    used = [split_seed(seed, split) for seed in range(5) for split in range(50)]
    assert len(set(used)) == len(used)
    assert all(0 <= seed < 2**32 for seed in used)


def test_only_the_full_gp_shares_its_training_between_goals() -> None:
    tasks = plan(BOSTON, "scale=smoke")
    groups = {task.group for task in tasks if task.axes["method"] == "full_gp"}
    assert groups == {"boston/full_gp/False/0", "boston/full_gp/False/1"}
    assert {task.group for task in tasks if task.axes["method"] != "full_gp"} == {""}


def test_the_same_fit_of_two_experiments_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At smoke scale both use the same stand-in; their tasks must meet in the records."""
    boston = plan(BOSTON, "scale=smoke", "epsilons=[0.6]")
    regression = plan(REGRESSION, "scale=smoke", "dataset=boston", "epsilon=0.6", "scaling=all")
    assert {task_key(task) for task in boston} == {task_key(task) for task in regression}


@pytest.mark.parametrize(
    "word",
    [
        "delta=0.05",
        "scaling=all",
        "test_share=0.3",
        "model=se_ard",
        "epsilon=0.5",
        "accuracy=5",
        "max_evaluations=9",
    ],
)
def test_science_changes_the_keys(word: str) -> None:
    before, after = plan(REGRESSION, "repetitions=1"), plan(REGRESSION, "repetitions=1", word)
    assert not {task_key(task) for task in before} & {task_key(task) for task in after}


def test_comfort_does_not_change_the_keys() -> None:
    before = plan(REGRESSION, "repetitions=1")
    after = plan(REGRESSION, "repetitions=1", "threads=2", "budget.seconds=9", "parallel=processes")
    assert [task_key(task) for task in before] == [task_key(task) for task in after]
    assert {task.budget_seconds for task in after} == {9.0}


@pytest.mark.parametrize("method", ["kl_pac_sgp", "vfe", "kl_pac_free_form"])
def test_the_published_search_is_no_part_of_a_key_and_the_staged_one_is_named(method: str) -> None:
    (as_before,) = plan(REGRESSION, f"method={method}", "repetitions=1")
    (published,) = plan(REGRESSION, f"method={method}", "repetitions=1", "method.search=published")
    (staged,) = plan(REGRESSION, f"method={method}", "repetitions=1", "method.search=staged")
    assert "search" not in as_before.params.method.params
    assert task_key(as_before) == task_key(published) != task_key(staged)
    assert "search" not in published.axes
    assert staged.axes["search"] == "staged"
    assert ", staged search" in staged.label
    assert ", staged search" not in published.label
    assert staged.cost < published.cost
    assert not staged.group or staged.group != published.group


def test_an_unknown_search_names_the_valid_ones() -> None:
    with pytest.raises(
        UserError, match=r"method.search=stage.*did you mean 'staged'.*\nvalid: published, staged"
    ):
        plan(REGRESSION, "method=kl_pac_sgp", "method.search=stage")


def test_a_method_is_not_called_by_a_bound_that_it_does_not_minimise() -> None:
    """The objective and the search that differ from the published ones stand in its name."""
    words = ["scale=smoke", "methods=[kl_pac_gp,sqrt_pac_gp,kl_pac_sgp_restarts,vfe]"]
    as_published = read_request([REGRESSION, *words])[0].methods
    assert [each.heading for each in as_published.values()] == [
        "kl-PAC-GP",
        "sqrt-PAC-GP",
        "kl-PAC-SGP, 5 starts",
        "VFE",
    ]
    words += ["method.objective=sqrt", "method.search=staged", "method.starts=2"]
    changed = read_request([REGRESSION, *words])[0].methods
    assert [each.heading for each in changed.values()] == [
        "kl-PAC-GP, sqrt objective, 2 starts",
        "sqrt-PAC-GP, 2 starts",
        "kl-PAC-SGP, staged search, sqrt objective, 2 starts",
        "VFE, staged search",
    ]
