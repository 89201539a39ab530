"""Intervals that follow the judged model's spread, and sets of classes: what their rows decide, and their files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.errors import DataError, UserError
from gpsuite.experiments.base import EXPERIMENTS, Record, SharedWork
from gpsuite.experiments.guarantee import conformal
from gpsuite.experiments.guarantee.classification import class_bounds, judged_classifier
from gpsuite.experiments.guarantee.conformal import (
    ClassSets,
    SpreadIntervals,
    calibration_rows,
    default_interval,
    shares,
)
from gpsuite.experiments.guarantee.plan import new_rows
from gpsuite.experiments.guarantee.regression import Judged, judged_model
from gpsuite.experiments.guarantee.sets_and_spread import class_table, set_sentences, spread_sentences
from gpsuite.experiments.guarantee.tasks import Learning
from gpsuite.methods.conformal import LeaveOneOutSpread, follows_spread
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound
from gpsuite.untrusted import UnusableFileError

LEARNING = Learning(
    seed=5, goal=8.0, own=True, delta=0.01, coverage=0.8, test_share=0.25, preparation=0.1, most_rows=200,
    max_evaluations=4,
)  # fmt: skip


def table(folder: Path, **words: Any) -> PreparedDataset:
    """Return a table of 120 rows in 40 groups, with likelihood ratios that are three or one."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=120) * 3.0 + 100.0, rng.normal(size=120)
    y = 500.0 + 20.0 * np.sin((a - 100.0) / 3.0) + (1.0 + np.abs(b)) * rng.normal(size=120)
    frame = pd.DataFrame({"a": a, "b": b, "y": y, "who": rng.integers(0, 40, 120), "ratio": np.where(a > 100.0, 3, 1)})
    frame.to_csv(folder / "table.csv", index=False)
    spec = CsvSpec(path=str(folder / "table.csv"), target="y", inputs=["a", "b"], task="regression", **words)
    return prepare(spec, cache_dir=folder)


def intervals(dataset: PreparedDataset) -> tuple[Judged, SpreadIntervals]:
    judged = judged_model(dataset, LEARNING, SharedWork())
    return judged, SpreadIntervals.of(load(dataset), judged, LEARNING.coverage)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[PreparedDataset, Judged, SpreadIntervals]:
    dataset = table(tmp_path_factory.mktemp("plain"))
    return dataset, *intervals(dataset)


def scores_of(dataset: PreparedDataset, judged: Judged, rows: Any) -> Any:
    data = load(dataset)
    mean, deviation = judged.fitted.predict(data.X[rows])
    return np.abs(data.y[rows, 0] - mean) / deviation


def test_the_radius_is_a_rank_of_errors_in_the_models_deviations(
    plain: tuple[PreparedDataset, Judged, SpreadIntervals],
) -> None:
    dataset, judged, found = plain
    X = load(dataset).X[:6]
    scores = np.sort(scores_of(dataset, judged, judged.test))
    radius = scores[24]  # ceil(31 * 0.8) = 25 of 30
    mean, deviation = judged.fitted.predict(X)
    columns = found.columns(X)
    assert columns["spread_low"] == pytest.approx(mean - radius * deviation, rel=1e-7)
    assert columns["spread_high"] == pytest.approx(mean + radius * deviation, rel=1e-7)
    assert (columns["jackknife_spread_low"] < columns["jackknife_spread_high"]).all()


def test_training_rows_choose_the_interval_and_ratios_need_the_spread(
    plain: tuple[PreparedDataset, Judged, SpreadIntervals],
) -> None:
    dataset, judged, _ = plain
    data = load(dataset)
    y = np.array(data.y)
    y[judged.aside] += 1e6 * np.arange(len(judged.aside))[:, None]
    told = default_interval(data, judged, 0.8)
    assert default_interval(replace(data, y=y), judged, 0.8) == told  # rows set aside have no say
    assert default_interval(replace(data, weights=np.ones(len(y))), judged, 0.8) == "spread"
    left = LeaveOneOutSpread.fit(
        judged.fitted.posterior.X, judged.fitted.posterior.y, np.arange(90), "squared_exponential",
        judged.fitted.posterior.hyperparameters,
    )  # fmt: skip
    assert told == ("spread" if follows_spread(left.models.errors, left.scores, 0.8) else "conformal")


