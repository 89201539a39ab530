"""Whether two records say the same: bitwise, up to rounding, within a search's tolerance, or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpsuite.engine.recheck import Agreement, compare_records
from gpsuite.engine.worker import execute
from gpsuite.experiments.base import ROUNDING, Record, SharedWork
from tests.engine import tiny

RECORD = execute(tiny.task(3), SharedWork())
RECORD = replace(
    RECORD, metrics={"square": 9.1, "word": "safe", "nothing": None, "search_seconds": 1.0, "evaluations_used": 40}
)


def against(tolerance: float = 1e-3, **changes: Any) -> Agreement:
    """Compare RECORD with itself after changes of metrics or, named array_NAME, of arrays."""
    arrays = {k.removeprefix("array_"): v for k, v in changes.items() if k.startswith("array_")}
    metrics = {k: v for k, v in changes.items() if not k.startswith("array_")}
    ours: Record = replace(RECORD, metrics={**RECORD.metrics, **metrics}, arrays={**RECORD.arrays, **arrays})
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
        ("bayes_risk_test", 0.04975, 0.049, 1e-2, True),
        ("bayes_risk_test", 0.0502, 0.049, 1e-2, False),
        ("bayes_risk_test", 0.5, 0.494, 1e-2, False),
        ("test_bound_bayes", 0.055694, 0.054904, 1e-2, True),
        ("test_bound_bayes", 0.0562, 0.0549, 1e-2, False),
        ("bound_bayes", 0.055694, 0.054904, 1e-2, False),
        ("bayes_risk_test", 0.049, 0.049 + 1e-9, ROUNDING, False),
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


@pytest.mark.parametrize("lost", [np.nan, np.inf])
@pytest.mark.parametrize("turned", [False, True])
def test_one_lost_number_is_a_disagreement_whoever_lost_it(lost: float, turned: bool) -> None:
    powers = RECORD.arrays["powers"].astype(np.float64)
    other = np.append(powers[:-1], lost)
    first, second = (other, powers) if turned else (powers, other)
    found = compare_records(replace(RECORD, arrays={"powers": first}), replace(RECORD, arrays={"powers": second}), 1e-3)
    assert not found.agrees


def test_another_shape_of_as_many_numbers_is_a_disagreement() -> None:
    one, other = (replace(RECORD, arrays={"table": np.arange(6.0).reshape(shape)}) for shape in ((2, 3), (6, 1)))
    assert not compare_records(one, other, 1e-3).agrees


@pytest.mark.parametrize(("tolerance", "agrees"), [(ROUNDING, False), (1e-3, True)])
def test_small_numbers_are_measured_by_themselves_unless_a_search_found_them(tolerance: float, agrees: bool) -> None:
    small, other = (replace(RECORD, metrics={"share": share}) for share in (1e-4, 1.00000005e-4))
    assert compare_records(small, other, tolerance).agrees == agrees


def test_numbers_of_an_array_are_measured_by_its_largest() -> None:
    found = against(array_powers=np.array([0.0, 1.0, 8.0 + 4e-3]))
    assert (found.counts["tolerance"], found.difference) == (3, pytest.approx(5e-4, rel=1e-3))


def test_a_metric_that_only_one_of_them_has_is_a_disagreement() -> None:
    more = replace(RECORD, metrics={**RECORD.metrics, "cube": 27.0})
    assert not compare_records(RECORD, more, 1.0).agrees
    assert not compare_records(more, RECORD, 1.0).agrees
