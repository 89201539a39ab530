"""An experiment that nobody shipped: the slope of a line through halves of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.data.loading import load
from gpsuite.experiments.base import Experiment, Outcome, Report, Request, SharedWork, Task
from gpsuite.experiments.settings import Count
from gpsuite.reporting.comparison import Statistic
from gpsuite.seeds import derived_seed
from gpsuite.statistics.estimates import mean


@dataclass
class SlopeSettings:
    """How many random halves."""

    repetitions: Count


@dataclass(frozen=True)
class SlopeTask:
    """One half."""

    seed: int


def plan(request: Request[SlopeSettings]) -> list[Task[SlopeTask]]:
    return [
        request.task(
            SlopeTask(derived_seed(request.seed, "half", repetition)),
            label=f"half {repetition}",
            axes={"repetition": repetition},
        )
        for repetition in range(request.settings.repetitions)
    ]


def run(task: Task[SlopeTask], shared: SharedWork) -> Outcome:
    data = load(task.require_dataset())
    rows = np.random.default_rng(task.params.seed).permutation(len(data.X))[: len(data.X) // 2]
    slope = float(np.polyfit(data.X[rows, 0], data.y[rows, 0], 1)[0])
    return Outcome({"slope": slope}, headline=f"slope {slope:.3g}")


def summarise(report: Report[SlopeSettings]) -> list[Statistic]:
    import pandas as pd

    frame = pd.DataFrame([{**record.axes, "slope": record.number("slope")} for record in report.records()])
    report.table(frame, "slopes", "Slopes of halves")
    with report.figure("slopes") as drawing:
        drawing.ax.plot(frame["repetition"], frame["slope"], "o")
        drawing.name_axes("half", "slope (units of y per unit of x)")
        drawing.data = frame
    return [Statistic.of("slope", mean(frame["slope"]))]


SLOPES = Experiment(SlopeSettings, plan, run, summarise, dataset_tasks=("regression",), parts=("repetitions",))
