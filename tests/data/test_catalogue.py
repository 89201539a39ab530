from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpsuite.config.files import conf_dir
from gpsuite.data import CsvSpec, DatasetSpec, dataset_names, describe, read_spec
from gpsuite.data.catalogue import shipped_conf_dir, with_shared_files
from gpsuite.data.files import PATH_VARIABLE
from gpsuite.data.hashing import content_hash
from gpsuite.errors import DataError, UserError
from tests.data.made_up_data import CONF_DIR, made_up


def test_every_dataset_has_a_first_comment_line_and_its_own_name() -> None:
    names = dataset_names(CONF_DIR)
    assert {"snelson", "boston", "diabetes", "breast_cancer", "digits", "csv"} <= set(names)
    assert {"pol", "kin40k", "sarcos", "sarcos_test", "spambase", "spambase11"} <= set(names)
    assert {"mnist", "mnist38", "mnist358", "fashion_mnist", "kmnist", "gengine1", "gengine1_co2_hc"} <= set(
        names
    )
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
            assert file.urls


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
    with pytest.raises(DataError, match="none of its own"):
        with_shared_files(replace(made_up(), files_from="boston"), tmp_path)
    with pytest.raises(UserError, match="did you mean 'boston'"):
        with_shared_files(replace(made_up(), files=[], files_from="bostn"), tmp_path)


def test_unknown_name_gives_the_nearest_and_all() -> None:
    with pytest.raises(UserError, match="did you mean 'boston'") as caught:
        read_spec(CONF_DIR, "bostn")
    assert "valid: boston, breast_cancer, csv" in str(caught.value)


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


def test_states_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
