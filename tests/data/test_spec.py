"""Descriptions of datasets, the list of them, and the hash of their content."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from omegaconf import OmegaConf

from gpsuite.config.files import conf_dir
from gpsuite.data import CsvSpec, DatasetSpec, dataset_names, describe, from_plain, read_spec, to_plain
from gpsuite.data.catalogue import with_shared_files
from gpsuite.data.files import PATH_VARIABLE
from gpsuite.data.spec import array_hash, content_hash, json_hash
from gpsuite.errors import DataError, UserError
from gpsuite.plugins import shipped_conf_dir
from tests.data.made_up_data import CONF_DIR, made_up


@pytest.mark.parametrize("name", dataset_names(CONF_DIR))
def test_shipped_descriptions_fit_the_structured_schema(name: str) -> None:
    spec = read_spec(CONF_DIR, name)
    schema = OmegaConf.structured(type(spec))
    merged = OmegaConf.merge(schema, OmegaConf.load(CONF_DIR / "dataset" / f"{name}.yaml"))
    if isinstance(spec, CsvSpec):
        merged = OmegaConf.merge(merged, {"path": "a b.csv", "target": ["x", "y"]})
        spec.path, spec.target = "a b.csv", ["x", "y"]
    found = OmegaConf.to_object(merged)
    assert (with_shared_files(found, CONF_DIR) if isinstance(found, DatasetSpec) else found) == spec


def test_plain_values_are_json_and_come_back() -> None:
    for spec in (made_up(), CsvSpec(path="a.csv", target=["y"])):
        assert from_plain(json.loads(json.dumps(to_plain(spec)))) == spec


def test_unknown_and_absent_keys_are_named() -> None:
    plain = to_plain(made_up())
    with pytest.raises(DataError, match=r"dataset\.licens: unknown key. Did you mean 'licence'\?"):
        from_plain({**plain, "licens": "MIT"})
    del plain["rows"], plain["citation"]
    with pytest.raises(DataError, match="dataset: missing rows, citation"):
        from_plain(plain)
    with pytest.raises(DataError, match=r"dataset\.files: missing sha256"):
        from_plain({**to_plain(made_up()), "files": [{"name": "a"}]})


def test_a_git_hash_is_enough() -> None:
    file = {"name": "a", "git_blob_sha1": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}
    spec = from_plain({**to_plain(made_up()), "files": [file]})
    assert isinstance(spec, DatasetSpec)
    assert (spec.files[0].hash_kind, spec.files[0].expected) == ("git blob sha1", file["git_blob_sha1"])
    assert from_plain(to_plain(spec)) == spec


def test_csv_is_recognised_by_its_loader() -> None:
    assert isinstance(from_plain({"loader": "csv"}), CsvSpec)
    assert isinstance(from_plain(to_plain(made_up())), DatasetSpec)


def test_arrays_are_hashed_by_value_not_by_layout() -> None:
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert array_hash(matrix) == hashlib.sha256(struct.pack("<4d", 1, 2, 3, 4)).hexdigest()
    assert array_hash(np.asfortranarray(matrix)) == array_hash(matrix)
    assert array_hash(matrix.astype(">f8")) == array_hash(matrix)
    assert array_hash(matrix.T) != array_hash(matrix)


def test_content_hash_sees_files_and_arrays_but_not_words() -> None:
    spec = made_up()
    assert content_hash(replace(spec, title="another title", licence="MIT")) == content_hash(spec)
    assert content_hash(made_up(b"other content")) != content_hash(spec)
    assert content_hash(replace(spec, content_sha256="0")) != content_hash(spec)
    assert content_hash(replace(spec, variant="other")) != content_hash(spec)
    assert content_hash(replace(spec, version=2)) != content_hash(spec)
    assert content_hash(replace(spec, files=[])) != content_hash(spec)


def test_json_hash_is_that_of_the_compact_text() -> None:
    assert json_hash(["a", 1]) == hashlib.sha256(b'["a",1]').hexdigest()


def test_every_version_and_variant_of_a_preparation_is_other_content() -> None:
    spec = made_up()
    ways = [(None, 1), (None, 2), (None, 3), ("small", 1), ("small", 2)]
    assert len({content_hash(replace(spec, variant=v, version=n)) for v, n in ways}) == len(ways)


def test_every_dataset_has_a_first_comment_line_and_its_own_name() -> None:
    names = dataset_names(CONF_DIR)
    assert {"snelson", "boston", "diabetes", "breast_cancer", "digits", "csv"} <= set(names)
    assert {"pol", "kin40k", "sarcos", "sarcos_test", "spambase", "spambase11"} <= set(names)
    assert {"mnist", "mnist38", "mnist358", "fashion_mnist", "kmnist", "gengine1", "gengine1_co2_hc"} <= set(names)
    for name in names:
        assert (CONF_DIR / "dataset" / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")
        assert read_spec(CONF_DIR, name).name == name


def test_every_file_has_a_hash_and_an_address() -> None:
    for name in dataset_names(CONF_DIR):
        spec = read_spec(CONF_DIR, name)
        if isinstance(spec, CsvSpec):
            continue
        assert spec.licence
        assert spec.citation
        assert spec.embedded == (not spec.files)
        assert spec.embedded == (spec.content_sha256 is not None)
        for file in spec.files:
            assert len(bytes.fromhex(file.expected)) == {"sha256": 32, "git blob sha1": 20}[file.hash_kind]
            assert (file.sha256 is None) == (file.hash_kind == "git blob sha1")
            assert file.urls or "Written from" in spec.note, "where it comes from"


def test_variants_share_files_and_folder() -> None:
    for name, source in (("mnist38", "mnist"), ("spambase11", "spambase"), ("gengine1_co2_hc", "gengine1")):
        spec, other = read_spec(CONF_DIR, name), read_spec(CONF_DIR, source)
        assert isinstance(spec, DatasetSpec)
        assert isinstance(other, DatasetSpec)
        assert spec.files == other.files
        assert spec.folder_name == source
        assert spec.files_from is None
        assert content_hash(spec) != content_hash(other)
    sarcos_test = read_spec(CONF_DIR, "sarcos_test")
    assert isinstance(sarcos_test, DatasetSpec)
    assert sarcos_test.folder_name == "sarcos"
    assert [file.name for file in sarcos_test.files] == ["sarcos_inv_test.mat"]


def test_the_shipped_folder_is_the_one_of_the_command_line() -> None:
    assert shipped_conf_dir() == conf_dir() == CONF_DIR


def test_shared_files_need_a_dataset_with_files(tmp_path: Path) -> None:
    (tmp_path / "dataset").mkdir()
    for name in ("digits", "csv", "boston"):
        text = (CONF_DIR / "dataset" / f"{name}.yaml").read_text(encoding="utf-8")
        (tmp_path / "dataset" / f"{name}.yaml").write_text(text, encoding="utf-8")
    for source in ("digits", "csv"):
        with pytest.raises(DataError, match=f"files_from={source} needs a dataset with files"):
            with_shared_files(replace(made_up(), files=[], files_from=source), tmp_path)
    with pytest.raises(DataError, match="and no files here"):
        with_shared_files(replace(made_up(), files_from="boston"), tmp_path)
    with pytest.raises(UserError, match="Did you mean 'boston'"):
        with_shared_files(replace(made_up(), files=[], files_from="bostn"), tmp_path)


def test_unknown_name_gives_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match="Did you mean 'boston'") as caught:
        read_spec(CONF_DIR, "bostn")
    assert "Did you mean 'boston'?" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: [", "cannot be read"),
        ("- a", "holds no keys"),
        ("name: bad", "missing title, task"),
        ("name: bad\ncolour: red", "unknown key"),
    ],
)
def test_a_broken_description_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "bad.yaml").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_spec(tmp_path, "bad")
    assert "bad.yaml" in str(caught.value)


def test_the_list_states_which_datasets_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "elsewhere"))
    (tmp_path / "data" / "boston").mkdir(parents=True)
    (tmp_path / "data" / "boston" / "housing.data.gz").write_bytes(b"presence is enough here")
    rows = {row.name: row for row in describe(CONF_DIR, tmp_path / "data")}
    assert rows["boston"].state == "found"
    assert rows["boston"].where == str(tmp_path / "data" / "boston")
    assert rows["boston"].shape == "506 x 13"
    assert rows["snelson"].state == "missing"
    assert "http" in rows["snelson"].where
    assert rows["digits"].state == "embedded"
    assert rows["csv"].state == "user file"
    assert rows["csv"].task == "any"
    assert rows["gengine1"].where.endswith("raw_000010_measurement_000000.csv and 31 more")


def test_an_optional_file_may_be_absent_from_the_list(tmp_path: Path, no_data_path: None) -> None:
    spec = read_spec(CONF_DIR, "gengine1")
    assert isinstance(spec, DatasetSpec)
    (tmp_path / "gengine1").mkdir()
    for file in spec.files:
        if not file.optional:
            (tmp_path / "gengine1" / f"{file.name}.xz").write_bytes(b"presence is enough here")
    rows = {row.name: row for row in describe(CONF_DIR, tmp_path)}
    assert rows["gengine1"].state == rows["gengine1_co2_hc"].state == "found"
    assert rows["gengine1_co2_hc"].where == str(tmp_path / "gengine1")


def test_listing_loads_no_heavy_library() -> None:
    code = (
        "import sys; from pathlib import Path; from gpsuite.data import describe; "
        f"describe(Path({str(CONF_DIR)!r}), Path('data')); "
        "print([m for m in ('pandas', 'sklearn', 'scipy', 'pooch', 'requests', 'omegaconf', 'tensorflow')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
