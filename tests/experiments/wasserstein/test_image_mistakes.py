"""What users may give the image experiments: refused before any work with the key and the fix, or mapped and said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpsuite.cli import main
from gpsuite.config.request import read_request
from gpsuite.engine.plans import plan_tasks
from gpsuite.errors import UserError
from gpsuite.experiments.wasserstein.images import _named_labels

WORDS = ["experiment=wasserstein/digits", "dataset=csv", "dataset.target=kind", "scale=smoke"]


def table(folder: Path, labels: list[str], pixels: int = 4, cell: str = "") -> str:
    """Write a file of images, ten of each label, the first one's last pixel as given; return its path."""
    rng = np.random.default_rng(0)
    lines = [",".join([*(f"p{number}" for number in range(pixels)), "kind"])]
    for label in labels:
        lines += [
            ",".join(
                [*map(str, rng.uniform(size=pixels - 1)), (row == 0 and cell) or str(rng.uniform()), label]
            )
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
    assert text.startswith(
        "inducing=5.0: M = inducing * sqrt(N) exceeds the N = 13 training rows; at most 3.6"
    )
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
    monkeypatch.setattr("sys.argv", ["gpsuite", "run", *words, "output=quiet"])
    assert main() == 0
    written = {path.stem for path in (tmp_path / "results/wasserstein/digits").rglob("*.csv")}
    assert "scores" in written and "shifts" not in written
