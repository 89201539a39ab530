"""What a column holds: one table of cells, the role they show, and the sentence that is said about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import read_csv
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.describe import describe_table
from gpsuite.data.table.formats import Cells, NumberFormat, yes_and_no
from gpsuite.data.table.roles import Column, Stated, label_column, read_column
from gpsuite.errors import DataError
from tests.data.made_up_data import write

NAN = float("nan")


def column(
    *cells: str, name: str = "x", written: NumberFormat | None = None, categories: int = 20, strict: bool = False
) -> Column:
    return read_column(Cells.of(name, cells), written or NumberFormat(), categories=categories, strict=strict)


def labels(*cells: str, strict: bool = False) -> Column:
    return label_column(Cells.of("y", cells), strict=strict)


GAPS = [str(row * row + row) for row in range(20)]  # 0, 2, 6, 12, ...: whole, and higher in every row
ZIPS = ["02134", "10115", "00501"] * 4
DAYS = [f"2024-03-{day:02d}" for day in range(1, 29)]
COUNT = [str(row) for row in range(3, 23)]
SHUFFLED = [str(row * 7 % 20) for row in range(20)]

# name of the column, its cells, what it is read as, and what is said: why it tells nothing, or what was decided
ROLES: list[tuple[str, list[str], str, str]] = [
    ("x", ["", "NA", "?"], "empty", "it is empty"),
    ("x", ["1.5", "2", "-3e2"], "number", ""),
    ("x", ["1.5", "NA", "2"], "number", ""),
    ("x", ["1.5", "-", "2"], "number", "'-' in column 'x' is read as missing"),
    ("x", ["7", "7.0", "7"], "number", "it is constant (7)"),
    ("x", ["5%", "6%", "0"], "number", "column 'x' is read without its %"),
    ("id", COUNT, "number", "it counts the rows"),
    ("id", COUNT[::-1], "number", "it counts the rows"),
    ("Unnamed: 0", COUNT, "number", "it counts the rows"),
    ("x", COUNT, "number", ""),
    ("id", GAPS, "number", "it is a row number with gaps"),
    ("RowNumber", GAPS, "number", "it is a row number with gaps"),
    ("observation_number", GAPS[::-1], "number", "it is a row number with gaps"),
    ("Unnamed: 0", GAPS, "number", "it is a row number with gaps"),
    ("column_1", GAPS, "number", "it is a row number with gaps"),
    ("year", GAPS, "number", ""),
    ("number", [*GAPS, "5"], "number", ""),
    ("obs", ["0.5", "1.5", "2.75"], "number", ""),
    ("zip", ZIPS, "category", "column 'zip' holds codes (a leading zero, as '02134'), read as 3 categories"),
    ("zip", [f"0{row}" for row in range(1000, 1060)] * 2, "text", "dataset.categories=60 keeps them"),
    ("x", [f"00{row}" for row in range(10, 60)], "text", "another one in every row"),
    ("nr", [f"0{row}" for row in range(10, 60)], "number", "it counts the rows"),
    ("x", ["0.5", "0", "10"], "number", ""),
    ("x", ["0", "12", "0"], "number", ""),
    ("userId", SHUFFLED, "number", "it is an id, another number in every row"),
    ("obs", SHUFFLED, "number", ""),
    ("id", [*SHUFFLED, ""], "number", ""),
    ("x", ["yes", "No", "yes"], "yes/no", ""),
    ("x", ["yes", "No", "TRUE"], "yes/no", "column 'x': No, TRUE, yes are two classes"),
    ("x", ["yes", "yes", "TRUE"], "yes/no", "it is constant ('yes')"),
    ("x", ["1", "0", "1"], "number", ""),
    ("x", DAYS, "date", "column 'x' holds dates, read as days since 1970-01-01"),
    ("x", [DAYS[0]] * 4, "date", "it is constant (19783)"),
    ("x", ["2020Q1", "2020 q3"], "date", "column 'x' holds dates, read as days since 1970-01-01"),
    ("x", ["Mar 2020", "April 2020", "May 2020"], "text", "every row has another text, as 'April 2020'"),
    ("x", ["Mar 2020", "Apr 2020"], "date", "column 'x' holds dates, read as days since 1970-01-01"),
    ("x", ["13/02/2020 18:00", "01/02/2020 07:30"], "date", "column 'x' holds dates, read as days"),
    ("x", ["03/02/2020", "01/02/2020", "03/02/2020"], "category", "2 categories"),
    ("x", ["red", "green", "red"], "category", "column 'x' holds texts, read as 2 categories"),
    ("x", ["ON", "on", "OFF", "Off"], "yes/no", "column 'x': OFF, ON, Off, on are two classes"),
    ("x", ["Red", "red", "red", "BLUE", "blue"], "category", "capital letters only are one, as BLUE, Red"),
    ("x", ["AA", "Aa", "aa", "AA"], "category", "read as 3 categories"),
    ("x", ["18:00:00", "06:30:00", "23:59:00"], "time", "column 'x' holds times, read as hours"),
    ("x", ["18.00.00", "19.00.00"], "time", "column 'x' holds times, read as hours"),
    ("x", ["6:30 pm", "12:15 AM"], "time", "column 'x' holds times, read as hours"),
    ("x", ["3:1", "2:2", "3:1"], "category", "2 categories"),
    ("x", ["2024-03-01 18:00", "2024-03-02 07:30"], "date", "column 'x' holds dates"),
    ("x", ["10/31/2004 18.00.00", "11/01/2004 19.00.00"], "date", "column 'x' holds dates"),
    ("x", ["01MAR2020", "15APR2021"], "date", "column 'x' holds dates"),
    ("x", ["20240301", "20231231", "20240301"], "number", ""),
    ("x", ["a", "a"], "category", "it is constant ('a')"),
    ("x", ["1", "2", "X"] * 3, "category", "column 'x' holds numbers and texts, all read as 3 categories"),
    ("x", ["a", "b", "c"], "text", "every row has another text, as 'a'"),
    ("x", [f"t{row // 2}" for row in range(60)], "text", "30 different texts, more than dataset.categories=20"),
    ("x", [f"{day} 00:15:00 CEST" for day in DAYS], "text", "write 2024-03-01T00:15:00+02:00"),
]


@pytest.mark.parametrize(("name", "cells", "kind", "said"), ROLES)
def test_a_column_shows_its_role(name: str, cells: list[str], kind: str, said: str) -> None:
    found = column(*cells, name=name)
    assert found.kind == kind
    told = [found.useless, *found.notes] if found.useless else list(found.notes)
    assert told == [] if not said else any(said in each for each in told)


@pytest.mark.parametrize(
    ("stated", "cells", "kind", "values"),
    [
        (Stated(role="code"), ["3", "12", "3"], "category", [1.0, 0.0, 1.0]),
        (Stated(role="number"), ["02", "10", "x"], "number", [2.0, 10.0, NAN]),
        (Stated(role="date"), ["19700102", "19700201"], "date", [1.0, 31.0]),
        (Stated(role="date"), ["197001", "197002"], "date", [0.0, 31.0]),
        (Stated(day_first=True), ["03/02/1970", "01/01/1970"], "date", [33.0, 0.0]),
        (Stated(day_first=False), ["03/02/1970", "01/01/1970"], "date", [60.0, 0.0]),
        (Stated(na=("-999",)), ["1.5", "-999.0", "-999"], "number", [1.5, NAN, NAN]),
        (Stated(na=("none",)), ["a", "none", "a", "b", "b"], "category", [0.0, NAN, 0.0, 1.0, 1.0]),
        (Stated(not_na=("NA",)), ["NA", "EU", "NA"], "category", [1.0, 0.0, 1.0]),
    ],
)
def test_what_is_stated_decides_how_a_column_is_read(
    stated: Stated, cells: list[str], kind: str, values: list[float]
) -> None:
    found = read_column(Cells.of("x", cells), NumberFormat(), categories=20, stated=stated)
    assert found.kind == kind
    np.testing.assert_allclose(found.values, values)


def test_times_are_hours() -> None:
    found = column("18:00:00", "06:30", "0:00:36", "12:15 am", "1:45 PM")
    np.testing.assert_allclose(found.values, [18.0, 6.5, 0.01, 0.25, 13.75])


@pytest.mark.parametrize(
    ("name", "cells", "role"),
    [
        ("x", ["1.5", "2", "3"], "number"),
        ("x", ["red", "green", "red"], "category"),
        ("x", ZIPS, "code"),
        ("x", DAYS, "date"),
        ("x", ["03/02/2020", "01/02/2020"], "date"),
        ("x", ["18:00", "06:30"], "time"),
        ("x", ["on", "off", "On"], "yes_no"),
        ("id", COUNT, "counter"),
        ("id", GAPS, "counter"),
        ("userId", SHUFFLED, "code"),
        ("x", ["7", "7"], "constant"),
        ("x", ["a", "a"], "constant"),
        ("x", ["", "NA"], "constant"),
        ("x", ["a", "b", "c"], "text"),
        ("x", [f"country {k % 25}" for k in range(75)], "category"),  # too many levels to be an input, but levels
        ("x", [f"town {k % 25}" for k in range(74)], "text"),
    ],
)
def test_a_role_is_one_word(name: str, cells: list[str], role: str) -> None:
    assert column(*cells, name=name).role == role


def test_every_cell_that_is_no_number_is_bad_where_nothing_else_is_allowed() -> None:
    found = column("1", "yes", "", "2020-01-01", "5%", strict=True)
    assert (found.kind, found.bad) == ("number", {1: "yes", 3: "2020-01-01", 4: "5%"})
    assert found.unread.tolist() == [False, True, True, True, True]


def test_a_column_of_texts_costs_what_its_length_costs() -> None:
    """One cell of 100,000 blanks or digits: no rule looks at it again at each of its characters."""
    for cell in ("x" + " " * 10**5 + "y", "$" + " " * 10**5 + "y", "1" * 10**5 + "x", "-" * 10**5):
        assert column(cell, "a", "b", "a", "b").kind == "category"
        assert labels(cell, "a", "b", "a").kind == "category"


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
    given = labels(*cells) if texts != {"yes", "TRUE"} else None
    assert given is None or len(given.levels) == (2 if pairs else len(texts))
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
def test_numbers_are_read_with_their_sign_and_symbol(cells: list[str], values: list[float], symbol: str) -> None:
    marks = NumberFormat(",", ".") if "€" in cells[0] else NumberFormat(".", ",")
    found = column(*cells, written=marks)
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
    assert "does not tell its whole numbers apart" in column(*large).useless
    assert "does not tell its whole numbers apart" in column("", *large).useless
    assert column(*(str(2**53 - each) for each in range(30)), name="code").useless == ""
    assert column(*[str(2**60), str(2**61)] * 9, name="code").useless == ""


def test_dates_that_may_begin_with_day_or_month_are_said_to() -> None:
    mixed = [f"0{day}/0{day % 3 + 1}/2024 00:15" for day in range(1, 10)]
    assert column(*mixed, categories=5).useless.endswith("do not say whether day or month comes first")


@pytest.mark.parametrize(
    ("separator", "values", "asks"),
    [
        (";", ["403.000", "466.500", "98.700"], True),
        (";", ["403.000", "466.500", "98.750"], False),
        (";", ["0.500", "466.500", "98.700"], False),
        (",", ["403.000", "466.500", "98.700"], False),
    ],
)
def test_round_thousands_are_asked_about(tmp_path: Path, separator: str, values: list[str], asks: bool) -> None:
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
def test_labels_are_numbered_in_sorted_order(texts: list[str], names: tuple[str, ...], codes: list[int]) -> None:
    column = labels(*texts)
    assert column.levels == names
    np.testing.assert_array_equal(column.values, codes)
    assert (column.bad, column.notes) == ({}, ())


def test_words_for_yes_and_no_are_two_classes_unless_strict() -> None:
    texts = ["yes", "No", "TRUE", "1", "false", "yes", "No", "0"]
    column = labels(*texts)
    assert column.levels == ("No", "yes")
    assert column.values.tolist() == [1, 0, 1, 1, 0, 1, 0, 0]
    assert "are two classes" in column.notes[0]
    assert len(labels(*texts, strict=True).levels) == 6
    with pytest.raises(DataError, match="all rows have the label 'yes'"):
        labels("yes", "TRUE", "1")


@pytest.mark.parametrize("mark", ["", "NA", "NaN", "null", "?", "n/a"])
def test_a_missing_label_is_a_gap_and_no_class(mark: str) -> None:
    column = labels("a", mark, "b", "a")
    assert column.levels == ("a", "b")
    assert column.gaps.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(column.values, [0.0, np.nan, 1.0, 0.0])


@pytest.mark.parametrize("cell", ["0.5", "inf", "1e999"])
def test_a_number_that_is_no_integer_is_no_label(cell: str) -> None:
    assert labels("0", cell, "1").bad == {1: cell}


@pytest.mark.parametrize("texts", [["1", "1.0", "1"], ["a", "a"], ["a", "", "a"], ["?", ""]])
def test_one_class_is_refused(texts: list[str]) -> None:
    with pytest.raises(DataError, match=r"all rows have the label|no row has a label"):
        labels(*texts)
