from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.cli import main
from gpsuite.data.catalogue import read_spec
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.robustness.classifiers import (
    Classifier,
    Problem,
    classifier_method,
    median_distance,
    model_metrics,
    read_problem,
    trained_classifier,
)
from gpsuite.experiments.robustness.methods import gpc, train_by_likelihood
from gpsuite.experiments.robustness.tasks import ClassifierParams
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.plugins import shipped_conf_dir

MODEL = ClassifierParams(
    method=gpc("laplace", "probit"),
    version=1,
    kernel="squared_exponential",
    ard=True,
    draw_seed=7,
    evaluations=4,
    train_rows=40,
    test_rows=20,
    scaling="none",
    classes=[],
    start_variance=1.0,
    start_lengthscale=1.0,
    largest_variance=1e6,
)


def dataset(name: str, tmp_path: Path) -> PreparedDataset:
    return prepare(read_spec(shipped_conf_dir(), name), cache_dir=tmp_path)


def test_the_test_rows_do_not_depend_on_the_number_of_training_rows(tmp_path: Path) -> None:
    data = dataset("synthetic2d", tmp_path)
    few, many = (read_problem(data, replace(MODEL, train_rows=rows)) for rows in (10, 5000))
    np.testing.assert_array_equal(few.test_rows, many.test_rows)
    assert (len(few.X), len(many.X)) == (10, 1180)  # all that is left
    assert not {tuple(x) for x in many.X} & {tuple(x) for x in many.X_test}
    other = read_problem(data, replace(MODEL, draw_seed=8))
    assert set(other.test_rows) != set(few.test_rows)


def test_no_copy_of_a_test_row_is_learnt(tmp_path: Path) -> None:
    lines = [f"{number / 7},{number % 3},{'ab'[number % 2]}" for number in range(30)]
    table = tmp_path / "copies.csv"
    table.write_text("\n".join(["x,z,label", *lines, *lines, *lines]) + "\n", encoding="utf-8")
    spec = CsvSpec(path=str(table), target="label", task="classification")
    problem = read_problem(prepare(spec, cache_dir=tmp_path), MODEL)
    assert len(problem.test_rows) == 20 and len(problem.train_rows) > 0
    assert not {tuple(x) for x in problem.X} & {tuple(x) for x in problem.X_test}


def test_labels_and_rows_belong_together(tmp_path: Path) -> None:
    data = dataset("digits", tmp_path)
    raw = load(data)
    problem = read_problem(data, replace(MODEL, classes=["8", "3"], scaling="pixels"))
    assert problem.label_names == ("8", "3")
    for x, y, row in zip(problem.X_test, problem.y_test, problem.test_rows, strict=True):
        np.testing.assert_allclose(16.0 * x, raw.X[row])
        assert {-1.0: 8, 1.0: 3}[y] == raw.y[row, 0]
    assert problem.domain[0].max() == 0.0
    assert problem.domain[1].min() == 1.0


@pytest.mark.parametrize("scaling", ["all", "train"])
def test_standardised_inputs_have_deviation_one_and_the_scale_as_unit(scaling: str, tmp_path: Path) -> None:
    data = dataset("breast_cancer", tmp_path)
    problem = read_problem(data, replace(MODEL, scaling=scaling, train_rows=549))
    rows = problem.X if scaling == "train" else np.vstack([problem.X, problem.X_test])
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(rows.std(axis=0, ddof=1), 1.0)
    raw = load(data).X[problem.test_rows]
    np.testing.assert_allclose(problem.X_test[1] - problem.X_test[0], (raw[1] - raw[0]) / problem.scale)
    assert np.isinf(problem.domain[0]).all()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("digits", {}, r"digits has 10 classes .*classes=\[0,1\]"),
        ("digits", {"classes": ["3", "B"]}, "no label B\nvalid: 0, 1"),
        ("synthetic2d", {"test_rows": 1199}, "test_rows=1199: synthetic2d has 1200 rows"),
        ("diabetes", {}, "a classification dataset"),
    ],
)
def test_data_that_are_no_binary_problem_are_refused(
    name: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        read_problem(dataset(name, tmp_path), replace(MODEL, **changes))


def test_training_rows_of_one_class_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="training rows of synthetic2d are all of class"):
        for seed in range(20):
            read_problem(dataset("synthetic2d", tmp_path), replace(MODEL, train_rows=2, draw_seed=seed))


