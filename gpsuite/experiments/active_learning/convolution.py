"""active_learning/convolution: a convolution process as the model, which Li et al. 2022 treat in theory only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.data.generators.gp_samples import PROCESSES
from gpsuite.experiments.active_learning.curves import (
    Curves,
    draw_curves,
    draw_safety,
    error_statistics,
    errors,
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
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Report, Request, Task, every_array, every_task, require
from gpsuite.experiments.settings import one_of
from gpsuite.experiments.tasks import choice
from gpsuite.reporting.comparison import Statistic

LARGEST = 10_000  # rows times outputs of a draw from a convolution process: a matrix of its square is factorised


@dataclass
class ConvolutionSettings(GpSamplesSettings):
    """Settings of the convolution process.

    Attributes:
        process: process that the data are drawn from: convolution, or lmc, the linear model of coregionalisation.
    """

    process: Annotated[str, one_of(PROCESSES)]

    def check(self) -> None:
        """Refuse a draw of a convolution process that is too large to factorise."""
        super().check()
        size = (self.pool_rows + self.test_rows) * self.outputs
        allowed = f"pool and test rows times outputs must be {LARGEST} or fewer"
        require(self.process == "lmc" or size <= LARGEST, "pool_rows", self.pool_rows, allowed)


def plan(request: Request[ConvolutionSettings]) -> list[Task[RepetitionTask]]:
    """Return one task per draw and pipeline."""
    settings = request.settings
    source = settings.source(request.seed, choice(settings.process, PROCESSES))
    return repetition_tasks(request, settings, source)


def summarise(report: Report[ConvolutionSettings]) -> list[Statistic]:
    """Write curves and safety of the convolution process next to the other models."""
    settings = report.settings
    curves = Curves.from_records(report.records(), tuple(report.titles))
    drawn = {"lmc": "an LMC", "convolution": "a convolution process"}[settings.process]
    report_curves(report, curves, "convolution", f"Draws from {drawn}")
    heading = f"draws from {drawn}: safe test rows, noisy targets"
    draw_curves(report, curves, "convolution_curves", heading, errors("output units"), thresholds=settings.thresholds)
    draw_safety(report, curves, "convolution_safety", f"draws from {drawn}: safety")
    found = [*safety_statistics(curves), *error_statistics(curves, settings.points(curves.last))]
    for threshold in settings.thresholds:
        found += threshold_statistics(curves, threshold)
    return found


EXPERIMENTS.register("active_learning/convolution")(
    Experiment(
        ConvolutionSettings,
        plan,
        run_repetition,
        summarise,
        chaotic=every_task,
        method_traits=(PIPELINE,),
        model_keys=("kernel",),
        kernels=KERNELS,
        parts=("repetitions",),
        published=every_array,
    )
)
