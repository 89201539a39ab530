"""Tasks of perturbation/region: one per model."""

from __future__ import annotations

from gpsuite.data.loading import load
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.perturbation.region.problem import input_number, read_problem
from gpsuite.experiments.perturbation.region.settings import MODELS, RegionSettings
from gpsuite.experiments.perturbation.region.tasks import RegionTask
from gpsuite.seeds import derived_seed

VERSION = 1


def plan(request: Request[RegionSettings]) -> list[Task[RegionTask]]:
    """Return one task per model; the data are read, so that bad ones are refused before any work.

    Raises:
        UserError: as `read_problem` and `input_number`.
    """
    settings, dataset = request.settings, request.require_dataset()
    column = input_number(load(dataset), settings.along)
    tasks = []
    for model in settings.models:
        params = RegionTask(
            model=model,
            along=column,
            seed=derived_seed(request.seed, "region"),
            group=settings.group,
            m=settings.m,
            excluded=settings.excluded,
            centres=settings.centres,
            lengthscale=settings.lengthscale,
            penalty=settings.penalty,
            C=settings.C,
            preparation=settings.preparation,
            rows=settings.rows,
            points=settings.points,
            rays=settings.rays,
        )
        read_problem(dataset, params)
        label = f"{MODELS[model]}  {settings.group}, m={settings.m}"
        tasks.append(request.task(params, label=label, axes={"model": model}, version=VERSION, cost=2.0))
    return tasks
