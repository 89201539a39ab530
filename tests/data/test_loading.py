"""From descriptions to arrays: prepared datasets, kept arrays, stand-ins."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import Dataset, DatasetSpec, PreparedDataset, dataset_names, load, prepare, read_spec
from gpsuite.data import loading as data_loading
from gpsuite.data.files import OFFLINE_VARIABLE, PATH_VARIABLE
from gpsuite.data.loading import MAX_ROWS, generate_stand_in, parsed_folder, read_parsed, stand_in_hash, write_parsed
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import content_hash
from gpsuite.errors import DataError
from gpsuite.experiments.guarantee.plan import new_rows
from tests.data.made_up_data import CONF_DIR, csv_spec, made_up, sha256, table, write

HOUSING = "\n".join(" ".join(f"{(row * 7 + column) % 11}.5" for column in range(14)) for row in range(20)).encode()


def housing(content: bytes = HOUSING) -> DatasetSpec:
    return made_up(content, file="housing.data")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that holds the made-up dataset; nothing else to be found anywhere."""
    monkeypatch.delenv(PATH_VARIABLE, raising=False)
    monkeypatch.setenv(OFFLINE_VARIABLE, "1")
    (tmp_path / "cache" / "made_up").mkdir(parents=True)
    (tmp_path / "cache" / "made_up" / "housing.data").write_bytes(HOUSING)
    return tmp_path / "cache"


def test_prepared_datasets_travel_as_plain_json(cache: Path, tmp_path: Path) -> None:
    specs = [housing(), csv_spec(write(tmp_path, table()), target="[y, a]"), read_spec(CONF_DIR, "diabetes")]
    for spec in specs:
        prepared = prepare(spec, cache_dir=cache)  # type: ignore[arg-type]
        back = PreparedDataset.from_dict(json.loads(json.dumps(prepared.to_dict())))
        assert back == prepared
        assert pickle.loads(pickle.dumps(prepared)) == prepared
        dataset = load(back)
        assert (dataset.name, dataset.task) == (prepared.name, prepared.task)
        assert dataset.content_hash == prepared.content_hash
        assert not dataset.stand_in


def test_one_process_parses_once(cache: Path) -> None:
    prepared = prepare(housing(), cache_dir=cache)
    assert load(prepared) is load(PreparedDataset.from_dict(prepared.to_dict()))
    assert prepared.content_hash == content_hash(housing())


def test_relative_paths_hold_in_another_folder(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, table())
    prepared = [prepare(csv_spec("t.csv"), cache_dir=cache), prepare(housing(), cache_dir=Path("cache"))]
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert [load(item).X.shape for item in prepared] == [(12, 2), (20, 13)]


def test_a_change_after_planning_is_refused(cache: Path, tmp_path: Path) -> None:
    path = write(tmp_path, table())
    user, named = prepare(csv_spec(path), cache_dir=cache), prepare(housing(), cache_dir=cache)
    write(tmp_path, table(14))
    with pytest.raises(DataError, match="the data changed after the run was planned") as caught:
        load(user)
    assert user.content_hash in str(caught.value)
    changed = HOUSING.replace(b"1", b"2")
    (cache / "made_up" / "housing.data").write_bytes(changed)
    with pytest.raises(DataError, match=sha256(changed)):
        load(named)


def test_task_of_a_csv_is_the_experiments_unless_stated(cache: Path, tmp_path: Path) -> None:
    lines = ["a,y", *(f"{i},{i % 2}" for i in range(12))]
    path = write(tmp_path, lines)
    assert prepare(csv_spec(path), cache_dir=cache).task == "regression"
    prepared = prepare(csv_spec(path), cache_dir=cache, default_task="classification")
    assert load(prepared).task == prepared.task == "classification"
    stated = prepare(csv_spec(path, task="regression"), cache_dir=cache, default_task="classification")
    assert stated.task == "regression"


