"""Seconds that a fit may take: kept within one evaluation too, by what it will cost, or refused beforehand."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import DIVERGED, EXPERIMENTS, Outcome, Record, Report, SharedWork, Task
from gpsuite.experiments.pac_bayes import fits
from gpsuite.experiments.pac_bayes import fits as fitting
from gpsuite.experiments.pac_bayes import methods as costs
from gpsuite.experiments.pac_bayes.certificates import DESCRIPTION
from gpsuite.experiments.pac_bayes.fits import (
    TEST_OVER_TRAINING,
    _held_out,
    paired_p,
    positive_p,
    read_split,
    run_fit,
    shown_over,
    split_mean,
    split_seed,
)
from gpsuite.experiments.pac_bayes.regression import _sentences
from gpsuite.experiments.pac_bayes.tables import METRICS, records_frame, summarise_fits, summarise_splits, wide_table
from gpsuite.methods.pac_bayes import cost
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound
from gpsuite.methods.pac_bayes.cost import Cost, full_gp_cost, sparse_gp_cost
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search
from gpsuite.models.regression.inducing import kmeans_inducing, limited_inducing
from gpsuite.models.search import NO_ROOM, minimise
from gpsuite.statistics.estimates import CORRECTED, corrected_mean
from gpsuite.statistics.significance import corrected_t_p
from tests.arrays import Array

REGRESSION = "experiment=pac_bayes/regression"
BOSTON = "experiment=pac_bayes/epsilon_boston"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request(list(words))
    return EXPERIMENTS.get(request.experiment).plan(request)


def test_every_split_method_and_goal_has_one_task() -> None:
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
    ["delta=0.05", "scaling=all", "test_share=0.3", "model=se_ard", "epsilon=0.5", "accuracy=5", "max_evaluations=9"],
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
    with pytest.raises(UserError, match=r"method.search=stage.*Did you mean 'staged'"):
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


def task(*words: str, **params: Any) -> Task[Any]:
    request, _ = read_request(["experiment=pac_bayes/regression", "repetitions=1", "max_evaluations=12", *words])
    made = EXPERIMENTS.get(request.experiment).plan(request)[0]
    return replace(made, params=replace(made.params, **params))


def run(made: Task[Any]) -> Outcome:
    return run_fit(made, SharedWork())


def test_a_goal_in_own_units_is_the_same_goal_in_standard_deviations() -> None:
    made = task("method=kl_pac_gp", "accuracy=40")
    scale = read_split(made.require_dataset(), made.params).scale
    own = run(made).metrics
    standard = run(task("method=kl_pac_gp", f"epsilon={40 / scale!r}")).metrics
    assert own["epsilon_standardised"] == pytest.approx(40 / scale, rel=1e-14)
    assert own == standard


@pytest.mark.parametrize("scaling", ["all", "train"])
def test_the_split_is_standardised_as_asked(scaling: str) -> None:
    import numpy as np

    made = task("method=kl_pac_gp", f"scaling={scaling}")
    split = read_split(made.require_dataset(), made.params)
    rows = len(load(made.require_dataset()).X)
    assert (len(split.y), len(split.y_test)) == (rows - round(rows * 0.2 + 0.5), round(rows * 0.2 + 0.5))
    every = np.concatenate([split.y, split.y_test])
    standardised = every if scaling == "all" else split.y
    inputs = np.vstack([split.X, split.X_test]) if scaling == "all" else split.X
    np.testing.assert_allclose(inputs.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(inputs.std(axis=0), 1.0, rtol=1e-12)
    assert standardised.mean() == pytest.approx(0.0, abs=1e-12)
    assert standardised.std() == pytest.approx(1.0, rel=1e-12)
    assert split.y.std() == pytest.approx(1.0, rel=1e-12) or scaling == "all"


def test_a_row_that_is_drawn_often_is_on_both_sides_of_every_split(tmp_path: Path) -> None:
    """Were its copies kept together, the training rows would be no draws where equal rows are."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = np.where(np.arange(100)[:, None] < 40, [[2.0, 3.0]], rng.normal(size=(100, 2)))
    path = tmp_path / "table.csv"
    np.savetxt(path, rng.permutation(rows), delimiter=",", header="a,y", comments="")
    dataset = prepare(CsvSpec(path=str(path), target="y"), cache_dir=tmp_path)
    made = task("method=kl_pac_gp", "scaling=all")
    for seed in range(20):
        split = read_split(dataset, replace(made.params, split_seed=seed))
        often = int(np.unique(split.y, return_counts=True)[1].max())
        assert 25 <= often <= 39
        assert split.copies.train is not None
        assert len(split.copies.train.places) <= 61


