"""The table of proposals: what is to be set stays what it is, whatever its column is called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gpsuite.data.dataset import Dataset, SafetyColumn
from gpsuite.experiments.active_learning.plan import ALL_OUTPUTS, proposal_table


@pytest.mark.parametrize("name", ["sd hc", "expected hc", "expected value", "entropy", "order"])
@pytest.mark.parametrize("output", [ALL_OUTPUTS, 0])
def test_an_input_with_a_columns_name_is_not_overwritten(name: str, output: int) -> None:
    grid = np.array([[0.25, 0.75]])
    data = Dataset(
        name="csv",
        task="measurements",
        X=grid,
        y=np.array([[1.0]]),
        input_names=(name, "load"),
        target_names=("hc",),
        content_hash="",
        grid=grid,
        safety=SafetyColumn("t", np.array([0.0]), 1.0, "below"),
    )
    arrays = {"row": [0], "output": [output], "proposal_entropy": [1.0], "probability_safe": [0.99]}
    arrays |= {"mean": [[5.0]], "sd": [[7.0]]}
    record = cast(Any, SimpleNamespace(arrays={key: np.array(value) for key, value in arrays.items()}))
    frame = proposal_table(record, data)
    assert frame.shape == (1, 9)
    assert frame.iloc[0, 2:4].tolist() == [0.25, 0.75]
