from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import DatasetSpec, PreparedDataset, load, prepare, read_spec
from gpsuite.data.files import OFFLINE_VARIABLE, PATH_VARIABLE
from gpsuite.data.hashing import content_hash
from gpsuite.errors import DataError
from gpsuite.experiments.guarantee.plan import new_rows
from tests.data.made_up_data import CONF_DIR, csv_spec, made_up, sha256, table, write

HOUSING = "\n".join(
    " ".join(f"{(row * 7 + column) % 11}.5" for column in range(14)) for row in range(20)
).encode()


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


def test_relative_paths_hold_in_another_folder(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    )
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
        csv_spec(write(tmp_path, table()), new=write(tmp_path, ["a,b", ",", ","], "new.csv")),
        cache_dir=tmp_path,
    )
    with pytest.raises(DataError, match="every row is empty"):
        new_rows(prepared)
