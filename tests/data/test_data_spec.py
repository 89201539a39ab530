from __future__ import annotations

import json

import pytest
from omegaconf import OmegaConf

from gpsuite.data import CsvSpec, DatasetSpec, dataset_names, from_plain, read_spec, to_plain
from gpsuite.data.catalogue import with_shared_files
from gpsuite.errors import DataError
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
    with pytest.raises(DataError, match=r"dataset\.licens: unknown key; did you mean 'licence'\?"):
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
