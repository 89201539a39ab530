"""What a target asks for, and the inputs of another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.inputs import read_inputs
from gpsuite.data.table.task import suggested_task
from gpsuite.errors import DataError


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["1.5", "2", "3"], "regression"),
        (["0", "1", "1"], "classification"),
        (["good", "bad", "3"], "classification"),
        (["1", "2", "x"], "classification"),
    ],
)
def test_texts_and_two_values_are_classes(tmp_path: Path, values: list[str], task: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"0,{value}\n" for value in values))
    assert suggested_task(CsvSpec(path=str(path), target="y")) == task


def test_inputs_are_found_by_name_in_the_order_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("b;note;a\n1;x;2\n3;y;4\n")
    assert read_inputs(CsvSpec(new=str(path)), ("a", "b")).X.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    with pytest.raises(DataError, match=r"dataset\.new=.*no column 'c'"):
        read_inputs(CsvSpec(new=str(path)), ("a", "c"))


def test_categories_are_read_as_the_table_has_them(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("colour,a\nred,1\nblue,2\n")
    names = ("a", "colour=blue", "colour=green", "colour=red")
    assert read_inputs(CsvSpec(new=str(path)), names).X.tolist() == [
        [1.0, 0.0, 0.0, 1.0],
        [2.0, 1.0, 0.0, 0.0],
    ]
    with pytest.raises(DataError, match="has no 'red'"):
        read_inputs(CsvSpec(new=str(path)), ("a", "colour=blue", "colour=green"))
