"""A tiny experiment for the engine's tests: squares numbers, fails or dies when asked."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, EXPERIMENTS, Experiment, Outcome, Report, Request, SharedWork, Task
from gpsuite.models.config import ModelSpec
from gpsuite.reporting.comparison import Statistic

NAME = "tiny/squares"


class TinySettings:
    """Nothing to set."""


@dataclass(frozen=True)
class Square:
    """A number to square, and how the task behaves."""

    number: int
    behaviour: str


def task(number: int, behaviour: str = "square", group: str = "", budget_seconds: float | None = None) -> Task[Square]:
    return Task(
        experiment=NAME,
        label=f"number {number}",
        axes={"number": number},
        params=Square(number, behaviour),
        group=group,
        budget_seconds=budget_seconds,
    )


def plan(request: Request[TinySettings]) -> list[Task[Square]]:
    behaviours = [request.options.get(str(number), "square") for number in range(6)]
    return [task(number, behaviour) for number, behaviour in enumerate(behaviours) if behaviour != "absent"]


pause = time.sleep


def run(task: Task[Square], shared: SharedWork) -> Outcome:
    number, behaviour = task.params.number, task.params.behaviour
    if behaviour == "fail":
        raise ValueError(f"no square of {number}")
    if behaviour == "interrupt":
        raise KeyboardInterrupt
    if behaviour.startswith("leave"):
        assert shared.states is not None
        shared.states.mkdir(parents=True)
    if behaviour == "spend":
        budget = Budget(evaluations=4, observer=shared.observer)
        for _ in range(2):
            budget.spend(evaluations=1, best=1.0)
            pause(0.0)
    count = shared.once("count", lambda: [0])
    count[0] += 1
    metrics = {"square": number**2 + 0.1, "nth_of_group": count[0], "nothing": float("nan")}
    status = BUDGET if behaviour.endswith("budget") else "done"
    return Outcome(
        metrics, status, "time is up" if behaviour.endswith("budget") else "", {"powers": np.arange(3.0) ** number}
    )


def summarise(report: Report[TinySettings]) -> list[Statistic]:
    import pandas as pd

    frame = pd.DataFrame([{**record.axes, "square": record.number("square")} for record in report.records()])
    report.table(frame, "squares", "squares")
    report.answer.append(f"{len(frame)} squares")
    report.warnings.append("squares grow")
    return [Statistic("mean_square", float(frame["square"].mean()), n=len(frame))]


def request(scale: str = "quick", **behaviours: str) -> Request[TinySettings]:
    """Return a request in which the task of a number behaves as told: n3="fail"."""
    options = {name.removeprefix("n"): behaviour for name, behaviour in behaviours.items()}
    return Request(NAME, scale, 0, TinySettings(), {}, ModelSpec(), options=options)


if NAME not in EXPERIMENTS:
    EXPERIMENTS.register(NAME)(Experiment(TinySettings, plan, run, summarise))
