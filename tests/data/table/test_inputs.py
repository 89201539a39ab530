"""What a target asks for, and the inputs of another file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.new_rows import inputs_of_file, read_inputs
from gpsuite.data.table.read import read_csv, suggested_task
from gpsuite.errors import DataError


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


def test_inputs_are_found_by_name_in_the_order_asked_for(tmp_path: Path) -> None:
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
    new.write_text(
        "\n".join(["colour;side;day;on;size", *(line.rpartition(";")[0] for line in lines)]) + "\n"
    )
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
        inputs_of_file(str(path), names, {"separator": ","})


def test_of_two_levels_no_third_is_taken_for_the_other(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("side,size\na,1\nb,2\n")
    assert inputs_of_file(str(path), ("side=b", "size"), {"separator": ","}).X.tolist() == [
        [0.0, 1.0],
        [1.0, 2.0],
    ]
    path.write_text("side,size\na,1\nb,2\nc,3\n")
    with pytest.raises(DataError, match="'a' is a new level"):
        inputs_of_file(str(path), ("side=b", "size"), {"separator": ","})


def test_texts_where_numbers_were_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("a,b\nlow,1\nhigh,2\nlow,3\n")
    with pytest.raises(DataError, match="column 'a' holds texts"):
        inputs_of_file(str(path), ("a", "b"), {"separator": ","})


def test_of_two_learned_levels_a_third_is_refused_even_alone(tmp_path: Path) -> None:
    table, new = tmp_path / "t.csv", tmp_path / "new.csv"
    table.write_text("side,size,y\n" + "".join(f"{'ab'[i % 2]},{i},{i * i}\n" for i in range(12)))
    data = read_csv(CsvSpec(path=str(table), target="y"))
    assert data.categories == {"side": ("a", "b")}
    new.write_text("side,size\na,1\nb,2\n")
    assert inputs_of_file(str(new), data.input_names, {}, data.categories).X.tolist() == [
        [0.0, 1.0],
        [1.0, 2.0],
    ]
    new.write_text("side,size\nb,1\nc,2\n")
    with pytest.raises(DataError, match="line 3, column 'side': 'c' is a new level"):
        inputs_of_file(str(new), data.input_names, {}, data.categories)
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
def test_a_point_that_may_stand_between_thousands_is_asked_about(
    tmp_path: Path, separator: str, asks: bool
) -> None:
    """1.032 beside 948, and nothing in the file that tells."""
    rows = [f"{i}{separator}{value}" for i, value in enumerate(["948", "1.032", "1.107", "871"] * 5)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join([f"a{separator}y", *rows]) + "\n")
    spec = CsvSpec(path=str(path), target="y")
    if asks:
        with pytest.raises(DataError, match=r"'1\.032' in column 'y', beside numbers without a point"):
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
