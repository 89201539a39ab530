from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.data import Dataset
from gpsuite.data.dataset import SafetyColumn, Side


def build(**changes: Any) -> Dataset:
    values: dict[str, Any] = {
        "name": "small",
        "task": "regression",
        "X": np.arange(6.0).reshape(3, 2),
        "y": np.array([[1.0], [2.0], [4.0]]),
        "input_names": ("a", "b"),
        "target_names": ("y",),
        "content_hash": "0",
    }
    return Dataset(**{**values, **changes})


def test_arrays_are_float64_copies_that_cannot_be_written() -> None:
    source = np.arange(6).reshape(3, 2)
    dataset = build(X=source, grid=np.ones((4, 2)), fixed_split=(np.array([0, 1]), np.array([2])))
    source[0, 0] = 99
    assert dataset.X.dtype == np.float64
    assert dataset.X[0, 0] == 0.0
    assert dataset.fixed_split is not None
    assert dataset.grid is not None
    for array in (dataset.X, dataset.y, dataset.grid, *dataset.fixed_split):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.ones(3)}, r"X must be a matrix .* shape is \(3,\)"),
        ({"X": np.ones((0, 2)), "y": np.ones((0, 1))}, "X must be a matrix"),
        ({"X": np.ones((2, 2))}, "X has 2 rows, y has 3"),
        ({"X": np.array([[1.0, 2.0], [np.nan, 1.0], [0.0, 0.0]])}, r"X\[1, 0\] is nan"),
        ({"y": np.array([[1.0], [np.inf], [0.0]])}, r"y\[1, 0\] is inf"),
        ({"input_names": ("a",)}, "2 inputs but 1 names"),
        ({"target_names": ("a", "b")}, "1 targets but 2 names"),
        ({"task": "ranking"}, "task is 'ranking'"),
        ({"grid": np.ones((4, 3))}, "grid has 3 columns"),
        ({"fixed_split": (np.array([0, 3]), np.array([1]))}, "row numbers from 0 to 2"),
        ({"fixed_split": (np.array([0, 1]), np.array([1]))}, "a row appears twice"),
        ({"task": "classification", "y": np.array([[0.0], [0.5], [1.0]])}, "labels must be the integers"),
        ({"task": "classification", "y": np.array([[0.0], [-1.0], [1.0]])}, "labels must be the integers"),
        ({"task": "classification", "y": np.zeros((3, 2)), "target_names": ("a", "b")}, "one target column"),
        ({"task": "classification", "label_names": ("no",)}, "5 classes but 1 label names"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_classes_are_counted() -> None:
    assert build(task="classification", y=np.array([[0.0], [2.0], [1.0]])).n_classes == 3
    assert build().n_classes == 0


@pytest.mark.parametrize(
    ("side", "safe"), [("above", [True, False, False, True]), ("below", [True, True, False, False])]
)
def test_the_limit_itself_is_safe_and_what_was_not_measured_is_not(side: Side, safe: list[bool]) -> None:
    z = np.array([1.0, 0.9, np.nan, 1.1])
    assert SafetyColumn("temperature", z, 1.0, side).safe.tolist() == safe
