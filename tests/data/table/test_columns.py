"""What a column holds: numbers with signs and gaps, words for yes and no, dates, and numbers that tell nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import read_csv
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.describe import describe_table
from gpsuite.data.table.formats import NumberFormat, yes_and_no
from gpsuite.data.table.roles import Column, label_column, plain_column, read_column
from gpsuite.errors import DataError
from tests.data.made_up_data import write

NAN = float("nan")


def column(*cells: str) -> Column:
    return read_column("x", cells, NumberFormat(), categories=20)


@pytest.mark.parametrize(
    ("texts", "pairs"),
    [
        ({"T", "F"}, True),
        ({"y", "N"}, True),
        ({"TRUE", "no", "Yes", "false", "T", "n", "1", "0"}, True),
        ({"yes", "TRUE"}, True),
        ({"F", "N"}, False),
        ({"T", "Y"}, False),
        ({"T", "Y", "N"}, False),
        ({"0", "1", "N"}, False),
        ({"yes", "maybe"}, False),
    ],
)
def test_single_letters_are_yes_and_no_in_pairs_only(texts: set[str], pairs: bool) -> None:
    assert yes_and_no(texts) is pairs
    cells = sorted(texts) * 3
    labels = label_column("y", cells) if texts != {"yes", "TRUE"} else None
    assert labels is None or len(labels.levels) == (2 if pairs else len(texts))
    found = column(*cells)
    assert found.kind == ("yes/no" if pairs else "category")
    assert pairs or len(found.levels) == len(texts)


@pytest.mark.parametrize(
    ("cells", "values", "symbol"),
    [
        (["12.5%", "-", "3%", "-5%"], [12.5, NAN, 3.0, -5.0], "%"),
        (["$1,047.01", "0", "$3.50", "$7"], [1047.01, 0.0, 3.5, 7.0], "$"),
        (["$62.87", "-$66.05", "\u2212$1", "+$2"], [62.87, -66.05, -1.0, 2.0], "$"),
        (["-5 €", "10 €", "0,0", "7 €"], [-5.0, 10.0, 0.0, 7.0], "€"),
        (["\u2212.5", "1", "\u22120.25"], [-0.5, 1.0, -0.25], ""),
        (["9.075e\u221201", "1e+0"], [0.9075, 1.0], ""),
        (["1.2573D-01", "-.5D+02"], [0.12573, -50.0], ""),
    ],
)
def test_numbers_are_read_with_their_sign_and_symbol(
    cells: list[str], values: list[float], symbol: str
) -> None:
    marks = NumberFormat(",", ".") if "€" in cells[0] else NumberFormat(".", ",")
    found = read_column("x", cells, marks, categories=20)
    np.testing.assert_allclose(found.values, values)
    assert (found.kind, found.symbol, found.bad) == ("number", symbol, {})
    assert ("is read as missing" in " ".join(found.notes)) == ("-" in cells)


def test_a_plain_number_among_percents_is_a_mistake() -> None:
    found = column(*[f"{each}%" for each in range(1, 10)], "0.12")
    assert (found.kind, found.bad) == ("number", {9: "0.12"})
    assert column("1D5", "2D5", "1D5", "2D5").kind == "category"  # no exponent without sign


@pytest.mark.parametrize("cells", [["2020-01-01", "-", "2020-03-01"], ["yes", "-", "no"]])
def test_a_mark_among_dates_or_yes_and_no_is_a_gap(cells: list[str]) -> None:
    found = column(*cells)
    assert found.kind == ("date" if cells[0] != "yes" else "yes/no")
    assert np.isnan(found.values).tolist() == [False, True, False] == found.gaps.tolist()
    assert "'-' in column 'x' is read as missing" in found.notes


def test_whole_numbers_that_float64_merges_tell_nothing() -> None:
    large = [str(10**18 + each) for each in range(30)]
    found = plain_column("code", large)
    assert found is not None and "does not tell its whole numbers apart" in found.useless
    assert "does not tell its whole numbers apart" in column("", *large).useless
    small = plain_column("code", [str(2**53 - each) for each in range(30)])
    assert small is not None and small.useless == ""
    again = plain_column("code", [str(2**60), str(2**61)] * 9)
    assert again is not None and again.useless == ""


def test_dates_with_a_zone_in_words_are_not_said_to_lack_a_month() -> None:
    cells = [f"2024-03-{day:02d} 00:15:00 CEST" for day in range(1, 29)]
    assert column(*cells).useless.endswith("are not all read: write 2024-03-01T00:15:00+02:00")
    mixed = [f"0{day}/0{day % 3 + 1}/2024 00:15" for day in range(1, 10)]
    assert read_column("x", mixed, NumberFormat(), categories=5).useless.endswith("month comes first")


@pytest.mark.parametrize(
    ("separator", "values", "asks"),
    [
        (";", ["403.000", "466.500", "98.700"], True),
        (";", ["403.000", "466.500", "98.750"], False),
        (";", ["0.500", "466.500", "98.700"], False),
        (",", ["403.000", "466.500", "98.700"], False),
    ],
)
def test_round_thousands_are_asked_about(
    tmp_path: Path, separator: str, values: list[str], asks: bool
) -> None:
    lines = [f"a{separator}y", *(f"{row}{separator}{values[row % 3]}" for row in range(12))]
    spec = CsvSpec(path=write(tmp_path, lines), target="y")
    if asks:
        with pytest.raises(DataError, match=r"'403\.000' in column 'y': a decimal point, or one between"):
            read_csv(spec)
    else:
        assert read_csv(spec).y[1, 0] == 466.5


def test_an_empty_column_is_no_gap_of_the_rows(tmp_path: Path) -> None:
    path = write(tmp_path, ["x,z,y,", *(f"{row},{row * row % 7},{row / 3:.2f}," for row in range(12))])
    assert not [note for note in describe_table(CsvSpec(path=path)).notes if "missing value" in note]