def test_a_missing_dataset_is_replaced_only_where_allowed(cache: Path) -> None:
    spec = housing()
    (cache / "made_up" / "housing.data").unlink()
    with pytest.raises(DataError, match=r"'housing\.data' is missing"):
        prepare(spec, cache_dir=cache)
    prepared = prepare(spec, cache_dir=cache, allow_stand_in=True)
    assert prepared.stand_in
    assert prepared.content_hash.startswith("stand-in-")
    dataset = load(prepared)
    assert dataset.stand_in
    assert dataset.X.shape == (50, 2)


def test_a_missing_dataset_is_known_without_its_files_where_that_is_enough(cache: Path) -> None:
    spec = housing()
    found = prepare(spec, cache_dir=cache, allow_absent=True)
    assert not found.absent
    (cache / "made_up" / "housing.data").unlink()
    absent = prepare(spec, cache_dir=cache, allow_absent=True)
    assert absent.content_hash == found.content_hash
    assert (absent.rows, absent.task, absent.stand_in) == (found.rows, found.task, False)
    assert PreparedDataset.from_dict(json.loads(json.dumps(absent.to_dict()))) == absent
    with pytest.raises(DataError, match=r"'housing\.data' is missing"):
        load(absent)


def test_a_changed_file_is_an_error_also_where_none_is_needed(cache: Path) -> None:
    with pytest.raises(DataError, match="not the expected file"):
        prepare(housing(b"something else"), cache_dir=cache, allow_absent=True)


def test_where_stand_ins_are_allowed_real_data_win_and_changed_data_fail(cache: Path) -> None:
    assert not prepare(housing(), cache_dir=cache, allow_stand_in=True).stand_in
    with pytest.raises(DataError, match="not the expected file"):
        prepare(housing(b"something else"), cache_dir=cache, allow_stand_in=True)
    assert not prepare(read_spec(CONF_DIR, "digits"), cache_dir=cache, allow_stand_in=True).stand_in


def test_another_process_reads_the_same(cache: Path, tmp_path: Path) -> None:
    prepared = prepare(csv_spec(write(tmp_path, table())), cache_dir=cache)
    code = (
        "import json, sys; from gpsuite.data import PreparedDataset, load; "
        "print(json.dumps(load(PreparedDataset.from_dict(json.load(sys.stdin))).y.tolist()))"
    )
    text = json.dumps(prepared.to_dict())
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    np.testing.assert_array_equal(np.array(json.loads(done.stdout)), load(prepared).y)


def test_new_rows_are_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, table())
    write(tmp_path, ["a,b", "1,2.5"], "new.csv")
    prepared = prepare(csv_spec("t.csv", new="new.csv"), cache_dir=tmp_path)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    found = new_rows(prepared)
    assert found is not None and found.X.tolist() == [[1.0, 2.5]]


def test_new_rows_that_are_all_empty_are_none(tmp_path: Path) -> None:
    prepared = prepare(
        csv_spec(write(tmp_path, table()), new=write(tmp_path, ["a,b", ",", ","], "new.csv")), cache_dir=tmp_path
    )
    with pytest.raises(DataError, match="every row is empty"):
        new_rows(prepared)


ROWS = b"0 1 2\n250 4 5\n"


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch, no_data_path: None) -> list[str]:
    """The names of the files parsed since."""
    done: list[str] = []

    def parse(spec: DatasetSpec, read: Reader) -> Dataset:
        done.append("table.txt")
        table = np.array(read("table.txt").split(), dtype=np.float64).reshape(-1, 3)
        split = (np.array([1]), np.array([0]))
        return make_dataset(
            spec, table[:, :2], table[:, 2:] - 2.5, ("a", "b"), ("y",), fixed_split=split, units={"a": "m"}
        )

    monkeypatch.setitem(LOADERS._items, "counted", parse)
    return done


@pytest.fixture
def spec() -> DatasetSpec:
    return replace(made_up(ROWS), loader="counted", cache=True, rows=2)


@pytest.fixture
def parsed_cache(tmp_path: Path) -> Path:
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up" / "table.txt").write_bytes(ROWS)
    return tmp_path


def load_again(spec: DatasetSpec, parsed_cache: Path) -> Dataset:
    """Load as a new process does."""
    data_loading._load.cache_clear()
    return load(prepare(spec, cache_dir=parsed_cache))


