"""The seconds of a task: what the searches did not reach is not proved, and the record says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.budget import Budget
from gpsuite.cli import dispatch
from gpsuite.data.loading import load
from gpsuite.experiments.base import BUDGET, DONE, SharedWork
from gpsuite.experiments.guarantee.checks import Searches
from gpsuite.experiments.guarantee.classification import input_effects, kept_classifier, probability_ranges, proved_safe
from gpsuite.experiments.guarantee.guarantees import SECONDS
from gpsuite.experiments.guarantee.regression import kept_model, latent_posterior, proved_ranges
from tests.experiments.guarantee import test_classification_guarantee as classes
from tests.experiments.guarantee import test_regression_guarantee as regression

RADII = [0.05, 0.1]


@dataclass
class Some(Searches):
    """So many searches may begin; `budgets` tells of what seconds."""

    left: int = 10**6
    seconds: float | None = None

    def may_begin(self) -> bool:
        self.left -= 1
        self.cut += self.left < 0
        return self.left >= 0

    def budget(self, times: int = 1, among: int = 1) -> Budget:
        return Budget(seconds=self.seconds, boxes=times * self.boxes)


def unlimited() -> Searches:
    return Searches(Budget(), 300)


def test_the_clock_is_one_for_all_searches_of_a_task() -> None:
    task: Any = type("T", (), {"budget_seconds": 100.0, "params": type("P", (), {"boxes": 7})})
    seen: list[Budget] = []
    searches = Searches.of(task, SharedWork(seen.append))
    assert searches.may_begin() and searches.outcome == (DONE, "")
    searches.clock.started -= 60.0
    assert searches.budget(among=4).seconds == pytest.approx(10.0, abs=0.5)
    budget = searches.budget(2)
    budget.spend(boxes=1)
    assert budget.seconds == pytest.approx(40.0, abs=1.0) and budget.boxes == 14 and seen == [budget]
    assert not searches.ended("7 boxes used up", "") and searches.outcome == (DONE, "")
    searches.clock.started -= 60.0
    assert not searches.may_begin() and searches.ended(searches.budget().reason)
    assert searches.outcome == (BUDGET, "100 seconds used up, 2 searches did not end")


def test_ranges_of_a_regression_that_were_not_reached_are_not_known(tmp_path: Path) -> None:
    dataset = regression.table(tmp_path)
    fitted = kept_model(dataset, regression.LEARNING, SharedWork())
    data, latent = load(dataset), latent_posterior(fitted.posterior)

    def ranges(searches: Searches) -> Any:
        return proved_ranges(fitted, latent, data.X[:2], data.X.std(axis=0), RADII, searches, 0.05)

    whole, some, begun = ranges(unlimited()), Some(Budget(), 300, left=3), Some(Budget(), 300, seconds=0.0)
    found = ranges(some)
    assert np.isfinite(whole).all() and some.cut == 1
    np.testing.assert_array_equal(found[:, 0], whole[:, 0])
    assert np.isnan(found[1, 1]).all()
    assert np.isinf(ranges(begun)).all() and begun.cut == 4


@pytest.mark.parametrize("count", classes.CLASSES)
def test_classes_that_were_not_reached_are_not_certified(tmp_path: Path, count: int) -> None:
    model = kept_classifier(classes.table(tmp_path, count), classes.LEARNING, SharedWork())
    X = model.problem.X[:2]
    for searches, cut in (
        (Searches(Budget(seconds=0.0), 300), [1, 5, 7]),
        (Some(Budget(), 300, seconds=0.0), [1, 5, 7]),
    ):
        assert proved_safe(model, X[:1], RADII, searches).tolist() == [0] and searches.cut == cut[0]
        assert np.isnan(probability_ranges(model, X, RADII, searches, 0.02)).all() and searches.cut == cut[1]
        assert np.isnan(input_effects(model, X, searches, 0.02)).all() and searches.cut == cut[2]
    whole, some = probability_ranges(model, X, RADII, unlimited(), 0.02), Some(Budget(), 300, left=3)
    found = probability_ranges(model, X, RADII, some, 0.02)
    np.testing.assert_array_equal(found[:, 0], whole[:, 0])
    assert np.isnan(found[1, 1]).all() and np.isfinite(whole).all()


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_run_that_the_seconds_end_is_reported(tmp_path: Path, task: str, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 20))
    y = 3.0 * X[:, 0] + X[:, 1]
    label = y if task == "regression" else np.where(y > 0.0, "high", "low")
    pd.DataFrame(X).add_prefix("c").assign(y=label).to_csv(tmp_path / "w.csv", index=False)
    words = [f"dataset.path={tmp_path}/w.csv", "dataset.target=y", "budget.seconds=0.0001", "run_name=x"]
    more = ["experiment=guarantee", "scale=smoke", "dataset=csv", f"results_dir={tmp_path}/r"]
    assert dispatch(["run", *more, *words]) == 0
    (folder,) = (tmp_path / "r").glob("**/smoke~x")
    records = pd.read_csv(folder / "records.csv").set_index("part")
    assert records.status["rows"] == BUDGET
    predicted = pd.read_csv(folder / "predictions.csv")
    assert predicted.filter(like="proved_").isna().all(axis=None)
    said = (folder / "answer.md").read_text()
    assert "Proved: " not in said + capsys.readouterr().out
    if task == "classification":
        assert records.status["judged"] == BUDGET and predicted.decisive_input.isna().all()
        assert f"{SECONDS}: the rows that they did not reach count as not certified." in said
        assert "Not proved for any of 2 rows of the table with inputs off by" in said
