from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import Dataset, DatasetSpec, load, prepare
from gpsuite.data import loading as data_loading
from gpsuite.data.hashing import content_hash
from gpsuite.data.parsed import parsed_folder, read_parsed, write_parsed
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from tests.data.made_up_data import made_up

CONTENT = b"0 1 2\n250 4 5\n"


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
    return replace(made_up(CONTENT), loader="counted", cache=True, rows=2)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up" / "table.txt").write_bytes(CONTENT)
    return tmp_path


def load_anew(spec: DatasetSpec, cache: Path) -> Dataset:
    """Load as a new process does."""
    data_loading._load.cache_clear()
    return load(prepare(spec, cache_dir=cache))


def check_content(dataset: Dataset) -> None:
    assert dataset.X.tolist() == [[0.0, 1.0], [250.0, 4.0]]
    assert dataset.y.tolist() == [[-0.5], [2.5]]
    assert dataset.X.dtype == dataset.y.dtype == np.float64
    assert dataset.fixed_split is not None
    assert [part.tolist() for part in dataset.fixed_split] == [[1], [0]]
    assert (dataset.input_names, dataset.target_names, dict(dataset.units)) == (
        ("a", "b"),
        ("y",),
        {"a": "m"},
    )
    assert not dataset.X.flags.writeable


def test_a_dataset_is_parsed_once(spec: DatasetSpec, cache: Path, parses: list[str]) -> None:
    first = load_anew(spec, cache)
    again = load_anew(spec, cache)
    assert len(parses) == 1
    for dataset in (first, again):
        check_content(dataset)
        assert dataset.content_hash == content_hash(spec)
    folder = parsed_folder(cache, content_hash(spec))
    assert sorted(path.name for path in folder.iterdir()) == [
        *("X.npy", "parsed.json", "test.npy", "train.npy", "y.npy")
    ]
    assert np.load(folder / "X.npy").dtype == np.uint8  # integers from 0 to 255 take an eighth of the space
    assert np.load(folder / "y.npy").dtype == np.float64


def test_only_datasets_that_ask_for_it_are_kept(spec: DatasetSpec, cache: Path, parses: list[str]) -> None:
    for _ in range(2):
        check_content(load_anew(replace(spec, cache=False), cache))
    assert len(parses) == 2
    assert not (cache / ".parsed").exists()


def test_words_come_from_the_description(spec: DatasetSpec, cache: Path, parses: list[str]) -> None:
    load_anew(spec, cache)
    dataset = load_anew(replace(spec, licence="MIT", citation="somebody", note="Edited."), cache)
    assert (dataset.licence, dataset.citation, dataset.note) == ("MIT", "somebody", "Edited.")
    assert len(parses) == 1


def test_another_version_of_the_loader_parses_again(
    spec: DatasetSpec, cache: Path, parses: list[str]
) -> None:
    load_anew(spec, cache)
    load_anew(replace(spec, version=2), cache)
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
@pytest.mark.parametrize(
    "damage", [cut, flip_first, flip_last, Path.unlink, lambda path: path.write_bytes(b"")]
)
def test_damage_is_noticed_and_mended(
    spec: DatasetSpec, cache: Path, parses: list[str], name: str, damage: Callable[[Path], None]
) -> None:
    load_anew(spec, cache)
    damage(parsed_folder(cache, content_hash(spec)) / name)
    for _ in range(2):
        check_content(load_anew(spec, cache))
    assert len(parses) == 2


def test_arrays_of_other_content_are_not_believed(spec: DatasetSpec, cache: Path, parses: list[str]) -> None:
    load_anew(spec, cache)
    folder = parsed_folder(cache, content_hash(spec))
    other = replace(spec, version=2)
    folder.rename(parsed_folder(cache, content_hash(other)))
    assert read_parsed(other, parsed_folder(cache, content_hash(other))) is None
    load_anew(other, cache)
    assert len(parses) == 2


def test_an_edited_index_is_not_believed(spec: DatasetSpec, cache: Path, parses: list[str]) -> None:
    load_anew(spec, cache)
    path = parsed_folder(cache, content_hash(spec)) / "parsed.json"
    stated = json.loads(path.read_text())
    stated["index"]["input_names"] = ["b", "a"]
    path.write_text(json.dumps(stated))
    check_content(load_anew(spec, cache))
    path.write_text("[1]")
    check_content(load_anew(spec, cache))
    assert len(parses) == 3


def test_where_nothing_can_be_written_it_works_without(
    spec: DatasetSpec, cache: Path, parses: list[str]
) -> None:
    (cache / ".parsed").write_text("a file where the folder should be")
    for _ in range(2):
        check_content(load_anew(spec, cache))
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


def test_another_process_uses_the_arrays(spec: DatasetSpec, cache: Path, parses: list[str]) -> None:
    prepared = prepare(spec, cache_dir=cache)
    load_anew(spec, cache)
    (cache / "made_up" / "table.txt").unlink()
    code = (
        "import json, sys; from gpsuite.data import PreparedDataset, load; "
        "print(load(PreparedDataset.from_dict(json.load(sys.stdin))).X.tolist())"
    )
    text = json.dumps(prepared.to_dict())
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[[0.0, 1.0], [250.0, 4.0]]"