def test_the_bound_covers_the_training_risk_and_its_parts_add_up() -> None:
    made = task("method=kl_pac_gp")
    outcome = run(made)
    numbers = {name: float(value) for name, value in outcome.metrics.items() if isinstance(value, int | float)}
    # the certificate states the risk and the KL with what rounding can have hidden of them
    claim = json.loads(str(outcome.arrays[DESCRIPTION]))["claim"]
    assert numbers["gibbs_risk_train"] <= claim["gibbs_risk"] <= numbers["gibbs_risk_train"] + 1e-9
    assert numbers["kl"] < claim["kl"] <= numbers["kl"] * (1 + 1e-9)
    assert numbers["gibbs_risk_train"] < numbers["bound_kl"] < numbers["bound_sqrt"]
    c = (claim["kl"] + numbers["log_theta"] + numbers["confidence"]) / numbers["n_train"]
    assert numbers["bound_sqrt"] == pytest.approx(claim["gibbs_risk"] + (c / 2) ** 0.5, rel=1e-15)
    scale = read_split(made.require_dataset(), made.params).scale
    assert numbers["rmse_test_own_units"] == pytest.approx(scale * numbers["mse_test"] ** 0.5, rel=1e-12)
    assert numbers["rmse_test_own_units"] > 10  # diabetes scores vary by tens


@pytest.mark.parametrize("rows", [7, 89, 101])
def test_no_error_on_the_test_rows_is_lost_in_rounding(rows: int) -> None:
    for errors in range(rows + 1):
        found: Any = SimpleNamespace(bayes_risk_test=errors / rows, n_test=rows, gibbs_risk_test=0.1)
        bound = _held_out(found, "band01", 0.05)["test_bound_bayes"]
        assert bound == binomial_upper_bound(errors, rows, 0.05)


def test_training_that_runs_out_of_evaluations_is_reported() -> None:
    outcome = run(task("method=kl_pac_gp", max_evaluations=3))
    assert outcome.status == "budget"
    assert "3 evaluations" in outcome.reason
    assert outcome.metrics["evaluations"] == 3


def test_training_that_diverged_is_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    train = fitting.train
    monkeypatch.setattr(fitting, "train", lambda *given: replace(train(*given), status=DIVERGED, reason="not a number"))
    outcome = run(task("method=kl_pac_gp"))
    assert (outcome.status, outcome.reason) == (DIVERGED, "not a number")
    assert not outcome.metrics and not outcome.arrays


def test_training_that_runs_out_of_time_keeps_the_best_valid_answer() -> None:
    outcome = run(replace(task("method=kl_pac_gp"), budget_seconds=1e-6))
    assert outcome.status == "budget"
    assert 0 < float(outcome.metrics["bound_kl"] or 0) <= 1


def test_the_full_gp_trains_once_for_all_goals() -> None:
    shared = SharedWork()
    first = run_fit(task("method=full_gp", "epsilon=0.4"), shared)
    second = run_fit(task("method=full_gp", "epsilon=0.8"), shared)
    alone = run(task("method=full_gp", "epsilon=0.8"))
    assert second.metrics == alone.metrics
    assert first.metrics["noise_variance"] == second.metrics["noise_variance"]
    assert float(first.metrics["bound_kl"] or 0) > float(second.metrics["bound_kl"] or 0)


