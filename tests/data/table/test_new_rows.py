"""Rows to predict and candidates are read as the table that they belong to; no row or format is guessed away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.new_rows import NewRows, inputs_of_file, read_inputs, unread_rows
from gpsuite.data.table.read import read_csv, suggested_task
from gpsuite.errors import DataError
from tests.data.made_up_data import csv_spec, write


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["1.5", "2", "3"], "regression"),
        (["0", "1", "1"], "classification"),
        (["yes", "No", "yes"], "classification"),
        (["good", "bad", "3"], "classification"),
        (["1", "2", "x"], "classification"),
        (["1,5", "2,5", "3,5"], "regression"),
    ],
)
def test_texts_and_two_values_are_classes(tmp_path: Path, values: list[str], task: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;y\n" + "".join(f"0;{value}\n" for value in values))
    assert suggested_task(CsvSpec(path=str(path), target="y")) == task


def test_inputs_are_found_by_name_in_the_order_requested(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("b;note;a\n1;x;2\n3;y;4\n")
    assert inputs_of_file(str(path), ("a", "b"), {"separator": ";"}).X.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert inputs_of_file(str(path), ("a", "b")).X.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    with pytest.raises(DataError, match=r"dataset\.new=.*no column 'c'"):
        inputs_of_file(str(path), ("a", "c"))


def test_new_rows_are_encoded_as_the_rows_learned_from(tmp_path: Path) -> None:
    """Categories, dates, yes and no, decimal commas: the same rows give the same inputs."""
    lines = [
        f"{['red', 'green', 'blue'][i % 3]};{'ab'[i % 2]};2024-01-{i + 1:02d};{['yes', 'no'][i % 2]};{i},5;{i * i},25"
        for i in range(12)
    ]
    table, new = tmp_path / "t.csv", tmp_path / "new.csv"
    table.write_text("\n".join(["colour;side;day;on;size;y", *lines]) + "\n")
    new.write_text("\n".join(["colour;side;day;on;size", *(line.rpartition(";")[0] for line in lines)]) + "\n")
    spec = CsvSpec(path=str(table), target="y", new=str(new))
    learned = read_csv(spec)
    assert len(learned.input_names) == 7  # three colours, one of two sides, day, on, size
    found = read_inputs(spec, learned.input_names)
    np.testing.assert_array_equal(found.X, learned.X)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["red", "pink"], "'pink' is a new level"),
        (["red", ""], "a value is missing"),
        (["red", "NA"], "a value is missing"),
    ],
)
def test_levels_that_nobody_learned_are_refused(tmp_path: Path, cells: list[str], message: str) -> None:
    path = tmp_path / "new.csv"
    path.write_text("colour,size\n" + "".join(f"{cell},1\n" for cell in cells))
    names = ("colour=red", "colour=green", "colour=blue", "size")
    with pytest.raises(DataError, match=message):
        inputs_of_file(str(path), names, {"separator": ","}, strict=True)
    assert message in inputs_of_file(str(path), names, {"separator": ","}).unread[2]


def test_of_two_levels_no_third_is_taken_for_the_other(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("side,size\na,1\nb,2\n")
    assert inputs_of_file(str(path), ("side=b", "size"), {"separator": ","}).X.tolist() == [[0.0, 1.0], [1.0, 2.0]]
    path.write_text("side,size\na,1\nb,2\nc,3\n")
    with pytest.raises(DataError, match="'a' is a new level"):
        inputs_of_file(str(path), ("side=b", "size"), {"separator": ","}, strict=True)
    assert list(inputs_of_file(str(path), ("side=b", "size"), {"separator": ","}).unread) == [1, 3]


def test_texts_where_numbers_were_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("a,b\nlow,1\nhigh,2\nlow,3\n")
    with pytest.raises(DataError, match="column 'a' holds texts"):
        inputs_of_file(str(path), ("a", "b"), {"separator": ","})


def test_of_two_learned_levels_a_third_is_refused_even_as_the_only_one(tmp_path: Path) -> None:
    table, new = tmp_path / "t.csv", tmp_path / "new.csv"
    table.write_text("side,size,y\n" + "".join(f"{'ab'[i % 2]},{i},{i * i}\n" for i in range(12)))
    data = read_csv(CsvSpec(path=str(table), target="y"))
    assert data.categories == {"side": ("a", "b")}
    new.write_text("side,size\na,1\nb,2\n")
    assert inputs_of_file(str(new), data.input_names, {}, data.categories).X.tolist() == [[0.0, 1.0], [1.0, 2.0]]
    new.write_text("side,size\nb,1\nc,2\n")
    with pytest.raises(DataError, match="line 3, column 'side': 'c' is a new level"):
        inputs_of_file(str(new), data.input_names, {}, data.categories, strict=True)
    new.write_text("size\n1\n2\n")
    with pytest.raises(DataError, match=r"no column 'side'\nit needs the inputs \[side, size\]"):
        inputs_of_file(str(new), data.input_names, {}, data.categories)


def test_marks_of_the_run_are_used_for_new_rows(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("a;b\n1,500;2\n2,250;3\n")
    names = ("a", "b")
    assert inputs_of_file(str(path), names, {"decimal": ","}).X[:, 0].tolist() == [1.5, 2.25]
    assert inputs_of_file(str(path), names, {"thousands": ","}).X[:, 0].tolist() == [1500.0, 2250.0]


@pytest.mark.parametrize(("separator", "asks"), [(";", True), ("\t", True), (",", False)])
def test_a_point_that_may_stand_between_thousands_is_questioned(tmp_path: Path, separator: str, asks: bool) -> None:
    """1.032 beside 948, and nothing in the file that tells."""
    rows = [f"{i}{separator}{value}" for i, value in enumerate(["948", "1.032", "1.107", "871"] * 5)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"a{separator}y", *rows]) + "\n")
    spec = CsvSpec(path=str(path), target="y")
    if asks:
        with pytest.raises(DataError, match=r"'1\.032' in column 'y', next to numbers without a point"):
            read_csv(spec)
    else:
        assert read_csv(spec).y[1, 0] == 1.032
    assert read_csv(replace(spec, thousands=".")).y[:2, 0].tolist() == [948.0, 1032.0]
    assert read_csv(replace(spec, decimal=".")).y[:2, 0].tolist() == [948.0, 1.032]


@pytest.mark.parametrize("told", ["0.5", "12.25", "1032.5"])
def test_another_number_tells_that_a_point_is_decimal(tmp_path: Path, told: str) -> None:
    rows = [f"{i or told};{value}" for i, value in enumerate(["948", "1.032", "1.107", "871"] * 5)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a;y", *rows]) + "\n")
    assert read_csv(CsvSpec(path=str(path), target="y", inputs=["a"])).y[1, 0] == 1.032


def test_the_task_is_suggested_from_numbers_as_the_whole_file_writes_them(tmp_path: Path) -> None:
    """14,754 alone may have a decimal comma; 0.5 beside it tells."""
    path = tmp_path / "t.csv"
    path.write_text('a,y\n0.5,"14,754"\n0.25,"15,920"\n1.5,"9,001"\n')
    assert suggested_task(CsvSpec(path=str(path), target="y")) == "regression"
    path.write_text('a,y\n3,"14,754"\n2,"15,920"\n1,"9,001"\n')
    with pytest.raises(DataError, match="thousands"):
        suggested_task(CsvSpec(path=str(path), target="y"))


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
    assert read_csv(CsvSpec(path=write(tmp_path, lines, "u.csv"), target="y")).reading == ENGLISH | units | written


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
        ("x\n12.500\n12.5\n", GERMAN, r"'12\.500' in column 'x' is 12500 as the table writes numbers, here 12\.5"),
        (
            "x,z\n1.123,2.4\n2.123,2.5\n",
            GERMAN,
            r"'1\.123' in column 'x' is 1123 as the table writes numbers, here 1\.123",
        ),
        ("x;z\n1,234;0\n", {**ENGLISH, "thousands": ","}, "a decimal comma, or a comma between thousands"),
        ("x\n1,5\n2,5\n", ENGLISH, "'1,5', one number, or the row's name and a number"),
        ("x,z\n1.0,0.5\n,\n2.0,0.5\n", ENGLISH, "line 3, column 'x': the cell is empty"),
        ("x,z\n-,-\n1,2\n3,4\n5,6\n7,8\n", ENGLISH, "line 2, column 'x': '-' marks a missing value"),
        ("x,z\n1.0,0.5\nabc,0.5\n3.0,0.2\n", ENGLISH, "line 3, column 'x': 'abc' is not a number"),
        ("x,z\n03/04/2020,0\n05/06/2020,0\n", ENGLISH, "'03/04/2020' is not a number, or a date whose day"),
    ],
)
def test_what_could_be_read_twofold_or_not_at_all_is_refused(
    tmp_path: Path, text: str, reading: dict[str, str], told: str
) -> None:
    names = ("x", "z") if "z" in text else ("x",)
    with pytest.raises(DataError, match=told):
        new_rows(tmp_path, text, {**reading, "missing": "error"}, *names)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (",0.5,red", "line 3, column 'x': the cell is empty"),
        ("abc,,red", "line 3, column 'z': the cell is empty; line 3, column 'x': 'abc' is not a number"),
        ("1,2,pink", "line 3, column 'c': 'pink' is a new level"),
        ("1,2", "line 3 has 2 cells, the header has 3"),
        ("inf,2,red", "line 3, column 'x': 'inf' is not a finite number"),
    ],
)
@pytest.mark.parametrize("missing", [{}, {"missing": "drop_rows"}])
def test_a_row_that_cannot_be_read_is_marked_and_the_others_are_read(
    tmp_path: Path, row: str, told: str, missing: dict[str, str]
) -> None:
    path = tmp_path / "new.csv"
    path.write_text(f"x,z,c\n1,2,red\n{row}\n3,4,blue\n")
    names, learned = ("x", "z", "c=red", "c=blue", "c=green"), {"c": ("red", "blue", "green")}
    found = inputs_of_file(str(path), names, ENGLISH | missing, learned)
    assert found.unread == {2: told} and found.readable.tolist() == [0, 2]
    assert found.X[found.readable].tolist() == [[1, 2, 1, 0, 0], [3, 4, 0, 1, 0]] and np.isnan(found.X[1]).all()
    with pytest.raises(DataError, match=r"fix each, or remove its row"):
        inputs_of_file(str(path), names, ENGLISH | missing, learned, strict=True)
    assert unread_rows(found.unread, 3) == f"1 of 3 rows not predicted: {told}"


def test_a_file_of_which_no_row_can_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2 faults: line 2"):
        new_rows(tmp_path, "x,z\n,1\n,2\n", ENGLISH, "x", "z")


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
def test_no_row_to_predict_is_taken_for_units(tmp_path: Path, lines: str, reading: dict[str, str], told: str) -> None:
    with pytest.raises(DataError, match=told):
        new_rows(tmp_path, f"x,z\n{lines}", {**reading, "missing": "error"}, "x", "z")


@pytest.mark.parametrize(
    ("table", "cells", "told"),
    [
        ("%", ["0.2", "0.3"], "column 'x' holds plain numbers, as '0.2'. In the table numbers with %"),
        ("number", ["20%", "30%"], "column 'x' holds numbers with %, as '20%'. In the table plain numbers"),
        ("$", ["€20", "€30"], "column 'x' holds numbers with €, as '€20'. In the table numbers with \\$"),
        ("date", ["45000", "45001"], "column 'x' holds plain numbers, as '45000'. In the table dates"),
        ("number", ["2024-01-01", "2024-01-02"], "column 'x' holds dates"),
        ("number", ["yes", "no"], "column 'x' holds yes and no, as 'yes'. In the table plain numbers"),
        ("yes/no", ["7", "0.3"], "column 'x' holds plain numbers, as '7'. In the table yes and no"),
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
    with pytest.raises(DataError, match="In the table dates"):
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
        read_csv(csv_spec(path, target="y", separator=";", **{mark: "."})) for mark in ("decimal", "thousands")
    )
    assert not point.notes and not groups.notes and point.X[0, 1] == 1.5 and groups.X[0, 1] == 1500.0
    assert point.content_hash != groups.content_hash


def test_lines_above_the_tables_names_need_not_be_above_new_rows(tmp_path: Path) -> None:
    title = ["Series 7;;", "made;;"]
    rows = [f"{i}.270;0.{i}90;{i}" for i in range(1, 9)]
    table = write(tmp_path, [*title, *rows, *[f"9.{i};0.{i};{i}" for i in range(5)]], "t.csv")
    for name, lines in (("plain.csv", rows), ("titled.csv", [*title, *rows])):
        spec = CsvSpec(path=table, target="column_3", skip_rows=2, new=write(tmp_path, lines, name))
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
def test_candidates_are_read_as_the_measurements(tmp_path: Path, candidates: list[str], values: list[float]) -> None:
    lines = ["speed;hc;temp", *(f"{1000 + 50 * i};{i},5;{400 + 5 * i},25" for i in range(12))]
    path, other = write(tmp_path, lines), write(tmp_path, candidates, "c.csv")
    spec = csv_spec(path, task="measurements", target="hc", safety="temp", limit="<=600", candidates=other)
    data = read_csv(spec)
    assert data.grid is not None and data.grid[:, 0].tolist() == values
    assert any(note.startswith("dataset.candidates: numbers are read as the table's are") for note in data.notes)


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
