"""Tasks of pac_bayes/coverage: blocks of repetitions of each method."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpsuite.experiments.base import MethodOptions, Request, Task
from gpsuite.experiments.pac_bayes.coverage.power import power_tasks
from gpsuite.experiments.pac_bayes.coverage.settings import CoverageSettings
from gpsuite.seeds import derived_seed


def plan(request: Request) -> list[Task]:
    """Return one task per method and batch of simulated data sets, the same for all methods, and those with power."""
    settings: CoverageSettings = request.settings
    version = max(options.method.version for options in request.methods.values())
    return [*_tasks(request, settings), *power_tasks(request, settings.power_simulations, version)]


def _tasks(request: Request, settings: CoverageSettings) -> Iterator[Task]:
    for start in range(0, settings.simulations, settings.batch):
        for name, options in request.methods.items():
            count = min(settings.batch, settings.simulations - start)
            yield Task(
                experiment=request.experiment,
                label=f"{options.title}  data sets {start} to {start + count - 1}",
                axes={"method": name, "start": start},
                params=_params(settings, options, derived_seed(request.seed, "coverage", start), count),
                version=options.method.version,
                cost=0.05 * count,
                budget_seconds=request.budget_seconds,
            )


def _params(settings: CoverageSettings, options: MethodOptions, seed: int, count: int) -> dict[str, Any]:
    shared = ("rows", "epsilon", "noise_scale", "deltas", "max_evaluations")
    method = options.params
    values = {name: getattr(settings, name) for name in shared}
    return {"kind": "coverage", "method": method, "seed": seed, "count": count, **values}
