"""Checks of assumptions: each sees the fault it is there for, and is quiet without it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp

from gpsuite.experiments.guarantee.checks import (
    LEVEL,
    PERMUTATIONS,
    VIOLATED,
    band_checks,
    coverage_p,
    drift,
    duplicates,
    input_pattern,
    order_pattern,
)

RNG = np.random.default_rng(4)
X, NOISE = RNG.normal(size=(200, 3)), RNG.normal(size=200)


def test_copies_are_counted_and_called_a_sign() -> None:
    assert duplicates(X, NOISE) == (0, False)
    assert duplicates(np.vstack([X, X[:10]]), np.append(NOISE, NOISE[:10])) == (10, True)
    assert duplicates(np.ones((50, 1)), np.arange(50.0) % 2) == (48, False)  # few values repeat by chance
    ages, groups = RNG.integers(20, 80, 2000), RNG.integers(0, 3, 2000)
    assert duplicates(ages[:, None].astype(float), groups.astype(float))[1] is False
    ratings, first = np.round(NOISE), np.column_stack([np.round(X[:, 0]), X[:, 1]])
    assert duplicates(first, ratings) == (0, False)
    copied = np.arange(200) % 40
    assert duplicates(first[copied], ratings[copied]) == (160, True)


def test_drift_names_the_column() -> None:
    table = X.copy()
    assert drift(table, ["a", "b", "c"])[1] > LEVEL
    table[:, 1] += np.linspace(0.0, 2.0, 200)
    name, p = drift(table, ["a", "b", "c"])
    assert name == "b"
    assert p < LEVEL


def test_few_rows_of_two_values_are_compared_without_a_warning() -> None:
    table = np.zeros((15, 1))
    table[0] = 1.0  # here scipy's exact p-value fails, which it would tell the user
    assert 0.0 < drift(table, ["a"])[1] <= 1.0


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


def test_a_check_of_many_columns_pays_for_them() -> None:
    table = np.random.default_rng(4).normal(size=(90, 3))
    table[:30, 1] += 0.8
    assert drift(table, ["a", "b", "c"]) == ("b", 3 * ks_2samp(table[:30, 1], table[-30:, 1]).pvalue)


def test_permutations_are_never_certain() -> None:
    rng = np.random.default_rng(4)
    assert order_pattern(np.cumsum(rng.normal(size=200)), rng) == 1 / (1 + PERMUTATIONS)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_bands_that_exclude_each_other_are_a_violation_whichever_is_above(order: tuple[int, int]) -> None:
    def band(low: float) -> Any:
        ends = {"lower": np.array([low, 0.0]), "upper": np.array([low + 1.0, 1.0])}
        return SimpleNamespace(axes={}, arrays={f"pointwise_{side}_5": end for side, end in ends.items()})

    both = [band(0.0), band(2.0)]
    assert band_checks([both[place] for place in order], 5)[0].verdict == VIOLATED