def test_a_target_at_an_end_is_inside(plain: tuple[PreparedDataset, Judged, SpreadIntervals]) -> None:
    """The row whose score is the threshold counts as held."""
    dataset, judged, found = plain
    data, columns = load(dataset), found.columns(load(dataset).X[judged.test])
    y = data.y[judged.test, 0]
    assert int(((columns["spread_low"] <= y) & (y <= columns["spread_high"])).sum()) == 25


def test_too_few_rows_have_no_finite_interval(plain: tuple[PreparedDataset, Judged, SpreadIntervals]) -> None:
    _, _, found = plain
    columns = replace(found, coverage=0.99).columns(np.zeros((2, 2)))
    assert (columns["spread_low"] == -np.inf).all()
    assert (columns["jackknife_spread_high"] == np.inf).all()


def test_every_row_of_a_group_counts_and_all_its_rows_weigh_one(tmp_path: Path) -> None:
    dataset = table(tmp_path, group="who")
    judged, found = intervals(dataset)
    data, rows = load(dataset), calibration_rows(load(dataset), judged)
    assert data.clusters is not None
    groups = np.unique(data.clusters[judged.aside])
    assert len(rows) > len(judged.aside) == len(groups)
    assert not set(data.clusters[rows]) & set(data.clusters[judged.fitted.rows])
    assert found.arrays["weights"].sum() == pytest.approx(len(groups))
    order = np.argsort(found.arrays["scores"])
    held = np.cumsum(found.arrays["weights"][order])
    expected = found.arrays["scores"][order][np.argmax(held >= 0.8 * (len(groups) + 1) * (1 - 1e-12))]
    assert found.radii(np.ones(1))[0] == expected


