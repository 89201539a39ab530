"""What users may give the image experiments: refused before any work with the key and the fix, or mapped and said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite.cli import dispatch, main
from gpsuite.config.request import read_request
from gpsuite.data.loading import load
from gpsuite.engine.plans import plan_tasks
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, SharedWork
from gpsuite.experiments.wasserstein.image_tasks import read_images
from gpsuite.experiments.wasserstein.images import _named_labels
from tests.arrays import Array

WORDS = ["experiment=wasserstein/digits", "dataset=csv", "dataset.target=kind", "scale=smoke"]


def table(folder: Path, labels: list[str], pixels: int = 4, cell: str = "") -> str:
    """Write a file of images, ten of each label, the first one's last pixel as given; return its path."""
    rng = np.random.default_rng(0)
    lines = [",".join([*(f"p{number}" for number in range(pixels)), "kind"])]
    for label in labels:
        lines += [
            ",".join([*map(str, rng.uniform(size=pixels - 1)), (row == 0 and cell) or str(rng.uniform()), label])
            for row in range(10)
        ]
    path = folder / "images.csv"
    path.write_text("\n".join(lines) + "\n")
    return f"dataset.path={path}"


def refused(*words: str) -> str:
    with pytest.raises(UserError) as caught:
        request, _ = read_request([*WORDS, *words])
        plan_tasks(request, ())
    text = str(caught.value)
    assert len(text.splitlines()) <= 4
    return text


def test_labels_of_any_kind_are_numbered_and_the_numbers_said(tmp_path: Path) -> None:
    for labels, line in (
        (["cat", "ant", "bee"], "labels are numbered: 0 = ant, 1 = bee, 2 = cat"),
        (["7", "3", "5"], "labels are numbered: 0 = 3, 1 = 5, 2 = 7"),
    ):
        request, _ = read_request([*WORDS, table(tmp_path, labels)])
        assert plan_tasks(request, ())
        assert _named_labels(request.prepared[0]) == [line]
    request, _ = read_request([*WORDS, table(tmp_path, ["0", "1", "2"])])
    assert _named_labels(request.prepared[0]) == []


def test_a_class_that_no_repetition_learns_is_named(tmp_path: Path) -> None:
    text = refused(table(tmp_path, ["cat", "ant", "bee"]), "train_rows=2")
    assert text.startswith("train_rows=2: none of the 1 training rows of a repetition is of class ")
    assert "take more rows" in text
    request, _ = read_request(["experiment=wasserstein/digits", "scale=smoke", "train_rows=8"])
    with pytest.raises(UserError, match="train_rows=8: none of the 7 training rows"):
        plan_tasks(request, ())


def test_images_are_square_and_of_one_size(tmp_path: Path) -> None:
    text = refused(table(tmp_path, ["a", "b"], pixels=5))
    assert "5 inputs are no square image" in text
    assert "dataset.inputs" in text
    request, _ = read_request(["experiment=wasserstein/mnist", "datasets=[mnist,digits]", "scale=smoke"])
    with pytest.raises(UserError, match="datasets: digits has 64 pixels, mnist, which is learned, 784"):
        plan_tasks(request, ())


def test_more_inducing_inputs_than_rows_are_refused(tmp_path: Path) -> None:
    text = refused(table(tmp_path, ["a", "b"]), "inducing=5.0")
    assert text.startswith("inducing=5.0: M = inducing * sqrt(N) exceeds the N = 13 training rows. At most 3.6")
    request, _ = read_request(["experiment=wasserstein/regression", "inducing=20.0", "scale=smoke"])
    with pytest.raises(UserError, match="inducing=20"):
        plan_tasks(request, ())


@pytest.mark.parametrize("cell", ["inf", "black", "1e400"])
def test_a_pixel_that_is_no_finite_number_is_named(tmp_path: Path, cell: str) -> None:
    text = refused(table(tmp_path, ["a", "b"], cell=cell))
    assert "line 2, column 'p3'" in text


def test_an_image_with_a_missing_pixel_is_left_out_and_counted(tmp_path: Path) -> None:
    request, _ = read_request([*WORDS, table(tmp_path, ["a", "b", "c", "d"], cell="nan")])
    assert any("4 of 40 rows left out" in note for note in request.prepared[0].notes)


def test_without_shifts_there_is_no_table_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "experiment=wasserstein/digits",
        "scale=smoke",
        "shifts=[]",
        "methods=[map]",
        "noise_methods=[]",
        "parallel=serial",
    ]
    monkeypatch.setattr("sys.argv", ["gpsuite", "run", *words, "format=quiet"])
    assert main() == 0
    written = {path.stem for path in (tmp_path / "results/wasserstein/digits").rglob("*.csv")}
    assert "scores" in written and "shifts" not in written


# Rows of images: how grey levels are scaled, and what is advised where a class is missing.


WORDS_IMAGE_ROWS = [
    "experiment=wasserstein/digits",
    "scale=smoke",
    "methods=[map]",
    "noise_methods=[]",
    "dataset=csv",
    "dataset.path=t.csv",
]
WORDS_IMAGE_ROWS += ["dataset.target=y", "dataset.task=classification"]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def write(X: Array, y: list[str]) -> None:
    pd.DataFrame(X, columns=[f"p{i}" for i in range(X.shape[1])]).assign(y=y).to_csv("t.csv", index=False)


