from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.active_learning.engine import DataTask
from gpsuite.experiments.active_learning.exploration import RepetitionTask, read_repetition, run_repetition
from gpsuite.experiments.base import BUDGET, EXPERIMENTS, INFEASIBLE, Outcome, Record, Report, Request, SharedWork, Task
from tests.experiments.composed_settings import composed_settings

NAMES = ("toy", "gp_samples", "engine", "observation_ablation", "convolution")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)


@cache
def request_of(name: str, *words: str, scale: str = "smoke") -> Request[Any]:
    return read_request([f"experiment=active_learning/{name}", f"scale={scale}", *words])[0]


def tasks_of(name: str, *words: str, scale: str = "smoke") -> Sequence[Task[Any]]:
    request = request_of(name, *words, scale=scale)
    return EXPERIMENTS.get(request.experiment).plan(request)


def as_record(task: Task[Any], outcome: Outcome) -> Record:
    return Record(task_key(task), task.experiment, task.label, task.axes, outcome.status, outcome.reason,
                  outcome.metrics, {"cpu_seconds": 1.0}, arrays=outcome.arrays)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_tasks_differ_and_pipelines_share_what_a_repetition_works_on(name: str) -> None:
    tasks = tasks_of(name)
    assert len({task_key(task) for task in tasks}) == len(tasks)
    repeated = [task for task in tasks if isinstance(task.params, RepetitionTask)]
    for task in repeated:
        same = [t for t in repeated if t.params.source == task.params.source
                and t.axes["repetition"] == task.axes["repetition"]]  # fmt: skip
        assert {t.params.data.seed for t in same} == {task.params.data.seed}
        assert {t.params.sampler_seed for t in same} == {task.params.sampler_seed}
    seeds = {(t.params.source, t.axes["repetition"]): t.params.data.seed for t in repeated}
    assert len(set(seeds.values())) == len(seeds)


def test_plans_have_the_published_sizes() -> None:
    sizes = {}
    for name in ("toy", "gp_samples", "observation_ablation"):
        tasks = tasks_of(name, scale="paper")
        own = [t for t in tasks if t.axes["method"] == "al_mogp" and t.axes.get("part", "pipelines") == "pipelines"]
        sizes[name] = {(t.params.data.initial, t.params.iterations) for t in own}
        assert max(int(t.axes["repetition"]) for t in own) == 29
    assert sizes["toy"] == {(12, 31)}
    assert sizes["gp_samples"] == {(40, 101)}
    assert sizes["observation_ablation"] == {(12, 31), (40, 101)}
    engine = composed_settings("active_learning/engine")
    assert (engine.initial, engine.initial + engine.iterations - 1, engine.repetitions) == (48, 107, 30)


def test_the_ablations_partial_runs_are_those_of_the_other_experiments() -> None:
    keys = {
        name: {task_key(task) for task in tasks_of(name, scale="paper")}
        for name in ("observation_ablation", "toy", "gp_samples")
    }
    for name in ("toy", "gp_samples"):
        assert len(keys["observation_ablation"] & keys[name]) == 3 * 30


@pytest.mark.parametrize(("words", "inputs"), [((), 13), (("dataset=gengine1_co2_hc",), 14)])
def test_the_engine_is_prepared_for_either_pair_of_outputs(words: tuple[str, ...], inputs: int) -> None:
    (described,) = (task for task in tasks_of("engine", *words) if isinstance(task.params, DataTask))
    found = EXPERIMENTS.get("active_learning/engine").run(described, SharedWork())
    assert found.metrics["dataset_inputs"] == inputs


def test_full_queries_end_at_the_same_number_of_values() -> None:
    tasks = tasks_of("observation_ablation", "gp_samples.iterations=101", "gp_samples.initial=40",
                     "gp_samples.pool_rows=300")  # fmt: skip
    models = {str(t.axes["method"]): t.params.iterations for t in tasks if t.axes["source"] == "gp_samples"}
    assert (models["al_mogp"], models["al_mogp_full"]) == (101, 26)


def test_another_seed_moves_everything_and_inference_settings_move_only_their_own() -> None:
    first, second = tasks_of("toy"), tasks_of("toy", "seed=1")
    moved = {task_key(t) for t in first if isinstance(t.params, RepetitionTask)}
    assert not moved & {task_key(t) for t in second}
    more = tasks_of("toy", "particles=17")
    unmoved = {t.axes["inference"] for t in more if task_key(t) in {task_key(u) for u in first}}
    assert unmoved == {"map", ""}


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("toy", "form=printed"),
        ("toy", "inference=vi"),
        ("toy", "offers=all"),
        ("toy", "delta=0"),
        ("toy", "particles=1"),
        ("toy", "prior_factors=[1.0]"),
        ("toy", "compared=[exact]"),
        ("toy", "when_nothing_is_safe=crash"),
        ("toy", "thresholds=[-1]"),
        ("toy", "method.mixing=diagonal"),
        ("toy", "model.kernel=matern32"),
        ("toy", "model.ard=true"),
        ("gp_samples", "draws=1"),
        ("gp_samples", "outputs=1"),
        ("engine", "pool_rows=1"),
        ("observation_ablation", "sources=[engine]"),
        ("observation_ablation", "unequal=[scale]"),
        ("observation_ablation", "toy.initial=0"),
        ("convolution", "process=gp"),
        ("convolution", "pool_rows=20000"),
    ],
)
def test_impossible_settings_are_refused(name: str, word: str) -> None:
    with pytest.raises(UserError, match=word.split("=")[0].split(".")[-1]):
        tasks_of(name, word)


