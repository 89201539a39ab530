"""`import gpsuite`: nothing heavy until a name is used; runs loaded with the user's columns; results as tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpsuite
from gpsuite.api import names
from gpsuite.cli import dispatch
from gpsuite.commands.predict import main as predict
from gpsuite.reporting.comparison import read_paper_values, read_statistics

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "results"


def houses() -> pd.DataFrame:
    rng, n = np.random.default_rng(0), 90
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "size [m2]": rng.uniform(30.0, 200.0, n).round(1),
            "district": rng.choice(["north", "south", "east, far"], n),
            "garden": rng.choice([True, False], n),
            "built": pd.date_range("2001-01-01", periods=n, freq="31D"),
        }
    )
    south = 20000.0 * (table.district == "south")
    return table.assign(price=1000.0 * table["size [m2]"] + south + rng.normal(0.0, 3000.0, n))


@pytest.fixture(scope="module", params=[(",", "."), (";", ",")], ids=["comma", "decimal comma"])
def run(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a run's folder and its table, written with two marks."""
    separator, decimal = request.param
    folder = tmp_path_factory.mktemp("run")
    houses().to_csv(folder / "houses.csv", index=False, sep=separator, decimal=decimal)
    words = [f"dataset.path={folder}/houses.csv", "dataset.target=price", "dataset.ignore=id", "output=quiet"]
    words += ["scale=smoke", "dataset=csv", "run_name=houses", f"results_dir={folder}/results"]
    assert dispatch(["run", "experiment=guarantee", *words]) == 0
    return folder / "results/guarantee/smoke~houses", folder / "houses.csv"


def test_a_dataframe_is_predicted_as_its_file_is(run: tuple[Path, Path], tmp_path: Path) -> None:
    folder, file = run
    model = gpsuite.load(folder)
    found = model.predict(houses()).to_frame()
    assert predict([str(folder), str(file), f"output={tmp_path}/found.csv"]) == 0
    told = pd.read_csv(tmp_path / "found.csv", float_precision="round_trip")
    for name in ("prediction", "gp_low", "conformal_high", "jackknife_low"):
        np.testing.assert_array_equal(found[name], told[name])
    texts = houses().assign(built=lambda table: table.built.dt.strftime("%Y-%m-%d"))
    np.testing.assert_array_equal(model.predict(texts).prediction, found["prediction"])
    one = houses().iloc[[7]][["price", "built", "garden", "district", "size [m2]"]]
    np.testing.assert_allclose(model.predict(one).prediction, found["prediction"][[7]], rtol=1e-12)


def test_a_wrong_table_is_one_sentence(run: tuple[Path, Path]) -> None:
    model, table = gpsuite.load(run[0]), houses().set_index("id", drop=False)
    wrong = {
        "no column 'district'": table.drop(columns="district"),
        "row 5, column 'district': 'west' is a new level": table.assign(
            district=table.district.where(table.id != 5, "west")
        ),
        "row 6, column 'garden': the cell is empty": table.assign(garden=table.garden.where(table.id != 6)),
    }
    for message, given in wrong.items():
        with pytest.raises(ValueError, match=message) as found:
            model.predict(given)
        assert "\n" not in str(found.value)


def test_what_was_loaded_is_shown_in_five_lines(run: tuple[Path, Path]) -> None:
    model = gpsuite.load(run[0])
    lines = repr(model).splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 160
    assert lines[1].startswith("inputs: 6: size [m2], district=")
    assert any("probability" in line for line in lines)
    found = model.predict(houses())
    assert repr(found).startswith("90 predictions from ")
    assert found.plot().get_xlabel() == "rows by rising prediction"


@pytest.mark.parametrize("name", names())
def test_what_is_offered_is_there(name: str) -> None:
    assert callable(getattr(gpsuite, name))
    assert name in dir(gpsuite)


def test_importing_gpsuite_loads_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); import gpsuite; new = set(sys.modules) - before; "
        "print(sorted(name for name in new if name.partition('.')[0] not in sys.stdlib_module_names))"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "['gpsuite']"


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'result'. Did you mean 'results'"):
        _ = gpsuite.result


def test_all_results_are_those_of_the_runs_and_of_the_papers() -> None:
    table = gpsuite.results(PUBLISHED / "published")  # a folder above may hold newer runs of one's own
    assert table.columns.tolist() == [
        "experiment", "dataset", "method", "metric", "value", "error", "n", "published_value", "verdict", "path",
    ]  # fmt: skip
    folder = PUBLISHED / "published/pac_bayes/rounding/paper"
    own = table[table.path == str(folder)]
    statistics = {each.name: each for each in read_statistics(folder / "tables")}
    compared = [each for each in read_paper_values(ROOT / "conf") if each.experiment == "pac_bayes/rounding"]
    assert len(own) >= len(statistics)
    row = own[(own.metric == "bound_kl[epsilon=0.2,decimals=0]") & (own.method == "kl_pac_gp")].iloc[0]
    expected = statistics["bound_kl[method=kl_pac_gp,epsilon=0.2,decimals=0]"]
    assert (row["value"], row["error"], row["n"]) == (expected.value, expected.standard_error, expected.n)
    assert row["dataset"] == "boston"
    assert sorted(own.published_value[own.published_value != ""]) == sorted(each.published for each in compared)
    assert set(own.verdict[own.published_value != ""]) <= {"reproduced", "differs"}


def test_the_cells_of_all_tables_are_numbers_with_their_errors(tmp_path: Path) -> None:
    folder = tmp_path / "pac_bayes/own/quick/tables"
    folder.mkdir(parents=True)
    (folder.parent / "run.json").write_text("{}")
    (folder / "bounds.csv").write_text("method,bound,ε\nGP,0.25 ± 0.01,0.5\nSGP,−1e-3,\n", encoding="utf-8")
    table = gpsuite.results(tmp_path, numbers=True)
    cells = [(cell.row, cell.about, cell.column, cell.value) for cell in table.itertuples()]
    assert cells == [(0, "method=GP", "bound", 0.25), (0, "method=GP", "ε", 0.5), (1, "method=SGP", "bound", -1e-3)]
    assert table.error.tolist()[0] == 0.01
    (folder / "bounds.csv").write_bytes(b"\xff")
    with pytest.warns(UserWarning, match="left out: .*bounds.csv: cannot be read"):
        assert gpsuite.results(tmp_path, numbers=True).empty
    with pytest.raises(FileNotFoundError, match=r"no runs\. Give the folder that runs write to"):
        gpsuite.results(tmp_path / "nothing")
