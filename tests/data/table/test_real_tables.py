"""Tables that nobody prepared: read at the first try, or answered with settings under which they are."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import sklearn

from gpsuite.data import CsvSpec, read_csv
from gpsuite.data.spec import csv_value
from gpsuite.data.table.describe import describe_table
from gpsuite.errors import DataError
from tests.data.table.pandas_reading import disagreements

REAL = Path(__file__).parent / "real"
SKLEARN = Path(sklearn.__file__).parent / "datasets" / "data"
SAMPLES = Path(mpl.get_data_path()) / "sample_data"
CLASSES = "classification"

# folder, file, target, task, rows and inputs as read at the first try
TABLES: list[tuple[Path, str, str, str, int, int]] = [
    (REAL, "airports.csv", "longitude", "regression", 249, 1),
    (REAL, "anes96.csv", "vote", CLASSES, 299, 9),
    (REAL, "anes96_blanks.csv", "vote", CLASSES, 299, 10),
    (REAL, "co2.csv", "co2", "regression", 546, 1),
    (REAL, "danish_data.csv", "lrm", "regression", 55, 5),
    (REAL, "elec_equip.csv", "STS.M.I7.W.TOVT.NS0016.4.000", "regression", 257, 1),
    (REAL, "elnino.csv", "DEC", "regression", 61, 12),
    (REAL, "engel.csv", "foodexp", "regression", 235, 1),
    (REAL, "grunfeld.csv", "invest", "regression", 220, 14),
    (REAL, "iowa_electricity.csv", "net_generation", "regression", 51, 4),
    (REAL, "longley.csv", "TOTEMP", "regression", 16, 6),
    (REAL, "macrodata.csv", "infl", "regression", 203, 13),
    (REAL, "modechoice.csv", "mode", CLASSES, 840, 8),
    (REAL, "nile.csv", "volume", "regression", 100, 1),
    (REAL, "penguins.csv", "species", CLASSES, 333, 9),
    (REAL, "penguins.csv", "body_mass_g", "regression", 333, 11),
    (REAL, "stackloss.csv", "STACKLOSS", "regression", 21, 3),
    (REAL, "statecrime.csv", "murder", "regression", 51, 6),
    (REAL, "strikes.csv", "duration", "regression", 62, 1),
    (REAL, "sunspots.csv", "SUNACTIVITY", "regression", 309, 1),
    (REAL, "table_f18_2.csv", "MODE", CLASSES, 399, 6),
    (REAL, "unemp.csv", "Value", "regression", 203, 5),
    (REAL, "us_employment.csv", "nonfarm", "regression", 120, 23),
    (REAL, "seattle_weather.csv", "temp_max", "regression", 399, 9),
    (REAL, "seattle_weather.csv", "weather", CLASSES, 399, 5),
    (SKLEARN, "iris.csv", "virginica", CLASSES, 150, 4),
    (SKLEARN, "wine_data.csv", "column_14", CLASSES, 178, 13),
    (SKLEARN, "breast_cancer.csv", "column_31", CLASSES, 569, 30),
    (SKLEARN, "linnerud_exercise.csv", "Jumps", "regression", 20, 2),
    (SKLEARN, "linnerud_physiological.csv", "Pulse", "regression", 20, 2),
    (SKLEARN, "diabetes_data_raw.csv.gz", "column_10", "regression", 442, 9),
    (SKLEARN, "digits.csv.gz", "column_65", CLASSES, 1797, 61),
    (SAMPLES, "msft.csv", "Close", "regression", 65, 6),
    (SAMPLES, "data_x_x2_x3.csv", "column_3", "regression", 11, 2),
]
# the others: which settings the answer proposes, and what is read with them
ANSWERED: list[tuple[Path, str, str, dict[str, str], int, int]] = [
    (REAL, "randhie.csv", "mdvis", {"dataset.ignore": "[lnmeddol]"}, 299, 39),
    (REAL, "penguins_raw.csv", "Body Mass (g)", {"dataset.ignore": "[Comments]"}, 184, 16),
    (SAMPLES, "Stocks.csv", "IBM", {"dataset.missing": "drop_rows"}, 71, 10),
]


def spec_of(folder: Path, name: str, target: str, task: str, place: Path) -> CsvSpec:
    path = folder / name
    if not path.is_file():
        pytest.skip(f"{name} is not installed")
    if name.endswith(".gz"):
        path = place / name.removesuffix(".gz")
        path.write_bytes(gzip.decompress((folder / name).read_bytes()))
    return CsvSpec(path=str(path), target=target, task=task)


@pytest.mark.parametrize(("folder", "name", "target", "task", "rows", "inputs"), TABLES)
def test_a_real_table_is_read_at_the_first_try(
    tmp_path: Path, folder: Path, name: str, target: str, task: str, rows: int, inputs: int
) -> None:
    spec = spec_of(folder, name, target, task, tmp_path)
    data = read_csv(spec)
    assert data.X.shape == (rows, inputs), data.notes
    assert data.target_names == (target,)
    assert disagreements(spec, data) == []
    described = describe_table(spec)
    assert len(described.columns) >= 2
    for run in (described.regression, described.classification):
        if run is not None:
            settings = {key: csv_value(key, text) for key, text in run.items()}
            task = "regression" if run is described.regression else CLASSES
            assert len(read_csv(CsvSpec(**settings, task=task)).X) >= 10, "what is proposed works"


@pytest.mark.parametrize(("folder", "name", "target", "fix", "rows", "inputs"), ANSWERED)
def test_the_rest_is_answered_with_settings_that_work(
    tmp_path: Path, folder: Path, name: str, target: str, fix: dict[str, str], rows: int, inputs: int
) -> None:
    spec = spec_of(folder, name, target, "regression", tmp_path)
    with pytest.raises(DataError) as caught:
        read_csv(spec)
    assert caught.value.fix == fix
    mended: dict[str, Any] = {key.removeprefix("dataset."): text for key, text in fix.items()}
    data = read_csv(replace(spec, **mended))
    assert data.X.shape == (rows, inputs)
    assert disagreements(replace(spec, **mended), data) == []


def test_nine_of_ten_are_read_at_the_first_try() -> None:
    names = {name for _, name, *_ in TABLES} | {name for _, name, *_ in ANSWERED}
    assert len(names) >= 30
    assert len({name for _, name, *_ in ANSWERED}) <= len(names) / 10


def test_dates_and_quarters_are_days(tmp_path: Path) -> None:
    data = read_csv(spec_of(REAL, "danish_data.csv", "lrm", "regression", tmp_path))
    days = data.X[:, data.input_names.index("period")]
    first = (np.datetime64("1974-01-01") - np.datetime64("1970-01-01")).astype(int)
    assert days[:5].tolist() == [first, first + 90, first + 181, first + 273, first + 365]


STUDIED = {
    "mpl__msft.csv": SAMPLES / "msft.csv",
    "skl__iris.csv": SKLEARN / "iris.csv",
    "sm__TableF18-2.csv": REAL / "table_f18_2.csv",
    "sm__data.csv": REAL / "danish_data.csv",
    "sm__grunfeld.csv": REAL / "grunfeld.csv",
    "sm__strikes.csv": REAL / "strikes.csv",
    "vega__us-employment.csv": REAL / "us_employment.csv",
}


@pytest.mark.parametrize("table", STUDIED)
def test_tables_of_the_study_have_the_roles_found_by_hand(table: str) -> None:
    right = json.loads((Path(__file__).parent / "study_roles.json").read_text(encoding="utf-8"))[table]
    found = {
        str(column["name"]): column["role"] for column in describe_table(CsvSpec(path=str(STUDIED[table]))).meanings
    }
    assert found.keys() == right.keys()
    assert [name for name, role in found.items() if role != right[name] and role not in list(right[name])] == []