def test_a_sparse_fit_is_certified_like_a_full_one() -> None:
    metrics = run(task("method=kl_pac_sgp", "method.inducing=15")).metrics
    again = run(task("method=kl_pac_sgp", "method.inducing=15")).metrics
    assert metrics == again  # the k-means start belongs to the split
    assert float(metrics["gibbs_risk_train"] or 0) < float(metrics["bound_kl"] or 0) < 1
    other = run(task("method=kl_pac_sgp", "method.inducing=5"))
    assert other.arrays["inducing_inputs"].shape == (5, 10)
    assert other.metrics["bound_kl"] != metrics["bound_kl"]


@pytest.mark.parametrize("method", ["kl_pac_sgp", "vfe", "kl_pac_free_form"])
def test_the_staged_search_is_certified_like_the_published_one(method: str) -> None:
    words = (f"method={method}", "method.inducing=5")
    published, staged = run(task(*words)), run(task(*words, "method.search=staged"))
    assert staged.metrics["objective"] != published.metrics["objective"]
    assert staged.metrics.keys() == published.metrics.keys()
    assert float(staged.metrics["gibbs_risk_train"] or 0) < float(staged.metrics["bound_kl"] or 0) < 1


def test_more_inducing_inputs_than_training_rows_are_refused(tmp_path: Path) -> None:
    words = csv_words(tmp_path, [(float(i), (i * 7) % 11) for i in range(25)])
    with pytest.raises(UserError, match=r"method.inducing=21: must be at most the 20 training rows"):
        task("method=kl_pac_sgp", "method.inducing=21", *words)


def test_with_duplicate_rows_inducing_inputs_are_cut_to_the_different_ones(tmp_path: Path) -> None:
    words = csv_words(tmp_path, [(float(i % 4), (i * 7) % 11) for i in range(25)])
    outcome = run(task("method=kl_pac_sgp", "method.inducing=20", *words))
    assert outcome.arrays["inducing_inputs"].shape == (4, 1)


def csv_words(folder: Path, rows: list[tuple[float, int]]) -> list[str]:
    text = "x,y\n" + "\n".join(f"{x},{y}" for x, y in rows) + "\n"
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return ["dataset=csv", f"dataset.path={folder / 't.csv'}", "dataset.target=y"]


@pytest.mark.parametrize("method", ["kl_pac_gp_restarts", "kl_pac_sgp_restarts"])
def test_restarts_keep_the_best_bound_and_report_the_spread(method: str) -> None:
    inducing = ["method.inducing=5"] if "sgp" in method else []
    single = run(task(f"method={method}", "method.starts=1", *inducing)).metrics
    several = run(task(f"method={method}", "method.starts=3", *inducing)).metrics
    assert float(several["objective"] or 1) <= float(single["objective"] or 0)
    assert float(several["start_spread"] or 0) > 0
    assert "start_spread" not in single
    assert several["evaluations"] == 3 * 12


def test_vfe_is_certified_with_both_posteriors_from_one_training() -> None:
    shared = SharedWork()
    own = run_fit(task("method=vfe", "method.inducing=10"), shared)
    borrowed = run_fit(task("method=vfe_fitc_posterior", "method.inducing=10"), shared)
    fresh = run(task("method=vfe_fitc_posterior", "method.inducing=10"))
    assert borrowed.metrics == fresh.metrics
    assert own.metrics["noise_variance"] == borrowed.metrics["noise_variance"]
    assert own.metrics["bound_kl"] != borrowed.metrics["bound_kl"]
    assert task("method=vfe").group == task("method=vfe_fitc_posterior").group


def test_a_useless_bound_is_reported_as_vacuous(tmp_path: Path) -> None:
    words = csv_words(tmp_path, [(float(i), (i * 7919) % 1000) for i in range(25)])
    outcome = run(task("method=kl_pac_gp", "epsilon=0.001", *words))
    assert (outcome.status, outcome.reason[:20]) == ("done", "the bound is vacuous")
    assert "(vacuous)" in outcome.headline


def test_too_many_rows_for_a_full_gp_name_the_sparse_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits, "FULL_GP_ROWS", 100)
    with pytest.raises(UserError, match="method=kl_pac_sgp"):
        task("method=kl_pac_gp")
    assert task("method=kl_pac_sgp")


