"""The classifiers of a table: what is proved holds of the model, for two classes and for three."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

import gpsuite
from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.errors import UserError
from gpsuite.experiments.base import Record, SharedWork
from gpsuite.experiments.guarantee.checks import Searches
from gpsuite.experiments.guarantee.classification import (
    check_classes,
    class_probabilities,
    input_effects,
    judged_classifier,
    kept_classifier,
    only_stated,
    probability_ranges,
    proved_safe,
)
from gpsuite.experiments.guarantee.guarantees import STATED, Found
from gpsuite.experiments.guarantee.regression import check_rows
from gpsuite.experiments.guarantee.run import _certified
from gpsuite.experiments.guarantee.saved import FOLDER, SavedClassifier, write_model
from gpsuite.experiments.guarantee.saved import load as load_model
from gpsuite.experiments.guarantee.tasks import JudgedClassesTask, Learning
from gpsuite.experiments.guarantee.told import _of_probabilities
from gpsuite.experiments.robustness.classifiers import Classifier
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.verdict import PointClasses

LEARNING = Learning(
    seed=3, goal=1.0, own=False, delta=0.01, coverage=0.9, test_share=0.2, preparation=0.1, most_rows=90,
    max_evaluations=3,
)  # fmt: skip
CLASSES = (2, 3)


def searches() -> Searches:
    return Searches(Budget(), 300)


def table(folder: Path, count: int) -> PreparedDataset:
    """Return a table of 60 rows: text labels that follow the first input, in units far from standardised ones."""
    rng = np.random.default_rng(count)
    X = rng.normal(size=(60, 2))
    labels = np.digitize(X[:, 0] + 0.2 * rng.normal(size=60), np.linspace(-0.5, 0.5, count - 1))
    lines = [f"{a * 40 + 7!r},{b!r},class{label}" for (a, b), label in zip(X.tolist(), labels, strict=True)]
    path = folder / f"table{count}.csv"
    path.write_text("\n".join(["a,b,kind", *lines]) + "\n")
    return prepare(CsvSpec(path=str(path), target="kind", task="classification"), cache_dir=folder)


@pytest.fixture(scope="module", params=CLASSES)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreparedDataset:
    """A table of two or three classes."""
    return table(tmp_path_factory.mktemp("table"), request.param)


@pytest.fixture(scope="module")
def kept(dataset: PreparedDataset) -> Classifier:
    """The classifier of all its rows."""
    return kept_classifier(dataset, LEARNING, SharedWork())


def test_the_judged_model_does_not_see_its_test_rows(dataset: PreparedDataset, kept: Classifier) -> None:
    judged = judged_classifier(dataset, LEARNING, SharedWork()).problem
    assert not set(judged.train_rows) & set(judged.test_rows)
    several = len(kept.labels) > 2
    most = LEARNING.most_rows // 3 if several else LEARNING.most_rows
    assert len(judged.test_rows) == max(12, 60 - most)
    assert len(kept.problem.train_rows) == min(60, most)


@pytest.mark.parametrize("check", (check_classes, check_rows))
def test_a_table_of_few_different_rows_is_refused_before_any_work(
    tmp_path: Path, check: Callable[[PreparedDataset, Learning], object]
) -> None:
    path = tmp_path / "few.csv"
    path.write_text("\n".join(["a,kind", *(f"{row % 3},{row % 2}" for row in range(60))]) + "\n")
    task: Literal["classification", "regression"] = "classification" if check is check_classes else "regression"
    few = prepare(CsvSpec(path=str(path), target="kind", task=task), cache_dir=tmp_path)
    with pytest.raises(UserError, match="60 rows are only 6 different ones"):
        check(few, LEARNING)
    check(table(tmp_path, 2), LEARNING)


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        ([f"k{row % 11}" for row in range(60)], "column 'kind' has 11 classes (k0, k1, k10, k2"),
        (["a", "b"] * 29 + ["a", "c"], "1 of 60 rows are of class c"),
    ],
)
@pytest.mark.parametrize("copies", (False, True))
def test_classes_that_cannot_be_judged_are_refused_before_any_work(
    tmp_path: Path, labels: list[str], fault: str, copies: bool
) -> None:
    """Also with copies among the rows, which are not the fault then."""
    path = tmp_path / "classes.csv"
    values = [row // 2 if copies and row < 4 else row for row in range(60)]
    labels = [labels[0], labels[0], *labels[2:]] if copies else labels
    path.write_text("\n".join(["a,kind", *map("{},{}".format, values, labels)]) + "\n")
    few = prepare(CsvSpec(path=str(path), target="kind", task="classification"), cache_dir=tmp_path)
    with pytest.raises(UserError, match=re.escape(fault)):
        check_classes(few, LEARNING)


def test_the_kept_classifiers_rows_are_checked_before_any_work(tmp_path: Path) -> None:
    """Of 36 tables with one class of 3 in 90 rows each draw that learns 30 of them has all classes, or is refused."""
    path, learning, refused = tmp_path / "rare.csv", replace(LEARNING, most_rows=90), 0
    for seed in range(36):
        rng = np.random.default_rng(seed)
        labels = rng.permutation(["a"] * 50 + ["b"] * 37 + ["c"] * 3)
        rows = map("{:.3f},{}".format, rng.normal(size=90), labels)
        path.write_text("\n".join(["a,kind", *rows]) + "\n")
        data = prepare(CsvSpec(path=str(path), target="kind", task="classification"), cache_dir=tmp_path)
        try:
            check_classes(data, learning)
        except UserError as error:
            assert "3 of 90 rows are of class c" in str(error) and "most_rows=" in str(error)
            refused += 1
        else:
            kept_classifier(data, replace(learning, max_evaluations=1), SharedWork())
    assert 0 < refused < 36


def test_ranges_hold_what_the_model_says(kept: Classifier) -> None:
    predicted = np.argmax(class_probabilities(kept, kept.problem.X), axis=1)
    each = np.unique(predicted, return_index=True)[1]  # of two classes one is bounded through the other
    scaled, tolerances = kept.problem.X[each[:2]], [0.1, 0.4]
    ranges = probability_ranges(kept, scaled, tolerances, searches(), 0.02)
    rng = np.random.default_rng(0)
    for row, x in enumerate(scaled):
        own = int(np.argmax(class_probabilities(kept, x[None])[0]))
        for place, radius in enumerate(tolerances):
            near = x + rng.uniform(-radius, radius, (300, 2))
            values = class_probabilities(kept, near)[:, own]
            assert ranges[row, place, 0] <= values.min() + 1e-9  # the softmax cubature's own rounding
            assert values.max() - 1e-9 <= ranges[row, place, 1]
            assert ranges[row, place, 1] - ranges[row, place, 0] < np.ptp(values) + 0.1


def test_what_is_called_safe_keeps_its_class(kept: Classifier) -> None:
    probabilities = class_probabilities(kept, kept.problem.X)
    surest, least = (kept.problem.X[pick(probabilities.max(axis=1))] for pick in (np.argmax, np.argmin))
    tolerances = [0.01, 0.1, 50.0]
    most, fewest = proved_safe(kept, np.stack([surest, least]), tolerances, searches())
    assert 1 <= most < 3  # everything is near enough to some other class at 50
    assert fewest <= most


def test_a_cubature_whose_error_is_stated_proves_nothing(kept: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    probabilities = class_probabilities(kept, kept.problem.X)
    surest = kept.problem.X[np.argmax(probabilities.max(axis=1))]
    build = PointSearch.__init__

    def stated(self: PointSearch, *given: Any) -> None:
        build(self, *given)
        if isinstance(self.centre, PointClasses):  # two classes need no cubature
            self.centre = replace(self.centre, proved=False)

    monkeypatch.setattr(PointSearch, "__init__", stated)
    several = len(kept.labels) > 2
    assert only_stated(kept, surest) is several
    assert np.isnan(probability_ranges(kept, surest[None], [0.01], searches(), 0.1)).all() is np.bool_(several)
    assert proved_safe(kept, surest[None], [0.01], searches())[0] == 1
    monkeypatch.setattr(PointSearch, "proves_class", lambda self, found: False)
    assert proved_safe(kept, surest[None], [0.01], searches())[0] == 0


@pytest.mark.parametrize(
    ("lows", "said"),
    [
        ([0.61, 0.7234], "Proved: with inputs off by 0.1 standard deviations the class of 2 of 2 new rows keeps a "
         "probability above 0.61."),
        ([np.nan, 0.7234], "Proved: with inputs off by 0.1 standard deviations the class of 1 of 2 new rows keeps a "
         f"probability above 0.723. Not proved for the others: {STATED}."),
        ([np.nan, np.nan], "Not proved for any of 2 new rows with inputs off by 0.1 standard deviations: "
         f"{STATED}."),
    ],
)  # fmt: skip
def test_only_ranges_that_are_proved_are_called_so(lows: list[float], said: str) -> None:
    ranges = np.array(lows)[:, None, None] * np.ones((1, 1, 2))
    arrays = {"ranges": ranges, "effects": np.ones((2, 1)), "examples": np.zeros(0), "outside": np.zeros(2)}
    record = Record("k", "e", "", {}, "done", "", {}, {}, arrays=arrays)
    data: Any = SimpleNamespace(input_names=("c",), level_inputs=frozenset())
    report: Any = SimpleNamespace(settings=SimpleNamespace(tolerances=[0.1]))
    found = Found(report, data, {})
    assert next(_of_probabilities(record, found)) == said
    data.level_inputs = frozenset({"a=b"})
    assert next(_of_probabilities(record, found)) == said.replace("inputs off", "numbers off")


def test_the_input_that_labels_follow_decides(kept: Classifier) -> None:
    far = kept.problem.X[np.abs(kept.problem.X[:, 0]) > 0.7][:6]  # a class in the middle rises and falls
    effects = np.abs(input_effects(kept, far, searches(), 0.05))
    assert effects[:, 0].mean() > 1.25 * effects[:, 1].mean()


def test_round_trip_is_bitwise(dataset: PreparedDataset, kept: Classifier, tmp_path: Path) -> None:
    saved, X = SavedClassifier.of(load(dataset), kept), load(dataset).X[:5] + 0.25
    saved = replace(saved, categories={"side": ("a", "b")}, reading={"thousands": "."})
    write_model(saved, tmp_path / FOLDER)
    read = gpsuite.load(tmp_path)
    assert (read.categories, read.reading) == (saved.categories, saved.reading)
    for name, column in saved.predict(X).columns().items():
        assert np.array_equal(read.predict(X).columns()[name], column), name
    assert saved.predict(X).probabilities == pytest.approx(class_probabilities(kept, kept.scaled(X)))
    assert read.predict(X).labels == kept.labels == tuple(f"class{n}" for n in range(len(kept.labels)))


def test_loaded_model_of_two_classes_is_gpflows(tmp_path: Path) -> None:
    data = table(tmp_path, 2)
    model = kept_classifier(data, LEARNING, SharedWork())
    write_model(SavedClassifier.of(load(data), model), tmp_path / FOLDER)
    scaled = model.problem.X[:4] + 0.1
    theirs = load_model(tmp_path).gpflow_model()
    mean, variance = (part.numpy()[:, 0] for part in theirs.predict_f(scaled))
    ours = model.posterior.latent(scaled)
    probability = theirs.predict_y(scaled)[0].numpy()[:, 0]  # of the same link: another's differ by 6e-4
    assert model.posterior.probability(scaled) == pytest.approx(probability, abs=1e-4)
    assert ours[0] == pytest.approx(mean, abs=2e-4)  # GPflow's jitter of 1e-6 on the training covariance
    assert ours[1] == pytest.approx(variance, rel=1e-3)


def test_searched_rows_that_all_repeat_others_prove_nothing(dataset: PreparedDataset) -> None:
    judged = judged_classifier(dataset, LEARNING, SharedWork())
    test_rows = judged.problem.test_rows
    groups = np.arange(60)
    groups[test_rows[:2]] = test_rows[-1]  # the two that are searched repeat another one
    task = JudgedClassesTask(learning=LEARNING, tolerances=(0.05, 0.1), points=2, boxes=10)
    searched, arrays = _certified(judged, task, np.ones(len(test_rows), dtype=bool), groups, searches())
    assert searched["points"] == searched["searched"] == 0
    np.testing.assert_array_equal(arrays["certified"], [0.0, 0.0])
    np.testing.assert_array_equal(arrays["certified_bounds"], [0.0, 0.0])
    searched, arrays = _certified(judged, task, np.ones(len(test_rows), dtype=bool), None, searches())
    assert searched["points"] == searched["searched"] == 2
    assert arrays["certified_bounds"][0] >= 0.0
