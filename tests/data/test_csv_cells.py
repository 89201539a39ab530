from __future__ import annotations

import numpy as np
import pytest

from gpsuite.data.csv_cells import number_labels, parse_rows
from gpsuite.errors import DataError


def test_numbers_are_read_as_written() -> None:
    rows = [(2, ["1", " -2.5e3 ", "x"]), (3, [".5", "+7", "y"]), (4, ["1e308", "1.7e308", "z"])]
    numbers, labels = parse_rows("t.csv", ["a", "b", "c"], rows, [1, 0], 2)
    assert numbers.tolist() == [[-2500.0, 1.0], [7.0, 0.5], [1.7e308, 1e308]]
    assert labels == [(2, "x"), (3, "y"), (4, "z")]


@pytest.mark.parametrize(
    ("cell", "what", "fix"),
    [
        ("abc", "'abc' is not a number", "dataset.inputs"),
        ("1_0", "'1_0' is not a number", "dataset.inputs"),
        ("1,5", "'1,5' is not a number", "1234.5"),
        ("NA", "'NA' is not a number", "dataset.inputs"),
        ("", "the cell is empty", "remove the row"),
        ("  ", "the cell is empty", "remove the row"),
        ("nan", "'nan' is not a finite number", "remove the row"),
        ("-Inf", "'-Inf' is not a finite number", "remove the row"),
        ("1e999", "'1e999' is not a finite number", "remove the row"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column(cell: str, what: str, fix: str) -> None:
    rows = [(2, ["1", "2", "3"]), (7, ["1", cell, "3"])]
    with pytest.raises(DataError) as caught:
        parse_rows("my.csv", ["a", "b c", "y"], rows, [0, 1, 2], None)
    message = str(caught.value)
    assert f"dataset.path=my.csv: line 7, column 'b c': {what}" in message
    assert fix in message.splitlines()[1]


def test_columns_that_are_not_used_may_hold_anything() -> None:
    numbers, _ = parse_rows("t.csv", ["a", "note", "y"], [(2, ["1", "", "3"])], [0, 2], None)
    assert numbers.tolist() == [[1.0, 3.0]]


def test_ragged_rows_and_no_rows() -> None:
    with pytest.raises(DataError, match="line 9 has 2 cells, the header has 3"):
        parse_rows("t.csv", ["a", "b", "y"], [(9, ["1", "2"])], [0], None)
    with pytest.raises(DataError, match="has column names but no rows"):
        parse_rows("t.csv", ["a", "b"], [], [0], None)


@pytest.mark.parametrize(
    ("texts", "names", "codes"),
    [
        (["spam", "ham", "spam"], ("ham", "spam"), [1, 0, 1]),
        (["8", "3", "10", "3"], ("3", "8", "10"), [1, 0, 2, 0]),
        (["1", "-1", "1.0"], ("-1", "1"), [1, 0, 1]),
        (["2", "10", "many"], ("10", "2", "many"), [1, 0, 2]),
        (["nein", "größer"], ("größer", "nein"), [1, 0]),
    ],
)
def test_labels_are_numbered_in_sorted_order(
    texts: list[str], names: tuple[str, ...], codes: list[int]
) -> None:
    labels, found = number_labels("t.csv", "y", list(enumerate(texts, start=2)))
    assert found == names
    np.testing.assert_array_equal(labels, np.array(codes, dtype=float)[:, None])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["1", "1.0", "1"], "all rows have the label '1'"),
        (["a", "a"], "all rows have the label 'a'"),
        (["0", "0.5", "1"], "line 3: '0.5' is not a label(.|\n)*dataset.task=regression"),
        (["a", "", "b"], "line 3, column 'y': the cell is empty"),
        (["a", "nan", "b"], "line 3, column 'y': 'nan' is not a finite number"),
        (["a", "b", "NA"], "line 4, column 'y': the label 'NA' stands for a missing one"),
    ],
)
def test_labels_that_are_none_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        number_labels("t.csv", "y", list(enumerate(texts, start=2)))
