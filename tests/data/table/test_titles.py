"""A first line of values is a record, not titles; new rows of the same form are taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import CsvSpec, read_csv
from gpsuite.data.table.describe import describe_table
from gpsuite.data.table.new_rows import read_inputs
from gpsuite.data.table.titles import holds_values
from gpsuite.errors import DataError
from gpsuite.seeds import stream
from tests.data.made_up_data import write

RNG = stream(56, "titles")
ABALONE = [
    f"{RNG.choice(['M', 'F', 'I'])},{RNG.uniform():.3f},{RNG.uniform():.3f},{RNG.integers(1, 29)}" for _ in range(40)
]

UNTITLED = {
    "abalone": ABALONE,
    "ecoli": [
        f"{name}_ECOLI,0.{k % 7}9,0.{k % 5}1,{('cp', 'im', 'pp')[k % 3]}" for k, name in enumerate("ABCDEFGHIJK")
    ],
    "ionosphere": [f"1,0,{0.1 * k:.5f},{-0.05 * k:.5f},{'gb'[k % 2]}" for k in range(12)],
    "mammography": [f"0.{k}3,5.0{k % 7},-0.{k % 4}7,'{(-1, 1)[k % 3 == 0]}'" for k in range(12)],
    "mushroom": [",".join(("pe"[k % 2], "xbs"[k % 3], "ny"[k % 5 == 0], "tf"[k % 4 == 0])) for k in range(20)],
    "gaps": [f"{40 + k % 20}.0,{k % 2}.0,{'?' if k % 5 == 0 else k % 3},{k % 4}" for k in range(20)],
    "numbers": [f"{k * k % 11},{k % 7},{k}" for k in range(3, 15)],
}
TITLED = {
    "texts above numbers": ["sex,length", *(f"{'MF'[k % 2]},0.{k}" for k in range(20))],
    "years": ["country,1960,1961,1962", *(f"c{k},{1950 + k},{1970 - k},{1960 + k % 4}" for k in range(20))],
    "two years": ["country,1999,2000", *(f"c{k},{745 + 99 * k},{37737 - 999 * k}" for k in range(20))],
    "texts only": ["species,island", *(f"{'ag'[k % 2]},{'tbd'[k % 3]}" for k in range(20))],
    "row names": [",a,b", *(f"{k},{k % 5},{k % 3}" for k in range(20))],
    "wavelengths": ["0,1,2,3", *(f"{k},{k % 5},{k % 3},{k % 7}" for k in range(20))],
    "crosstab": [",142.2,144.8,147.3", *(f"9.{k},{k % 5},{k % 3},{k % 7}" for k in range(20))],
}


@pytest.mark.parametrize("name", UNTITLED)
def test_a_first_line_of_values_is_a_record(tmp_path: Path, name: str) -> None:
    lines = UNTITLED[name]
    found = describe_table(CsvSpec(path=write(tmp_path, lines)))
    assert found.rows == len(lines)
    assert [row["column"] for row in found.columns] == [f"column_{k + 1}" for k in range(len(found.columns))]
    assert "line 1 holds values and no titles" in found.notes[0] and "dataset.titles=true" in found.notes[0]
    assert describe_table(CsvSpec(path=write(tmp_path, lines), titles=True)).rows == len(lines) - 1


@pytest.mark.parametrize("name", TITLED)
def test_titles_are_no_record(tmp_path: Path, name: str) -> None:
    found = describe_table(CsvSpec(path=write(tmp_path, TITLED[name])))
    assert found.rows == len(TITLED[name]) - 1
    assert not [note for note in found.notes if "no titles" in note]
    assert describe_table(CsvSpec(path=write(tmp_path, TITLED[name]), titles=False)).rows == len(TITLED[name])


@pytest.mark.parametrize(
    ("target", "rest"), [("column_4", [0, 1, 2]), ("column_2", [0, 2, 3]), ("column_3", [0, 1, 3])]
)
def test_new_rows_without_titles_are_taken(tmp_path: Path, target: str, rest: list[int]) -> None:
    data = read_csv(CsvSpec(path=write(tmp_path, ABALONE), target=target))
    whole = [line.split(",") for line in ABALONE[:8]]
    without = [",".join(row[place] for place in rest) for row in whole]
    for lines in (ABALONE[:8], ABALONE[:1], without, without[:1]):
        spec = CsvSpec(new=write(tmp_path, lines, "new.csv"))
        X = read_inputs(spec, data.input_names, data.categories, data.reading).X
        np.testing.assert_array_equal(X, data.X[: len(lines)])
    titled = ["column_4,column_3,column_2,column_1", *(",".join(reversed(row)) for row in whole)]
    X = read_inputs(CsvSpec(new=write(tmp_path, titled, "new.csv")), data.input_names, data.categories, data.reading).X
    np.testing.assert_array_equal(X, data.X[:8])
    with pytest.raises(DataError, match=r"2 columns without titles\. The table has 4, without its target 3"):
        spec = CsvSpec(new=write(tmp_path, ["M,0.5", "F,0.25"], "new.csv"))
        read_inputs(spec, data.input_names, data.categories, data.reading)


def test_a_first_line_that_the_user_names_holds_titles(tmp_path: Path) -> None:
    lines = ["7,3", *(f"{k % 9},{k * k % 7}" for k in range(20))]
    assert read_csv(CsvSpec(path=write(tmp_path, lines), target="3")).input_names == ("7",)
    assert holds_values(["7", "3"], [line.split(",") for line in lines[1:]])
