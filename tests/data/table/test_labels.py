from __future__ import annotations

import numpy as np
import pytest

from gpsuite.data.table.roles import label_column
from gpsuite.errors import DataError


@pytest.mark.parametrize(
    ("texts", "names", "codes"),
    [
        (["spam", "ham", "spam"], ("ham", "spam"), [1, 0, 1]),
        (["8", "3", "10", "3"], ("3", "8", "10"), [1, 0, 2, 0]),
        (["1", "-1", "1.0"], ("-1", "1"), [1, 0, 1]),
        (["2", "10", "many"], ("10", "2", "many"), [1, 0, 2]),
        (["nein", "größer"], ("größer", "nein"), [1, 0]),
        (["no", "Yes"], ("Yes", "no"), [1, 0]),
    ],
)
def test_labels_are_numbered_in_sorted_order(
    texts: list[str], names: tuple[str, ...], codes: list[int]
) -> None:
    column = label_column("y", texts)
    assert column.levels == names
    np.testing.assert_array_equal(column.values, codes)
    assert (column.bad, column.notes) == ({}, ())


def test_words_for_yes_and_no_are_two_classes_unless_strict() -> None:
    texts = ["yes", "No", "TRUE", "1", "false", "yes", "No", "0"]
    column = label_column("y", texts)
    assert column.levels == ("No", "yes")
    assert column.values.tolist() == [1, 0, 1, 1, 0, 1, 0, 0]
    assert "are two classes" in column.notes[0]
    assert len(label_column("y", texts, strict=True).levels) == 6
    with pytest.raises(DataError, match="all rows have the label 'yes'"):
        label_column("y", ["yes", "TRUE", "1"])


@pytest.mark.parametrize("mark", ["", "NA", "NaN", "null", "?", "n/a"])
def test_a_missing_label_is_a_gap_and_no_class(mark: str) -> None:
    column = label_column("y", ["a", mark, "b", "a"])
    assert column.levels == ("a", "b")
    assert column.gaps.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(column.values, [0.0, np.nan, 1.0, 0.0])


@pytest.mark.parametrize("cell", ["0.5", "inf", "1e999"])
def test_a_number_that_is_no_integer_is_no_label(cell: str) -> None:
    assert label_column("y", ["0", cell, "1"]).bad == {1: cell}


@pytest.mark.parametrize("texts", [["1", "1.0", "1"], ["a", "a"], ["a", "", "a"], ["?", ""]])
def test_one_class_is_refused(texts: list[str]) -> None:
    with pytest.raises(DataError, match=r"all rows have the label|no row has a label"):
        label_column("y", texts)