def test_a_free_posterior_ends_at_or_below_the_bound_of_the_fitc_form() -> None:
    bound = float(run(task("method=kl_pac_sgp", "method.inducing=10")).metrics["objective"] or 0)
    freed = run(task("method=kl_pac_free_form", "method.inducing=10"))
    assert float(freed.metrics["objective"] or 1) < bound
    assert freed.arrays["inducing_inputs"].shape == (10, 10)
    assert 12 < int(freed.metrics["evaluations"] or 0) <= 24


def test_all_starts_share_the_seconds_of_a_task() -> None:
    made = replace(task("method=kl_pac_gp_restarts", "method.starts=50"), budget_seconds=1e-6)
    outcome = run(made)
    assert outcome.status == "budget"
    assert float(outcome.metrics["evaluations"] or 0) < 12  # the first start alone


def _fit(*words: str) -> Outcome:
    request, _ = read_request(["experiment=pac_bayes/regression", "scale=smoke", "repetitions=1", *words])
    (task,) = EXPERIMENTS.get(request.experiment).plan(request)
    return run_fit(task, SharedWork())


@pytest.mark.parametrize(
    ("method", "model", "advice"),
    [
        ("kl_pac_gp", "full GP with 353 rows", "method=kl_pac_sgp"),
        ("full_gp", "full GP with 353 rows", "method=kl_pac_sgp"),
        ("kl_pac_sgp", "sparse GP with M = 100 with 353 rows", "fewer inducing inputs"),
        ("vfe", "sparse GP with M = 100 with 353 rows", "fewer inducing inputs"),
        ("kl_pac_free_form", "sparse GP with M = 50 with 353 rows", "fewer inducing inputs"),
    ],
)
def test_a_budget_without_room_for_one_evaluation_is_refused_before_it(
    monkeypatch: pytest.MonkeyPatch, method: str, model: str, advice: str
) -> None:
    monkeypatch.setattr(cost, "flops_per_second", lambda: 1e5)
    begin = time.monotonic()
    outcome = _fit(f"method={method}", "budget.seconds=9")
    assert time.monotonic() - begin < 5.0
    assert (outcome.status, outcome.metrics) == ("skipped", {})  # never stored as an answer: a longer budget asks again
    assert outcome.reason.startswith("budget.seconds=9 is too short")
    assert model in outcome.reason
    assert advice in outcome.reason


