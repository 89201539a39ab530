from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, METHODS, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.pac_bayes import rounding
from gpsuite.experiments.pac_bayes.fits import Split
from gpsuite.experiments.pac_bayes.training import Trained
from gpsuite.methods.pac_bayes.bounds import HyperparameterGrid, Terms, certify
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, RiskAndKL
from gpsuite.models.config import Hyperparameters
from tests.experiments.drawn import drawn


def request_of(*words: str) -> Request[Any]:
    chosen = ["experiment=pac_bayes/rounding", "dataset=diabetes", "scale=smoke", "max_evaluations=10"]
    return read_request([*chosen, *words])[0]


def tasks_of(*words: str) -> Sequence[Task[Any]]:
    request = request_of(*words)
    return EXPERIMENTS.get(request.experiment).plan(request)


def made_up_split() -> Split:
    rng = np.random.default_rng(5)
    X = rng.uniform(-2.0, 2.0, (120, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(120)
    return Split(X[:80], y[:80], X[80:], y[80:], 1.0)


def compare(decimals: int, found: Hyperparameters) -> dict[str, float]:
    trained = Trained(found, "done", "", 1, 0.5)
    return rounding.compare_rounding(made_up_split(), trained, BandLoss(0.6), 0.01, HyperparameterGrid(decimals))


FOUND = Hyperparameters(math.exp(0.3449), (math.exp(-0.4551),), 0.05)


def test_each_grid_is_allowed_for() -> None:
    for decimals, size in ((0, 13), (1, 121), (2, 1201), (3, 12001)):
        assert compare(decimals, FOUND)["log_theta_over_n"] == pytest.approx(2 * math.log(size) / 80)


def test_the_change_compares_the_same_penalty_before_and_after() -> None:
    found = compare(1, FOUND)
    split, rounded = made_up_split(), Hyperparameters(math.exp(0.3), (math.exp(-0.5),), 0.05)
    before, after = (FullGPPosterior.fit(h, split.X, split.y) for h in (FOUND, rounded))
    bounds = [
        certify(
            RiskAndKL(p.gibbs_risk(BandLoss(0.6)), p.kl),
            Terms(80, 2, 0.01, grid=HyperparameterGrid(1)),
            RiskAndKL(0.0, p.rounding(BandLoss(0.6)).kl),
        ).bound_kl
        for p in (before, after)
    ]
    assert found["bound_unrounded"] == pytest.approx(bounds[0], rel=1e-12)
    assert found["bound_kl"] == pytest.approx(bounds[1], rel=1e-9)
    assert found["bound_change"] == pytest.approx(bounds[1] - bounds[0], abs=1e-9)
    moved = after.predict(split.X_test)[0] - before.predict(split.X_test)[0]
    assert found["mean_change"] == pytest.approx(np.abs(moved).max(), rel=1e-6)


def test_hyperparameters_on_the_grid_are_left_alone() -> None:
    found = compare(2, Hyperparameters(math.exp(0.34), (math.exp(-0.46),), 0.05))
    assert found["bound_change"] == pytest.approx(0.0, abs=1e-12)
    assert found["mean_change"] == pytest.approx(0.0, abs=1e-10)


def frame_of(two: dict[int, float], change: float, mean_change: float = 0.01) -> pd.DataFrame:
    """Bounds of one split and epsilon by decimals."""
    records = [
        Record("", "", "", {"method": "kl_pac_gp", "epsilon": 0.6, "decimals": decimals, "split": 0}, "done", "",
               {"bound_kl": bound, "bound_change": change, "mean_change": mean_change}, {})
        for decimals, bound in two.items()
    ]  # fmt: skip
    return rounding.records_frame(records)


def test_the_claims_follow_the_numbers() -> None:
    found = {s.name: s for s in rounding.claims(frame_of({0: 0.28, 1: 0.31, 2: 0.3, 3: 0.2}, -2e-4))}
    assert found["max_bound_change"].value == 2e-4
    assert found["share_predictions_hardly_changed"].value == 0.0
    assert found["min_bound_change_coarser_rounding"].value == pytest.approx(-0.02)
    assert "1 decimals, ε 0.6: +0.0100" in found["min_bound_change_coarser_rounding"].note
    small = {s.name: s.value for s in rounding.claims(frame_of({2: 0.3, 3: 0.31}, 1e-6))}
    assert small == {"max_bound_change": 1e-6, "share_predictions_hardly_changed": 1.0}
    far = {s.name: s.value for s in rounding.claims(frame_of({2: 0.3, 3: 0.31}, 1e-6, mean_change=5.0))}
    assert far["share_predictions_hardly_changed"] == 0.0
    assert rounding.claims(frame_of({0: 0.28, 1: 0.31}, 1e-6)) == []


def test_the_grids_of_a_training_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    trainings: Counter[float] = Counter()

    def count(work: Any, loss: BandLoss) -> Trained:
        trainings[loss.epsilon] += 1
        return Trained(Hyperparameters(1.2, (2.1,), 0.5), "done", "", 1, 0.5)

    counted = replace(METHODS.get("pac_gp"), train=count)  # type: ignore[call-arg]
    monkeypatch.setattr(rounding, "risk_method", lambda options: counted)
    tasks = tasks_of("epsilons=[0.4,0.8]", "decimals=[0,2,3]", "repetitions=1")
    assert len({task_key(task) for task in tasks}) == len(tasks) == 6
    shared = {task.group: SharedWork() for task in tasks}
    for task in tasks:
        rounding.run(task, shared[task.group])
    assert trainings == {0.4: 1, 0.8: 1}


@pytest.mark.parametrize("word", ["decimals=[-1]", "decimals=[2,2]", "decimals=[7]", "decimals=[]", "epsilons=[0]"])
def test_impossible_settings_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=word.split("=")[0]):
        request_of(word)


def test_the_figure_shows_the_largest_change_of_the_bound(tmp_path: Path) -> None:
    request = request_of()
    entry = EXPERIMENTS.get(request.experiment)
    shared: dict[str, SharedWork] = {}
    records = []
    for task in entry.plan(request):
        outcome = entry.run(task, shared.setdefault(task.group, SharedWork()))
        records.append(Record("", "", "", task.axes, outcome.status, outcome.reason, outcome.metrics, {}))
    names = {statistic.name for statistic in entry.summarise(Report(request, records, tmp_path, None))}
    assert {"max_bound_change", "min_bound_change_coarser_rounding"} <= names
    assert "bound_kl[method=kl_pac_gp,epsilon=0.6,decimals=0]" in names
    shown = drawn(tmp_path, "rounding").set_index("metric")
    changes = [abs(record.number("bound_change")) for record in records]
    own = shown.loc[["bound_change"]]
    assert set(own["interval"]) == {"median and range"}
    assert own["interval_high"].max() == pytest.approx(max(changes))
    assert (own["interval_low"] > 0.0).all() and (own["interval_low"] <= own["mean"]).all()  # no bar below a log axis
    assert (tmp_path / "tables" / "rounding.md").read_text(encoding="utf-8").count("kl-PAC-GP") == 4
