"""The regression that is kept: where its training starts, and which rows choose its scale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.regression import (
    check_rows,
    judged_model,
    kept_copies,
    kept_model,
    kept_rows,
    mean_bounds,
    order_of,
)
from gpsuite.experiments.guarantee.tasks import Learning

LEARNING = Learning(
    seed=0, goal=1.0, own=False, delta=0.01, coverage=0.9, test_share=0.2, preparation=0.1, most_rows=1000,
    max_evaluations=20,
)  # fmt: skip


def written(folder: Path, X: FloatArray, y: FloatArray) -> PreparedDataset:
    """Return a table of inputs [N, D] and targets [N]."""
    names = [f"x{number}" for number in range(X.shape[1])]
    path = folder / "t.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header=",".join([*names, "y"]), comments="")
    return prepare(CsvSpec(path=str(path), target="y", task="regression"), cache_dir=folder)


@pytest.mark.parametrize("seed", [0, 1])
def test_of_many_inputs_neither_model_is_a_constant(tmp_path: Path, seed: int) -> None:
    """Rows of 25 standardised inputs are about 7 apart: of lengthscale 1 none tells anything of another."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(180, 25)), rng.normal(size=25)
    dataset = written(tmp_path, X, X @ weights + 0.3 * rng.normal(size=180))
    fresh, shared = rng.normal(size=(400, 25)), SharedWork()
    truth = fresh @ weights
    for model in (kept_model(dataset, LEARNING, shared), judged_model(dataset, LEARNING, shared).fitted):
        off = model.predict(fresh)[0] - truth
        assert np.sqrt(np.mean(off**2)) < 0.4 * truth.std()


def test_inputs_without_effect_cost_little(tmp_path: Path) -> None:
    """Of 12 inputs two matter; with one lengthscale for all inputs as they are, the bound is .45."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 12))
    dataset = written(tmp_path, X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=400))
    kept = kept_model(dataset, replace(LEARNING, max_evaluations=40), SharedWork())
    (bound,) = mean_bounds(kept, LEARNING, np.array([1.0]), kept_copies(dataset, LEARNING))
    assert bound.bound_bayes < 0.3
    assert np.all(kept.inputs.scale[2:] > 2.0 * kept.inputs.scale[:2].max())


def test_rows_that_a_bound_counts_choose_no_scale(tmp_path: Path) -> None:
    """Other targets and inputs in all rows but the first ones leave what the kept model is scaled by as it is."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    found = []
    for trial in range(2):
        X[10:], y[10:] = rng.normal(size=(90, 3)) * (1.0 + trial), rng.normal(size=90) - trial
        (tmp_path / str(trial)).mkdir()
        kept = kept_model(in_order(tmp_path / str(trial), X, y), LEARNING, SharedWork())
        found.append([*kept.inputs.mean, *kept.inputs.scale, *kept.target.mean, *kept.target.scale])
    assert found[0] == found[1]


def test_rows_that_test_choose_no_scale(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X, y, found = rng.normal(size=(100, 3)), rng.normal(size=100), []
    for trial in range(2):
        X[80:], y[80:] = rng.normal(size=(20, 3)) * (1.0 + trial), rng.normal(size=20) - trial
        (tmp_path / str(trial)).mkdir()
        dataset = in_order(tmp_path / str(trial), X, y)
        fitted = judged_model(dataset, replace(LEARNING, preparation=0.9), SharedWork()).fitted
        found.append([*fitted.inputs.mean, *fitted.inputs.scale, *fitted.target.mean, *fitted.target.scale])
    assert found[0] == found[1]


def in_order(folder: Path, X: FloatArray, y: FloatArray) -> PreparedDataset:
    """Return a table whose rows, in the order that the seed draws, are these."""
    place = np.argsort(order_of(len(X), LEARNING))
    return written(folder, X[place], y[place])


@pytest.mark.parametrize(("first", "count"), [(3, 10), (14, 15), (60, 61)])
def test_the_rows_that_choose_the_scale_hold_two_targets(tmp_path: Path, first: int, count: int) -> None:
    """`first` of the others' order is the first row of another target; what comes after does not count."""
    rng = np.random.default_rng(0)
    for later in (0.0, 1.0):
        y = np.zeros(100)
        y[first], y[first + 1 :] = 7.0, later
        dataset = in_order(tmp_path, rng.normal(size=(100, 2)), y)
        chosen, rows = kept_rows(dataset, LEARNING)
        assert len(chosen) == count and len(rows) == 100 - count
        assert len(np.unique(load(dataset).y[chosen])) >= 2


@pytest.mark.parametrize(("first", "count"), [(3, 10), (14, 15), (60, 20)])
def test_they_hold_two_values_of_each_number_or_are_twice_as_many(tmp_path: Path, first: int, count: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    X[:, 1] = np.where(np.arange(100) < first, 5.0, rng.normal(size=100))
    chosen, _ = kept_rows(in_order(tmp_path, X, rng.normal(size=100)), LEARNING)
    assert len(chosen) == count


def test_a_target_that_the_judged_model_never_sees_vary_is_refused(tmp_path: Path) -> None:
    y = np.zeros(100)
    y[85] = 1.0  # the last fifth is tested
    dataset = in_order(tmp_path, np.random.default_rng(0).normal(size=(100, 2)), y)
    with pytest.raises(UserError, match="y is 0 in all 80 rows"):
        check_rows(dataset, replace(LEARNING, preparation=0.05))
