"""robustness/explain_mnist358: patches, statements that can fail, and the run on stand-in data."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.pixel_maps.patches import largest_patch, middle, random_patch
from gpsuite.experiments.robustness.pixel_maps.summary import image_statistics
from tests.experiments.robustness.safety_runs import run


def test_the_largest_patch_is_connected_by_sides() -> None:
    chosen = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0]], dtype=bool)
    patch = largest_patch(chosen)
    assert patch.sum() == 3 and patch[2, 3] and not patch[0, 0]
    np.testing.assert_allclose(middle(patch), [5.0 / 9.0, 7.0 / 9.0])
    assert not largest_patch(np.zeros((3, 3), dtype=bool)).any()
    assert np.isnan(middle(np.zeros((3, 3), dtype=bool))).all()


def test_random_patches_are_connected_and_of_the_size() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 5, 12):
        patch = random_patch((4, 5), size, rng)
        assert patch.sum() == size
        np.testing.assert_array_equal(largest_patch(patch), patch)


@pytest.mark.parametrize(
    ("row", "column", "left", "top_left"), [(0.2, 0.3, 1.0, 1.0), (0.7, 0.3, 1.0, 0.0), (0.2, 0.8, 0.0, 0.0)]
)
def test_statements_say_yes_and_no(row: float, column: float, left: float, top_left: float) -> None:
    metrics: dict[str, Any] = {
        "patch_row": row, "patch_column": column, "drop": -0.1, "top_left_size": 3, "p_value": 0.4,
        "gains_most": "5", "probability": 0.6,
    }  # fmt: skip
    record = SimpleNamespace(axes={"digit": "3"}, metrics=metrics, number=lambda name: float(metrics[name]))
    values = {each.name: each.value for each in image_statistics(cast(Record, record))}
    assert values["patch_left_of_centre[digit=3]"] == left
    assert values["patch_in_top_left[digit=3]"] == top_left
    assert values["class3_probability_drop"] == values["class_probability_drop[digit=3]"] == -0.1
    assert values["gains_most_is_8[digit=3]"] == 0.0


def test_a_run_draws_maps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    folder = run("explain_mnist358", "digits=['8']", "random_patches=3")
    numbers = pd.read_csv(folder / "figures" / "explain_mnist358.csv")
    assert len(numbers) == 196
    assert (numbers["proved_low"] <= numbers["effect"]).all()
    assert (numbers["effect"] <= numbers["proved_high"]).all()
    digits = pd.read_csv(folder / "tables" / "explain_mnist358.csv")["digit"].tolist()
    assert digits == [0], "the stand-in's first label"
