"""Checks of assumptions: each sees the fault it is there for, and is quiet without it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from gpsuite.data.dataset import Dataset
from gpsuite.data.table.order import counts_rows, sorted_by
from gpsuite.experiments.guarantee.checks import (
    CONTRADICTED,
    DOUBTFUL,
    LEVEL,
    NOTHING,
    PAST,
    PERMUTATIONS,
    UNCHECKED,
    Check,
    band_checks,
    coverage_p,
    drift,
    input_pattern,
    order_pattern,
    row_checks,
    with_verdicts,
)
from tests.arrays import Array

RNG = np.random.default_rng(4)
X, NOISE = RNG.normal(size=(200, 3)), RNG.normal(size=200)


def table(X: Array, y: Array, **more: Any) -> Dataset:
    names = tuple("abcdefgh"[: X.shape[1]])
    return Dataset("t", "regression", X, y[:, None], names, ("y",), "hash", **more)


def verdicts(data: Dataset, order_p: float = 1.0) -> dict[str, Check]:
    record: Any = SimpleNamespace(number=lambda _: order_p)
    return {check.assumption: check for check in with_verdicts(row_checks(data, record))}


DRIFT, ORDER = "rows come from one distribution: no drift", "rows are independent: no order in time"
TREND = np.linspace(0.0, 3.0, 200)


def test_copies_are_counted_and_take_no_guarantee_away() -> None:
    groups = np.arange(200)
    groups[190:] = np.arange(10)
    found = verdicts(table(X, NOISE, groups=groups))["no copies among the rows"]
    assert found.verdict == NOTHING and found.finding.startswith("10 of 200 rows are copies of others, target included")
    assert verdicts(table(X, NOISE))["no copies among the rows"].finding == "none"


@pytest.mark.parametrize(
    "column", [np.sort(NOISE), -np.sort(NOISE), np.repeat(np.arange(4.0), 50), np.arange(200) // 3]
)
def test_a_sorted_or_blocked_file_is_not_tested_for_an_order_in_time(column: Array) -> None:
    data = table(np.column_stack([column, X]), NOISE + 3.0 * column)
    for name in (DRIFT, ORDER):
        assert verdicts(data, 0.0001)[name].verdict == UNCHECKED
        assert verdicts(data)[name].finding == "the file is sorted by a: its order says nothing"
    assert verdicts(table(X, column))[DRIFT].finding == "the file is sorted by y: its order says nothing"
    assert verdicts(table(X, NOISE, sorted_by="country"))[DRIFT].finding.startswith("the file is sorted by country")


def test_a_drift_is_doubtful_until_the_order_is_known_to_be_time() -> None:
    drifting = X + TREND[:, None]
    found = verdicts(table(drifting, NOISE))[DRIFT]
    assert found.verdict == DOUBTFUL and found.finding.endswith(PAST) and "dataset.order=time" in found.advice
    assert verdicts(table(drifting, NOISE, order="time"))[DRIFT].verdict == CONTRADICTED
    assert verdicts(table(drifting, NOISE, order="none"))[DRIFT].verdict == UNCHECKED
    assert PAST not in verdicts(table(X, NOISE))[DRIFT].finding


def test_rows_in_the_order_of_a_date_are_in_order_of_time() -> None:
    data = table(np.column_stack([TREND, X[:, 0] + TREND]), NOISE, reading={"written a": "date"})
    assert verdicts(data)[DRIFT].verdict == CONTRADICTED
    assert "b differs most" in verdicts(data)[DRIFT].finding
    assert verdicts(data)[DRIFT].advice == "dataset.time=a"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_dates_of_every_day_are_an_order_of_time_also_where_the_target_rises(sign: float) -> None:
    days = sign * np.arange(200.0)
    data = table(np.column_stack([days, X[:, 0] + TREND]), np.sort(NOISE), reading={"written a": "date"})
    assert verdicts(data)[DRIFT].verdict == CONTRADICTED
    assert verdicts(data)[DRIFT].advice == "dataset.time=a"


@pytest.mark.parametrize("gaps", [1, 40])
def test_a_row_number_is_neither_tested_nor_an_order(gaps: int) -> None:
    number = np.setdiff1d(np.arange(200 + gaps), np.arange(gaps) * 5)[:200].astype(float)
    assert counts_rows(number) and counts_rows(-number)
    assert verdicts(table(np.column_stack([number, X]), NOISE))[DRIFT].verdict == NOTHING
    assert not counts_rows(np.sort(NOISE)) and not counts_rows(np.sort(RNG.permutation(9000)[:200]).astype(float))


def test_few_equal_values_say_nothing_of_the_order() -> None:
    rare = np.zeros(200)
    rare[7] = 1.0
    assert sorted_by(np.column_stack([rare, np.round(NOISE > 0.0)]), ["rare", "often"]) == ""


def test_several_checks_allow_for_each_other() -> None:
    few = [Check("", "", "", p, needed=True) for p in (0.004, 0.5)]
    many = [*few, *[Check("", "", "", 0.5, needed=True)] * 2]
    assert with_verdicts(few)[0].verdict == CONTRADICTED and with_verdicts(many)[0].verdict == DOUBTFUL
    assert with_verdicts([Check("", "", "", 1e-9)])[0].verdict == DOUBTFUL


def drifting(columns: Array, names: str) -> tuple[str, float]:
    found = drift(columns, list(names))
    assert found is not None
    return found


def test_drift_names_the_column() -> None:
    columns = X.copy()
    assert drifting(columns, "abc")[1] > LEVEL
    columns[:, 1] += np.linspace(0.0, 2.0, 200)
    name, p = drifting(columns, "abc")
    assert name == "b"
    assert p < LEVEL
    assert drift(columns[:, :0], []) is None


def test_few_rows_of_two_values_are_compared_without_a_warning() -> None:
    columns = np.zeros((15, 1))
    columns[0] = 1.0  # here scipy's exact p-value fails, which it would tell the user
    assert 0.0 < drifting(columns, "a")[1] <= 1.0


def test_a_random_walk_has_an_order_and_noise_has_none() -> None:
    assert order_pattern(NOISE, np.random.default_rng(0)) > LEVEL
    assert order_pattern(np.cumsum(NOISE), np.random.default_rng(0)) < LEVEL


def test_a_missed_function_leaves_a_pattern() -> None:
    assert input_pattern(X, NOISE, np.random.default_rng(0)) > LEVEL
    assert input_pattern(X[:1], NOISE[:1], np.random.default_rng(0)) == 1.0
    assert input_pattern(X, NOISE + 2.0 * np.sin(2.0 * X[:, 0]), np.random.default_rng(0)) < LEVEL


def test_coverage_below_the_stated_is_unlikely() -> None:
    assert coverage_p(90, 100, 0.9) > 0.5
    assert coverage_p(70, 100, 0.9) < LEVEL
    assert coverage_p(0, 2, 0.9) == pytest.approx(0.01)


def test_a_check_of_many_columns_allows_for_them() -> None:
    columns = np.random.default_rng(4).normal(size=(90, 3))
    columns[:30, 1] += 0.8
    assert drifting(columns, "abc") == ("b", 3 * ks_2samp(columns[:30, 1], columns[-30:, 1]).pvalue)


def test_permutations_are_never_certain() -> None:
    rng = np.random.default_rng(4)
    assert order_pattern(np.cumsum(rng.normal(size=200)), rng) == 1 / (1 + PERMUTATIONS)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_bands_that_exclude_each_other_are_doubtful_whichever_is_above(order: tuple[int, int]) -> None:
    def band(low: float) -> Any:
        ends = {"lower": np.array([low, 0.0]), "upper": np.array([low + 1.0, 1.0])}
        return SimpleNamespace(axes={}, arrays={f"pointwise_{side}_5": end for side, end in ends.items()})

    both = [band(0.0), band(2.0)]
    assert band_checks([both[place] for place in order], 5)[0].verdict == DOUBTFUL
