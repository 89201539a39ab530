from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.active_learning import convergence as cells
from gpsuite.experiments.active_learning.convergence import ProcessRuns, group_runs, statistics
from gpsuite.experiments.base import EXPERIMENTS, Record, Report, Request, SharedWork
from gpsuite.methods.active_learning.convergence import variance_bound
from gpsuite.models.multi_output.convolution import ConvolutionParameters, ConvolutionProcess
from gpsuite.reporting.comparison import read_paper_values
from tests.experiments.drawn import drawn

NAME = "active_learning/convergence"


def request_of(*words: str) -> Request[Any]:
    return read_request([f"experiment={NAME}", "scale=smoke", *words])[0]


def records_of(request: Request[Any]) -> list[Record]:
    entry = EXPERIMENTS.get(request.experiment)
    tasks = entry.plan(request)
    outcomes = [entry.run(task, SharedWork()) for task in tasks]
    return [
        Record("", "", "", task.axes, outcome.status, "", outcome.metrics, {}, arrays=outcome.arrays)
        for task, outcome in zip(tasks, outcomes, strict=True)
    ]


def made_up(excess: float, **axes: str | int) -> Record:
    where = {"kernel": "se", "inputs": 1, "region": "unconstrained", "outputs": "partial", "run": 0, **axes}
    numbers = {"excess": excess, "violations": 1, "queries": 10, "largest_ratio": 0.5}
    return Record("", "", "", where, "done", "", numbers, {})


def test_a_smoke_run_decides_every_published_statement(tmp_path: Path) -> None:
    request = request_of("dimensions=[1]")  # what D=2 adds is only time
    found = EXPERIMENTS.get(NAME).summarise(Report(request, records_of(request), tmp_path, "note"))
    values = {statistic.name: statistic.value for statistic in found}
    folder = Path(__file__).parents[3] / "conf" / "paper"
    named = {each.statistic for each in read_paper_values(folder) if each.experiment == NAME}
    assert named <= set(values)
    assert values["violations_of_lemma_1[outputs=partial]"] == 0
    assert values["violations_of_lemma_1[outputs=full]"] == 0
    for name in ("convergence_partial", "convergence_full"):
        shown = drawn(tmp_path, name)
        assert set(shown["curve"]) > {"rate"}
        shown = shown[shown["curve"] != "rate"]  # a theorem's, without quartiles
        assert (shown["low"] <= shown["median"]).all() and (shown["median"] <= shown["high"]).all()
    assert "rate" in (tmp_path / "tables" / "rates.md").read_text(encoding="utf-8")
    table = (tmp_path / "tables" / "lemma_1.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + 3 * 2 * 2


def test_the_excess_is_less_one_standard_error_over_runs_and_the_largest_counts() -> None:
    records = [
        *(made_up(value, run=run) for run, value in enumerate((0.05, 0.15))),
        *(made_up(value, run=run, inputs=2) for run, value in enumerate((-0.1, 0.06))),
        made_up(-0.3, kernel="matern52"),
        made_up(9.0, outputs="full"),
        made_up(0.2, region="safe"),
    ]
    found = {s.name: s for s in statistics(group_runs(records))}
    assert found["variance_to_rate_slope_excess[kernel=se]"].value == pytest.approx(0.05)
    assert found["max_slope_excess[kernel=matern52]"].value == pytest.approx(-0.3)
    assert found["share_rate_reached[region=unconstrained]"].value == pytest.approx(2 / 3)
    assert found["share_rate_reached[region=safe]"].value == 0.0
    assert found["violations_of_lemma_1[outputs=partial]"].value == 6
    assert found["violations_of_lemma_1[outputs=full]"].n == 10
    assert not [name for name in found if "convolution" in name]


def test_unusable_records_do_not_count() -> None:
    failed = Record("", "", "", made_up(1.0).axes, "error", "", {}, {})
    report = Report(request_of(), [failed, made_up(-1.0)], Path())
    (cell,) = group_runs(report.records())
    assert isinstance(cell, ProcessRuns)
    assert cell.excess == -1.0


def test_cells_share_process_and_pool_but_not_between_runs() -> None:
    tasks = EXPERIMENTS.get(NAME).plan(request_of("runs=2"))
    assert len({task_key(task) for task in tasks}) == len(tasks) == 2 * 24
    seeds = {(task.axes["inputs"], task.axes["run"], task.params.seed) for task in tasks}
    assert len(seeds) == 4
    fewer = EXPERIMENTS.get(NAME).plan(request_of("kernels=[se]", "regions=[safe]"))
    assert {task_key(task) for task in fewer} < {task_key(task) for task in tasks}


@pytest.mark.parametrize("kernel", ["se", "matern52", "convolution"])
def test_prior_variances_keep_the_theorems_assumption_and_the_bound(kernel: str) -> None:
    params = EXPERIMENTS.get(NAME).plan(request_of("n_outputs=3"))[0].params
    _, covariance, noise, largest = cells.draw_process(replace(params, kernel=kernel, inputs=2))
    assert len(covariance) == 3 * params.pool
    assert covariance.max() <= min(1.0, largest) * (1.0 + 1e-12)
    assert (noise >= params.noise_sd[0] ** 2).all()


def test_the_drawn_convolution_process_is_the_models() -> None:
    planned = EXPERIMENTS.get(NAME).plan(request_of())[0].params
    params = replace(planned, kernel="convolution", inputs=2, pool=5, smoothing=[0.3, 0.3])
    X, covariance, _, largest = cells.draw_process(params)
    lmc = replace(params, kernel="se")
    model = ConvolutionProcess(2, 2)
    # the same stream again, for W and the lengthscales
    rng = cells.stream(params.seed, "process")  # type: ignore[attr-defined]
    assert np.array_equal(rng.uniform(-1.0, 1.0, (5, 2)), X)
    W = rng.standard_normal((2, 2))
    W /= np.linalg.norm(W, axis=1)[:, None]
    length = rng.uniform(*params.lengthscales, 2)
    assert largest == variance_bound(W, np.ones(2)) == cells.draw_process(lmc)[3]
    scale = ((2.0 * 0.3**2 + length**2) / length**2) ** 0.5  # (a / l^2)^(D/4)
    parameters = ConvolutionParameters(
        np.ones((1, 2)), length[None], np.ones((1, 2)), np.full((1, 2), 0.3), (W / scale)[None]
    )
    row, p = np.repeat(np.arange(5), 2), np.tile([0, 1], 5)
    found = model.covariance(model.unconstrain(parameters), X[row], p, X[row], p)[0]
    np.testing.assert_allclose(covariance, found, rtol=1e-9)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["kernels=[matern]"], "matern52"),
        (["regions=[]"], "at least one"),
        (["outputs=[full,full]"], "twice"),
        (["dimensions=[]"], "at least one"),
        (["dimensions=[0]"], "1 or more"),
        (["pool=2"], "3 or more"),
        (["noise_sd=[0.0,1.0]"], "above 0"),
        (["smoothing=[0.5]"], "lowest, highest"),
        (["fit_from=3"], "4 or more"),
        (["queries=30"], "twice fit_from"),
    ],
)
def test_impossible_settings_are_refused(words: list[str], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        EXPERIMENTS.get(NAME).plan(request_of(*words))
