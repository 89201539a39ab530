"""Tasks of perturbation/region: one per model."""

from __future__ import annotations

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.perturbation.region.problem import input_number, read_problem
from gpsuite.experiments.perturbation.region.settings import MODELS, RegionSettings
from gpsuite.experiments.perturbation.region.tasks import RegionTask
from gpsuite.seeds import derived_seed

VERSION = 3
MERGED_VERSION = 4  # of data with rows that are copies of others: they count once


def plan(request: Request[RegionSettings]) -> list[Task[RegionTask]]:
    """Return one task per model; the data are read, so that bad ones are refused before any work.

    Raises:
        UserError: as `read_problem` and `input_number`.
    """
    settings, dataset = request.settings, request.require_dataset()
    data, tasks = load(dataset), []
    for params in region_tasks(request):
        read_problem(dataset, params)
        label, axes = f"{MODELS[params.model]}  {settings.group}, m={settings.m}", {"model": params.model}
        tasks.append(request.task(params, label=label, axes=axes, version=version_of(data), cost=2.0))
    return tasks


def region_tasks(request: Request[RegionSettings]) -> list[RegionTask]:
    """Return the parameters of one task per model.

    Raises:
        UserError: if there is no input to draw along of the name given.
    """
    settings = request.settings
    return [
        RegionTask(
            model=model,
            along=input_number(load(request.require_dataset()), settings.along),
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
        for model in settings.models
    ]


def version_of(data: Dataset) -> int:
    """Return the version of a region's task on a dataset."""
    return VERSION if data.groups is None else MERGED_VERSION
