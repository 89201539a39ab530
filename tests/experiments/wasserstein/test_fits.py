"""The family's plans, its rows and noise, claims on made-up records, and one small run of each kind of task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.data.loading import load
from gpsuite.engine.keys import task_key
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Record, Report, SharedWork, Task
from gpsuite.experiments.wasserstein.image_tasks import (
    SHUFFLED,
    Images,
    affordable,
    learned_rows,
    most_and_least_certain,
    read_images,
    with_noise,
)
from gpsuite.experiments.wasserstein.images import COMPARED, claims, differences, scored_frame, shift_rows, split_ratio
from gpsuite.experiments.wasserstein.regression import BEFORE, SHOWN, fold_rows, summarise
from gpsuite.methods.wasserstein.fitting import GP_CLASSIFIER_NAMES, NETWORK_CLASSIFIER_NAMES, REGRESSOR_NAMES
from gpsuite.reporting.tables import summarise_groups
from gpsuite.statistics.estimates import corrected_mean


def tasks_of(*words: str) -> Sequence[Task[Any]]:
    request, _ = read_request([*words, "scale=smoke"])
    return list(EXPERIMENTS.get(request.experiment).plan(request))


def test_names_are_those_of_the_methods() -> None:
    from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS
    from gpsuite.methods.wasserstein.regressors import REGRESSORS

    assert set(CLASSIFIERS) == {*GP_CLASSIFIER_NAMES, *NETWORK_CLASSIFIER_NAMES}
    assert set(REGRESSORS) == set(REGRESSOR_NAMES)


def test_every_method_of_a_repetition_sees_the_same_rows() -> None:
    tasks = tasks_of("experiment=wasserstein/digits")
    assert len({task_key(task) for task in tasks}) == len(tasks)
    seeds = {(t.axes["repetition"], t.params.seed) for t in tasks}
    assert len(seeds) == 2
    noisy = [t for t in tasks if t.axes["label_noise"] == 0.2]
    assert {t.axes["method"] for t in noisy} == {"gwi", "gwi_softmax"}


def test_other_datasets_enter_the_key_by_their_content_alone() -> None:
    task = next(t for t in tasks_of("experiment=wasserstein/fashion_mnist") if t.axes["method"] == "map")
    assert [o.name for o in task.params.outside] == ["mnist", "kmnist"]
    moved = replace(task.params.outside[0], prepared=replace(task.params.outside[0].prepared, paths={"a": "b"}))
    elsewhere = replace(task, params=replace(task.params, outside=(moved, task.params.outside[1])))
    assert task_key(elsewhere) == task_key(task)
    other = replace(task.params.outside[0], content="another")
    changed = replace(task, params=replace(task.params, outside=(other, task.params.outside[1])))
    assert task_key(changed) != task_key(task)


def test_rows_are_apart_and_noise_changes_its_share() -> None:
    task = tasks_of("experiment=wasserstein/digits")[0]
    data = load(task.require_dataset())
    images = read_images(data, task.params)
    assert images.X.max() == 1.0
    assert (len(images.X), len(images.X_test), images.side) == (200, 100, 8)
    seen = {row.tobytes() for row in images.X}
    assert not seen & {row.tobytes() for row in images.X_test}
    noisy = read_images(data, replace(task.params, label_noise=0.2))
    np.testing.assert_array_equal(noisy.X, images.X)
    assert (noisy.y != images.y).sum() == 40
    np.testing.assert_array_equal(noisy.y_test, images.y_test)


def test_no_copy_of_a_validation_image_is_learned() -> None:
    task = tasks_of("experiment=wasserstein/digits")[0]
    data = load(task.require_dataset())
    first = np.arange(len(data.X)) // 3 * 3  # as if every row stood there three times
    copies = replace(data, X=data.X[first], y=data.y[first], groups=first)
    images = read_images(copies, task.params)
    rows = learned_rows(images, task.params)
    assert not {row.tobytes() for row in rows.X} & {row.tobytes() for row in rows.X_validation}
    assert len(rows.X) + len(rows.X_validation) < len(images.X)


def test_noise_reaches_every_other_class() -> None:
    y = np.zeros(3000, dtype=np.int64)
    noisy = with_noise(y, 4, 0.5, np.random.default_rng(0))
    counts = np.bincount(noisy, minlength=4)
    assert counts[0] == 1500
    assert counts[1:].min() > 400


def test_folds_are_a_partition() -> None:
    parts = [fold_rows(53, 10, fold, 7) for fold in range(10)]
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in parts])), np.arange(53))
    for train, test in parts:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(53))


def test_a_classifier_is_trained_scored_and_shown_other_images() -> None:
    tasks = tasks_of("experiment=wasserstein/digits", "methods=[map]", "noise_methods=[]", "label_noise=[0.0]")
    outcome = EXPERIMENTS.get("wasserstein/digits").run(tasks[0], SharedWork())
    assert outcome.status == "done"
    assert 0.1 < outcome.metrics["accuracy"] <= 1.0
    assert 0.0 <= outcome.metrics[f"auroc {SHUFFLED}"] <= 1.0
    assert outcome.arrays["certain images"].shape == (12, 64)
    assert outcome.arrays["bin counts"].sum() == 100
    again = EXPERIMENTS.get("wasserstein/digits").run(tasks[0], SharedWork())
    assert again.metrics == outcome.metrics


def test_last_bits_do_not_choose_among_equally_certain_images() -> None:
    entropies = np.repeat([0.0098, 1.1, 0.3], 20)
    noise = np.random.default_rng(0).uniform(-1e-15, 1e-15, 60)
    kept = most_and_least_certain(entropies + noise)
    np.testing.assert_array_equal(kept, [*range(6), *range(34, 40)])


def test_distances_and_widths_show_what_they_claim() -> None:
    tasks = tasks_of("experiment=wasserstein/toy_bands")
    distance = next(t for t in tasks if t.axes["part"] == "distance")
    found = EXPERIMENTS.get("wasserstein/toy_bands").run(distance, SharedWork())
    assert found.metrics["largest_error_at_data"] < 1e-9
    assert found.metrics["largest_spectrum_error"] < 1e-10
    width = next(t for t in tasks if t.axes.get("activation") == "erf")
    errors = EXPERIMENTS.get("wasserstein/toy_bands").run(width, SharedWork()).arrays["errors"]
    assert errors[1].mean() < errors[0].mean()


def made_up() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    lines = []
    for method in ("gwi", "gwi_softmax", "ensemble", "map"):
        for noise in (0.0, 0.2):
            for repetition in range(5):
                accuracy = 0.95 - (0.1 if method == "gwi_softmax" else 0.02) * (noise > 0) - 0.05 * (method == "map")
                lines.append(
                    {
                        "method": method,
                        "label_noise": noise,
                        "repetition": repetition,
                        "accuracy": accuracy + 0.002 * rng.standard_normal(),
                        "nll": 0.3 + 0.01 * repetition if method == "map" else 0.2,
                        **{"ece": 0.02, "brier": 0.1, "nll shift 0.1": 0.3},
                        **{"auroc x": 0.8, "auroc_knowledge x": 0.8, "aupr x": 0.7, "fpr95 x": 0.3},
                    }
                )
    return pd.DataFrame(lines)


def claimed(frame: pd.DataFrame, test_over_training: float = 0.0) -> dict[str, Any]:
    clean = frame[frame["label_noise"] == 0.0]
    return {one.name: one for one in claims(clean, frame, test_over_training)}


def test_formulas_are_judged_where_they_hold_worst() -> None:
    errors = ["expected_log_likelihood", "class_probability", "probability_sum", "class_probability_sum"]
    columns = [f"{name}_error" for name in errors]
    frame = made_up().assign(**dict.fromkeys(columns, 1e-9), prediction_is_argmax=1.0)
    worst = (frame["method"] == "gwi") & (frame["repetition"] == 3)
    frame.loc[worst, columns], frame.loc[worst, "prediction_is_argmax"] = 1e-3, 0.9
    found = claimed(frame)
    assert found["share_prediction_is_argmax"].value == 0.9
    assert [found[f"max_{name}"].value for name in columns] == [1e-3] * 4


def test_claims_follow_the_numbers() -> None:
    frame = made_up()
    found = claimed(frame)
    assert found["share_robust_max_loses_less"].value == 1.0
    assert found["share_ensemble_better_than_one"].value == 1.0
    assert found["max_auroc_difference[method=gwi]"].value == 0.0
    assert found["share_methods_with_all_measures"].value == 1.0
    swapped = frame.assign(method=frame["method"].replace({"gwi": "gwi_softmax", "gwi_softmax": "gwi"}))
    worse = claimed(swapped)
    assert worse["share_robust_max_loses_less"].value == 0.0
    assert claimed(frame.assign(nll=0.2))["share_ensemble_better_than_one"].value == 0.5


def test_random_splits_of_the_same_rows_are_not_independent() -> None:
    """Five splits 70/30: errors 1.77 times as large as of independent data sets, which turns what is near."""
    frame = made_up()
    noisy = (frame["method"] == "gwi_softmax") & (frame["label_noise"] > 0.0)
    saved = np.array([0.02, 0.03, 0.05, 0.09, 0.03])
    frame["accuracy"] = 0.9
    frame.loc[noisy, "accuracy"] -= saved
    plain, corrected = (claimed(frame, ratio)["share_robust_max_loses_less"] for ratio in (0.0, 0.3 / 0.7))
    assert (plain.value, corrected.value) == (1.0, 0.0)
    table = [
        differences(frame[frame["label_noise"] == 0.2], {"gwi": "", "gwi_softmax": ""}, r) for r in (0.0, 0.3 / 0.7)
    ]
    width, wider = (float((t["high"] - t["low"])[t["metric"] == "accuracy"].iloc[0]) for t in table)
    assert wider / width == pytest.approx(np.sqrt(1.0 + 5 * 0.3 / 0.7))


@pytest.mark.parametrize(
    ("spec", "rows", "train_rows", "ratio"),
    [
        ({}, 1000, 0, 300 / 700),
        ({}, 1000, 100, 300 / 100),
        ({}, 100_000, 0, 10_000 / 70_000),  # of the 30 % for testing 10,000 are used
        ({"test_rows": 10_000}, 70_000, 0, 0.0),  # a split of its own
    ],
)
def test_the_correction_is_by_the_ratio_of_test_to_training_rows(
    spec: dict[str, int], rows: int, train_rows: int, ratio: float
) -> None:
    data = SimpleNamespace(spec=spec, rows=rows)
    settings = SimpleNamespace(test_share=0.3, test_rows=10_000, train_rows=train_rows)
    report: Any = SimpleNamespace(request=SimpleNamespace(prepared=[data]), settings=settings)
    assert split_ratio(report) == pytest.approx(ratio)


@pytest.mark.parametrize(("knowledge", "entropy", "useful"), [(0.8, 0.8, 1.0), (0.8, 0.9, 0.0), (0.27, 0.2, 0.0)])
def test_mutual_information_is_useful_where_it_tells_and_is_not_worse(
    knowledge: float, entropy: float, useful: float
) -> None:
    frame = made_up().assign(**{"auroc x": entropy})
    frame["auroc_knowledge x"] = knowledge + 0.001 * frame["repetition"]
    found = claimed(frame)
    assert found["share_mutual_information_useful"].value == useful


def test_a_mean_over_an_infinite_loss_is_left_out_and_its_repetition_counts() -> None:
    """Records hold no infinity: the loss is missing where the accuracy is not."""
    losses: list[float | None] = [0.2, None, 0.3]
    records: list[Any] = [
        SimpleNamespace(
            axes={"method": "temperature", "repetition": r},
            metrics={
                "accuracy": 0.9,
                "nll": 0.1,
                "accuracy shift 0.4": 0.7,
                "nll shift 0.4": loss,
                "ece shift 0.4": 0.1,
            },
        )
        for r, loss in enumerate(losses)
    ]
    records.append(SimpleNamespace(axes={"method": "temperature", "repetition": 3}, metrics={}))  # nothing known
    frame = scored_frame(records)
    assert frame["nll shift 0.4"].tolist()[:3] == [0.2, np.inf, 0.3] and np.isnan(frame["nll"][3])
    means = summarise_groups(shift_rows(frame), ["method", "shift"], COMPARED).set_index("metric")
    assert np.isnan(means["mean"]["nll"]) and means["n"]["nll"] == 3
    assert means["mean"]["accuracy"] == pytest.approx(0.7)


def test_differences_are_paired_over_repetitions() -> None:
    frame = made_up()
    clean = frame[frame["label_noise"] == 0.0]
    shifted = clean.assign(nll=clean["nll"] + 0.1 * clean["repetition"] + (clean["method"] == "ensemble"))
    table = differences(shifted, {"gwi": "GWI", "ensemble": "ensemble"}, 0.0)
    nll = table[table["metric"] == "nll"].iloc[0]
    assert nll["difference"] == pytest.approx(-1.0)
    assert nll["high"] - nll["low"] < 1e-9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["experiment=wasserstein/digits", "label_noise=[0.1]"], "label_noise"),
        (["experiment=wasserstein/digits", "dropout=1.0"], "dropout"),
        (["experiment=wasserstein/digits", "prior=spline"], "prior"),
        (
            ["experiment=wasserstein/digits", "methods=[map]"],
            "noise_methods=gwi: not a method of this run\nvalid: noise",
        ),
        (["experiment=wasserstein/digits", "method=exact_gp"], "method"),
        (["experiment=wasserstein/regression", "used_folds=11"], "used_folds"),
        (["experiment=wasserstein/regression", "method=map"], "method"),
    ],
)
def test_a_users_mistake_is_named(words: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        tasks_of(*words)


# The scores of wasserstein/regression over folds: their intervals pay for the training rows that folds share.


def test_means_over_folds_are_corrected_for_the_rows_they_share(tmp_path: Path) -> None:
    words = ["experiment=wasserstein/regression", "dataset=diabetes", "methods=[exact_gp]", "folds=5", "used_folds=3"]
    request: Any = read_request(words)[0]
    drawn = 0.5 + 0.1 * np.random.default_rng(0).uniform(size=(3, len(SHOWN) + len(BEFORE)))
    records = []
    for fold, values in enumerate(drawn.tolist()):
        axes: dict[str, str | int | float] = {"method": "exact_gp", "fold": fold}
        metrics = dict(zip((*SHOWN, *BEFORE), values, strict=True))
        records.append(Record("key", request.experiment, "", axes, "done", "", metrics, {}))
    found = {each.name: each for each in summarise(Report(request, records, tmp_path))}
    one = found["rmse_test_own_units[method=exact_gp]"]
    expected = corrected_mean(drawn[:, 0], 1.0 / 4.0)  # one part is tested, four are learnt
    assert (one.value, one.n, one.interval) == (expected.value, 3, expected.interval)
    assert one.standard_error == pytest.approx(expected.error, rel=1e-12)
    assert one.interval_high == pytest.approx(expected.high, rel=1e-12)


def test_a_budget_leaves_out_the_test_rows_whose_scores_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1 ms a row and five passes over the test rows, two seconds score 400; the clock is the test's own."""
    now = [0.0]
    monkeypatch.setattr("gpsuite.experiments.wasserstein.image_tasks.time.monotonic", lambda: now[0])
    monkeypatch.setattr("gpsuite.budget.time.monotonic", lambda: now[0])

    def takes(rows: Any, *_: Any) -> dict[str, float]:
        now[0] += 1e-3 * len(rows)
        return {}

    images = Images(np.zeros((5, 4)), np.zeros(5, int), np.zeros((3000, 4)), np.arange(3000), 2, 2, 1.0, None)
    params, found = SimpleNamespace(outside=["mnist"], shifts=[0.1]), SimpleNamespace(predict=takes, errors=takes)
    budget = Budget(seconds=2.301, started=0.0)
    kept, told = affordable(images, params, found, budget)  # type: ignore[arg-type]
    assert (len(kept.X_test), told) == (400, "400 of 3000 test rows scored")
    assert (kept.y_test == np.arange(400)).all()
    now[0] = 2.5
    assert affordable(images, params, found, budget)[1] == "100 of 3000 test rows scored"  # type: ignore[arg-type]
    assert affordable(images, params, found, Budget())[0] is images  # type: ignore[arg-type]
