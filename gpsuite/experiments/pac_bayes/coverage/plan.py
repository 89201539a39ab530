"""Tasks of pac_bayes/coverage: blocks of repetitions of each method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpsuite.experiments.base import MethodOptions, Request, Task
from gpsuite.experiments.pac_bayes.coverage.power import PowerTask, power_tasks
from gpsuite.experiments.pac_bayes.coverage.settings import CoverageSettings
from gpsuite.seeds import derived_seed


@dataclass(frozen=True, kw_only=True)
class CoverageTask:
    """A block of simulated data sets.

    Attributes:
        method: options of the method.
        seed: of the data.
        count: how many data sets.
        rows: training rows of each.
        epsilon: half-width of the 0-1 band, in units of y.
        noise_scale: standard deviation of the noise.
        deltas: allowed probabilities of failure; the first is the one trained with.
        max_evaluations: limit on objective evaluations per training.
    """

    method: MethodOptions
    seed: int
    count: int
    rows: int
    epsilon: float
    noise_scale: float
    deltas: tuple[float, ...]
    max_evaluations: int
    kind: str = "coverage"


def plan(request: Request[CoverageSettings]) -> list[Task[CoverageTask | PowerTask]]:
    """Return one task per method and batch of simulated data sets, the same for all methods, and those with power."""
    version = max(options.method.version for options in request.methods.values())
    return [*_tasks(request), *power_tasks(request, version)]


def _tasks(request: Request[CoverageSettings]) -> Iterator[Task[CoverageTask]]:
    settings = request.settings
    for start in range(0, settings.simulations, settings.batch):
        for name, options in request.methods.items():
            count = min(settings.batch, settings.simulations - start)
            yield request.task(
                CoverageTask(
                    method=options,
                    seed=derived_seed(request.seed, "coverage", start),
                    count=count,
                    rows=settings.rows,
                    epsilon=settings.epsilon,
                    noise_scale=settings.noise_scale,
                    deltas=tuple(settings.deltas),
                    max_evaluations=settings.max_evaluations,
                ),
                label=f"{options.heading}  data sets {start} to {start + count - 1}",
                axes={"method": name, "start": start},
                version=options.method.version,
                cost=0.05 * count,
            )
