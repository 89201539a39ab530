"""Runs of the command line inside a test."""

from __future__ import annotations

import sys
from pathlib import Path

from gpsuite.cli import main


def gpsuite(*words: str) -> int:
    """Run `gpsuite words` and return the exit code."""
    before, sys.argv = sys.argv, ["gpsuite", *words]
    try:
        return main()
    finally:
        sys.argv = before


def run(experiment: str, *words: str) -> Path:
    """Run an experiment at scale smoke and return its only folder."""
    command = ("run", f"experiment=robustness/{experiment}", "scale=smoke", "parallel=serial", *words)
    assert gpsuite(*command) == 0
    [folder] = [path for path in Path("results/robustness", experiment).iterdir() if path.is_dir()]
    return folder
