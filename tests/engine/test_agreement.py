from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpsuite.engine.agreement import Agreement, compare_records
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import ROUNDING, Record, SharedWork
from tests.engine import tiny

RECORD = execute(tiny.task(3), SharedWork())
RECORD = replace(
    RECORD,
    metrics={"square": 9.1, "word": "safe", "nothing": None, "search_seconds": 1.0, "evaluations_used": 40},
)


def against(tolerance: float = 1e-3, **changes: Any) -> Agreement:
    """Compare RECORD with itself after changes of metrics or, named array_NAME, of arrays."""
    arrays = {k.removeprefix("array_"): v for k, v in changes.items() if k.startswith("array_")}
    metrics = {k: v for k, v in changes.items() if not k.startswith("array_")}
    ours: Record = replace(
        RECORD,
        metrics={**RECORD.metrics, **metrics},
        arrays={**RECORD.arrays, **arrays},
    )
    return compare_records(RECORD, ours, tolerance)


def test_a_record_agrees_with_itself_bitwise_effort_aside() -> None:
    found = against(search_seconds=99.0, evaluations_used=39, nothing=float("nan"))
    assert found.agrees
    assert found.counts == {"bitwise": 1 + 3 + 3, "rounding": 0, "tolerance": 0, "not": 0}
    assert found.worst == ""


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"square": 9.1 * (1 + 1e-10)}, "rounding"),
        ({"square": 9.1 * (1 + 1e-6)}, "tolerance"),
        ({"square": 9.1 * (1 + 2e-3)}, "not"),
        ({"word": "unsafe"}, "not"),
        ({"square": None}, "not"),
        ({"nothing": 0.0}, "not"),
        ({"array_powers": np.array([0.0, 1.0, 8.0 + 1e-7])}, "tolerance"),
        ({"array_powers": np.array([1.0, 3.0, np.nan])}, "not"),
        ({"array_powers": np.array([1.0, 3.0])}, "not"),
    ],
)
def test_a_difference_counts_at_its_level(change: dict[str, Any], where: str) -> None:
    found = against(**change)
    assert found.counts[where] == (3 if "array_powers" in change else 1)
    assert found.agrees == (where != "not")
    assert next(iter(change)).removeprefix("array_") in found.worst


@pytest.mark.parametrize(
    ("name", "published", "ours", "tolerance", "agrees"),
    [
        ("shortest_lengthscale", 10.0, 10.5, 1e-3, True),
        ("shortest_lengthscale", 10.0, 11.5, 1e-3, False),
        ("shortest_lengthscale", 10.0, 10.0 + 1e-6, ROUNDING, False),
        ("probability", 2.4e-4, 2.45e-4, 1e-3, True),
        ("probability", 2.4e-4, 2.6e-4, 1e-3, False),
        ("probability", 2.4e-4, 2.4e-4 + 1e-9, ROUNDING, False),
    ],
)
def test_what_a_search_along_flat_directions_may_leave(
    name: str, published: float, ours: float, tolerance: float, agrees: bool
) -> None:
    first, second = (replace(RECORD, metrics={name: value}) for value in (published, ours))
    assert compare_records(first, second, tolerance).agrees == agrees


def test_another_status_or_a_missing_array_is_no_agreement() -> None:
    assert not compare_records(RECORD, replace(RECORD, status="budget"), 1.0).agrees
    assert not compare_records(RECORD, replace(RECORD, arrays={}), 1.0).agrees


def test_what_is_zero_but_for_rounding_agrees() -> None:
    published = replace(RECORD, metrics={"residual": 1e-16})
    found = compare_records(published, replace(RECORD, metrics={"residual": -3e-15}), 0.0)
    assert found.counts["rounding"] == 1
