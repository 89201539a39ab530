"""`recheck` and the command in a stranger's run.json: what it may ask for, and what is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.recheck import PublishedRun, plan_recheck, settings_of
from gpsuite.engine.store import Archive, StoredRecord, add_checksum, pack
from gpsuite.engine.worker import execute
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from tests.engine import tiny

NAME = "pac_bayes/regression"
WORDS = ["gpsuite", "run", f"experiment={NAME}", "scale=smoke"]


def run_of(command: object, path: Path = Path("records.zip")) -> PublishedRun:
    return PublishedRun(f"{NAME}/smoke", NAME, command, Archive(path))


BAD: dict[str, tuple[object, str]] = {
    "a number": (1, "states no command"),
    "null": (None, "states no command"),
    "a text": (" ".join(WORDS), "states no command"),
    "numbers in it": ([*WORDS, 1], "states no command"),
    "tour": (["gpsuite", "run", "experiment=tour"], "another command"),
    "another experiment": (["gpsuite", "run", "experiment=perturbation/coverage"], "another command"),
    "another program": (["rm", "-rf", *WORDS[2:]], "another command"),
    "a file": ([*WORDS, "dataset.path=/etc/shadow"], "opens no file"),
    "a file of this folder": ([*WORDS, "dataset.path=rows.txt"], "opens no file"),
    "its parent": ([*WORDS, "model=.."], "opens no file"),
    "new rows": ([*WORDS, "dataset.new=/etc/shadow"], "opens no file"),
    "a table": ([*WORDS, "dataset=csv"], "opens no file"),
    "the environment": ([*WORDS, "seed=${oc.env:HOME}"], "opens no file"),
    "a long list": ([*WORDS, f"inducing=[{','.join(map(str, range(90_000)))}]"], "too long"),
    "many words": ([*WORDS, *["a=1"] * 100], "too long"),
}


@pytest.mark.parametrize(("command", "text"), BAD.values(), ids=BAD)
def test_a_strangers_command_is_refused(command: object, text: str) -> None:
    with pytest.raises(UserError, match=text) as caught:
        settings_of(run_of(command))
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_folders_and_addresses_are_left_out() -> None:
    comfort = ["results_dir=/etc", "data_dir=/etc", "parallel=dask", "parallel.address=tcp://evil:1", "threads=9"]
    assert settings_of(run_of([*WORDS, *comfort, "seed=3"])) == [*WORDS[2:], "seed=3"]


@pytest.mark.parametrize("word", ["nothing=1", f"seed={'9' * 3000}", f"seed={'[' * 3000}", "-m", "seed=x", "a"])
def test_a_command_that_cannot_be_read_is_one_reason(tmp_path: Path, word: str) -> None:
    record = execute(tiny.task(3), SharedWork())
    path = tmp_path / "records.zip"
    path.write_bytes(pack([StoredRecord(add_checksum(record), {})]))
    due, unchecked = plan_recheck([(run_of([*WORDS, word], path), record.key)], read_request)
    assert not due
    assert [each.verdict for each in unchecked] == ["not checked"]
    assert 0 < len(unchecked[0].reason) <= 200
