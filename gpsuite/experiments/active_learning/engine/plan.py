"""Tasks of active_learning/engine: repetitions, the data's facts, and the saturated error."""

from __future__ import annotations

from gpsuite.experiments.active_learning.engine.checks import DATA, SATURATION
from gpsuite.experiments.active_learning.engine.settings import EngineSettings
from gpsuite.experiments.active_learning.shared.plan import pipeline_kernel, repetition_tasks
from gpsuite.experiments.base import Request, Task
from gpsuite.seeds import derived_seed

VERSION = 1  # of the tasks that are no repetitions


def plan(request: Request) -> list[Task]:
    """Return one task per repetition and pipeline, one that describes the data, and those of the sparse GP."""
    settings: EngineSettings = request.settings
    tasks = repetition_tasks(request, settings.source(request))
    return [*tasks, *_other_tasks(request, settings)]


def _other_tasks(request: Request, settings: EngineSettings) -> list[Task]:
    described = Task(
        experiment=request.experiment,
        label="the data",
        axes={"method": "", "repetition": 0, "part": DATA, "rows": 0},
        params={"kind": DATA},
        dataset=request.dataset,
        version=VERSION,
        cost=10.0,
    )
    names = ("fit_rows", "inducing", "starts", "test_rows")
    own = {name: getattr(settings, name) for name in names} | {"kernel": pipeline_kernel(request.model)}
    sparse = [
        Task(
            experiment=request.experiment,
            label=f"sparse multi-output GP  {rows} rows  repetition {repetition}",
            axes={"method": "", "repetition": repetition, "part": SATURATION, "rows": rows},
            params={
                "kind": SATURATION,
                "rows": rows,
                "seed": derived_seed(request.seed, SATURATION, repetition),
                **own,
            },
            dataset=request.dataset,
            version=VERSION,
            cost=20.0,
        )
        for repetition in range(settings.saturation_repetitions)
        for rows in settings.saturation_rows
    ]
    return [described, *sparse]
