"""active_learning/convolution: a convolution process as the model, which Li et al. 2022 treat in theory only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.data.generators.gp_samples import PROCESSES, Process
from gpsuite.experiments.active_learning.methods import PIPELINE, titles
from gpsuite.experiments.active_learning.shared.claims import (
    error_statistics,
    safety_statistics,
    threshold_statistics,
)
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves, draw_safety
from gpsuite.experiments.active_learning.shared.gp_settings import GpSamplesSettings
from gpsuite.experiments.active_learning.shared.plan import repetition_tasks
from gpsuite.experiments.active_learning.shared.run import run_repetition
from gpsuite.experiments.active_learning.shared.tables import write_curve_tables
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Report, Request, Task, require
from gpsuite.experiments.settings import one_of
from gpsuite.reporting.comparison import Statistic

LARGEST = (
    10_000  # rows times outputs of a draw from a convolution process: a matrix of its square is factorised
)


@dataclass
class ConvolutionSettings(GpSamplesSettings):
    """Settings of the convolution process.

    Attributes:
        process: what the data are drawn from: convolution, or lmc, the linear model of coregionalisation.
    """

    process: Annotated[str, one_of(PROCESSES)]

    def check(self) -> None:
        """Refuse a draw of a convolution process that is too large to factorise."""
        super().check()
        size = (self.pool_rows + self.test_rows) * self.outputs
        allowed = f"pool and test rows times outputs must be {LARGEST} or fewer"
        require(self.process == "lmc" or size <= LARGEST, "pool_rows", self.pool_rows, allowed)


def plan(request: Request) -> list[Task]:
    """Return one task per draw and pipeline."""
    settings: ConvolutionSettings = request.settings
    process: Process = "lmc" if settings.process == "lmc" else "convolution"
    return repetition_tasks(request, settings.source(request, process))


def summarise(report: Report) -> list[Statistic]:
    """Write curves and safety of the convolution process beside the other models."""
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    settings: ConvolutionSettings = request.settings
    names = titles(request.methods)
    curves = Curves.from_records(records, tuple(names))
    points = settings.points(max(curves.final(method) for method in curves.methods))
    drawn = {"lmc": "an LMC", "convolution": "a convolution process"}[settings.process]
    tables, figures = folder / "tables", folder / "figures"
    write_curve_tables(
        curves, names, tables, "convolution", f"Draws from {drawn}", points, settings.thresholds, note
    )
    heading = f"draws from {drawn}: safe test rows, noisy targets"
    draw_curves(
        curves, names, figures, "convolution_curves", heading, "output units", settings.thresholds, note
    )
    draw_safety(curves, names, figures, "convolution_safety", f"draws from {drawn}: safety", note)
    found = [*safety_statistics(curves), *error_statistics(curves, points)]
    for threshold in settings.thresholds:
        found += threshold_statistics(curves, threshold)
    return found


EXPERIMENTS.register("active_learning/convolution")(
    Experiment(
        ConvolutionSettings,
        plan,
        run_repetition,
        summarise,
        method_traits=(PIPELINE,),
        parts=("repetitions",),
    )
)
