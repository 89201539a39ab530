"""Folders and files that a user names: what is theirs stays, what is not there is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpsuite.cli import main
from gpsuite.commands.predict import _require_like, _target
from gpsuite.errors import UserError
from tests.commands.conftest import Gpsuite


def test_predictions_replace_earlier_ones_and_nothing_else(workplace: Path) -> None:
    rows, earlier, other = Path("rows.csv"), Path("earlier.csv"), Path("other.csv")
    rows.write_text("row,prediction\n1,2\n")
    earlier.write_text("row,prediction\n1,2\n")
    other.write_text("row,prediction,mine\n1,2,3\n")
    Path("link.csv").symlink_to("earlier.csv")
    assert _target("new.csv", rows) == workplace / "new.csv"
    assert _target("earlier.csv", rows) == workplace / "earlier.csv"
    assert _target("link.csv", rows) == workplace / "earlier.csv"  # through the link, which stays
    wrong = {"rows.csv": "file of the rows", "": "name a file", "nowhere/new.csv": "name a file", ".": "name a file"}
    for text, said in wrong.items():
        with pytest.raises(UserError, match=f"output=.*{said}"):
            _target(text, rows)
    text = "row,prediction\n1,9\n"
    _require_like(Path("new.csv"), text)
    _require_like(earlier, text)
    for lost in (other, Path(os.devnull)):
        with pytest.raises(UserError, match=r"file exists\. Choose another name"):
            _require_like(lost, text)


@pytest.mark.parametrize("command", ["status", "compare", "publish", "recheck"])
def test_results_that_are_not_there_are_not_none(gpsuite: Gpsuite, workplace: Path, command: str) -> None:
    Path("file").write_text("")
    for place, said in (("nowhere", "no such folder"), ("file", "must be a folder"), ("", "must be a folder")):
        ended = gpsuite(command, "pac_bayes/regression", f"results_dir={place}")
        assert ended.code == 2 and f"results_dir={place}: {said}" in ended.err


def test_a_home_folder_is_meant_by_its_sign(gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workplace / "home/mine").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(workplace / "home"))
    words = ("experiment=pac_bayes/kl_inverse", "scale=smoke", "parallel=serial", "results_dir=~/mine")
    assert gpsuite("run", *words).code == 0
    assert gpsuite("status", "results_dir=~/mine").out.count("kl_inverse") == 1
    assert not Path("~").exists() and (workplace / "home/mine/pac_bayes").is_dir()


def test_a_sample_of_nothing_is_refused(gpsuite: Gpsuite, workplace: Path) -> None:
    assert "sample=0: at least one" in gpsuite("recheck", "sample=0").err
    (workplace / "results").mkdir(exist_ok=True)
    assert "no published records of guarantee under" in gpsuite("recheck", "guarantee").err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("where", "code", "said"), [("> /dev/full", 2, "gpsuite: cannot write to stdout"), (">&-", 0, "")]
)
def test_an_output_that_takes_nothing_ends_in_a_message(where: str, code: int, said: str) -> None:
    program = f'{sys.executable} -c "import sys; from gpsuite.cli import main; sys.exit(main())"'
    ended = subprocess.run(
        ["bash", "-c", f"{program} list methods {where}"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (code, "")
    assert "Traceback" not in ended.stderr and "Exception" not in ended.stderr and said in ended.stderr


def test_another_failure_to_write_is_not_taken_for_the_output(monkeypatch: pytest.MonkeyPatch, workplace: Path) -> None:
    def fail(words: list[str]) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpsuite.cli.dispatch", fail)
    with pytest.raises(OSError, match="No space left"):
        main()
