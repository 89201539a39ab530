"""The certified error rate of a table: its bound holds as often as it says, also after the choice, and is checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.certificates.class_risk_verification import verify_certificate
from gpsuite.certificates.envelope import read_envelope, write_packed
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.experiments.base import SharedWork, Task
from gpsuite.experiments.guarantee import guarantees, told
from gpsuite.experiments.guarantee.certificates import write_certificates
from gpsuite.experiments.guarantee.class_risk import (
    HALF,
    SPLITS,
    bound_of_test_rows,
    certified_split,
    certifies,
    class_task,
    constant_of,
    run_class_risk,
)
from gpsuite.experiments.guarantee.classification import class_probabilities, judged_classifier
from gpsuite.experiments.guarantee.tasks import CLASS_RISK, ClassRiskTask, Learning
from gpsuite.experiments.pac_bayes.mnist import _moments
from gpsuite.methods.pac_bayes.classification import gibbs_errors
from gpsuite.statistics.significance import binomial_p
from tests.arrays import Array

LEARNING = Learning(
    seed=3, goal=1.0, own=False, delta=0.01, coverage=0.9, test_share=0.2, preparation=0.1, most_rows=60,
    max_evaluations=10,
)  # fmt: skip


def chance(X: Array) -> Array:
    """The probability of the second class."""
    return np.asarray(1.0 / (1.0 + np.exp(-4.0 * np.sin(2.0 * X[:, 0]) - 2.0 * X[:, 1])))


def table(folder: Path, seed: int, rows: int = 120, copies: int = 0) -> PreparedDataset:
    """Rows whose labels are drawn, the first ones `copies` more times at the end."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (rows, 2))
    y = rng.uniform(size=rows) < chance(X)
    lines = [f"{a!r},{b!r},{'yes' if label else 'no'}" for (a, b), label in zip(X.tolist(), y, strict=True)]
    path = folder / f"table{seed}.csv"
    path.write_text("\n".join(["a,b,kind", *lines, *lines[:copies]]) + "\n")
    return prepare(CsvSpec(path=str(path), target="kind", task="classification"), cache_dir=folder)


def outcome(dataset: PreparedDataset, learning: Learning = LEARNING) -> Any:
    task = Task("guarantee", "class risk", {"part": CLASS_RISK}, ClassRiskTask(learning=learning), dataset)
    return run_class_risk(task, SharedWork())


def chosen_and_true(dataset: PreparedDataset, learning: Learning, X: Array) -> tuple[float, float, bool]:
    """Return the smaller bound, the true error rate that it is about, and whether it is the certificate's."""
    data, metrics = load(dataset), outcome(dataset, learning).metrics
    if metrics["bound"] < metrics["bound_tests"]:
        (share, directions) = next(each for each in SPLITS if bool(each[1]) == bool(metrics["moved"]))
        task = class_task(learning, data, share, directions)
        made, _ = certified_split(dataset, task, Budget(evaluations=learning.max_evaluations))
        moments = _moments(made.prior, made.posterior, made.features(X), 2)
        wrong = [gibbs_errors(*moments, np.full(len(X), label))[0] for label in (0, 1)]
        return metrics["bound"], float(np.mean((1.0 - chance(X)) * wrong[0] + chance(X) * wrong[1])), True
    model = judged_classifier(dataset, learning, SharedWork())
    says = np.argmax(class_probabilities(model, model.scaled(X)), axis=1)
    return metrics["bound_tests"], float(np.mean(np.where(says == 1, 1.0 - chance(X), chance(X)))), False


def test_the_smaller_bound_holds_as_often_as_it_says(tmp_path: Path) -> None:
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (3000, 2))
    count, learning = 30, replace(LEARNING, delta=0.1, max_evaluations=4)
    found = [chosen_and_true(table(tmp_path, seed), replace(learning, seed=seed), X) for seed in range(count)]
    held = sum(bound >= truth for bound, truth, _ in found)
    assert sum(by for *_, by in found) > 0, "the certificate is never the smaller one: nothing is tried"
    assert binomial_p(held, count, 1.0 - learning.delta, "less") > 1e-3


def test_delta_is_split_among_all_that_may_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, asked = table(tmp_path, 0), []
    monkeypatch.setattr(
        "gpsuite.experiments.guarantee.class_risk.cautious_upper_bound", lambda *given: asked.append(given[-1]) or 0.5
    )
    assert bound_of_test_rows(dataset, LEARNING, SharedWork()) == 0.5
    tasks = [class_task(LEARNING, load(dataset), *split) for split in SPLITS]
    assert sum(asked) + sum(task.delta / task.choices for task in tasks) == pytest.approx(LEARNING.delta, rel=1e-12)
    assert len({task.choices for task in tasks}) == 1 and asked == [HALF * LEARNING.delta]