@pytest.mark.parametrize("shift", [0.0, -300.0, -100.0])
def test_scaling_keeps_the_order_of_grey_levels(shift: float) -> None:
    """Divided by the largest value, which is below 0 where all are, the darkest became the brightest."""
    X = np.random.default_rng(0).uniform(0.0, 255.0, (120, 4)) + shift
    write(X, [f"c{row % 2}" for row in range(120)])
    task = EXPERIMENTS.get("wasserstein/digits").plan(read_request(WORDS_IMAGE_ROWS)[0])[0]
    data = load(task.require_dataset())
    images = read_images(data, task.params)
    assert np.abs(images.X).max() == 1.0
    assert images.largest > 0.0
    np.testing.assert_allclose(
        np.sort(data.X.ravel())[[0, -1]] / images.largest, [images.X.min(), images.X.max()], atol=0.2
    )


@pytest.mark.parametrize(("rows", "more"), [(0, False), (100, False), (20, True)])
def test_more_rows_are_advised_where_there_are_more(rows: int, more: bool) -> None:
    X = np.random.default_rng(0).uniform(0.0, 255.0, (100, 4))
    write(X, ["a"] * 49 + ["b"] * 50 + ["rare"])
    with pytest.raises(UserError, match="is of class rare") as caught:
        EXPERIMENTS.get("wasserstein/digits").plan(
            read_request([*WORDS_IMAGE_ROWS, f"train_rows={rows}", "repetitions=8"])[0]
        )
    assert ("0 takes all" in str(caught.value)) == more
    assert "a smaller test_share" in str(caught.value)


def test_no_copy_of_a_test_image_is_learnt() -> None:
    X = np.repeat(np.random.default_rng(0).uniform(0.0, 255.0, (60, 4)), 2, axis=0)
    write(X, [f"c{row // 2 % 2}" for row in range(120)])
    task = EXPERIMENTS.get("wasserstein/digits").plan(read_request(WORDS_IMAGE_ROWS)[0])[0]
    images = read_images(load(task.require_dataset()), task.params)
    assert len(images.X) and len(images.X_test)
    assert not {tuple(x) for x in images.X} & {tuple(x) for x in images.X_test}


# Tables that leave nothing to temper, or nothing to train on: which is an outcome and no failure.


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([f"{row},{row % 2},{int(row == 7)}" for row in range(60)], "without noise"),  # all but one row alike
        ([f"{row % 3},{row % 2},{row % 3}" for row in range(60)], "all others are copies of the"),
    ],
)
def test_what_cannot_be_learned_is_infeasible_not_failed(tmp_path: Path, rows: list[str], reason: str) -> None:
    table = tmp_path / "exact.csv"
    table.write_text("\n".join(["a,b,y", *rows]) + "\n")
    words = ["experiment=wasserstein/regression", "scale=smoke", "dataset=csv", f"dataset.path={table}"]
    words += ["dataset.target=y", "dataset.task=regression", "method=exact_gp", f"results_dir={tmp_path}"]
    assert dispatch(["run", *words, "parallel=serial", "format=quiet", "used_folds=10", "folds=10"]) in (0, 3)
    (folder,) = (tmp_path / "wasserstein" / "regression").iterdir()
    records = pd.read_csv(folder / "records.csv")
    infeasible = records[records["status"] == "infeasible"]
    assert len(infeasible) > 0
    assert infeasible["reason"].str.contains(reason).all()


@pytest.mark.parametrize("words", [["widths=[4,4,4]", "convolution=false"], ["convolution=true", "widths=[4,4]"]])
def test_3c3d_without_its_layers_is_refused(words: list[str]) -> None:
    with pytest.raises(UserError, match="architecture=3c3d: needs convolution=true and three widths"):
        read_request(["experiment=wasserstein/digits", "architecture=3c3d", *words])


def test_what_is_trained_more_often_or_is_larger_is_estimated_to_cost_more() -> None:
    costs = {}
    for words in (["inducing_tried=[0.5,0.75,1.0]"], [], ["architecture=plain", "widths=[16,32]"]):
        request, _ = read_request(
            ["experiment=wasserstein/fashion_mnist_table2", "scale=paper", *words], allow_absent=True
        )
        tasks = EXPERIMENTS.get("wasserstein/fashion_mnist_table2").plan(request)
        costs[len(words)] = {task.axes["method"]: task.cost for task in tasks}
    assert costs[1]["gwi"] == pytest.approx(3.0 * costs[0]["gwi"], rel=1e-2)
    assert costs[1]["map"] == costs[0]["map"] > 3.0 * costs[2]["map"]


def test_temperatures_and_what_chose_the_inducing_inputs_are_in_the_record(tmp_path: Path) -> None:
    words = ["scale=smoke", "methods=[gwi]", "noise_methods=[]", "label_noise=[0.0]", "repetitions=1", "tempered=true"]
    request, _ = read_request(["experiment=wasserstein/digits", *words, "inducing_tried=[0.5,1.0]"])
    (task,) = EXPERIMENTS.get("wasserstein/digits").plan(request)
    metrics = EXPERIMENTS.get("wasserstein/digits").run(task, SharedWork()).metrics
    assert metrics["chosen inducing"] in (0.5, 1.0)
    assert all(metrics[f"chosen temperature {label}"] > 0.0 for label in range(10))
    assert metrics["class_probability_error"] < 1e-9
