"""Tasks of perturbation/region: one per model."""

from __future__ import annotations

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.perturbation.region.problem import input_number, read_problem
from gpsuite.experiments.perturbation.region.settings import MODELS, RegionSettings
from gpsuite.seeds import derived_seed

VERSION = 1


def plan(request: Request) -> list[Task]:
    """Return one task per model; the data are read, so that bad ones are refused before any work.

    Raises:
        UserError: as `read_problem` and `input_number`.
    """
    settings: RegionSettings = request.settings
    dataset = dataset_of(request)
    column = input_number(load(dataset), settings.along)
    tasks = []
    names = ("group", "m", "excluded", "centres", "lengthscale", "penalty", "C", "preparation", "rows")
    for model in settings.models:
        params = {
            "kind": "perturbation_region",
            "model": model,
            "seed": derived_seed(request.seed, "region"),
            "along": column,
            **{name: getattr(settings, name) for name in (*names, "points", "rays")},
        }
        read_problem(dataset, model, params)
        label = f"{MODELS[model]}  {settings.group}, m={settings.m}"
        tasks.append(Task(request.experiment, label, {"model": model}, params, dataset, VERSION, cost=2.0))
    return tasks


def dataset_of(request: Request) -> PreparedDataset:
    """Return the request's dataset.

    Raises:
        UserError: if there is none.
    """
    if request.dataset is None:
        raise UserError("dataset: perturbation/region needs one", key="dataset")
    return request.dataset
