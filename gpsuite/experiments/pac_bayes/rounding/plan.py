"""Tasks of pac_bayes/rounding: one fit per split, rounded in several ways."""

from __future__ import annotations

from dataclasses import replace

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.pac_bayes.rounding.settings import RoundingSettings
from gpsuite.experiments.pac_bayes.shared.plan import Fit, request_dataset, split_tasks


def plan(request: Request) -> list[Task]:
    """Return one task per split, method, epsilon and grid; the grids of a training share it."""
    settings: RoundingSettings = request.settings
    dataset, ard = request_dataset(request), request.model.ard
    fits = [
        Fit(name, options, dataset, ard, {"epsilon": epsilon}, {"epsilon": epsilon, "decimals": decimals})
        for name, options in request.methods.items()
        for epsilon in settings.epsilons
        for decimals in settings.decimals
    ]
    return [_of_its_own_kind(task) for task in split_tasks(request, settings, fits)]


def _of_its_own_kind(task: Task) -> Task:
    axes = task.axes
    return replace(
        task,
        params={**task.params, "kind": "rounding", "decimals": axes["decimals"]},
        group=f"{axes['method']}/{axes['epsilon']}/{axes['split']}",
    )
