"""Which columns the user means."""

from __future__ import annotations

from typing import Any

import pytest

from gpsuite.data.table.names import choose_columns, name_list, shorten
from gpsuite.errors import DataError

HEADER = ["a", "b, c", "[d]", "it's", "x=1", "~y", "größe", "a b", "MEDV", '"q"']


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[(name, [column]) for column, name in enumerate(HEADER)],
        ("[a, MEDV]", [0, 8]),
        ("a, MEDV", [0, 8]),
        ("[MEDV,a,]", [8, 0]),
        ("[a, b, c, MEDV]", [0, 1, 8]),
        ('[a, "b, c"]', [0, 1]),
        ("'MEDV'", [8]),
        ("[[d], a b]", [2, 7]),
        ("[d]", [2]),
        (["b, c", " a "], [1, 0]),
        ('["q", a]', [9, 0]),
    ],
)
def test_names_are_understood(value: Any, expected: list[int]) -> None:
    assert choose_columns("inputs", value, HEADER) == expected


def test_numbers_may_be_names() -> None:
    assert choose_columns("inputs", [3, 1], ["1", "2", "3"]) == [2, 0]
    assert choose_columns("inputs", 2, ["1", "2", "3"]) == [1]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("medv", r"dataset.target=medv: no column 'medv'. Did you mean 'MEDV'\?"),
        ("[a, MDEV]", r"no column 'MDEV'. Did you mean 'MEDV'\?"),
        ("zzz", r"no column 'zzz'\ncolumns: \[a, \"b, c\", \[d\]"),
        ("[a, a]", "names column 'a' twice"),
        ("[]", "names no column"),
        ([], "names no column"),
        (True, "no column 'True'"),
    ],
)
def test_wrong_names_are_answered(value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        choose_columns("target", value, HEADER)
    assert caught.value.key == "dataset.target"
    assert len(str(caught.value).splitlines()) <= 4


def test_long_lists_are_whole_and_long_texts_cut() -> None:
    assert name_list([str(i) for i in range(100)]).endswith("98, 99]")
    assert name_list(["two\nlines", "b"]) == "[two lines, b]"
    assert choose_columns("inputs", name_list(HEADER), HEADER) == list(range(len(HEADER)))
    assert shorten("a\nb" + "x" * 100) == "a b" + "x" * 74 + "..."
    many = [f"column {i}" for i in range(20000)]
    assert choose_columns("inputs", ", ".join(many), many) == list(range(20000))
