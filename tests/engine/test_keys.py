"""Keys of tasks: what changes them, what does not, and how parameters are written down for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.engine.keys import canonical_json, short_hash, task_key
from gpsuite.experiments.tasks import INLINE, LEFT_OUT, OPTIONAL, choice, left_out_as, named, plain, take
from tests.engine import tiny

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def test_comfort_does_not_change_a_key_and_science_does() -> None:
    task = tiny.task(3)
    key = task_key(task)
    comfort = {"label": "x", "axes": {"other": 1}, "group": "g", "cost": 9.0, "budget_seconds": 5.0}
    assert task_key(replace(task, **comfort)) == key  # type: ignore[arg-type]
    assert task_key(replace(task, experiment="tiny/other")) == key  # one family shares its records
    assert task_key(replace(task, version=2)) != key
    assert task_key(replace(task, experiment="else/squares")) != key
    assert task_key(tiny.task(4)) != key


@dataclass(frozen=True)
class Kernel:
    name: str


@dataclass(frozen=True)
class Size:
    rows: int


@dataclass(frozen=True, kw_only=True)
class Cell:
    kind: str = "cell"
    broken: str = field(metadata=named("break"))
    kernel: Kernel
    size: Size = field(metadata=INLINE)
    levels: Sequence[int]
    limit: float | None = field(default=None, metadata=OPTIONAL)
    shown: float | None = None
    title: str = field(default="a cell", metadata=LEFT_OUT)
    way: str = field(default="old", metadata=left_out_as("old"))


def test_params_of_a_dataclass_are_hashed_as_their_plain_values() -> None:
    cell = Cell(broken="ties", kernel=Kernel("rbf"), size=Size(9), levels=(1, 2))
    values = {"kind": "cell", "break": "ties", "kernel": {"name": "rbf"}, "rows": 9}
    values |= {"levels": [1, 2], "shown": None}
    assert plain(cell) == values
    assert plain(replace(cell, title="called otherwise")) == values
    assert plain(replace(cell, limit=2.0)) == {**values, "limit": 2.0}
    assert plain(replace(cell, limit=0.0)) == {**values, "limit": 0.0}  # left out is None alone
    assert plain(replace(cell, way="new")) == {**values, "way": "new"}
    assert plain({"cells": [cell]}) == {"cells": [values]}
    typed, untyped = (replace(tiny.task(1), params=params) for params in (cell, values))  # type: ignore[arg-type]
    assert task_key(typed) == task_key(untyped)


def test_two_fields_of_one_name_are_an_error() -> None:
    @dataclass(frozen=True)
    class Twice:
        rows: int
        size: Size = field(metadata=INLINE)

    with pytest.raises(ValueError, match="Twice: two fields"):
        plain(Twice(1, Size(2)))


@given(st.sampled_from(["a", "b"]), st.sampled_from(["a", "b", "c"]))
def test_a_choice_is_one_of_the_valid_ones(valid: str, given_word: str) -> None:
    if given_word == valid:
        assert choice(given_word, [valid]) == valid
    else:
        with pytest.raises(ValueError, match=f"{given_word}: must be one of {valid}"):
            choice(given_word, [valid])


def test_a_key_of_known_values_never_changes() -> None:
    assert task_key(tiny.task(3)) == short_hash(
        {"family": "tiny", "params": {"number": 3, "behaviour": "square"}, "dataset": None, "version": 1}
    )


def test_other_data_are_another_task() -> None:
    datasets: list[Any] = [None, SimpleNamespace(content_hash="a"), SimpleNamespace(content_hash="b")]
    assert len({task_key(replace(tiny.task(3), dataset=data)) for data in datasets}) == 3


def test_a_setting_that_is_nothing_is_a_setting() -> None:
    params: list[Any] = [{}, {"rows": 0}, {"rows": False}, {"rows": None}, {"rows": ""}, {"rows": []}]
    assert len({task_key(replace(tiny.task(3), params=each)) for each in params}) == len(params)


@dataclass
class _Settings:
    rows: int = 7
    goals: list[float] = field(default_factory=lambda: [1.0, 2.0])
    comfort: str = "unused"


@dataclass(frozen=True)
class _Taken:
    rows: int
    goals: tuple[float, ...]
    split: int
    kind: str = "taken"


def test_take_reads_the_settings_of_the_same_name_and_what_is_given_goes_first() -> None:
    assert take(_Taken, _Settings(), split=3) == _Taken(7, (1.0, 2.0), 3)
    assert take(_Taken, _Settings(), split=3, rows=1).rows == 1


def test_take_refuses_a_missing_field_and_an_unknown_name() -> None:
    with pytest.raises(TypeError, match="split"):
        take(_Taken, _Settings())
    with pytest.raises(TypeError, match="comfort"):
        take(_Taken, _Settings(), split=3, comfort="x")