def test_no_row_that_bounds_the_risk_chooses_the_constant(tmp_path: Path) -> None:
    dataset = table(tmp_path, 1)
    data, task = load(dataset), class_task(LEARNING, load(dataset), *SPLITS[0])
    labels = data.y[:60, 0].astype(np.int64)
    found = constant_of(data.X[:60], labels, 2, 60, task)
    noisy = constant_of(data.X[:60], np.random.default_rng(0).permutation(labels), 2, 60, task)
    assert noisy < found  # a larger error rate, a smaller constant
    made, parts = certified_split(dataset, task, Budget(evaluations=3))
    other = data.y.copy()
    other[parts.bound] = 1.0  # flipped ones would err as often
    changed: Any = replace(data, y=other)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("guarantee.class_risk", "pac_bayes.mnist"):
            patch.setattr(f"gpsuite.experiments.{module}.load", lambda _: changed)
        again, _ = certified_split(dataset, task, Budget(evaluations=3))
    assert again.confidence == made.confidence and again.bounds.gibbs != made.bounds.gibbs


def test_rows_that_repeat_others_never_lower_the_bound(tmp_path: Path) -> None:
    plain, copied = (outcome(table(tmp_path, 2, copies=copies)).metrics for copies in (0, 60))
    assert copied["bound"] > 0.95 * plain["bound"]  # other splits, but no more rows than there are different ones
    every = outcome(table(tmp_path, 4, copies=120)).metrics
    assert every["bound"] > 0.95 * outcome(table(tmp_path, 4)).metrics["bound"]


def test_the_certificate_of_a_run_is_confirmed_and_a_better_one_refused(tmp_path: Path) -> None:
    dataset = table(tmp_path, 5)
    found = outcome(dataset)
    record: Any = SimpleNamespace(arrays=found.arrays)
    [path] = write_certificates([record], tmp_path / "certificates")
    assert path.name == "error_rate.npz"
    data, description = load(dataset), read_envelope(path)
    code, lines = verify_certificate(path, description, data)
    assert code == 0, lines
    assert description["claim"]["bounds"]["catoni"] == pytest.approx(found.metrics["bound"], rel=1e-9)
    description["claim"]["bounds"]["catoni"] *= 0.98
    better = tmp_path / "better.npz"
    with np.load(path) as arrays:
        write_packed(description, dict(arrays), better)
    assert verify_certificate(better, read_envelope(better), data)[0] == 1


@pytest.mark.parametrize(("changes", "may"), [({}, True), ({"order": "time"}, False), ({"clusters": 0}, False)])
def test_only_independent_rows_are_certified(tmp_path: Path, changes: dict[str, Any], may: bool) -> None:
    data = load(table(tmp_path, 6))
    own = {**changes, **({"clusters": np.arange(120) // 4, "cluster_name": "g"} if "clusters" in changes else {})}
    assert certifies(replace(data, **own)) is may


def said(bound: float, tests: float) -> str:
    metrics = {"bound": bound, "bound_tests": tests, "n_prior": 10, "n_bound": 20, "kl": 0.0, "moved": 0}
    record: Any = SimpleNamespace(metrics=metrics, arrays={}, number=lambda name: float(metrics[name]))
    data: Any = SimpleNamespace(task="classification", clusters=None, order="", target_names=("kind",))
    report: Any = SimpleNamespace(settings=SimpleNamespace(delta=0.01))
    found = guarantees.Found(report, data, {CLASS_RISK: record})
    line = guarantees.error_rate(found)
    assert line is not None
    return line.needs or f"{line.line} {' '.join(told._of_error_rate(record, found))}"


def test_one_line_names_the_bound_that_counts_and_what_the_other_says() -> None:
    assert "at most 5 % of predictions by draws of the certified model are wrong" in said(0.05, 0.08)
    assert "the test rows bound the test model at 8 % (PAC-Bayes, for many rows)." in said(0.05, 0.08)
    assert "at most 8 % of predictions are wrong, PAC-Bayes says 9 % (test rows, for many rows)." in said(0.09, 0.08)
    assert "0.005 of delta is for the test rows, 0.0025 for each of 2 certificates." in said(0.05, 0.08)
    assert said(1.0, 1.0) == "more test rows or better inputs"
