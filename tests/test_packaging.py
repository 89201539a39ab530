"""What stands around the code: metadata of the package, its extras, forms and the workflow of the repository."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from gpsuite import __version__, cli
from gpsuite.engine import provenance
from gpsuite.errors import UserError
from gpsuite.experiments.robustness.inputs import check_images
from gpsuite.methods.robustness.input_choice import sift_patch

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("word", ["-V", "--version"])
def test_the_version_is_printed(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.dispatch([word]) == 0
    assert capsys.readouterr().out == f"gpsuite {__version__}\n"


def test_the_version_is_said_in_one_place_and_repeated_where_people_read_it() -> None:
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    assert f"version = {{{__version__}}}" in (ROOT / "README.md").read_text(encoding="utf-8")
    changes = (ROOT / ".github/CHANGELOG.md").read_text(encoding="utf-8")
    assert next(line for line in changes.splitlines() if line.startswith("## ")) == f"## {__version__}"


def test_what_only_some_runs_need_is_an_extra() -> None:
    extras = PROJECT["optional-dependencies"]
    assert {"cluster", "peers", "images", "tables"} <= set(extras)
    needed = " ".join(PROJECT["dependencies"])
    assert not [name for name in ("opencv", "distributed", "mapie", "clarabel", "pyarrow", "pytest") if name in needed]


def test_supported_pythons_are_those_that_doctor_accepts() -> None:
    said = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    assert said == ["3.11", "3.12"] and PROJECT["requires-python"] == ">=3.11,<3.13"


def test_without_opencv_sift_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    monkeypatch.setitem(sys.modules, "cv2", None)
    said = r"(?s)features=sift5: the package cv2 is not installed.*gpsuite\[images\].*features=gradient5"
    with pytest.raises(UserError, match=said):
        check_images(["sift5"], "pixels")
    with pytest.raises(UserError, match=said):
        sift_patch(np.eye(8), 5)
    check_images(["gradient5"], "pixels")


def test_doctor_takes_a_missing_extra_for_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpsuite.commands import doctor

    absent = dict.fromkeys(("opencv-python-headless", "mapie", "crepes"), "not installed")
    found = {**provenance.versions(), **absent}
    monkeypatch.setattr(doctor, "versions", lambda: found)
    missing = [each for each in doctor._packages() if each.found == "not installed"]
    assert [(each.state, each.fix.split("'")[1]) for each in missing] == [
        ("note", "gpsuite[images]"),
        ("note", "gpsuite[peers]"),
        ("note", "gpsuite[peers]"),
    ]


def test_the_workflow_calls_what_contributors_call() -> None:
    content = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    steps = content["jobs"]["run"]["steps"]
    assert steps[-1] == {"run": ".ci/run"} and (ROOT / ".ci/run").stat().st_mode & 0o100
    [python] = [step["with"]["python-version"] for step in steps if "python" in step.get("uses", "")]
    assert python == "3.11"


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_issue_forms_are_forms(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"] and form["description"]
    ids = [part["id"] for part in form["body"]]
    assert len(set(ids)) == len(ids)
    assert all(part["type"] in ("textarea", "input") and part["attributes"]["label"] for part in form["body"])
