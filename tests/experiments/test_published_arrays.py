"""What of a record is published: no rows of a dataset."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.engine.worker import execute
from gpsuite.experiments.base import EXPERIMENTS, SharedWork, import_family
from tests.engine import tiny


@pytest.mark.parametrize(
    ("experiment", "kept_back"),
    [
        ("guarantee", ["X", "y", "root", "alpha", "judged_X", "prediction", "lowest", "highest", "ranges", "examples"]),
        ("robustness/safety", ["x", "point", "witness", "free_X", "lower", "upper"]),
        ("robustness/safety_mnist38", ["x", "witness", "witnesses"]),
        ("active_learning/engine", ["z", "z_measured"]),
    ],
)
def test_rows_of_a_dataset_and_what_lies_near_them_are_not_published(experiment: str, kept_back: list[str]) -> None:
    import_family(experiment)
    arrays = {name: np.zeros(1) for name in kept_back}
    record = replace(execute(tiny.task(3), SharedWork()), arrays=arrays)
    assert EXPERIMENTS.get(experiment).published([record]) == [frozenset()]
