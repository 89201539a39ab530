"""The descriptions and the files against the list that comes with a collection of real files, if there is one."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import DatasetSpec, read_spec, verify
from gpsuite.data.files import PATH_VARIABLE, locate, read_verified
from tests.data.made_up_data import CONF_DIR

NAMES = sorted(
    path.stem for path in (CONF_DIR / "dataset").glob("*.yaml") if "\nfiles:" in path.read_text(encoding="utf-8")
)

OF_THE_PAPERS = {
    "boston",
    "fashion_mnist",
    "gengine1",
    "kin40k",
    "kmnist",
    "mnist",
    "pol",
    "sarcos",
    "snelson",
    "spambase",
}
"""Folders of what is shipped; others may describe a set that the collection has not."""


@pytest.fixture
def manifest() -> dict[str, dict[str, str]]:
    """FOLDER/FILE as stored -> row of the first MANIFEST.csv on the path."""
    for entry in filter(None, os.environ.get(PATH_VARIABLE, "").split(os.pathsep)):
        path = Path(entry, "MANIFEST.csv")
        if path.is_file():
            with path.open(encoding="utf-8", newline="") as stream:
                return {row["file"]: row for row in csv.DictReader(stream)}
    pytest.skip(f"no MANIFEST.csv in {PATH_VARIABLE}")


def _commit(url: str) -> str:
    """Return the repository and commit of a raw file as the manifest writes them."""
    owner, repository, commit = url.split("/")[3:6]
    return f"{owner}/{repository}@{commit[:12]}"


@pytest.mark.parametrize("name", NAMES)
def test_hashes_are_those_of_the_manifest(name: str, manifest: dict[str, dict[str, str]]) -> None:
    spec = read_spec(CONF_DIR, name)
    assert isinstance(spec, DatasetSpec)
    listed = any(key.startswith(f"{spec.folder_name}/") for key in manifest)
    if not listed and spec.folder_name not in OF_THE_PAPERS:
        pytest.skip(f"{name} is not of this collection")
    for file in spec.files:
        stored = [f"{spec.folder_name}/{file.name}{suffix}" for suffix in ("", ".gz", ".xz")]
        rows = [manifest[key] for key in stored if key in manifest]
        if not rows:
            assert file.sha256 is None  # only then is a file described that nobody here has read
            continue
        canonical = "sha256" if file.name.endswith(".gz") else "raw_sha256"
        assert file.sha256 == rows[0][canonical]
        if file.uncompressed_sha256 is not None:
            assert file.uncompressed_sha256 == rows[0]["raw_sha256"]
        if file.urls:  # a file may have no address: it is made from another format
            where = rows[0]
            assert any(url in where["canonical_url"] or _commit(url) in where["source"] for url in file.urls)


@pytest.mark.parametrize("name", NAMES)
def test_real_files_are_whole(name: str, real_spec: Callable[[str], DatasetSpec]) -> None:
    spec = real_spec(name)
    for state in verify(spec, Path("nowhere")):
        assert state.state == "ok" or (state.optional and state.state == "missing"), state


def test_engine_files_are_those_of_the_manifest(
    manifest: dict[str, dict[str, str]], real_spec: Callable[[str], DatasetSpec]
) -> None:
    spec = real_spec("gengine1")
    for file in [each for each in spec.files if each.sha256 is not None]:
        row = manifest[f"gengine1/{file.name}.xz"]
        found = locate(spec, file, Path("nowhere"))
        assert found is not None
        table = np.loadtxt(read_verified(spec, file, found).splitlines(), delimiter=",")
        assert table.shape == (int(row["rows"]), 13)
        stated = re.search(r"T_EXM mean (\S+); first Speed (\S+)", row["checks"])
        assert stated is not None
        assert table[:, 11].mean() == pytest.approx(float(stated[1]), abs=1e-6)
        assert table[0, 0] == float(stated[2])