def check_content(dataset: Dataset) -> None:
    assert dataset.X.tolist() == [[0.0, 1.0], [250.0, 4.0]]
    assert dataset.y.tolist() == [[-0.5], [2.5]]
    assert dataset.X.dtype == dataset.y.dtype == np.float64
    assert dataset.fixed_split is not None
    assert [part.tolist() for part in dataset.fixed_split] == [[1], [0]]
    assert (dataset.input_names, dataset.target_names, dict(dataset.units)) == (("a", "b"), ("y",), {"a": "m"})
    assert not dataset.X.flags.writeable


def test_a_dataset_is_parsed_once(spec: DatasetSpec, parsed_cache: Path, parses: list[str]) -> None:
    first = load_again(spec, parsed_cache)
    again = load_again(spec, parsed_cache)
    assert len(parses) == 1
    for dataset in (first, again):
        check_content(dataset)
        assert dataset.content_hash == content_hash(spec)
    folder = parsed_folder(parsed_cache, content_hash(spec))
    assert sorted(path.name for path in folder.iterdir()) == [
        *("X.npy", "parsed.json", "test.npy", "train.npy", "y.npy")
    ]
    assert np.load(folder / "X.npy").dtype == np.uint8  # integers from 0 to 255 take an eighth of the space
    assert np.load(folder / "y.npy").dtype == np.float64


def test_only_datasets_that_ask_for_it_are_kept(spec: DatasetSpec, parsed_cache: Path, parses: list[str]) -> None:
    for _ in range(2):
        check_content(load_again(replace(spec, cache=False), parsed_cache))
    assert len(parses) == 2
    assert not (parsed_cache / ".parsed").exists()


def test_words_come_from_the_description(spec: DatasetSpec, parsed_cache: Path, parses: list[str]) -> None:
    load_again(spec, parsed_cache)
    dataset = load_again(replace(spec, licence="MIT", citation="somebody", note="Edited."), parsed_cache)
    assert (dataset.licence, dataset.citation, dataset.note) == ("MIT", "somebody", "Edited.")
    assert len(parses) == 1


def test_another_version_of_the_loader_parses_again(spec: DatasetSpec, parsed_cache: Path, parses: list[str]) -> None:
    load_again(spec, parsed_cache)
    load_again(replace(spec, version=2), parsed_cache)
    assert len(parses) == 2


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip_first(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


def flip_last(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["X.npy", "y.npy", "train.npy", "test.npy", "parsed.json"])
@pytest.mark.parametrize("damage", [cut, flip_first, flip_last, Path.unlink, lambda path: path.write_bytes(b"")])
def test_damage_is_noticed_and_fixed(
    spec: DatasetSpec, parsed_cache: Path, parses: list[str], name: str, damage: Callable[[Path], None]
) -> None:
    load_again(spec, parsed_cache)
    damage(parsed_folder(parsed_cache, content_hash(spec)) / name)
    for _ in range(2):
        check_content(load_again(spec, parsed_cache))
    assert len(parses) == 2


def test_arrays_of_other_content_are_not_believed(spec: DatasetSpec, parsed_cache: Path, parses: list[str]) -> None:
    load_again(spec, parsed_cache)
    folder = parsed_folder(parsed_cache, content_hash(spec))
    other = replace(spec, version=2)
    folder.rename(parsed_folder(parsed_cache, content_hash(other)))
    assert read_parsed(other, parsed_folder(parsed_cache, content_hash(other))) is None
    load_again(other, parsed_cache)
    assert len(parses) == 2


def test_an_edited_index_is_not_believed(spec: DatasetSpec, parsed_cache: Path, parses: list[str]) -> None:
    load_again(spec, parsed_cache)
    path = parsed_folder(parsed_cache, content_hash(spec)) / "parsed.json"
    stated = json.loads(path.read_text())
    stated["index"]["input_names"] = ["b", "a"]
    path.write_text(json.dumps(stated))
    check_content(load_again(spec, parsed_cache))
    path.write_text("[1]")
    check_content(load_again(spec, parsed_cache))
    assert len(parses) == 3


def test_where_nothing_can_be_written_it_works_without(
    spec: DatasetSpec, parsed_cache: Path, parses: list[str]
) -> None:
    (parsed_cache / ".parsed").write_text("a file where the folder should be")
    for _ in range(2):
        check_content(load_again(spec, parsed_cache))
    assert len(parses) == 2


def test_grids_labels_and_signs_survive(tmp_path: Path) -> None:
    spec = replace(made_up(), task="classification")
    inputs = np.array([[-0.0, 1.0], [2.0, 3.0]])
    dataset = make_dataset(
        spec, inputs, np.array([0, 1]), ("a", "b"), ("y",), label_names=("no", "yes"), grid=inputs + 0.5
    )
    write_parsed(dataset, tmp_path)
    back = read_parsed(spec, tmp_path)
    assert back is not None
    assert back.label_names == ("no", "yes")
    assert back.grid is not None
    assert back.grid.tolist() == [[0.5, 1.5], [2.5, 3.5]]
    assert back.X.tobytes() == dataset.X.tobytes()


def test_another_process_uses_the_arrays(spec: DatasetSpec, parsed_cache: Path, parses: list[str]) -> None:
    prepared = prepare(spec, cache_dir=parsed_cache)
    load_again(spec, parsed_cache)
    (parsed_cache / "made_up" / "table.txt").unlink()
    code = (
        "import json, sys; from gpsuite.data import PreparedDataset, load; "
        "print(load(PreparedDataset.from_dict(json.load(sys.stdin))).X.tolist())"
    )
    text = json.dumps(prepared.to_dict())
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[0.0, 1.0], [250.0, 4.0]]"


