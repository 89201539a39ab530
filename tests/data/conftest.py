"""Fixtures of the data tests: the shipped descriptions, and real files where there are some."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpsuite.data import Dataset, DatasetSpec, load, prepare, read_spec
from gpsuite.data import loading as data_loading
from gpsuite.data.files import PATH_VARIABLE, locate
from tests.data.made_up_data import CONF_DIR


@pytest.fixture
def conf_dir() -> Path:
    return CONF_DIR


@pytest.fixture
def real_spec() -> Callable[[str], DatasetSpec]:
    """Return the description of a dataset whose real files are there, or skip with the reason."""

    def find(name: str) -> DatasetSpec:
        if not os.environ.get(PATH_VARIABLE):
            pytest.skip(f"{PATH_VARIABLE} is not set")
        spec = read_spec(CONF_DIR, name)
        assert isinstance(spec, DatasetSpec)
        for file in spec.files:
            if not file.optional and locate(spec, file, Path("nowhere")) is None:
                pytest.skip(f"{name}/{file.name} is not in {PATH_VARIABLE}")
        return spec

    return find


@pytest.fixture(scope="session")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of parsed arrays of real datasets, shared by the tests of one session."""
    yield tmp_path_factory.mktemp("parsed")
    data_loading._load.cache_clear()  # several hundred megabytes


@pytest.fixture
def real_dataset(real_spec: Callable[[str], DatasetSpec], real_cache: Path) -> Callable[[str], Dataset]:
    """Return a dataset from its real files, or skip with the reason."""

    def find(name: str) -> Dataset:
        return load(prepare(real_spec(name), cache_dir=real_cache))

    return find


@pytest.fixture
def no_data_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATH_VARIABLE, raising=False)
