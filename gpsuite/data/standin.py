"""Generated data in place of a missing dataset, so that a smoke run passes through every code path."""

from __future__ import annotations

from typing import cast

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset, Task
from gpsuite.data.hashing import STAND_IN_PREFIX, json_hash
from gpsuite.data.spec import DatasetSpec
from gpsuite.seeds import stream

MAX_ROWS = 400
_VERSION = 2  # part of the hash: raise it when the generated numbers change


def stand_in_hash(spec: DatasetSpec) -> str:
    """Return the content hash of the stand-in; its prefix tells it from every real dataset's."""
    shape = [spec.rows, spec.n_inputs, spec.n_targets, spec.n_classes, spec.test_rows]
    return STAND_IN_PREFIX + json_hash([_VERSION, spec.name, spec.task, *shape])


def generate_stand_in(spec: DatasetSpec) -> Dataset:
    """Return generated data of the spec's task and shape, at most `MAX_ROWS` rows, the same in every call.

    Inputs are standard normal. With W[D, K] normal of variance 1/D, the scores are X W. Regression (K = P):
    y = sin(2 X W) + 0.1 noise. Classification (K = C): the label is the largest score's; the first C rows get
    the labels 0, ..., C-1, so that no class is empty. The last rows are the test part of a dataset that has one, in
    the same proportion.

    Raises:
        ValueError: for measurements, which are embedded or the user's own and so never missing.
    """
    if spec.task == "measurements":
        raise ValueError(f"{spec.name}: measurements have no stand-in")
    rng = stream(0, "stand-in", spec.name)
    n = min(spec.rows, MAX_ROWS)
    inputs = rng.standard_normal((n, spec.n_inputs))
    outputs = spec.n_targets if spec.task == "regression" else spec.n_classes or 2
    scores = inputs @ rng.standard_normal((spec.n_inputs, outputs)) / np.sqrt(spec.n_inputs)
    if spec.task == "regression":
        targets = np.sin(2.0 * scores) + 0.1 * rng.standard_normal(scores.shape)
    else:
        targets = _labels(scores)
    return Dataset(
        name=spec.name,
        task=cast(Task, spec.task),
        X=inputs,
        y=targets,
        input_names=tuple(f"x{column}" for column in range(spec.n_inputs)),
        target_names=tuple(spec.target_names or (f"y{column}" for column in range(targets.shape[1]))),
        content_hash=stand_in_hash(spec),
        stand_in=True,
        fixed_split=None if spec.test_rows is None else _split(n, spec.test_rows / spec.rows),
        licence="generated",
    )


def _split(n: int, test_share: float) -> tuple[IntArray, IntArray]:
    first_test = n - max(1, round(n * test_share))
    return np.arange(first_test), np.arange(first_test, n)


def _labels(scores: FloatArray) -> FloatArray:
    labels: FloatArray = scores.argmax(axis=1)[:, None].astype(np.float64)
    first = min(scores.shape)
    labels[:first, 0] = np.arange(first)
    return labels
