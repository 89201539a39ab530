"""What a run of guarantee is said to take grows with what is searched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.experiments.base import EXPERIMENTS


def costs(folder: Path, classes: int, inputs: int = 13, *words: str, rows: int = 120) -> dict[str, float]:
    """Return the seconds of every part; no classes: a regression."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, inputs))
    y = [f"k{row % classes}" for row in range(rows)] if classes else X[:, 0]
    path = folder / f"{classes}-{inputs}.csv"
    pd.DataFrame(X).add_prefix("c").assign(y=y).to_csv(path, index=False)
    own = ["experiment=guarantee", "dataset=csv", f"dataset.path={path}", "dataset.target=y", *words]
    request, _ = read_request(own)
    return {str(task.axes["part"]): task.cost for task in EXPERIMENTS.get("guarantee").plan(request)}


@pytest.mark.parametrize("classes", [0, 3, 5])
def test_more_rows_are_said_to_take_longer(tmp_path: Path, classes: int) -> None:
    few, many = (costs(tmp_path, classes, 40, f"count={count}")["rows"] for count in (1, 50))
    assert many > 5 * few


def test_points_boxes_tolerances_columns_and_classes_count(tmp_path: Path) -> None:
    three = costs(tmp_path, 3)
    for less in ("points=4", "boxes=200", "tolerances=[0.1]"):
        assert costs(tmp_path, 3, 13, less)["judged"] < 0.5 * three["judged"], less
    assert costs(tmp_path, 3, 2)["rows"] < 0.6 * three["rows"]
    assert costs(tmp_path, 2)["rows"] < 0.5 * three["rows"]
    assert costs(tmp_path, 0, 2)["rows"] < 0.5 * costs(tmp_path, 0, 60)["rows"]


def test_what_was_measured_is_said_within_a_factor_of_two(tmp_path: Path) -> None:
    """Processor seconds of one row: 60 rows of 80 columns 6.7; three classes of 13 columns 12."""
    for classes, inputs, seconds in ((0, 80, 6.7), (3, 13, 12.0)):
        one, more = (costs(tmp_path, classes, inputs, f"count={count}")["rows"] for count in (1, 11))
        assert seconds / 2 < (more - one) / 10 < 2 * seconds


def test_training_is_said_within_a_factor_of_two(tmp_path: Path) -> None:
    """Processor seconds of a regression's kept model and its bounds at 1000 rows: 2.0 to 3.0 of 10 to 80 inputs."""
    assert 1.5 < costs(tmp_path, 0, 10, rows=1250)["bounded"] < 6.0
