"""Tasks of active_learning/engine: repetitions, the data's facts, and the saturated error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpsuite.experiments.active_learning.engine.settings import EngineSettings
from gpsuite.experiments.active_learning.shared.plan import pipeline_kernel, repetition_tasks
from gpsuite.experiments.base import Request, Task
from gpsuite.methods.active_learning.pipelines import Kernel
from gpsuite.seeds import derived_seed

DATA, SATURATION = "data", "saturation"
VERSION = 1  # of the tasks that are no repetitions


@dataclass(frozen=True)
class DataTask:
    """The facts about the data."""

    kind: str = DATA


@dataclass(frozen=True)
class SaturationTask:
    """The error of a sparse multi-output GP from many random training rows.

    Attributes:
        rows: number of training rows.
        seed: of rows, search and test rows.
        fit_rows: as every other field, of `EngineSettings`.
    """

    rows: int
    seed: int
    fit_rows: int
    inducing: int
    starts: int
    test_rows: int
    kernel: Kernel
    kind: str = SATURATION


def plan(request: Request[EngineSettings]) -> list[Task[object]]:
    """Return one task per repetition and pipeline, one that describes the data, and those of the sparse GP."""
    settings = request.settings
    described = request.task(
        DataTask(),
        label="the data",
        axes={"method": "", "repetition": 0, "part": DATA, "rows": 0},
        version=VERSION,
        cost=10.0,
    )
    return [
        *repetition_tasks(request, settings, settings.source(request.seed)),
        described,
        *_saturation_tasks(request),
    ]


def _saturation_tasks(request: Request[EngineSettings]) -> Iterator[Task[SaturationTask]]:
    settings, kernel = request.settings, pipeline_kernel(request.model)
    for repetition in range(settings.saturation_repetitions):
        seed = derived_seed(request.seed, SATURATION, repetition)
        for rows in settings.saturation_rows:
            yield request.task(
                SaturationTask(
                    rows=rows,
                    seed=seed,
                    fit_rows=settings.fit_rows,
                    inducing=settings.inducing,
                    starts=settings.starts,
                    test_rows=settings.test_rows,
                    kernel=kernel,
                ),
                label=f"sparse multi-output GP  {rows} rows  repetition {repetition}",
                axes={"method": "", "repetition": repetition, "part": SATURATION, "rows": rows},
                version=VERSION,
                cost=20.0,
            )
