"""active_learning/gp_samples: draws from a four-output Gaussian process (Sec. 5.2 of Li et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpsuite.experiments.active_learning.curves import (
    Curves,
    best_statistics,
    draw_curves,
    draw_safety,
    error_statistics,
    errors,
    precision_statistics,
    report_curves,
    safety_statistics,
    threshold_statistics,
)
from gpsuite.experiments.active_learning.exploration import (
    KERNELS,
    GpSamplesSettings,
    RepetitionTask,
    repetition_tasks,
    run_repetition,
)
from gpsuite.experiments.active_learning.methods import PIPELINE
from gpsuite.experiments.active_learning.repetitions import Samples, drawn_samples
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    every_task,
)
from gpsuite.reporting.comparison import Statistic

DATA = "draws"
DATA_VERSION = 1
WHAT = "Draws from a multi-output GP"


@dataclass(frozen=True)
class DrawsTask:
    """The share of safe rows of all draws."""

    samples: Samples
    kind: str = DATA


def plan(request: Request[GpSamplesSettings]) -> list[Task[object]]:
    """Return one task per draw and pipeline, and one that describes the draws."""
    settings = request.settings
    described = request.task(
        DrawsTask(settings.samples(request.seed)),
        label="share of safe rows",
        axes={"method": "", "repetition": 0, "part": DATA},
        version=DATA_VERSION,
        cost=3.0,
    )
    return [*repetition_tasks(request, settings, settings.source(request.seed)), described]


def describe(task: Task[DrawsTask], shared: SharedWork) -> Outcome:
    """Count the safe rows of all draws."""
    data = drawn_samples(task.params.samples).data
    safe = 100.0 * float((data.z > data.threshold).mean())
    return Outcome({"safe_row_percent": safe}, headline=f"{safe:.2f} % of the rows are safe")


def summarise(report: Report[GpSamplesSettings]) -> list[Statistic]:
    """Write curves and safety. Return what the paper states."""
    settings, data = report.settings, report.records(method="")
    curves = Curves.from_records(report.records(), tuple(report.titles))
    found = [Statistic("safe_row_percent", record.number("safe_row_percent"), n=1) for record in data]
    if not curves.methods:
        return found
    report_curves(report, curves, "gp_samples", WHAT)
    heading = f"{settings.outputs} outputs drawn from a GP: safe test rows, noisy targets"
    draw_curves(report, curves, "gp_samples_curves", heading, errors("output units"), thresholds=settings.thresholds)
    draw_safety(report, curves, "gp_samples_safety", "draws from a multi-output GP: safety")
    return [*found, *gp_statistics(curves, settings.points(curves.last), settings.thresholds)]


def gp_statistics(curves: Curves, points: Sequence[int], thresholds: Sequence[float]) -> Iterator[Statistic]:
    """Return the statistics that conf/paper names."""
    for threshold in thresholds:
        yield from threshold_statistics(curves, threshold)
    yield from safety_statistics(curves)
    yield from error_statistics(curves, points)
    yield from precision_statistics(curves, points)
    yield from best_statistics(curves)


EXPERIMENTS.register("active_learning/gp_samples")(
    Experiment(
        GpSamplesSettings,
        plan,
        {RepetitionTask: run_repetition, DrawsTask: describe},
        summarise,
        chaotic=every_task,
        method_traits=(PIPELINE,),
        model_keys=("kernel",),
        kernels=KERNELS,
        parts=("repetitions",),
        published=every_array,
    )
)
