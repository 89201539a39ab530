"""An experiment, a dataset and a figure that nobody shipped: what the README's recipes say is all that they take."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pandas as pd
import pytest

from gpsuite import cli
from gpsuite.config import files
from gpsuite.data import loading, sources
from gpsuite.experiments import perturbation
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.registry import import_members

TESTS = Path(__file__).parents[1]
EXPERIMENT = """# @package _global_
# Slopes of random halves of the rows
defaults:
  - override /dataset: steps
meta:
  title: Slopes of halves
  paper: nobody
  figure: none
  cost: {smoke: 1 s, quick: 1 s, paper: 1 s}
  data: [steps]
  figures:
    slopes: {shows: "The slope of each half."}
repetitions: 5
scales:
  smoke: {repetitions: 2}
  quick: {repetitions: 3}
  paper: {}
"""
DATASET = """# A line with steps, made up for this test
name: steps
title: a line with steps
task: regression
loader: steps
rows: 20
n_inputs: 1
files: [{name: steps.txt, sha256: SHA, urls: [https://example.org/steps.txt]}]
licence: own
citation: nobody
"""


def test_they_are_found_listed_run_resumed_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "\n".join(f"{x} {2 * x + x % 2}" for x in range(20)).encode()
    (tmp_path / "data/steps").mkdir(parents=True)
    (tmp_path / "data/steps/steps.txt").write_bytes(rows)
    shutil.copytree(files.conf_dir(), tmp_path / "conf")
    (tmp_path / "conf/dataset/steps.yaml").write_text(
        DATASET.replace("SHA", hashlib.sha256(rows).hexdigest()), encoding="utf-8"
    )
    (tmp_path / "conf/experiment/perturbation/slopes.yaml").write_text(EXPERIMENT, encoding="utf-8")
    for module in (files, loading):
        monkeypatch.setattr(module, "shipped_conf_dir", lambda: tmp_path / "conf")
    # modules in these folders stand where a method author puts them: in the family, and among the sources
    monkeypatch.setattr(perturbation, "__path__", [*perturbation.__path__, str(TESTS / "experiments/own_experiment")])
    import_members(sources.__name__, sources.__path__)  # what registers only now would be undone with the copy
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(TESTS / "data/own_source")])
    for registry in (EXPERIMENTS, sources.LOADERS):
        monkeypatch.setattr(registry, "_items", dict(registry._items))
    exec(Path(perturbation.__file__).read_text(encoding="utf-8"), vars(perturbation))  # as in a new process
    monkeypatch.chdir(tmp_path)

    def gpsuite(*words: str) -> tuple[str, str]:
        monkeypatch.setattr("sys.argv", ["gpsuite", *words])
        assert cli.main() == 0
        out, err = capsys.readouterr()
        return out, err

    assert "perturbation/slopes\t" in gpsuite("list", "experiments")[0]
    out, err = gpsuite("run", "experiment=perturbation/slopes", "scale=smoke", "parallel=serial")
    assert "[2/2] done  half 1  slope" in err
    folder = Path(out.splitlines()[0])
    assert len(pd.read_csv(folder / "tables/slopes.csv")) == 2
    assert pd.read_csv(folder / "figures/slopes.csv")["slope"].between(1.9, 2.1).all()
    assert (folder / "figures/slopes.png").stat().st_size > 0
    again = gpsuite("run", "experiment=perturbation/slopes", "scale=smoke", "parallel=serial")[1]
    assert "2 of 2 tasks are stored" in again
