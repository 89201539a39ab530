"""Fixtures of the data tests: the shipped descriptions, and real files where there are some."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpsuite.data import DatasetSpec, read_spec
from gpsuite.data.files import PATH_VARIABLE, Missing, locate
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
            if isinstance(locate(spec, file, Path("nowhere")), Missing):
                pytest.skip(f"{name}/{file.name} is not in {PATH_VARIABLE}")
        return spec

    return find


@pytest.fixture
def no_data_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATH_VARIABLE, raising=False)
