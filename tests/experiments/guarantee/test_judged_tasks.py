"""What test rows say of a judged model: what counts as wrong, and what several statements together cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.experiments.base import Outcome, SharedWork
from gpsuite.experiments.guarantee import regression, run
from gpsuite.experiments.guarantee.predictions import own_intervals_held
from gpsuite.experiments.guarantee.tasks import BoundedTask, JudgedClassesTask, JudgedTask, Learning, RowsTask
from gpsuite.methods.pac_bayes import FullGPPosterior
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound
from tests.arrays import Array

LEARNING = Learning(
    seed=3,
    goal=1.0,
    own=False,
    delta=0.1,
    coverage=0.9,
    test_share=0.2,
    preparation=0.1,
    most_rows=90,
    max_evaluations=3,
)


def task_of(params: Any, dataset: Any = None) -> Any:
    return SimpleNamespace(params=params, require_dataset=lambda: dataset, budget_seconds=None)


def judged_classes(monkeypatch: pytest.MonkeyPatch, groups: Array | None) -> Outcome:
    """Of 8 test rows the last two are wrong; the class of all others but the sixth stays at both tolerances."""
    guessed, steps = np.repeat([0, 1], [6, 2]), [2, 2, 2, 2, 2, 0, 2, 2]
    truth = np.zeros(8, dtype=np.int64)
    problem = SimpleNamespace(
        test_classes=truth,
        X_test=np.arange(8)[:, None],
        y=np.zeros(20),
        test_rows=np.arange(20, 28),
        train_rows=np.arange(20),
    )
    model = SimpleNamespace(problem=problem, posterior=None, labels=("a", "b"))
    monkeypatch.setattr(run, "judged_classifier", lambda *_: model)
    monkeypatch.setattr(run, "class_probabilities", lambda *_: np.eye(2)[guessed])
    monkeypatch.setattr(run, "proved_safe", lambda model, x, *_: np.array(steps)[x[:, 0]])
    monkeypatch.setattr(run, "order_pattern", lambda *_: 1.0)
    monkeypatch.setattr(run, "load", lambda _: SimpleNamespace(groups=groups, X=np.zeros((28, 1))))
    params = JudgedClassesTask(learning=LEARNING, tolerances=[0.1, 0.2], points=8, boxes=9)
    return run.run_judged_classes(task_of(params), SharedWork())


def test_wrong_rows_are_not_certified_and_every_tolerance_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged_classes(monkeypatch, None)
    assert found.metrics["bound"] == binomial_upper_bound(2, 8, 0.1)
    assert found.metrics["majority"] == 0.0  # of all rows of one class always naming it misses none
    assert found.arrays["certified"].tolist() == [5 / 8, 5 / 8]
    assert found.arrays["certified_bounds"].tolist() == [1.0 - binomial_upper_bound(3, 8, 0.1 / 2)] * 2


def test_test_rows_that_were_learnt_count_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = np.arange(28)
    groups[5] = groups[20] = 20  # a training row that is stored before its first copy among the test rows
    groups[[0, 21]] = 21
    found = judged_classes(monkeypatch, groups)
    assert found.metrics["bound"] == binomial_upper_bound(4, 8, 0.1)
    assert found.arrays["certified_bounds"][0] == 1.0 - binomial_upper_bound(5, 8, 0.05)


def test_rows_whose_probabilities_are_only_stated_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "only_stated", lambda *_: True)
    found = judged_classes(monkeypatch, None)
    assert [found.metrics[name] for name in ("points", "searched", "stated")] == [8, 6, 1]


def test_the_bound_is_of_the_mean_prediction_and_counts_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = object()
    found = SimpleNamespace(
        n=9, penalty=SimpleNamespace(kl=1.0, total=2.0), gibbs_risk=0.1, bound_kl=0.2, bound_bayes=0.4
    )

    def bounds(fitted: Any, learning: Learning, widths: Any, counted: object) -> list[Any]:
        assert counted is copies
        return [found] * len(widths)

    monkeypatch.setattr(run, "kept_model", lambda *_: SimpleNamespace(fault="", scale=2.0))
    monkeypatch.setattr(run, "kept_copies", lambda *_: copies)
    monkeypatch.setattr(run, "mean_bounds", bounds)
    monkeypatch.setattr(run, "risk_certificate", lambda *_: {})
    outcome = run.run_bounded(task_of(BoundedTask(learning=LEARNING, widths=[0.5, 2.0])), SharedWork())
    assert outcome.arrays["bounds"].tolist() == [0.4] * 3
    assert outcome.arrays["gibbs_bounds"].tolist() == [0.2] * 3


def test_residuals_are_checked_in_the_files_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = np.random.default_rng(2).normal(size=(60, 2))
    np.savetxt(table, rows, delimiter=",", header="a,y", comments="", fmt="%.17g")
    dataset, shared = prepare(CsvSpec(path=str(table), target="y"), cache_dir=tmp_path), SharedWork()
    seen: list[Array] = []

    def noted(in_order: Array, rng: Any) -> float:
        seen.append(in_order)
        return 1.0

    monkeypatch.setattr(run, "order_pattern", noted)
    run.run_judged(task_of(JudgedTask(learning=LEARNING, widths=[1.0]), dataset), shared)
    judged, data = regression.judged_model(dataset, LEARNING, shared), load(dataset)
    residuals = data.y[:, 0] - judged.fitted.predict(data.X)[0]
    assert not np.array_equal(judged.test, np.sort(judged.test))
    np.testing.assert_array_equal(seen[0], residuals[np.sort(judged.test)])


def test_the_printed_intervals_are_judged_by_leaving_rows_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The closed form agrees with models that are fitted again without each row; copies do not count."""
    table = tmp_path / "t.csv"
    rows = np.random.default_rng(2).normal(size=(60, 2))
    rows[-1] = rows[-2]
    np.savetxt(table, rows, delimiter=",", header="a,y", comments="", fmt="%.17g")
    dataset, shared = prepare(CsvSpec(path=str(table), target="y"), cache_dir=tmp_path), SharedWork()
    half = replace(LEARNING, coverage=0.5)
    params = RowsTask(learning=half, new="", tolerances=[], count=1, boxes=1, tolerance=1.0)
    record: Any = run.run_rows(task_of(params, dataset), shared)
    posterior = regression.kept_model(dataset, half, shared).posterior
    inside = 0
    for row in range(len(posterior.X)):
        X, y = np.delete(posterior.X, row, axis=0), np.delete(posterior.y, row)
        if (posterior.X[row] != X).any(axis=1).all():
            mean, variance = FullGPPosterior.fit(posterior.hyperparameters, X, y).predict(posterior.X[row : row + 1])
            deviation = np.sqrt(variance[0] + posterior.hyperparameters.noise_variance)
            inside += abs(posterior.y[row] - mean[0]) <= norm.ppf(0.75) * deviation
    copied = len(posterior.X) - len(np.unique(posterior.X))
    assert own_intervals_held(record) == (inside, len(posterior.X) - 2 * copied) and inside > 0


def test_copies_that_cost_the_jackknife_its_coverage_are_counted(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = np.repeat(np.random.default_rng(2).normal(size=(40, 2)), 2, axis=0)
    np.savetxt(table, rows, delimiter=",", header="a,y", comments="", fmt="%.17g")
    dataset, shared = prepare(CsvSpec(path=str(table), target="y"), cache_dir=tmp_path), SharedWork()
    learning = replace(LEARNING, test_share=0.4)
    found = run.run_judged(task_of(JudgedTask(learning=learning, widths=[1.0]), dataset), shared).metrics
    held = regression.judged_model(dataset, learning, shared).held_different
    assert held is not None
    assert (found["jackknife_rows"], found["jackknife_lost"]) == (len(held.places), held.seen.sum())
    assert held.seen.any()