def test_a_group_trains_once_and_remembers_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, shared = dataset("synthetic2d", tmp_path), SharedWork()
    first = trained_classifier(data, MODEL, shared)
    assert trained_classifier(data, replace(MODEL), shared) is first
    assert trained_classifier(data, replace(MODEL, evaluations=2), shared) is not first
    assert first.trained.evaluations == 4
    assert not first.trained.cut_short
    assert train_by_likelihood(first.problem, MODEL, Budget(evaluations=2)).cut_short
    calls = []

    def fail(*_: Any) -> None:
        calls.append(1)
        raise NotConvergedError("no start")

    method: Any = classifier_method(MODEL.method)
    failing = replace(method, train=fail)
    monkeypatch.setattr("gpsuite.experiments.robustness.classifiers.classifier_method", lambda _: failing)
    for _ in range(2):
        with pytest.raises(NotConvergedError, match="no start"):
            trained_classifier(data, replace(MODEL, evaluations=3), shared)
    assert len(calls) == 1


def searched(problem: Problem, model: ClassifierParams, evaluations: int) -> Classifier:
    found = train_by_likelihood(problem, model, Budget(evaluations=evaluations))
    return Classifier(problem, model, found)


def test_the_start_is_a_median_distance_and_the_box_ends_the_variance(tmp_path: Path) -> None:
    assert median_distance(np.array([[0.0], [1.0], [4.0]])) == 3.0
    assert median_distance(np.zeros((3, 1))) == 1.0
    problem = read_problem(dataset("synthetic2d", tmp_path), MODEL)
    start = searched(problem, replace(MODEL, start_lengthscale=0.5), 1).trained.hyperparameters
    assert start is not None
    assert start.lengthscales == pytest.approx((0.5 * median_distance(problem.X),) * 2)
    boxed = searched(problem, replace(MODEL, largest_variance=3.0), 30)
    free = searched(problem, MODEL, 30)
    assert boxed.posterior.variance <= 3.0 * (1 + 1e-12) < free.posterior.variance
    metrics = model_metrics(free)
    assert metrics["test_accuracy"] is not None and 0.9 <= metrics["test_accuracy"] <= 1.0
    assert metrics["evaluations_used"] == free.trained.evaluations


def test_a_table_with_one_or_three_classes_is_the_users_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, labels in (("three", "abc"), ("one", "a")):
        rows = [f"{number / 7},{labels[number % len(labels)]}" for number in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,label", *rows]) + "\n", encoding="utf-8")
        words = ["dataset=csv", f"dataset.path={name}.csv", "dataset.target=label", "features=all"]
        monkeypatch.setattr(
            "sys.argv", ["gpsuite", "run", "experiment=robustness/distribution_synthetic2d", "scale=smoke", *words]
        )
        assert main() == 2
        error = capsys.readouterr().err
        assert "Traceback" not in error
        assert ("3 classes (a, b, c)" if name == "three" else "all rows have the label 'a'") in error
        assert len(error.strip().splitlines()) <= 4


def test_inputs_of_a_scale_beyond_the_search_name_the_setting(tmp_path: Path) -> None:
    data, far = dataset("synthetic2d", tmp_path), replace(MODEL, start_lengthscale=1e9)
    with pytest.raises(UserError, match=r"training starts at variance 1 .*\n.* need scaling=train") as caught:
        train_by_likelihood(read_problem(data, far), far, Budget(evaluations=1))
    assert caught.value.key == "scaling"
    digits = dataset("digits", tmp_path)
    with pytest.raises(UserError, match="need scaling=train"):
        trained_classifier(digits, replace(far, classes=["0", "1", "2"]), SharedWork())
