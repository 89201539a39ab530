"""What scale=paper leaves out of the paper's own setting is said where the user has not changed it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpsuite.config.files import conf_dir
from gpsuite.engine.plans import RunOptions
from gpsuite.engine.runner import below_paper
from gpsuite.reporting.catalogue import ExperimentNote
from gpsuite.reporting.collect import RunFolder
from gpsuite.reporting.sections import read_section
from tests.engine import tiny
from tests.reporting.test_pages import make_run

META = {"below_paper": {"pool": "a pool of 10", "cap": "searches of 1 s at most"}}


@pytest.mark.parametrize(
    ("scale", "changed", "told"),
    [
        ("paper", (), "a pool of 10, searches of 1 s at most"),
        ("paper", ("pool", "seed"), "searches of 1 s at most"),
        ("paper", ("pool", "cap"), ""),
        ("quick", (), ""),
    ],
)
def test_what_is_below_the_paper(scale: str, changed: tuple[str, ...], told: str, tmp_path: Path) -> None:
    options = RunOptions(tmp_path, conf_dir(), changed=changed, meta=META)
    assert below_paper(replace(tiny.request(), scale=scale), options) == told
    assert below_paper(tiny.request(), replace(options, meta=None)) == ""


@pytest.mark.parametrize("below", ["a pool of 10", None])
def test_the_badge_says_so(below: str | None, tmp_path: Path) -> None:
    folder = make_run(tmp_path, "pac_bayes/rounding/paper", below_paper=below)
    section = read_section(RunFolder(folder, "pac_bayes/rounding", "paper", ""), tmp_path, ExperimentNote())
    assert ("below the paper's setting" in section.badges) == (below is not None)
