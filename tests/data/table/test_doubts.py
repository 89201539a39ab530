"""What may be wrong with a table is said, with the setting that settles it; what is well is not doubted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data import CsvSpec, read_csv
from gpsuite.data.spec import csv_value
from gpsuite.data.table.describe import describe_table
from gpsuite.data.table.read import class_question, suggested_task
from gpsuite.errors import DataError
from gpsuite.seeds import stream
from tests.data.made_up_data import write
from tests.experiments.robustness.safety_runs import gpsuite

ROWS = 60
RNG = stream(56, "doubts")
NOISE = np.round(RNG.normal(size=ROWS), 3)
OTHER = np.round(RNG.normal(size=ROWS), 3)
PRESSURE = np.round(1013.0 + 6.0 * RNG.normal(size=ROWS), 1)
RISING = np.cumsum(RNG.integers(1, 4, ROWS))
FEW = RNG.integers(0, 4, ROWS)


Values: TypeAlias = Sequence[object] | FloatArray | IntArray


def among(values: Values, mark: object, times: int = 3) -> list[object]:
    """Return the values with a mark in the place of some."""
    marked = list(values)
    marked[:: len(marked) // times] = [mark] * len(marked[:: len(marked) // times])
    return marked


def codes(*levels: object) -> list[object]:
    return [levels[place % len(levels)] for place in FEW]


def spec_of(folder: Path, columns: Mapping[str, Values], **stated: str) -> CsvSpec:
    """Return a table of the columns and of two of noise, one of them the target y."""
    every = {**columns, "z": NOISE[::-1], "y": NOISE}
    lines = [",".join(every), *(",".join(map(str, row)) for row in zip(*every.values(), strict=True))]
    settings = {key: csv_value(key, text) for key, text in stated.items()}
    return replace(CsvSpec(path=write(folder, lines), target="y"), **settings)


# column, its values, what is said of it, and the setting that settles it
DOUBTED: list[tuple[str, Values, str, dict[str, str]]] = [
    ("dose", RISING, "column 'dose' holds whole numbers that rise or fall in every row", {"ignore": "dose"}),
    ("zip", codes(10115, 94103, 60601, 12345), "hold postcodes", {"codes": "zip"}),
    ("PLZ", RNG.permutation(ROWS) + 10115, "hold postcodes", {"ignore": "PLZ"}),
    ("phone", RNG.integers(2 * 10**9, 9 * 10**9, ROWS), "hold telephone numbers", {"ignore": "phone"}),
    ("store_id", codes(3, 17, 4, 22), "hold codes", {"codes": "store_id"}),
    ("race", codes(1, 2, 3), "hold codes", {"codes": "race"}),
    ("marital.status", codes(1, 2, 3), "hold codes", {"codes": "marital.status"}),
    ("patient", [place // 2 + 1 for place in range(ROWS)], "hold codes", {"ignore": "patient"}),
    ("shop", codes(1001, 1002, 1003, 1004), "hold codes of 4 digits", {"codes": "shop"}),
    ("day", [20240100 + k % 28 + 1 for k in range(ROWS)], "hold dates as numbers", {"dates": "day"}),
    ("d", codes("03/02/2020", "01/02/2020", "05/04/2020"), "begin with the day or the month", {"day_first": "true"}),
    ("p", among(PRESSURE, -999), "-999 stands 3 times in 'p'", {"na": "-999"}),
    ("p", among(PRESSURE, 9999), "9999 stands 3 times in 'p'", {"na": "9999"}),
    ("p", among(PRESSURE, 0), "0 stands 3 times in 'p'", {"na": "0"}),
    ("p", among(np.abs(PRESSURE - 1013.0), -200), "-200 stands 3 times in 'p'", {"na": "-200"}),
    ("age", among(RNG.integers(18, 90, ROWS), 999), "999 stands 3 times in 'age'", {"na": "999"}),
    ("q", among(RNG.integers(1, 6, ROWS), 99), "99 stands 3 times in 'q'", {"na": "99"}),
    ("pdays", among(RNG.integers(1, 400, ROWS), -1, 20), "-1 stands 20 times in 'pdays'", {"na": "-1"}),
    ("land", among(codes("EU", "AS", "AF"), "NA"), "NA may be a code", {"not_na": "land=NA"}),
]


@pytest.mark.parametrize(("name", "values", "said", "settles"), DOUBTED)
def test_a_doubt_names_the_setting_that_decides_it(
    tmp_path: Path, name: str, values: Values, said: str, settles: dict[str, str]
) -> None:
    spec = spec_of(tmp_path, {name: values})
    [doubt] = describe_table(spec).warnings
    assert said in doubt
    [(key, text)] = settles.items()
    assert f"dataset.{key}={text}" in doubt
    if name != "land":  # a fifth of its rows has a gap
        assert read_csv(spec).warnings == (doubt,)
    settled = spec_of(tmp_path, {name: values}, **settles)
    assert not describe_table(settled).warnings


UNDOUBTED: list[tuple[str, Values]] = [
    ("x", OTHER),
    ("x", among(PRESSURE, 999.5)),  # a value among others
    ("x", [*OTHER[:-1], -999.0]),  # once: no mark
    ("degrees", RNG.integers(-1, 30, ROWS)),
    ("count", RNG.poisson(3.0, ROWS)),
    ("zeros", np.where(FEW > 0, 0.0, np.abs(OTHER))),
    ("cylinders", codes(4, 6, 8)),
    ("dose", codes(100, 200, 400)),
    ("likert", RNG.integers(1, 8, ROWS)),
    ("flag", codes(0, 1)),
    ("state", codes(0, 1)),
    ("block", np.arange(ROWS)[::-1] % 50),  # hardly one recurs
    ("type", np.round(OTHER, 1)),
    ("height", RNG.integers(150, 200, ROWS)),
    ("year", RNG.integers(1990, 2020, ROWS)),
    ("country", codes("DE", "FR", "IT")),
    ("heavy", np.round(np.exp(2.0 * OTHER), 2)),
]


@pytest.mark.parametrize(("name", "values"), UNDOUBTED)
def test_what_is_well_is_not_doubted(tmp_path: Path, name: str, values: Values) -> None:
    spec = spec_of(tmp_path, {name: values})
    assert describe_table(spec).warnings == read_csv(spec).warnings == ()


def test_a_mark_of_several_columns_is_said_once(tmp_path: Path) -> None:
    wide = np.round(np.abs(700.0 * OTHER), 1)
    columns = {"CO": among(np.abs(OTHER), -200), "NOx": among(wide, -200), "NO2": among(wide[::-1], -200)}
    [doubt] = describe_table(spec_of(tmp_path, columns)).warnings
    assert "-200 stands 3 times in 'CO', 3 times in 'NOx', 3 times in 'NO2'" in doubt
    data = read_csv(spec_of(tmp_path, columns, na="-200"))
    assert len(data.X) == ROWS - 3 and data.X.min() > -200.0
    assert "3 of 60 rows left out, a value is missing: 'CO' 3 ('-200')" in data.notes[0]


def test_answers_that_are_none_are_marks_together(tmp_path: Path) -> None:
    answers = among(among(RNG.integers(1, 6, ROWS), 99, 3), 98, 5)
    assert len(describe_table(spec_of(tmp_path, {"q": answers})).warnings) == 2
    assert len(read_csv(spec_of(tmp_path, {"q": answers}, na="[98, 99]")).X) == ROWS - sum(
        x in (98, 99) for x in answers
    )


def test_a_mark_that_is_a_value_elsewhere_is_named_with_its_column(tmp_path: Path) -> None:
    columns: dict[str, Values] = {"age": among(RNG.integers(1, 40, ROWS), 99), "weight": RNG.integers(40, 130, ROWS)}
    columns["weight"] = among(columns["weight"], 99)
    [doubt] = describe_table(spec_of(tmp_path, columns)).warnings
    assert doubt.endswith("dataset.na=age=99 reads it as missing")
    assert len(read_csv(spec_of(tmp_path, columns, na="age=99")).X) == ROWS - 3


def test_the_text_that_was_read_as_missing_is_named(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, {"land": among(codes("Europe", "Asia"), "NA", 6)})
    assert "6 of 60 rows left out, a value is missing: 'land' 6 ('NA')" in read_csv(spec).notes
    [row] = [row for row in describe_table(spec).columns if row["column"] == "land"]
    assert row["remark"] == "read as missing: 'NA'"
    kept = read_csv(spec_of(tmp_path, {"land": among(codes("EU", "AS"), "NA", 6)}, not_na="NA"))
    assert kept.categories["land"] == ("AS", "EU", "NA")


def test_a_decimal_comma_between_cells_is_noticed(tmp_path: Path) -> None:
    lines = ["a,,y,", *(f"{k % 9},{k * 7 % 97},{k * 3 % 8},{k}" for k in range(20, 40))]
    [doubt] = describe_table(CsvSpec(path=write(tmp_path, lines))).warnings[:1]
    assert "columns 'column_2', 'column_4': no title stands above" in doubt
    assert "Is 2,43 one number, split at its decimal comma?" in doubt


def test_marks_and_levels_of_a_table_are_those_of_new_rows(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, {"p": among(PRESSURE, -999), "colour": codes("red", "blue", "red", "RED")}, na="-999")
    data = read_csv(spec)
    assert data.input_names == ("p", "colour=red", "z")
    assert data.reading["na"] == "[-999]"


@pytest.mark.parametrize("target", ["zip", "[zip, x]"])
def test_a_column_that_is_not_there_cannot_be_settled(tmp_path: Path, target: str) -> None:
    with pytest.raises(DataError, match="no column 'zip'"):
        describe_table(spec_of(tmp_path, {"x": NOISE}, codes=target))


def test_scripts_read_roles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"id": RISING, "zip": codes("02134", "10115"), "t": codes("18:00", "06:30"), "on": codes("on", "Off")}
    columns = {"": RNG.permutation(ROWS), **columns, "race": codes(1, 2, 3)}
    path = spec_of(tmp_path, columns).path
    assert gpsuite("data", "describe", path, "format=json", "dataset.ignore=t") == 0
    told = json.loads(capsys.readouterr().out)
    assert {column["name"]: (column["role"], column["used"]) for column in told["columns"]} == {
        "column_1": ("counter", False), "id": ("counter", False), "zip": ("code", True), "t": ("time", False),
        "on": ("yes_no", True), "race": ("code", True), "z": ("number", True), "y": ("number", True),
    }  # fmt: skip
    assert all(column["reason"] for column in told["columns"])


def test_three_to_ten_whole_numbers_are_given_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = spec_of(tmp_path, {"variety": codes(1, 2, 3)}).path
    assert gpsuite("data", "describe", path, "dataset.target=variety") == 0
    told = capsys.readouterr().out.splitlines()
    for task in ("regression", "classification"):
        assert any("gpsuite certify" in line and f"dataset.task={task}" in line for line in told)
    assert gpsuite("data", "describe", path, "dataset.target=y") == 0
    assert "dataset.task" not in capsys.readouterr().out


def test_a_run_asks_whether_few_whole_numbers_are_classes(tmp_path: Path) -> None:
    spec = replace(spec_of(tmp_path, {"variety": codes(1, 2, 3)}, na="-9", task="regression"), target="variety")
    now, then = class_question(spec, "guarantee", "guarantee").split("\n")
    assert "holds 3 different whole numbers (1, 2, 3): classes or a number?" in now
    command = (
        f"gpsuite run experiment=guarantee dataset=csv dataset.path={spec.path} dataset.target=variety dataset.task="
    )
    assert now.endswith(f"{command}regression dataset.na=-9") and then.endswith(
        f"{command}classification dataset.na=-9"
    )
    assert class_question(replace(spec, target="y"), "guarantee", "guarantee") == ""
    assert suggested_task(spec) == "regression"


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_run_and_a_description_say_the_same(tmp_path: Path, task: str) -> None:
    classes = among(codes(1, 2, 3), 99)  # as in q, which stands before it: a mark is said of both in one order
    columns = {"copy": [10 * int(str(value)) for value in classes], "q": among(FEW, 99), "label": classes, "id": RISING}
    spec = replace(spec_of(tmp_path, columns, task=task), target="label")
    found, read = describe_table(spec), read_csv(spec)
    assert found.warnings == read.warnings and len(read.warnings) == 2
    unused = {
        f"column {column['name']!r} left out: {column['reason']}" for column in found.meanings if not column["used"]
    }
    assert unused and unused <= set(read.notes)