def run_some(name: str, *words: str) -> tuple[Request[Any], list[Record]]:
    request = request_of(name, *words)
    entry = EXPERIMENTS.get(request.experiment)
    return request, [as_record(task, entry.run(task, SharedWork())) for task in entry.plan(request)]


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in NAMES if name != "toy"]


@pytest.mark.parametrize("name", ["toy", *SLOW])
def test_a_small_run_is_summarised(name: str, tmp_path: Path) -> None:
    few = {
        "toy": ("methods=[al_mogp,al_mogp_nosafe]", "compared=[]"),
        "observation_ablation": ("methods=[al_mogp,al_mogp_full]", "sources=[toy]"),
        "convolution": ("methods=[al_convolution]",),
    }
    words = ("repetitions=1", *few.get(name, ("methods=[al_mogp]",)))
    request, records = run_some(name, *words)
    assert {record.status for record in records} == {"done"}
    found = EXPERIMENTS.get(request.experiment).summarise(Report(request, records, tmp_path, "note"))
    names = [statistic.name for statistic in found]
    assert len(set(names)) == len(names)
    assert list(tmp_path.glob("tables/*.csv"))
    assert list(tmp_path.glob("figures/*.png"))


def test_a_record_holds_every_measure_of_every_model() -> None:
    task = next(t for t in tasks_of("toy") if t.axes["method"] == "al_mogp")
    outcome = run_repetition(task, SharedWork())
    repetition, arrays = read_repetition(task), outcome.arrays
    assert arrays["n_sum"].tolist() == [12, 13, 14]
    lengths = {name: len(arrays[name]) for name in arrays if not name.startswith("state_")}
    assert set(lengths.values()) == {3}
    rows, p = arrays["row"].astype(int), arrays["p"].astype(int)
    np.testing.assert_array_equal(arrays["z"], repetition.pool.z[rows])
    np.testing.assert_array_equal(arrays["safe_true"], repetition.pool.h[rows] > 0.7)
    assert len(set(zip(rows, p, strict=True))) == 3
    assert (arrays["rmse"] == arrays["rmse_true"]).all()
    per_output = np.stack([arrays["rmse_output_1"], arrays["rmse_output_2"]])
    np.testing.assert_allclose(per_output.mean(axis=0), arrays["rmse"])
    state = {name.removeprefix("state_"): value for name, value in arrays.items() if name.startswith("state_")}
    assert state["mean"].shape == repetition.test.F.shape
    assert len(state["measured_y"]) == 13
    assert outcome.metrics["query_at_maximum"] is True
    error = np.sqrt(((state["mean"] - repetition.test.F)[repetition.test_safe] ** 2).mean(axis=0)).mean()
    assert error == pytest.approx(arrays["rmse"][1])


def test_the_same_task_gives_the_same_numbers_and_pipelines_start_alike() -> None:
    first = {str(t.axes["method"]): t for t in tasks_of("toy") if t.axes["part"] == "pipelines"}
    once, again = (run_repetition(first["al_mogp"], SharedWork()) for _ in range(2))
    for name, values in once.arrays.items():
        np.testing.assert_array_equal(values, again.arrays[name])
    other = run_repetition(first["rs_mogp"], SharedWork())
    assert other.arrays["rmse"][0] == once.arrays["rmse"][0]


def test_no_safe_candidate_is_an_outcome() -> None:
    task = next(t for t in tasks_of("toy", "delta=1e-300") if t.axes["method"] == "al_mogp")
    outcome = run_repetition(task, SharedWork())
    assert outcome.status == INFEASIBLE
    assert "safe" in outcome.reason
    going_on = tasks_of("toy", "delta=1e-300", "when_nothing_is_safe=safest")
    assert run_repetition(next(t for t in going_on if t.axes["method"] == "al_mogp"), SharedWork()).status == "done"


def test_a_budget_ends_a_repetition_with_what_it_has() -> None:
    task = next(t for t in tasks_of("toy", "budget.seconds=0.000001") if t.axes["method"] == "rs_mogp")
    outcome = run_repetition(task, SharedWork())
    assert outcome.status == BUDGET
    assert outcome.arrays["n_sum"].tolist() == [12]
