"""Rows of images: how grey levels are scaled, and what is advised where a class is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.data.loading import load
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.experiments.wasserstein.image_tasks import read_images
from tests.arrays import Array

WORDS = [
    "experiment=wasserstein/digits",
    "scale=smoke",
    "methods=[map]",
    "noise_methods=[]",
    "dataset=csv",
    "dataset.path=t.csv",
]
WORDS += ["dataset.target=y", "dataset.task=classification"]


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
    task = EXPERIMENTS.get("wasserstein/digits").plan(read_request(WORDS)[0])[0]
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
            read_request([*WORDS, f"train_rows={rows}", "repetitions=8"])[0]
        )
    assert ("0 takes all" in str(caught.value)) == more
    assert "a smaller test_share" in str(caught.value)


def test_no_copy_of_a_test_image_is_learnt() -> None:
    X = np.repeat(np.random.default_rng(0).uniform(0.0, 255.0, (60, 4)), 2, axis=0)
    write(X, [f"c{row // 2 % 2}" for row in range(120)])
    task = EXPERIMENTS.get("wasserstein/digits").plan(read_request(WORDS)[0])[0]
    images = read_images(load(task.require_dataset()), task.params)
    assert len(images.X) and len(images.X_test)
    assert not {tuple(x) for x in images.X} & {tuple(x) for x in images.X_test}
