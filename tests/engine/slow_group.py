"""An experiment of one group of three tasks, of which one may wait or take its worker with it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpsuite.config.files import conf_dir
from gpsuite.engine.plans import RunOptions
from gpsuite.engine.runner import run_experiment
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Outcome, Request, Task
from gpsuite.models.config import ModelSpec
from tests.engine.tiny import TinySettings

NAME = "tiny/slow"


@dataclass(frozen=True)
class Slow:
    number: int
    behaviour: str = ""


def task(number: int, behaviour: str = "", group: str = "one") -> Task[Slow]:
    return Task(NAME, f"number {number}", {"number": number}, Slow(number, behaviour), group=group)


def run(task: Task[Slow], shared: Any) -> Outcome:
    if task.params.behaviour == "die":
        os._exit(9)
    if task.params.behaviour:
        Path(task.params.behaviour).touch()
        time.sleep(60)
    return Outcome({"square": float(task.params.number**2)})


if NAME not in EXPERIMENTS:
    EXPERIMENTS.register(NAME)(Experiment(TinySettings, lambda request: TASKS, run, lambda report: []))
TASKS: list[Task[Slow]] = []


def main(folder: Path) -> None:
    TASKS[:] = [task(0), task(1), task(2, str(folder / "third")), task(5, group="")]
    run_experiment(
        Request(NAME, "quick", 0, TinySettings(), {}, ModelSpec()),
        RunOptions(folder / "results", conf_dir(), science="s", mode="processes", workers=2),
    )
