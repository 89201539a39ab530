"""Measurements with gaps, a safety column and candidates; other tables are read as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.data import CsvSpec, load, prepare, read_csv, read_spec
from gpsuite.data.dataset import Dataset, SafetyColumn
from gpsuite.data.table.measurements import parse_limit
from gpsuite.errors import DataError
from tests.data.made_up_data import CONF_DIR, csv_spec, table, write

MEASURED = ["a,b,y,w,z", "0,1,0.5,,0.2", "1,2,,7,0.3", "2,4,1.5,8,", "3,0, nan ,NA,1.4"]
CANDIDATES = ["b,a,comment", "1,5,x", "2,6,", "1,5,"]


def spec_of(folder: Path, rows: Any = None, grid: Any = None, **changes: Any) -> CsvSpec:
    path = write(folder, rows or MEASURED)
    other = write(folder, grid or CANDIDATES, "c.csv")
    given = {"target": "[y, w]", "safety": "z", "limit": "<=1", "candidates": other, **changes}
    return csv_spec(path, task="measurements", **given)


def message_of(folder: Path, *files: Any, **changes: Any) -> str:
    with pytest.raises(DataError) as caught:
        read_csv(spec_of(folder, *files, **changes))
    message = str(caught.value)
    assert 2 <= len(message.splitlines()) <= 4, "what is wrong, and what to do"
    assert message.startswith(f"{caught.value.key}=")
    return message


def test_gaps_are_nan_and_candidates_follow_the_inputs_by_name(tmp_path: Path) -> None:
    data = read_csv(spec_of(tmp_path))
    assert data.task == "measurements"
    assert data.input_names == ("a", "b")
    np.testing.assert_array_equal(data.y, [[0.5, np.nan], [np.nan, 7], [1.5, 8], [np.nan, np.nan]])
    assert data.safety is not None
    np.testing.assert_array_equal(data.safety.z, [0.2, 0.3, np.nan, 1.4])
    assert (data.safety.name, data.safety.limit, data.safety.side) == ("z", 1.0, "below")
    assert data.safety.safe.tolist() == [True, True, False, False]
    np.testing.assert_array_equal(data.grid, [[5, 1], [6, 2], [5, 1]])  # type: ignore[arg-type]
    for array in (data.X, data.y, data.safety.z, data.grid):
        assert not array.flags.writeable


def test_a_single_input_is_enough(tmp_path: Path) -> None:
    data = read_csv(spec_of(tmp_path, ["x,y,z", "1,2,0"], ["x", "1", "3"], target="y"))
    assert data.X.tolist() == [[1.0]]
    assert data.grid is not None
    assert data.grid.tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize(
    ("text", "limit", "side"),
    [
        *[("<=1.0", 1.0, "below"), ("<1", 1.0, "below"), ("≤ 1", 1.0, "below")],
        *[(">=-0.7", -0.7, "above"), (" > 2e3 ", 2000.0, "above"), ("≥.5", 0.5, "above")],
    ],
)
def test_a_limit_is_read_with_its_safe_side(text: str, limit: float, side: str) -> None:
    assert parse_limit(text) == (limit, side)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (None, "no limit named"),
        ("1.0", "which side is safe?"),
        ("<=", "is not a limit"),
        ("<=x", "is not a limit"),
        (">inf", "is not a limit"),
        ("=>1", "is not a limit"),
    ],
)
def test_a_limit_that_is_none_says_how_to_write_one(text: str | None, what: str) -> None:
    with pytest.raises(DataError, match=r"dataset\.limit=<=1\.0") as caught:
        parse_limit(text)
    assert what in str(caught.value)


@pytest.mark.parametrize("text", ["<=1e200", ">=-1e200"])
def test_a_limit_whose_square_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="squares leave float64\nwrite the column in a larger unit"):
        parse_limit(text)


FILES: list[tuple[tuple[Any, ...], list[str]]] = [
    ((["a,y,w,z", "0,1,,2", "1,2,,3"], ["a", "1"]), ["dataset.target", "column 'w' has no value"]),
    ((["a,y,w,z", "0,1,2,", "1,2,3,"], ["a", "1"]), ["dataset.safety=z", "column 'z' has no value"]),
    (
        (["a,y,w,z", "0,1,,2", "1,2,3,3"], ["a", "1"]),
        ["dataset.limit=<=1", "no measured row is safe", "z=2"],
    ),
    (([*MEASURED, "0,1,text,,0.3"],), ["line 6, column 'y'", "'text' is not a number"]),
    (([*MEASURED, "0,1,inf,,0.3"],), ["line 6, column 'y'", "not a finite number"]),
    (([*MEASURED, "0,,1,,0.3"],), ["line 6, column 'b'", "the cell is empty"]),
    (([*MEASURED, "0,nan,1,,0.3"],), ["line 6, column 'b'", "'nan' marks a missing value"]),
    ((MEASURED, ["a,c", "1,2"]), ["dataset.candidates", "no column 'b'", "inputs [a, b]", "columns: [a, c]"]),
    ((MEASURED, ["a,b"]), ["dataset.candidates", "no rows"]),
    ((MEASURED, ["a,b", "1,"]), ["dataset.candidates", "line 2, column 'b'", "empty"]),
    ((MEASURED, ["a,b", "1,x"]), ["dataset.candidates", "line 2, column 'b'", "'x' is not a number"]),
    ((MEASURED, ["a,b", "1,2", "1,3e200"]), ["dataset.candidates", "column 'b'", "variance"]),
    ((MEASURED, ["a,b,a", "1,2,3"]), ["dataset.candidates", "two columns are named 'a'"]),
    (([*MEASURED, "1e200,1,1,,0.3"],), ["dataset.path", "column 'a'", "variance"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({}, {"dataset.ignore": "[b]"}),
        ({"ignore": "w", "target": "y"}, {"dataset.ignore": "[w, b]"}),
        ({"inputs": "[a, b]"}, {"dataset.inputs": "[a]"}),
    ],
)
def test_an_input_that_candidates_lack_may_be_left_out(
    tmp_path: Path, changes: dict[str, Any], fix: dict[str, str]
) -> None:
    with pytest.raises(DataError, match=r"(?s)no column 'b'.*leave it out:") as caught:
        read_csv(spec_of(tmp_path, MEASURED, ["a,c", "1,2"], **changes))
    assert caught.value.fix == fix
    with pytest.raises(DataError, match="no column 'a', 'b'") as caught:
        read_csv(spec_of(tmp_path, MEASURED, ["c", "1"], **changes))
    assert not caught.value.fix, "no input would be left"


@pytest.mark.parametrize(("files", "parts"), FILES)
def test_bad_files_are_named(tmp_path: Path, files: tuple[Any, ...], parts: list[str]) -> None:
    message = message_of(tmp_path, *files)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"target": None}, ["dataset.target=: no output named", "[a, b, y, w, z]"]),
        ({"safety": None}, ["dataset.safety=: no safety column named", "[a, b, y, w, z]"]),
        ({"safety": "[z, w]"}, ["names several columns"]),
        ({"safety": "zz"}, ["no column 'zz'. Did you mean 'z'"]),
        ({"safety": "y"}, ["column 'y' is also an output"]),
        ({"inputs": "[a, z]"}, ["column 'z' is also output or safety"]),
        ({"candidates": None}, ["dataset.candidates=: no file named", "dataset.candidates=FILE.csv"]),
        ({"candidates": "none.csv"}, ["dataset.candidates=none.csv: no such file"]),
    ],
)
def test_bad_choices_are_named(tmp_path: Path, changes: dict[str, Any], parts: list[str]) -> None:
    message = message_of(tmp_path, **changes)
    for part in parts:
        assert part in message


def test_repeated_measurements_at_one_input_are_data(tmp_path: Path) -> None:
    data = read_csv(spec_of(tmp_path, [*MEASURED, "0,1,0.7,3,0.9", "0,1,0.5,,0.2"]))
    assert data.X[[0, 4, 5]].tolist() == [[0.0, 1.0]] * 3
    assert data.y[[0, 4, 5], 0].tolist() == [0.5, 0.7, 0.5]


def test_the_hash_covers_both_files_and_every_choice(tmp_path: Path) -> None:
    reference = read_csv(spec_of(tmp_path)).content_hash
    others = [
        {"limit": "<=1.1"},
        {"limit": ">=0.2"},
        {"target": "[w, y]"},
        {"inputs": "[b, a]"},
        {"target": "y", "inputs": "[a, b]"},
        {"safety": "w", "target": "[y, z]", "limit": "<=9"},
    ]
    hashes = {read_csv(spec_of(tmp_path, **changes)).content_hash for changes in others}
    hashes.add(read_csv(spec_of(tmp_path, None, [*CANDIDATES, "1,7,"])).content_hash)
    hashes.add(read_csv(spec_of(tmp_path, [*MEASURED, "9,9,9,9,0"])).content_hash)
    assert len(hashes | {reference}) == len(others) + 3
    assert read_csv(spec_of(tmp_path, inputs="[a, b]", limit="<1.0")).content_hash == reference


def test_what_was_prepared_can_be_loaded_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, MEASURED)
    write(tmp_path, CANDIDATES, "c.csv")
    spec = csv_spec("t.csv", "[y, w]", task="measurements", safety="z", limit="<=1", candidates="c.csv", inputs="b, a")
    prepared = prepare(spec, cache_dir=Path("nowhere"))
    assert (prepared.task, prepared.rows) == ("measurements", 4)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    data = load(prepared)
    assert data.input_names == ("b", "a")
    assert data.content_hash == prepared.content_hash
    write(tmp_path, [*CANDIDATES, "4,4,"], "c.csv")
    changed = prepare(csv_spec(**{**prepared.spec}), cache_dir=Path("nowhere"))
    assert changed.content_hash != prepared.content_hash


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("key", ["safety", "limit", "candidates"])
def test_other_tables_have_no_safety_column(tmp_path: Path, task: str, key: str) -> None:
    path = write(tmp_path, table())
    with pytest.raises(DataError, match=f"dataset.{key}=b: a {task} table has none"):
        read_csv(csv_spec(path, task=task, **{key: "b"}))


def test_the_container_insists_on_safety_and_candidates() -> None:
    parts = {
        "name": "m", "task": "measurements", "X": np.zeros((2, 1)), "y": np.array([[1.0], [np.nan]]),
        "input_names": ("x",), "target_names": ("y",), "content_hash": "", "grid": np.zeros((1, 1)),
    }  # fmt: skip
    safety = SafetyColumn("z", np.array([1.0, np.nan]), 1.0, "below")
    assert Dataset(**parts, safety=safety).n_classes == 0  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="need a safety column and candidates"):
        Dataset(**parts)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="need a safety column and candidates"):
        Dataset(**{**parts, "grid": None}, safety=safety)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="safety column has 1"):
        Dataset(**parts, safety=SafetyColumn("z", np.ones(1), 1.0, "below"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be finite"):
        Dataset(**{**parts, "task": "regression"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be finite"):
        Dataset(**{**parts, "y": np.array([[1.0], [np.inf]])}, safety=safety)  # type: ignore[arg-type]
    for z, limit in ((np.array([np.inf]), 1.0), (np.ones((1, 1)), 1.0), (np.ones(1), np.nan)):
        with pytest.raises(ValueError, match="z must be a vector"):
            SafetyColumn("z", z, limit, "below")


def test_the_embedded_example_measures_outputs_in_turn() -> None:
    data = load(prepare(read_spec(CONF_DIR, "sin_sigmoid_measured"), cache_dir=Path("nowhere")))
    assert data.task == "measurements"
    assert np.isnan(data.y).tolist() == [[bool(row % 2), not row % 2] for row in range(12)]
    assert data.safety is not None
    assert data.safety.safe.all()
    assert data.grid is not None
    assert data.grid.shape == (200, 1)


@pytest.mark.parametrize(("limit", "noted"), [("<1.4", True), ("<=1.4", False), ("<1.41", False)])
def test_a_strict_limit_that_a_value_equals_is_said_to_count_as_safe(tmp_path: Path, limit: str, noted: bool) -> None:
    notes = read_csv(spec_of(tmp_path, limit=limit)).notes
    assert (f"dataset.limit={limit}: 1.4 itself counts as safe" in notes) is noted


def test_a_column_of_texts_is_one_fault_and_a_text_among_numbers_is_a_cell(tmp_path: Path) -> None:
    rows = ["a,kind,y,w,z", *(f"{i},{'xyz'[i % 3]},0.5,1,0.2" for i in range(9))]
    message = message_of(tmp_path, rows, ["a,kind", "1,x"])
    assert "column 'kind' holds texts, as 'x': numbers are needed" in message
    assert " faults: " not in message and "leave out what does not hold numbers" in message
    rows = ["a,b,y,w,z", *(f"{i},{'?!' if i == 4 else i},0.5,1,0.2" for i in range(9))]
    assert "line 6, column 'b': '?!' is not a number" in message_of(tmp_path, rows, ["a,b", "1,2"])


def test_the_other_side_of_a_limit_is_another_content(tmp_path: Path) -> None:
    ways = [read_csv(spec_of(tmp_path, limit=limit)) for limit in ("<=0.5", ">=0.5")]
    assert ways[0].content_hash != ways[1].content_hash


def test_candidates_of_empty_rows_are_none(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    Path(str(spec.candidates)).write_text("a,b\n,\n,\n")
    with pytest.raises(DataError, match="every row is empty"):
        read_csv(spec)
