"""Tasks of pac_bayes/overfit_fitc: one fit per data set and method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gpsuite.experiments.base import MethodOptions, Request, Task, require
from gpsuite.experiments.pac_bayes.overfit_fitc.settings import OverfitSettings
from gpsuite.seeds import derived_seed


def plan(request: Request) -> list[Task]:
    """Return one task per data set and method; all methods see the same data and start."""
    settings: OverfitSettings = request.settings
    if request.dataset is not None:
        rows = request.dataset.rows
        require(settings.rows < rows, "rows", settings.rows, f"must be below the dataset's {rows}")
    return list(_tasks(request, settings))


def _tasks(request: Request, settings: OverfitSettings) -> Iterator[Task]:
    for repetition in range(settings.repetitions):
        for name, options in request.methods.items():
            yield Task(
                experiment=request.experiment,
                label=f"{options.title}  data set {repetition}",
                axes={"method": name, "repetition": repetition},
                params=task_params(request, settings, options, repetition),
                dataset=request.dataset,
                version=options.method.version,
                cost=0.1,
                budget_seconds=request.budget_seconds,
            )


def task_params(
    request: Request, settings: OverfitSettings, options: MethodOptions, repetition: int
) -> dict[str, Any]:
    """Return the science parameters of one data set and method."""
    method = options.params
    values = {key: value for key, value in asdict(settings).items() if key not in ("repetitions", "inducing")}
    return {
        "kind": "overfit",
        "method": {**method, "inducing": settings.inducing},
        "ard": request.model.ard,
        "split_seed": derived_seed(request.seed, "overfit", repetition),
        **values,
    }
