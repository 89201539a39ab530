"""Tasks of perturbation/lssvm_parameter_space: regions, coverage and checks."""

from __future__ import annotations

from collections.abc import Iterator

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.perturbation.lssvm_parameter_space.settings import ParameterSpaceSettings
from gpsuite.experiments.perturbation.shared.linear import linear_tasks
from gpsuite.seeds import derived_seed

RIDGE_ROWS, RIDGE_LENGTHSCALE, RIDGE_PENALTY = 20, 0.3, 0.05


def plan(request: Request) -> list[Task]:
    """Return one task per draw of perturbations and q, and as many on the star-convexity of kernel ridge."""
    return list(_tasks(request))


def _tasks(request: Request) -> Iterator[Task]:
    settings: ParameterSpaceSettings = request.settings
    pairs = settings.draws * len(settings.q_values)
    segments = -(-settings.segments // (2 * pairs))
    yield from linear_tasks(request, "lssvm_parameter_space", settings.draws, {"segments": segments})
    for index in range(settings.draws):
        for q in settings.q_values:
            params = {"kind": "ridge_star", "m": settings.m, "q": q, "segments": segments}
            yield Task(
                experiment=request.experiment,
                label=f"kernel ridge, star-convexity  draw {index}  q {q} of {settings.m}",
                axes={"model": "krr", "draw": index, "q": q},
                params={**params, "seed": derived_seed(request.seed, "ridge", index)},
                cost=0.3,
            )
