"""The models of a table, what is proved of them, and the model that is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpsuite
from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.data.splits import DifferentRows
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.checks import Searches
from gpsuite.experiments.guarantee.regression import (
    conformal_radius,
    errors_of,
    held_out_bounds,
    judged_model,
    kept_copies,
    kept_model,
    kept_rows,
    latent_posterior,
    mean_bounds,
    proved_ranges,
)
from gpsuite.experiments.guarantee.saved import FOLDER, SavedRegression, write_model
from gpsuite.experiments.guarantee.tasks import Learning
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound
from gpsuite.methods.pac_bayes.evaluation import ALL_DIFFERENT

LEARNING = Learning(
    seed=5, goal=8.0, own=True, delta=0.01, coverage=0.8, test_share=0.25, preparation=0.1, most_rows=200,
    max_evaluations=5,
)  # fmt: skip


def table(folder: Path) -> PreparedDataset:
    """Return a table of 120 rows, in units far from standardised ones."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 2)) * [3.0, 0.01] + [100.0, 5.0]
    y = 500.0 + 20.0 * np.sin((X[:, 0] - 100.0) / 3.0) + 900.0 * (X[:, 1] - 5.0) + rng.normal(size=120)
    path = folder / "table.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    return prepare(CsvSpec(path=str(path), target="y"), cache_dir=folder)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> PreparedDataset:
    """The table."""
    return table(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def saved(dataset: PreparedDataset) -> SavedRegression:
    """What is kept of the table's models."""
    shared = SharedWork()
    fitted, judged = kept_model(dataset, LEARNING, shared), judged_model(dataset, LEARNING, shared)
    return SavedRegression.of(load(dataset), fitted, judged, latent_posterior(fitted.posterior), LEARNING.coverage)


def test_no_row_has_two_parts(dataset: PreparedDataset) -> None:
    judged = judged_model(dataset, LEARNING, SharedWork())
    assert len(judged.test) == 30
    assert not set(judged.fitted.rows) & set(judged.test)
    few = replace(LEARNING, most_rows=40)
    judged, kept = judged_model(dataset, few, SharedWork()), kept_model(dataset, few, SharedWork())
    assert (len(judged.fitted.rows), len(judged.test), len(kept.rows)) == (40, 80, 40)
    assert set(judged.held) <= set(judged.test)


def test_scale_comes_from_rows_that_the_bound_does_not_count(dataset: PreparedDataset) -> None:
    kept, data = kept_model(dataset, LEARNING, SharedWork()), load(dataset)
    others = np.setdiff1d(np.arange(120), kept.rows)
    assert len(others) == 12
    assert kept.target.mean[0] == pytest.approx(data.y[others, 0].mean(), rel=1e-14)


def test_test_rows_do_not_scale_the_model_that_they_judge(dataset: PreparedDataset) -> None:
    fitted, data = judged_model(dataset, LEARNING, SharedWork()).fitted, load(dataset)
    np.testing.assert_allclose(fitted.inputs.mean, data.X[fitted.rows].mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(fitted.target.scale, data.y[fitted.rows].std(axis=0), rtol=1e-12)


def test_every_error_is_allowed_for(dataset: PreparedDataset) -> None:
    kept = kept_model(dataset, LEARNING, SharedWork())
    widths, goal = errors_of(kept, LEARNING, [0.5, 1.0, 2.0])
    assert widths[goal] * kept.scale == pytest.approx(LEARNING.goal, rel=1e-14)
    found = mean_bounds(kept, LEARNING, widths, ALL_DIFFERENT)
    assert {each.penalty.log_settings for each in found} == {np.log(4.0)}
    bounds = [each.bound_bayes for each in found]
    assert bounds == sorted(bounds, reverse=True)
    every = np.arange(20)
    judged = judged_model(dataset, LEARNING, SharedWork())
    judged = replace(judged, aside=every, all_errors=every.astype(float), different=None)
    shares, tested = held_out_bounds(judged, np.array([4.5, 18.5]), 0.01)
    assert shares.tolist() == [0.75, 0.05]
    assert tested.tolist() == [binomial_upper_bound(15, 20, 0.005), binomial_upper_bound(1, 20, 0.005)]


def copied_noise(folder: Path, different: int = 60) -> PreparedDataset:
    """A table of 720 rows, few of them different; ratings that are noise."""
    rng = np.random.default_rng(6)
    rows = np.column_stack([rng.normal(size=(different, 2)), rng.integers(0, 4, different)])
    path = folder / "copies.csv"
    np.savetxt(path, np.tile(rows, (720 // different, 1)), delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    return prepare(CsvSpec(path=str(path), target="y", task="regression"), cache_dir=folder)


def test_a_learnt_copy_proves_nothing(tmp_path: Path) -> None:
    """The model knows its rows by heart; of fresh ones, which are noise, it can know nothing."""
    dataset = copied_noise(tmp_path, different=30)
    learning = replace(LEARNING, goal=1.2, most_rows=2000, preparation=0.02)
    kept, copies = kept_model(dataset, learning, SharedWork()), kept_copies(dataset, learning)
    assert copies.train is not None
    assert len(np.unique(load(dataset).y[kept.rows])) == 4
    rng = np.random.default_rng(0)
    fresh, targets = rng.normal(size=(4000, 2)), rng.integers(0, 4, 4000)
    off = float(np.mean(np.abs(kept.predict(fresh)[0] - targets) > 1.2))
    widths = np.array([1.2]) / kept.scale
    assert mean_bounds(kept, learning, widths, copies)[0].bound_bayes >= off
    # that the case is one: counted as draws, the copies would give a false bound
    assert mean_bounds(kept, learning, widths, ALL_DIFFERENT)[0].bound_bayes < off


def test_copies_of_rows_that_chose_the_scale_do_not_count(tmp_path: Path) -> None:
    dataset = copied_noise(tmp_path)
    first, rows = kept_rows(dataset, LEARNING)
    groups, found = load(dataset).groups, kept_copies(dataset, LEARNING).train
    assert groups is not None
    assert found is not None
    assert np.array_equal(groups[rows[found.places]], rows[found.places])
    assert np.array_equal(found.seen, np.isin(rows[found.places], groups[first]))
    assert 0 < found.seen.sum() < len(found.seen)
    with pytest.raises(UserError, match="720 rows are only 60 different ones"):
        kept_copies(dataset, replace(LEARNING, preparation=0.9))


def test_rows_that_are_set_aside_count_once_and_every_time(dataset: PreparedDataset) -> None:
    judged = judged_model(dataset, LEARNING, SharedWork())
    errors = np.array([5.0, 5.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    different = DifferentRows(np.array([0, 3, 4, 5, 6, 7]), np.zeros(6, dtype=bool))
    bad = replace(judged, aside=np.arange(8), all_errors=errors, different=different)
    assert held_out_bounds(bad, np.array([1.0]), 0.1)[1] == [binomial_upper_bound(3, 8, 0.1)]
    good = replace(bad, all_errors=5.0 - errors)
    assert held_out_bounds(good, np.array([1.0]), 0.1)[1] == [binomial_upper_bound(5, 6, 0.1)]
    assert (bad.errors > 1.0).sum() == 1
    assert 5.0 <= conformal_radius(bad, 0.7) < 5.0 + 1e-8  # counts rounding
    # one that training saw counts as lost, and is no test row
    seen = replace(bad, different=DifferentRows(different.places, different.places == 3))
    assert held_out_bounds(seen, np.array([1.0]), 0.1)[1] == [
        max(binomial_upper_bound(3, 8, 0.1), binomial_upper_bound(2, 6, 0.1))
    ]
    assert len(seen.test) == 5
    assert conformal_radius(seen, 0.8) == np.inf


def test_proved_ranges_hold_what_the_model_says(dataset: PreparedDataset) -> None:
    kept, data = kept_model(dataset, LEARNING, SharedWork()), load(dataset)
    X, tolerances = data.X[:2], [0.1, 0.5]
    deviations = data.X.std(axis=0) * np.array([1.0, 2.0])  # not those of the rows that scale the regression
    ranges = proved_ranges(
        kept, latent_posterior(kept.posterior), X, deviations, tolerances, Searches(Budget(), 500), 0.05
    )
    rng = np.random.default_rng(1)
    for place, tolerance in enumerate(tolerances):
        moved = X[:, None] + rng.uniform(-tolerance, tolerance, (2, 400, 2)) * deviations
        for row in range(2):
            values = kept.predict(moved[row])[0]
            assert ranges[row, place, 0] <= values.min()
            assert values.max() <= ranges[row, place, 1]
            assert ranges[row, place, 1] - ranges[row, place, 0] < 3.0 * np.ptp(values)


def test_saved_model_predicts_as_the_trained_ones(dataset: PreparedDataset, saved: SavedRegression) -> None:
    shared, X = SharedWork(), load(dataset).X[:7]
    kept, judged = kept_model(dataset, LEARNING, shared), judged_model(dataset, LEARNING, shared)
    found, (mean, deviation) = saved.predict(X), kept.predict(X)
    assert found.prediction == pytest.approx(mean, rel=1e-9)
    assert found.gp[:, 1] - found.prediction == pytest.approx(1.2815515655446004 * deviation, rel=1e-6)
    around = judged.fitted.predict(X)[0]
    radius = np.sort(judged.errors)[24]  # ceil(31 * .8) = 25
    assert found.conformal == pytest.approx(np.column_stack([around - radius, around + radius]), rel=1e-9)


def test_rows_outside_the_training_range_are_marked(saved: SavedRegression) -> None:
    low, high = saved.arrays["lowest"], saved.arrays["highest"]
    rows = np.array([low, high, [low[0] - 1e-9, high[1]], [high[0], high[1] + 1e-9]])
    assert saved.predict(rows).outside.tolist() == [False, False, True, True]


def test_round_trip_is_bitwise(saved: SavedRegression, tmp_path: Path) -> None:
    marks = {"decimal": ",", "separator": ";"}
    told = replace(saved, guarantee=("at most 5 % …",), categories={"side": ("a", "ß")}, reading=marks)
    write_model(told, tmp_path / FOLDER)
    read, X = gpsuite.load(tmp_path), np.random.default_rng(0).normal([100.0, 5.0], 1.0, (9, 2))
    assert (read.guarantee, read.categories, read.reading) == (told.guarantee, told.categories, marks)
    for name, column in saved.predict(X).columns().items():
        assert np.array_equal(read.predict(X).columns()[name], column), name


def test_a_table_of_other_order_is_read_by_its_names(saved: SavedRegression) -> None:
    rows = np.array([[99.0, 5.001], [104.0, 4.99]])
    frame = pd.DataFrame(rows, columns=list(saved.inputs)).assign(other=0.0)[["other", *reversed(saved.inputs)]]
    asked = saved.predict(frame)
    assert np.array_equal(asked.columns()["prediction"], saved.predict(rows).columns()["prediction"])
    with pytest.raises(ValueError, match="no column"):
        saved.predict(frame[[saved.inputs[0]]])


def test_loaded_model_is_gpflows(saved: SavedRegression) -> None:
    model, X = saved.gpflow_model(), np.array([[99.0, 5.001], [104.0, 4.99]])
    scaled = (X - saved.arrays["input_mean"]) / saved.arrays["input_scale"]
    mean, variance = (part.numpy()[:, 0] for part in model.predict_f(scaled))
    ours = saved.latent.latent(scaled)
    assert ours[0] == pytest.approx(mean, rel=1e-6)
    assert ours[1] == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize("scale", [4.0, 5.0])
def test_every_model_has_as_many_errors_though_the_goal_may_equal_a_width(
    saved: SavedRegression, dataset: PreparedDataset, scale: float
) -> None:
    fitted = kept_model(dataset, LEARNING, SharedWork())
    target = replace(fitted.target, scale=np.array([scale]))
    values, number = errors_of(replace(fitted, target=target), LEARNING, [1.0, 2.0, 3.0])
    assert (len(values), values[number]) == (4, 8.0 / scale)


def test_conformal_intervals_are_around_the_judged_models_prediction(saved: SavedRegression) -> None:
    columns = saved.predict(np.array([[100.0, 5.0], [103.0, 5.01], [120.0, 5.2]])).columns()
    assert not np.allclose(columns["prediction_judged"], columns["prediction"], rtol=1e-6)
    low, high = columns["conformal_low"], columns["conformal_high"]
    np.testing.assert_allclose(columns["prediction_judged"], 0.5 * (low + high), rtol=1e-12)


def test_too_few_test_rows_for_a_coverage_leave_intervals_unbounded(dataset: PreparedDataset) -> None:
    shared = SharedWork()
    fitted, judged = kept_model(dataset, LEARNING, shared), judged_model(dataset, LEARNING, shared)
    found = SavedRegression.of(load(dataset), fitted, judged, latent_posterior(fitted.posterior), 0.999)
    assert found.radius is None
    assert np.array_equal(np.abs(found.predict(load(dataset).X[:3]).conformal), np.full((3, 2), np.inf))