@pytest.mark.parametrize("method", ["kl_pac_gp", "kl_pac_sgp_restarts", "vfe", "kl_pac_free_form"])
def test_a_budget_for_one_evaluation_gives_a_certificate(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    # evaluations seem so long that nothing fits beside the first one
    for name in ("full_gp_cost", "sparse_gp_cost"):
        monkeypatch.setattr(costs, name, lambda *_, **__: Cost(4.0, 50000.0))
    outcome = _fit(f"method={method}", "budget.seconds=50010", "max_evaluations=5", "method.inducing=9"
                   if method != "kl_pac_gp" else "seed=0")  # fmt: skip
    assert outcome.status in ("done", "budget")
    assert 0.0 < float(outcome.metrics["bound_kl"] or 0.0) <= 1.0


def test_a_search_leaves_room_for_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, step = [0.0], 1 / 16
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def slow(x: Array) -> tuple[float, Array]:
        clock[0] += step
        return float(((x - 3.0) ** 4).sum()), 4.0 * (x - 3.0) ** 3

    found = Search(Budget(0.5, after=5.0, started=0.0)).run(slow, np.zeros(2), [(-10.0, 10.0)] * 2)
    assert (found.status, found.reason) == ("budget", NO_ROOM)
    # the third ends at 3/16, what follows at 8/16; a fourth would leave it too little
    assert (found.evaluations, clock[0]) == (3, 3 * step)
    report = minimise(slow, np.zeros(2), Budget(0.5, after=5.0, started=clock[0]))
    assert (report.status, report.evaluations) == ("budget", 3)
    assert "no room" in report.reason


def test_room_counts_the_step_and_what_follows() -> None:
    assert Budget().has_room(1e9)
    assert Budget(1000.0, after=3.0).has_room(240.0)
    assert not Budget(1000.0, after=3.0).has_room(251.0)


def test_seconds_cut_k_means_short_and_say_so() -> None:
    X = np.random.default_rng(0).normal(size=(3000, 3))
    whole = kmeans_inducing(X, 40, np.random.default_rng(1))
    for seconds in (None, 1e3):
        unhurried, cut = limited_inducing(X, 40, np.random.default_rng(1), seconds)
        assert not cut
        np.testing.assert_array_equal(unhurried, whole)
    per_iteration = 1e-10 * 3000 * 40 * 7
    hurried, cut = limited_inducing(X, 40, np.random.default_rng(1), 32.5 * per_iteration)
    assert cut
    assert not np.array_equal(hurried, whole)
    rows, cut = limited_inducing(X, 40, np.random.default_rng(1), -1.0)
    assert cut
    assert {tuple(row) for row in rows} <= {tuple(row) for row in X}
    assert len(np.unique(rows, axis=0)) == 40


def test_costs_grow_as_the_arithmetic_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "flops_per_second", lambda: 4e10)
    # measured on one core of that speed: 45 s, .7 s
    assert full_gp_cost(10_000, 2500).evaluation == pytest.approx(45.0, rel=0.25)
    assert sparse_gp_cost(12_000, 3000, 500, 26, "bound").evaluation == pytest.approx(0.9, rel=0.25)
    one, three = (sparse_gp_cost(12_000, 3000, 500, 26, "bound", losses) for losses in (1, 3))
    assert three.certificate > 1.5 * one.certificate
    assert one.least == one.evaluation + one.certificate
    assert one.after * one.evaluation == pytest.approx(one.certificate)


@pytest.mark.slow
def test_estimates_are_within_a_factor_of_three() -> None:
    from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
    from gpsuite.methods.pac_bayes.losses import BandLoss

    X, y = np.random.default_rng(0).normal(size=(1500, 5)), np.zeros(1500)
    bound = FullGPObjective(RiskProblem(X, y, BandLoss(0.6), 0.01))
    bound.value_and_gradient(np.zeros(7))
    begin = time.perf_counter()
    bound.value_and_gradient(np.zeros(7))
    assert 1 / 3 < full_gp_cost(1500, 1).evaluation / (time.perf_counter() - begin) < 3.0


# Intervals and tests over random splits of the same rows, which are not independent draws.


def test_the_paired_test_is_that_of_the_differences() -> None:
    assert paired_p(np.array([1.0, 2.0]), np.array([1.1, 2.1])) == 0.25
    assert paired_p(np.array([1.1, 2.1]), np.array([1.0, 2.0])) == 1.0
    assert positive_p(np.array([3.0])) == 1.0


@pytest.mark.guarantee
def test_splits_of_the_same_rows_do_not_find_what_is_not_there() -> None:
    """500 data sets without an effect, ten 80/20 splits each, seed fixed: of the tests at 5 % at most 5 % say yes."""
    rng = np.random.default_rng(7)
    corrected = naive = 0
    for _ in range(500):
        rows = rng.normal(size=100)
        values = np.array([rng.permutation(rows)[:20].mean() for _ in range(10)])
        corrected += positive_p(values) < 0.05
        naive += corrected_t_p(values, 0.0) < 0.05
    assert corrected <= 500 * 0.05 + 3 * math.sqrt(500 * 0.05 * 0.95)
    assert naive > 90  # the fault that the correction is there for: about one in four


def test_a_real_effect_is_still_found() -> None:
    rng = np.random.default_rng(8)
    rows = 1.0 + rng.normal(size=100)
    values = np.array([rng.permutation(rows)[:20].mean() for _ in range(10)])
    assert positive_p(values) < 0.01
    assert split_mean(values).above(0.0)