def test_likelihood_ratios_are_no_input_and_decide_the_width(tmp_path: Path) -> None:
    dataset = table(tmp_path, weights="ratio")
    data = load(dataset)
    assert data.input_names == ("a", "b")
    assert data.weight_name == "ratio"
    found = intervals(dataset)[1]
    assert sorted(set(found.arrays["weights"])) == [1.0, 3.0]
    few, many = found.radii(np.array([1.0, 60.0]))
    assert few < many == np.inf
    ends = found.columns(data.X[:2], np.array([1.0, 60.0]))
    assert np.isfinite(ends["spread_low"]).tolist() == [True, False]
    assert np.isinf(found.columns(data.X[:2])["spread_low"]).all()  # nobody says what the new rows' are


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"weights": "y", "group": "who"}, "single rows"),
        ({"weights": "nobody"}, "nobody"),
        ({"weights": "b"}, "numbers of 0 or more"),
    ],
)
def test_ratios_that_are_none_are_refused(tmp_path: Path, words: dict[str, str], fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        table(tmp_path, **words)


def asked(folder: Path, *words: str) -> Any:
    own = ["experiment=guarantee", "dataset=csv", f"dataset.path={folder / 'table.csv'}"]
    return read_request([*own, *words])[0]


def test_new_rows_bring_their_ratios(tmp_path: Path) -> None:
    table(tmp_path)
    pd.DataFrame({"b": [0.0, 1.0], "ratio": [2.0, 0.5], "a": [99.0, 101.0]}).to_csv(tmp_path / "new.csv", index=False)
    words = ("dataset.target=y", "dataset.inputs=[a,b]", "dataset.weights=ratio", f"dataset.new={tmp_path / 'new.csv'}")
    rows = new_rows(asked(tmp_path, *words).require_dataset())
    assert rows is not None
    assert rows.weights is not None
    assert rows.X.tolist() == [[99.0, 0.0], [101.0, 1.0]]
    assert rows.weights.tolist() == [2.0, 0.5]
    pd.DataFrame({"b": [0.0], "ratio": [-2.0], "a": [99.0]}).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(UserError, match="below 0"):
        EXPERIMENTS.get("guarantee").plan(asked(tmp_path, *words))
    with pytest.raises(UserError, match="classes take no likelihood ratios"):
        words = ("dataset.inputs=[a,b]", "dataset.weights=ratio", "dataset.task=classification", "dataset.target=who")
        EXPERIMENTS.get("guarantee").plan(asked(tmp_path, *words))
    with pytest.raises(UserError, match="takes test rows at random"):
        words = ("dataset=csv", f"dataset.path={tmp_path / 'table.csv'}", "dataset.target=y", "dataset.weights=ratio")
        read_request(["experiment=pac_bayes/regression", *words])


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> PreparedDataset:
    """Two common classes and a rare one."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("classes")
    X = rng.normal(size=(150, 2))
    kind = np.where(X[:, 0] + 0.5 * rng.normal(size=150) > 1.6, "fault", np.where(X[:, 1] > 0.0, "ok", "worn"))
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": kind}).to_csv(folder / "table.csv", index=False)
    return prepare(CsvSpec(path=str(folder / "table.csv"), target="kind", task="classification"), cache_dir=folder)


def test_thresholds_are_those_of_each_class_test_rows(classes: PreparedDataset) -> None:
    learning, data = replace(LEARNING, test_share=0.4, coverage=0.9), load(classes)
    model = judged_classifier(classes, learning, SharedWork())
    found = ClassSets.of(data, model, 0.9)
    rows, truth = model.problem.test_rows, model.problem.test_classes
    p = found.judged.predict(data.X[rows]).probabilities
    for number in range(3):
        missing = np.sort(1.0 - p[truth == number, number])
        rank = -(-9 * (len(missing) + 1) // 10)
        expected = missing[rank - 1] if rank <= len(missing) else np.inf
        assert found.calibration.each[number] == pytest.approx(expected, abs=2e-9)
    assert np.isinf(found.calibration.each).any()  # of the rare class
    adaptive, each = found.sets(data.X[rows])
    assert adaptive[np.arange(len(rows)), truth].mean() >= 0.9
    assert each[:, np.isinf(found.calibration.each)].all()
    assert set(found.columns(data.X[:3])) == {"class_set", "class_set_each"}
    assert set("|".join(found.columns(data.X)["class_set"]).split("|")) <= set(model.labels)


def test_the_share_of_a_row_is_its_own_in_every_file() -> None:
    X = np.random.default_rng(0).normal(size=(4000, 2))
    u = shares(X)
    assert np.array_equal(shares(X[::-1])[::-1], u)
    assert shares(np.array([[0.0]])) == shares(np.array([[-0.0]]))
    assert np.abs(np.sort(u) - np.linspace(0.0, 1.0, 4000)).max() < 0.03
    assert abs(np.corrcoef(u, X[:, 0])[0, 1]) < 0.06


def test_bounds_of_each_class_hold_for_all_at_once() -> None:
    truth, wrong = np.array([0, 0, 0, 1, 1]), np.array([True, False, False, False, False])
    found = class_bounds(wrong, truth, np.array([0, 1, 3]), 3, 0.03)
    expected = [binomial_upper_bound(1, 2, 0.01), binomial_upper_bound(0, 1, 0.01), 1.0]
    assert found.tolist() == expected


def test_files_give_the_same_columns_and_damaged_ones_are_refused(
    tmp_path: Path, plain: tuple[PreparedDataset, Judged, SpreadIntervals], classes: PreparedDataset
) -> None:
    data = load(classes)
    sets = ClassSets.of(data, judged_classifier(classes, replace(LEARNING, test_share=0.4), SharedWork()), 0.9)
    X, found = np.array([[99.0, 0.3], [103.0, -1.0]]), plain[2]
    for kept, names, target in ((found, ("a", "b"), "y"), (sets, ("a", "b"), "kind")):
        conformal.write(kept, tmp_path)
        again = conformal.read(tmp_path, names, target)
        assert again is not None
        for read in (again, conformal.of_record(conformal.in_record(kept))):
            for name, values in kept.columns(X).items():
                assert np.array_equal(read.columns(X)[name], values)
        with pytest.raises(UnusableFileError, match="another table"):
            conformal.read(tmp_path, names, "other")
    described = json.loads((tmp_path / "conformal.json").read_text())
    for change in ({"kind": "x"}, {"coverage": 2.0}, {"each": [0.5]}, {"marginal": "much"}):
        (tmp_path / "conformal.json").write_text(json.dumps({**described, **change}))
        with pytest.raises(UnusableFileError):
            conformal.read(tmp_path, ("a", "b"), "kind")
    assert conformal.read(tmp_path / "empty", ("a", "b"), "kind") is None


@pytest.mark.parametrize(
    "fault",
    [
        {"left_scores": np.ones(3)},
        {"target_scale": np.zeros(1)},
        {"scores": np.full(30, np.nan)},
        {"left_places": np.full(30, 99)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    plain: tuple[PreparedDataset, Judged, SpreadIntervals], fault: dict[str, Any]
) -> None:
    _, _, found = plain
    found.check()
    with pytest.raises(ValueError, match=rf"does not fit|{next(iter(fault))} (holds NaN|are not those)"):
        replace(found, arrays={**found.arrays, **fault}).check()


SETTINGS: Any = type("Settings", (), {"coverage": 0.9, "delta": 0.01})


def test_sentences_say_what_is_promised_and_what_not(plain: tuple[PreparedDataset, Judged, SpreadIntervals]) -> None:
    data = load(plain[0])
    metrics: dict[str, Any] = {"rows": 8, "spread_narrow": None, "spread_wide": None, "jackknife_spread_width": None}
    record = Record("k", "e", "", {}, "done", "", metrics, {})
    assert list(spread_sentences(record, SETTINGS, data)) == ["Spread: too few test rows for an interval of 90 %: 8."]
    metrics = {
        "rows": 80, "spread_width": 3.0, "spread_narrow": 1.0, "spread_wide": 8.0, "jackknife_spread_width": 4.0,
        "interval": "spread",
    }  # fmt: skip
    first, second = spread_sentences(replace(record, metrics=metrics), SETTINGS, data)
    assert first.startswith("The spread interval is taken: ")
    assert second.endswith(" of median width 4.")
    other = replace(record, metrics=metrics | {"interval": "conformal"})
    assert next(spread_sentences(other, SETTINGS, data)).startswith("The conformal interval is taken: ")
    endless = replace(record, metrics=metrics | {"spread_wide": None})
    assert next(spread_sentences(endless, SETTINGS, data)).endswith("have no end. The others are 1 wide or more.")
    weighted = replace(data, weights=np.ones(len(data.X)), weight_name="ratio")
    said = list(spread_sentences(replace(record, metrics=metrics), SETTINGS, weighted))
    assert said[0] == "The spread interval holds where new rows are as likely as ratio says."
    assert said[1] == "The other guarantees are about rows like these."
    arrays = {
        "class_rows": np.array([30, 4, 0]), "class_wrong": np.array([3, 2, 0]),
        "class_bounds": np.array([0.25, 0.97, 1.0]), "class_thresholds": np.array([0.7, np.inf, np.inf]),
        "class_missed": np.array([0.2, 0.0, 0.0]), "class_named": np.array([0.6, 1.0, 1.0]),
    }  # fmt: skip
    metrics = {"rows": 34, "labels": "ok\nfault\nworn", "threshold": 0.9, "set_size": 2.1, "single": 0.25}
    record = Record("k", "e", "", {}, "done", "", metrics, {}, arrays=arrays)
    assert list(set_sentences(record, SETTINGS)) == [
        "class_set holds a single class on 25 % of the test rows.",
        "Class fault is in every class_set_each: too few test rows for a threshold, 4.",
        "With probability 99 %, at most 97 % of its rows are predicted as another class.",
        "No test row is of class worn: it is in every class_set_each.",
    ]
    few = replace(record, metrics=metrics | {"threshold": None})
    assert next(set_sentences(few, SETTINGS)) == (
        "Sets: too few test rows for sets of 90 %: 34. class_set holds every class."
    )
    assert class_table(record)["class"].tolist() == ["ok", "fault", "worn"]
