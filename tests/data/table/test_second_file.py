"""Rows to predict and candidates are read as the table that they belong to, and no row or format is guessed away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.new_rows import NewRows, inputs_of_file, read_inputs
from gpsuite.data.table.read import read_csv, suggested_task
from gpsuite.errors import DataError
from tests.data.made_up_data import csv_spec, write

GERMAN = {"separator": ";", "decimal": ",", "thousands": "."}
ENGLISH = {"separator": ",", "decimal": ".", "thousands": ""}


def new_rows(folder: Path, text: str, reading: dict[str, str], *names: str) -> NewRows:
    path = folder / "new.csv"
    path.write_text(text)
    return inputs_of_file(str(path), names or ("x",), reading)


def german_table(folder: Path) -> CsvSpec:
    lines = ["km;ps;preis", *(f"{i + 12}.555,5;{100 + i};{i + 3}.461,49" for i in range(12))]
    return CsvSpec(path=write(folder, lines), target="preis")


def test_a_table_says_how_it_is_written(tmp_path: Path) -> None:
    plain = {"written km": "number", "written ps": "number"}
    assert read_csv(german_table(tmp_path)).reading == GERMAN | plain
    english = write(tmp_path, ["a,y", *(f"{i}.5,{i * i}" for i in range(12))], "e.csv")
    assert read_csv(CsvSpec(path=english, target="y")).reading == ENGLISH | {"written a": "number"}
    rows = [f"{i}.5,{i}%,2020-01-{i + 1:02d},{'yes' if i % 2 else 'no'},{i * i}" for i in range(12)]
    lines = ["a,b,c,d,y", "cm,%,,,m", *rows]
    units = {"unit a": "cm", "unit b": "%", "unit y": "m"}
    written = {"written a": "number", "written b": "%", "written c": "date", "written d": "yes/no"}
    assert (
        read_csv(CsvSpec(path=write(tmp_path, lines, "u.csv"), target="y")).reading
        == ENGLISH | units | written
    )


@pytest.mark.parametrize(
    ("text", "reading", "values"),
    [
        ("x\n1,5\n2,5\n7,5\n", GERMAN, [1.5, 2.5, 7.5]),  # not a row's name and digits after the comma
        ("x\n12.500\n34.750\n", GERMAN, [12500.0, 34750.0]),
        ("x\n12.500,5\n34.750\n", GERMAN, [12500.5, 34750.0]),
        ("x\n1200\n1300\n", GERMAN, [1200.0, 1300.0]),
        ("x\n1000.5\n2000.5\n", GERMAN, [1000.5, 2000.5]),  # cannot be read as the table
        ("x\n12.500\n34.750\n", ENGLISH, [12.5, 34.75]),
        ("x;z\n1,5;0\n2,5;0\n", ENGLISH, [1.5, 2.5]),
        ("x;z\n1,234;0\n12,345.5;0\n", {**ENGLISH, "thousands": ","}, [1234.0, 12345.5]),
        ("x,z\n0.123,1\n0.456,1\n", GERMAN, [0.123, 0.456]),  # no group begins with 0
    ],
)
def test_numbers_are_read_as_the_tables_where_they_can_be(
    tmp_path: Path, text: str, reading: dict[str, str], values: list[float]
) -> None:
    assert new_rows(tmp_path, text, reading).X[:, 0].tolist() == values


def test_how_numbers_were_read_is_said(tmp_path: Path) -> None:
    assert new_rows(tmp_path, "x\n12.500\n", GERMAN).notes == (
        "numbers are read as the table's are: '12.500' is 12500",
    )
    assert new_rows(tmp_path, "x\n12.500\n", ENGLISH).notes == ()


@pytest.mark.parametrize(
    ("text", "reading", "told"),
    [
        (
            "x\n12.500\n12.5\n",
            GERMAN,
            r"'12\.500' in column 'x' is 12500 as the table writes numbers, here 12\.5",
        ),
        (
            "x,z\n1.123,2.4\n2.123,2.5\n",
            GERMAN,
            r"'1\.123' in column 'x' is 1123 as the table writes numbers, here 1\.123",
        ),
        ("x;z\n1,234;0\n", {**ENGLISH, "thousands": ","}, "a decimal comma, or a comma between thousands"),
        ("x\n1,5\n2,5\n", ENGLISH, "'1,5', one number, or the row's name and a number"),
        ("x,z\n1.0,0.5\n,\n2.0,0.5\n", ENGLISH, "line 3, column 'x': the cell is empty"),
        ("x,z\n-,-\n1,2\n3,4\n5,6\n7,8\n", ENGLISH, "line 2, column 'x': '-' stands for a missing value"),
        ("x,z\n1.0,0.5\nabc,0.5\n3.0,0.2\n", ENGLISH, "line 3, column 'x': 'abc' is not a number"),
        (
            "x,z\n03/04/2020,0\n05/06/2020,0\n",
            ENGLISH,
            "'03/04/2020' is not a number, nor a date of which day",
        ),
    ],
)
def test_what_could_be_read_twofold_or_not_at_all_is_refused(
    tmp_path: Path, text: str, reading: dict[str, str], told: str
) -> None:
    names = ("x", "z") if "z" in text else ("x",)
    with pytest.raises(DataError, match=told):
        new_rows(tmp_path, text, reading, *names)


def test_only_empty_rows_at_the_end_are_left_out(tmp_path: Path) -> None:
    assert new_rows(tmp_path, "x,z\n1,2\n3,4\n,\n,\n", ENGLISH, "x", "z").X.tolist() == [[1, 2], [3, 4]]


UNITS = ENGLISH | {"unit x": "m", "unit z": "kg"}


@pytest.mark.parametrize("text", ["z,x\nkg,m\n1,2\n", "x,z,note\nm,kg,\n2,1,a\n"])
def test_the_tables_line_of_units_is_said_to_be_one(tmp_path: Path, text: str) -> None:
    found = new_rows(tmp_path, text, UNITS, "x", "z")
    assert found.X.tolist() == [[2, 1]] and found.notes == ("line 2 is read as a line of units",)


@pytest.mark.parametrize(
    ("lines", "reading", "told"),
    [
        ("cm,kg\n1,2\n3,4\n5,6\n", UNITS, "column 'x' is in 'cm', in the table in 'm'"),
        ("tbd,tbd\n1,2\n3,4\n5,6\n", ENGLISH, "line 2, column 'x': 'tbd' is not a number"),
        ("m,kg\n1,2\n3,4\n5,6\n", ENGLISH, "line 2, column 'x': 'm' is not a number"),
    ],
)
def test_no_row_to_predict_is_taken_for_units(
    tmp_path: Path, lines: str, reading: dict[str, str], told: str
) -> None:
    with pytest.raises(DataError, match=told):
        new_rows(tmp_path, f"x,z\n{lines}", reading, "x", "z")


@pytest.mark.parametrize(
    ("table", "cells", "told"),
    [
        ("%", ["0.2", "0.3"], "column 'x' holds plain numbers, as '0.2'; in the table numbers with %"),
        ("number", ["20%", "30%"], "column 'x' holds numbers with %, as '20%'; in the table plain numbers"),
        ("$", ["€20", "€30"], "column 'x' holds numbers with €, as '€20'; in the table numbers with \\$"),
        ("date", ["45000", "45001"], "column 'x' holds plain numbers, as '45000'; in the table dates"),
        ("number", ["2024-01-01", "2024-01-02"], "column 'x' holds dates"),
        ("number", ["yes", "no"], "column 'x' holds yes and no, as 'yes'; in the table plain numbers"),
        ("yes/no", ["7", "0.3"], "column 'x' holds plain numbers, as '7'; in the table yes and no"),
    ],
)
def test_cells_written_as_something_else_than_the_tables_are_refused(
    tmp_path: Path, table: str, cells: list[str], told: str
) -> None:
    text = "\n".join(["x", *cells, ""])
    with pytest.raises(DataError, match=told):
        new_rows(tmp_path, text, ENGLISH | {"written x": table})
    own = new_rows(tmp_path, text, ENGLISH)  # nothing is known of the table's cells
    assert len(own.X) == 2


def test_what_is_written_as_in_the_table_is_read_and_said(tmp_path: Path) -> None:
    found = new_rows(tmp_path, "x\n20%\n-15%\n", ENGLISH | {"written x": "%"})
    assert found.X[:, 0].tolist() == [20.0, -15.0]
    assert found.notes == ("column 'x' is read without its %",)
    assert new_rows(tmp_path, "x\n1\n0\n", ENGLISH | {"written x": "yes/no"}).X[:, 0].tolist() == [1, 0]
    assert new_rows(tmp_path, "x\n0\n0%\n", ENGLISH | {"written x": "%"}).X[:, 0].tolist() == [0, 0]
    assert new_rows(tmp_path, "x\n0\n0\n", ENGLISH | {"written x": "%"}).X[:, 0].tolist() == [0, 0]
    with pytest.raises(DataError, match="in the table dates"):
        new_rows(tmp_path, "x\n0\n0\n", ENGLISH | {"written x": "date"})


def test_the_hash_is_of_what_was_read_not_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("a;b\n1,500;2\n2,250;3\n")
    ways = [inputs_of_file(str(path), ("a", "b"), {mark: ","}) for mark in ("decimal", "thousands")]
    assert ways[0].content_hash != ways[1].content_hash
    path.write_text("a;b\n1500;2\n2250;3\n")
    assert inputs_of_file(str(path), ("a", "b")).content_hash == ways[1].content_hash


def test_the_hash_of_a_table_covers_what_is_stated_of_its_reading(tmp_path: Path) -> None:
    """The same names and bytes, and nothing that a note would tell."""
    path = write(tmp_path, ["a;b;y", *(f"{i};{i}.500;{i}.250" for i in range(1, 15))])
    point, groups = (
        read_csv(csv_spec(path, target="y", separator=";", **{mark: "."}))
        for mark in ("decimal", "thousands")
    )
    assert not point.notes and not groups.notes and point.X[0, 1] == 1.5 and groups.X[0, 1] == 1500.0
    assert point.content_hash != groups.content_hash


def test_lines_above_the_tables_names_need_not_be_above_new_rows(tmp_path: Path) -> None:
    title = ["Series 7;;", "made;;"]
    rows = [f"{i}.270;0.{i}90;{i}" for i in range(1, 9)]
    table = write(tmp_path, [*title, *rows, *[f"9.{i};0.{i};{i}" for i in range(5)]], "t.csv")
    for name, lines in (("plain.csv", rows), ("titled.csv", [*title, *rows])):
        spec = CsvSpec(path=table, target="c3", skip_rows=2, new=write(tmp_path, lines, name))
        data = read_csv(spec)
        assert len(read_inputs(spec, data.input_names, reading=data.reading).X) == 8


def test_repeated_names_are_numbered_as_in_the_table(tmp_path: Path) -> None:
    lines = ["x,x,y", *(f"{i},{2 * i + 1},{i * i}" for i in range(12))]
    data = read_csv(CsvSpec(path=write(tmp_path, lines), target="y"))
    assert data.input_names == ("x", "x_2")
    assert new_rows(tmp_path, "x,x\n1,2\n", ENGLISH, *data.input_names).X.tolist() == [[1.0, 2.0]]
    with pytest.raises(DataError, match="two columns are named 'x'"):
        new_rows(tmp_path, "x,x\n1,2\n", ENGLISH, "x")


@pytest.mark.parametrize(
    ("candidates", "values"),
    [
        (["speed", "1000,5", "1900,5"], [1000.5, 1900.5]),
        (["speed", "1.000", "1.100"], [1000.0, 1100.0]),
        (["speed;note", "1000,5;a", "1900,5;b"], [1000.5, 1900.5]),
    ],
)
def test_candidates_are_read_as_the_measurements(
    tmp_path: Path, candidates: list[str], values: list[float]
) -> None:
    lines = ["speed;hc;temp", *(f"{1000 + 50 * i};{i},5;{400 + 5 * i},25" for i in range(12))]
    path, other = write(tmp_path, lines), write(tmp_path, candidates, "c.csv")
    spec = csv_spec(path, task="measurements", target="hc", safety="temp", limit="<=600", candidates=other)
    data = read_csv(spec)
    assert data.grid is not None and data.grid[:, 0].tolist() == values
    assert any(
        note.startswith("dataset.candidates: numbers are read as the table's are") for note in data.notes
    )


def test_a_stated_decimal_mark_leaves_the_other_for_thousands(tmp_path: Path) -> None:
    spec = german_table(tmp_path)
    found = read_csv(csv_spec(spec.path, target="preis", decimal=","))
    np.testing.assert_array_equal(found.X, read_csv(spec).X)


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["1", "2"] * 8 + ["abc"], "regression"),
        (["0.5", "1.5"] * 8, "regression"),
        (["5"] * 16, "regression"),
        (["0", "1"] * 8, "classification"),
    ],
)
def test_numbers_of_which_one_is_none_are_still_numbers(tmp_path: Path, values: list[str], task: str) -> None:
    more = [f"{i}.25" for i in range(80)] if "abc" in values else []
    path = write(tmp_path, ["a,y", *(f"{i},{value}" for i, value in enumerate([*values, *more]))])
    assert suggested_task(CsvSpec(path=path, target="y")) == task