def test_tables_of_splits_carry_the_corrected_interval() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    frame = pd.DataFrame({"method": "a", "m": values, "n_test": 20, "n_train": 80})
    (line,) = summarise_splits(frame, ["method"], ["m"]).to_dict("records")
    expected = corrected_mean(values, 0.25)
    assert line["interval_low"] == pytest.approx(expected.low)
    assert line["interval_high"] == pytest.approx(expected.high)
    assert line["interval"] == CORRECTED
    assert line["standard_error"] == pytest.approx(np.std(values, ddof=1) / 2.0)  # the paper's convention
    (published,) = summarise_splits(frame[["method", "m"]], ["method"], ["m"]).to_dict("records")
    assert published["interval_low"] == pytest.approx(line["interval_low"])
    assert TEST_OVER_TRAINING == 0.2 / 0.8
    (single,) = summarise_splits(frame[:1], ["method"], ["m"]).to_dict("records")
    assert single["interval"] == ""


def test_captions_say_over_how_many_splits() -> None:
    assert shown_over([1, 1]) == "one random split"
    assert shown_over([10, 10]) == "mean ± standard error over 10 random splits"
    assert shown_over([1, 3]) == "mean ± standard error over 1 to 3 random splits"


TITLES = {"one": "one start", "five": "five starts"}
SPREAD = "worst minus best start's objective"


def record(method: str, split: int, **changes: float) -> Record:
    metrics = {**dict.fromkeys(METRICS, 0.5 + split), "log_theta": 1.0, "confidence": 1.0, "n_train": 10}
    axes = {"method": method, "split": split}
    return Record("key", "pac_bayes/regression", "", axes, "done", "", {**metrics, **changes}, {})  # type: ignore[arg-type]


def test_methods_of_several_starts_show_how_far_these_ended_apart() -> None:
    ones = [record("one", split) for split in range(2)]
    fives = [record("five", split, start_spread=0.25 + split) for split in range(2)]
    tidy = summarise_fits(records_frame([*ones, *fives]), ["method"], METRICS)
    [line] = tidy[tidy["metric"] == "start_spread"].to_dict("records")
    assert (line["method"], line["mean"], line["n"]) == ("five", 0.75, 2)
    table = wide_table(tidy, ["method"], TITLES).set_index("method")
    assert list(table.columns)[-2:] == [SPREAD, "splits"]
    assert dict(table[SPREAD]) == {"one start": "–", "five starts": "0.75 ± 0.50"}


def test_without_them_the_table_has_no_such_column() -> None:
    frame = records_frame([record("one", split) for split in range(2)])
    tidy = summarise_fits(frame, ["method"], METRICS)
    assert set(tidy["metric"]) == set(METRICS)
    assert SPREAD not in wide_table(tidy, ["method"], TITLES)


# What pac_bayes/regression says of its bounds: whose they are, and of which split.


METHOD = "kl_pac_gp"


def record_regression_sentences(split: int, bound: float, twice: float, kl_over_n: float = 1.0) -> Record:
    metrics = {"bound_kl": bound, "bound_bayes": twice, "kl_over_n": kl_over_n, "n_train": 353}
    axes: dict[str, str | int | float] = {"method": METHOD, "split": split}
    return Record("key", "pac_bayes/regression", "", axes, "done", "", metrics, {})


def test_a_draw_has_the_bound_and_the_posterior_mean_twice_as_much(tmp_path: Path) -> None:
    request: Any = read_request(["experiment=pac_bayes/regression", f"method={METHOD}", "repetitions=2"])[0]
    records = [record_regression_sentences(0, 0.2, 0.4), record_regression_sentences(1, 0.3, 0.6, kl_over_n=1e-6)]
    drawn, mean, others, constant = _sentences(Report(request, records, tmp_path))
    assert "at most 20 % of the predictions of a random draw of" in drawn
    assert "at most 40 % of the predictions of the posterior mean of" in mean
    assert all("of split 0 are off by more than" in each for each in (drawn, mean))
    assert "bounds from 20 % to 30 %, each its own" in others
    assert "In 1 of 2 splits the training ended at a constant" in constant
