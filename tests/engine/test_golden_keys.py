"""The keys of every task of every shipped experiment, against a stored file.

A key decides whether a stored record answers for a task. A change of the code that is not meant to change numbers must
therefore leave every key as it is: published records would be lost otherwise. After a change that is meant to,

    python -m tests.engine.test_golden_keys

writes the file again; it needs the data of the experiments whose plans read their rows (`GPSUITE_DATA_PATH`).
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path

import pytest

from gpsuite.config.files import group_choices
from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.errors import DataError
from gpsuite.experiments.base import EXPERIMENTS

STORED = Path(__file__).parent / "golden_keys.json.gz"
SCALES = ("smoke", "quick", "paper")
NAMES = [name for name in group_choices()["experiment"] if name != "tour"]  # a tour runs other experiments
DATA = os.environ.get("GPSUITE_DATA_PATH")


def keys_of(experiment: str, scale: str, data_dir: Path) -> list[str]:
    words = [f"experiment={experiment}", f"scale={scale}", f"data_dir={data_dir}"]
    request, _ = read_request(words, allow_absent=True)
    return sorted(task_key(task) for task in EXPERIMENTS.get(experiment).plan(request))


def keys_without_data_where_possible(experiment: str, scale: str, data_dir: Path) -> list[str]:
    """A plan that reads rows needs its data; every other one is made without, the same on every machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GPSUITE_DATA_PATH", raising=False)
        try:
            return keys_of(experiment, scale, data_dir)
        except DataError:
            if DATA is None:
                raise
            patch.setenv("GPSUITE_DATA_PATH", DATA)
            return keys_of(experiment, scale, data_dir)


@pytest.fixture(scope="module")
def stored() -> dict[str, dict[str, list[str]]]:
    return json.loads(gzip.decompress(STORED.read_bytes()))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("experiment", NAMES)
def test_no_key_has_changed(
    experiment: str, scale: str, stored: dict[str, dict[str, list[str]]], tmp_path: Path
) -> None:
    try:
        keys = keys_without_data_where_possible(experiment, scale, tmp_path)
    except DataError as error:
        pytest.skip(str(error).splitlines()[0])
    assert keys == stored[experiment][scale]


def test_every_experiment_is_stored(stored: dict[str, dict[str, list[str]]]) -> None:
    assert sorted(stored) == sorted(NAMES)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: {scale: keys_without_data_where_possible(name, scale, Path(folder)) for scale in SCALES}
            for name in NAMES
        }
    STORED.write_bytes(gzip.compress(json.dumps(found, indent=0).encode(), mtime=0))
