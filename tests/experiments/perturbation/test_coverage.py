from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Record, Report, SharedWork, Task
from gpsuite.experiments.perturbation import coverage
from gpsuite.experiments.perturbation import coverage as cells
from gpsuite.experiments.perturbation.coverage import coverage_table, summarise

NAME = "experiment=perturbation/coverage"


def plan(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request([NAME, *words])
    return EXPERIMENTS.get(request.experiment).plan(request)


def cell(counts: list[int], excluded: tuple[int, ...] = (1, 2), broken: str = "", **names: str) -> coverage.RankCounts:
    named = {"model": "krr", "noise": "laplace", "group": "signs", **names}
    return coverage.RankCounts(**named, broken=broken, counts=np.array(counts), excluded=excluded)


def test_one_task_per_cell_that_the_assumptions_allow() -> None:
    tasks = plan("scale=paper")
    assert len({task_key(task) for task in tasks}) == len(tasks)
    exact = {(t.axes["model"], t.axes["noise"], t.axes["group"]) for t in tasks if t.axes["part"] == "exact"}
    assert len(exact) == 6 * (7 + 9 + 5)
    assert ("krr", "lognormal_centred", "permutations") in exact
    assert not {("krr", "lognormal_centred", "signs"), ("svr", "heteroscedastic", "permutations")} & exact
    assert len([t for t in tasks if t.axes["part"] == "broken"]) == 4 * 6 + 3 + 3


def test_what_is_not_science_does_not_move_a_cell() -> None:
    few = {task_key(task) for task in plan("scale=smoke", "models=[krr]", "breaks=[]")}
    assert few < {task_key(task) for task in plan("scale=smoke")}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["levels=[[20,20]]"], "0 < q < m"),
        (["levels=[[0,20]]"], "0 < q < m"),
        (["levels=[[-1,20]]"], "0 < q < m"),
        (["levels=[[1,2,20]]"], "0 < q < m"),
        (["levels=[]"], "at least one"),
        (["rows=1"], "6 or more"),
        (["models=[kr]"], "krr"),
        (["repetitions=1", "designs=2"], "number of designs"),
        (["noise_scale=nan"], "above 0"),
    ],
)
def test_impossible_settings_are_refused(words: list[str], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        plan(*words)


def test_inadmissible_levels_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cells.accepted_levels([5, 20]) == 0
    monkeypatch.setattr(cells, "ConfidenceRegion", lambda *_: None)
    assert cells.accepted_levels([5, 20]) == 8


@pytest.mark.parametrize("design", list(cells.DESIGNS))
def test_the_noise_has_no_bias_at_the_true_coefficients(design: str) -> None:
    X, noise, truth = cells.DESIGNS[design](np.random.default_rng(0), 4_000, 12, 0.5)
    assert X.shape == (4_000, 12, len(truth))
    assert abs(noise.mean()) < 0.03
    moment = np.einsum("rnd,rn->d", X, noise) / noise.size
    assert (np.abs(moment).max() > 0.1) == (design == "endogenous")
    if design == "autoregression":
        np.testing.assert_allclose(X[:, 1:, 0], 0.9 * X[:, :-1, 0] + noise[:, :-1])


def test_the_tests_agree_with_their_textbook_forms() -> None:
    counts = [30, 20, 25, 25, 50]
    one = cell(counts)
    assert (one.inside(1), one.inside(2), one.total) == (100, 75, 150)
    smaller_tail = binomtest(75, 150, 0.6, alternative="less").pvalue
    assert one.p_value(2) == pytest.approx(2.0 * smaller_tail)
    assert coverage.uniformity_p_value([one])[0] == pytest.approx(chisquare(counts).pvalue)
    assert coverage.pooled_p_value([one])[0] == pytest.approx(chisquare([75, 25, 50], [90, 30, 30]).pvalue)
    row = coverage_table([one]).iloc[1]
    exact = binomtest(75, 150).proportion_ci(0.95, method="exact")
    assert (row["low"], row["high"]) == pytest.approx((exact.low, exact.high))


def test_exact_and_broken_cells_give_the_published_statistics() -> None:
    good, bad = [200] * 5, [100, 100, 100, 100, 600]
    mixed = [cell(good), cell(bad, noise="cauchy"), cell(bad, broken="a"), cell(good, broken="a", model="svr")]
    found = {s.name: s.value for s in coverage.statistics(mixed, {"a": "A1"}, 0, 4)}
    assert found["violations_inadmissible_q"] == 0
    assert found["share_coverage_as_stated"] == 0.5
    assert found["share_noises_with_exact_coverage"] == 0.5
    assert found["share_departures_when_broken"] == 0.5
    assert max(found["coverage_pooled_p_value"], found["rank_uniformity_p_value"]) < 1e-10
    second = coverage.statistics([cell([100, 100, 100, 500, 200])], {}, 0, 4)  # right at q = 1, wrong at q = 2
    assert {s.name: s.value for s in second}["share_coverage_as_stated"] == 0.5
    calm = {s.name: s.value for s in coverage.statistics([cell(good)], {}, 0, 4)}
    assert calm["coverage_pooled_p_value"] == calm["share_coverage_as_stated"] == 1.0
    assert "share_departures_when_broken" not in calm


def test_few_repetitions_do_not_show_that_a_broken_assumption_keeps_the_coverage() -> None:
    for each, noted in ((200, "0 of 1 cells, 1 open"), (2000, "0 of 1 cells")):
        found = {s.name: s for s in coverage.statistics([cell([each] * 5, broken="a")], {"a": "A1"}, 0, 4)}
        assert found["share_departures_when_broken"].note == noted


def test_a_small_run_is_summarised(tmp_path: Path) -> None:
    request, _ = read_request(
        [NAME, "scale=smoke", "models=[krr_sparse,klasso]", "repetitions=200", "levels=[[10,20]]"]
    )
    records = []
    for task in plan("scale=smoke", "models=[krr_sparse,klasso]", "repetitions=200", "levels=[[10,20]]"):
        outcome = EXPERIMENTS.get(request.experiment).run(task, SharedWork())
        arrays = {"arrays": outcome.arrays, "timing": {}, "reason": "", "status": outcome.status}
        records.append(
            Record(task_key(task), task.experiment, task.label, task.axes, metrics=outcome.metrics, **arrays)  # type: ignore[arg-type]
        )
    found = {s.name: s.value for s in summarise(Report(request, records, tmp_path, "note"))}  # type: ignore[arg-type]
    assert found["share_coverage_as_stated"] == 1.0
    assert found["coverage_pooled_p_value"] > 1e-3
    for name in ("tables/coverage.csv", "tables/coverage_broken.csv", "figures/coverage.png"):
        assert (tmp_path / name).is_file()
    table = coverage_table([cell([5, 5, 0, 0, 0])])
    assert table["coverage"].tolist() == [1.0, 1.0]
    untied = [r for r in records if r.axes["break"] == "ties not broken"]
    assert all(r.arrays["ranks_20"][0] == 200 for r in untied)


def test_the_seed_reaches_a_cell() -> None:
    task = plan("scale=smoke", "models=[krr_sparse]", "repetitions=200", "levels=[[10,20]]")[0]
    run = EXPERIMENTS.get(task.experiment).run
    drawn = [
        run(replace(task, params=replace(task.params, seed=seed)), SharedWork()).arrays["ranks_20"].tolist()
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
