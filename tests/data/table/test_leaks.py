"""Inputs that tell the target are named, those that only help are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.data import CsvSpec
from gpsuite.data.table.formats import Cells, NumberFormat
from gpsuite.data.table.leaks import alone_r2, best_sum, leaks
from gpsuite.data.table.roles import Column, read_column
from gpsuite.seeds import stream

ROWS = 200
RNG = stream(56, "leaks")
A, B, C, D = RNG.normal(size=(4, ROWS))
WAGE = np.exp(1.5 + 0.5 * A)


Values: TypeAlias = FloatArray | list[str]


def column(name: str, values: Values) -> Column:
    texts = values if isinstance(values, list) else [f"{value:.3f}" for value in values]
    return read_column(Cells.of(name, texts), NumberFormat(), categories=20)


def told(target: Values, inputs: Mapping[str, Values], *, classes: bool = False) -> list[str]:
    columns = [column(name, values) for name, values in inputs.items()]
    return leaks(CsvSpec(), columns, column("y", target), classes=classes)


@pytest.mark.parametrize(
    ("target", "inputs", "said"),
    [
        (WAGE, {"a": B, "lwage": np.log(WAGE)}, "lwage alone predicts y with R2 = "),
        (A**2, {"a": A, "b": B}, "a alone predicts y with R2 = "),
        ((A + B) / 2.0, {"read": A, "math": B, "c": C}, "read and math give y by a weighted sum, with R2 = 1"),
        (A + B + C, {"a": A, "d": D, "b": B, "c": C}, "a and b and c give y by a weighted sum, with R2 = 1"),
        (A - B, {"income": A, "cost": B}, "dataset.ignore=[income, cost]"),
        (5.0 * np.floor(A), {"level": [f"l{value:.0f}" for value in np.floor(A)], "b": B}, "level alone predicts y"),
    ],
)
def test_inputs_that_tell_a_number_are_named(target: FloatArray, inputs: dict[str, Values], said: str) -> None:
    [sentence] = told(target, inputs)
    assert said in sentence
    assert "known before y? If not, leave" in sentence


@pytest.mark.parametrize(
    ("target", "inputs"),
    [
        (A + 0.3 * B, {"a": A, "c": C}),
        (D, {"a": A, "b": B, "c": C}),
        (np.arange(ROWS) / 10.0, {"time": np.arange(ROWS) / 7.0}),  # a trend
        (D, {"text": [f"l{place % 20}" for place in range(ROWS)]}),
        (np.ones(ROWS), {"a": A}),
    ],
)
def test_inputs_that_only_help_are_not(target: FloatArray, inputs: dict[str, Values]) -> None:
    assert told(target, inputs) == []


def test_inputs_that_tell_classes_are_named() -> None:
    species = [("setosa", "other")[int(value > 0.0)] for value in A]
    code = [("7", "9")[int(value > 0.0)] for value in A]
    [sentence] = told(species, {"code": code, "a": A, "b": B}, classes=True)
    assert sentence.startswith("code alone tells y in every row (so do a): is it known before y?")
    assert told(species, {"b": B, "c": np.round(C, 1)}, classes=True) == []
    assert told([("yes", "no")[int(place == 3)] for place in range(ROWS)], {"b": np.round(B)}, classes=True) == []


@pytest.mark.parametrize(
    ("relation", "least", "most"), [(np.sin, 0.99, 1.0), (lambda x: x + 0.1 * B, 0.97, 0.99), (lambda x: B, -2.0, 0.1)]
)
def test_r2_of_one_input_assumes_no_form(
    relation: Callable[[FloatArray], FloatArray], least: float, most: float
) -> None:
    assert least <= alone_r2(A, relation(A)) <= most


def test_a_sum_is_found_among_many_columns() -> None:
    many = stream(57, "many").normal(size=(ROWS, 1000))
    found = best_sum(many, 2.0 * many[:, 700] - many[:, 3])
    assert found is not None and found[0] == [3, 700]
    assert best_sum(many, A) is None
