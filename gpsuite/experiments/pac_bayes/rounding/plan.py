"""Tasks of pac_bayes/rounding: one fit per split, rounded in several ways."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.pac_bayes.rounding.settings import RoundingSettings
from gpsuite.experiments.pac_bayes.shared.plan import Fit, split_tasks
from gpsuite.experiments.pac_bayes.shared.tasks import FitTask, Goal


@dataclass(frozen=True, kw_only=True)
class RoundingTask(FitTask):
    """A fit whose hyperparameters are rounded to a grid.

    Attributes:
        decimals: of the grid.
    """

    decimals: int
    kind: str = "rounding"


def plan(request: Request[RoundingSettings]) -> list[Task[RoundingTask]]:
    """Return one task per split, method, epsilon and grid; the grids of a training share it."""
    settings = request.settings
    dataset, ard = request.require_dataset(), request.model.ard
    fits = [
        Fit(name, options, dataset, ard, Goal(epsilon=epsilon), {"epsilon": epsilon, "decimals": decimals})
        for name, options in request.methods.items()
        for epsilon in settings.epsilons
        for decimals in settings.decimals
    ]
    return [
        request.task(
            RoundingTask(
                **(vars(task.params) | {"decimals": int(task.axes["decimals"]), "kind": "rounding"})
            ),
            label=task.label,
            axes=task.axes,
            version=task.version,
            group=f"{task.axes['method']}/{task.axes['epsilon']}/{task.axes['split']}",
            cost=task.cost,
        )
        for task in split_tasks(request, fits)
    ]
