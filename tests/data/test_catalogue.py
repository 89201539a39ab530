from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpsuite.data import CsvSpec, dataset_names, describe, read_spec
from gpsuite.data.files import PATH_VARIABLE
from gpsuite.errors import DataError, UserError
from tests.data.made_up_data import CONF_DIR


def test_every_dataset_has_a_first_comment_line_and_its_own_name() -> None:
    names = dataset_names(CONF_DIR)
    assert {"snelson", "boston", "diabetes", "breast_cancer", "digits", "csv"} <= set(names)
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
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.urls


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


def test_listing_loads_no_heavy_library() -> None:
    code = (
        "import sys; from pathlib import Path; from gpsuite.data import describe; "
        f"describe(Path({str(CONF_DIR)!r}), Path('data')); "
        "print([m for m in ('pandas', 'sklearn', 'scipy', 'pooch', 'requests', 'omegaconf', 'tensorflow')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