SPECS = {name: read_spec(CONF_DIR, name) for name in dataset_names(CONF_DIR) if name != "csv"}
REPLACEABLE = [name for name, spec in SPECS.items() if spec.task != "measurements"]


def test_measurements_are_never_missing_and_have_no_stand_in() -> None:
    for name in SPECS.keys() - REPLACEABLE:
        spec = SPECS[name]
        assert isinstance(spec, DatasetSpec) and spec.embedded
        with pytest.raises(ValueError, match="no stand-in"):
            generate_stand_in(spec)


@pytest.mark.parametrize("name", REPLACEABLE)
def test_shape_and_task_are_those_of_the_dataset(name: str) -> None:
    spec = SPECS[name]
    assert isinstance(spec, DatasetSpec)
    dataset = generate_stand_in(spec)
    assert dataset.stand_in
    assert (dataset.name, dataset.task) == (name, spec.task)
    assert dataset.X.shape == (min(spec.rows, MAX_ROWS), spec.n_inputs)
    assert dataset.y.shape[1] == spec.n_targets
    assert dataset.n_classes == (spec.n_classes or 0)
    if spec.n_classes:
        assert set(np.unique(dataset.y)) == set(range(spec.n_classes))
    if spec.target_names:
        assert list(dataset.target_names) == spec.target_names
    assert (dataset.fixed_split is None) == (spec.test_rows is None)


def test_a_test_part_is_kept_in_proportion() -> None:
    dataset = generate_stand_in(replace(made_up(), rows=70_000, test_rows=10_000))
    assert dataset.fixed_split is not None
    train, test = dataset.fixed_split
    assert len(dataset.X) == MAX_ROWS
    np.testing.assert_array_equal(np.concatenate([train, test]), np.arange(MAX_ROWS))
    assert len(test) == round(MAX_ROWS / 7)


def test_a_stand_ins_numbers_follow_its_name() -> None:
    spec = made_up()
    first, again = generate_stand_in(spec), generate_stand_in(spec)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    other = generate_stand_in(replace(spec, name="other"))
    assert not np.array_equal(first.X, other.X)
    assert np.ptp(first.y) > 0


def test_the_hash_marks_it() -> None:
    spec = made_up()
    marked = stand_in_hash(spec)
    assert generate_stand_in(spec).content_hash == marked
    assert marked.startswith("stand-in-")
    assert marked != content_hash(spec)
    assert marked != stand_in_hash(replace(spec, rows=51))
    assert marked != stand_in_hash(replace(spec, test_rows=5))
