"""Tasks of active_learning/convergence: one per kernel, queries and constraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from gpsuite.experiments.active_learning.convergence.settings import TITLES, ConvergenceSettings
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.params import choice
from gpsuite.methods.active_learning.convergence import Kernel
from gpsuite.seeds import derived_seed

VERSION = 1


@dataclass(frozen=True)
class ConvergenceTask:
    """Greedy queries of one drawn process over its pool.

    Attributes:
        kernel: se, matern52 or convolution.
        inputs: D.
        region: unconstrained or safe.
        outputs: partial or full.
        seed: of process and pool.
        queries: as every other field, of `ConvergenceSettings`.
    """

    kernel: Kernel
    inputs: int
    region: str
    outputs: str
    seed: int
    queries: int
    fit_from: int
    pool: int
    n_outputs: int
    n_latent: int
    lengthscales: Sequence[float]
    smoothing: Sequence[float]
    noise_sd: Sequence[float]
    kind: str = "convergence"


def plan(request: Request[ConvergenceSettings]) -> list[Task[ConvergenceTask]]:
    """Return one task per kernel, D, region, kind of outputs and run."""
    settings = request.settings
    cells = product(
        settings.kernels, settings.dimensions, settings.regions, settings.outputs, range(settings.runs)
    )
    return [_task(request, *cell) for cell in cells]


def _task(
    request: Request[ConvergenceSettings], kernel: str, inputs: int, region: str, outputs: str, run: int
) -> Task[ConvergenceTask]:
    settings = request.settings
    params = ConvergenceTask(
        kernel=choice(kernel, TITLES),
        inputs=inputs,
        region=region,
        outputs=outputs,
        seed=derived_seed(request.seed, "convergence", inputs, run),
        queries=settings.queries,
        fit_from=settings.fit_from,
        pool=settings.pool,
        n_outputs=settings.n_outputs,
        n_latent=settings.n_latent,
        lengthscales=settings.lengthscales,
        smoothing=settings.smoothing,
        noise_sd=settings.noise_sd,
    )
    return request.task(
        params,
        label=f"{TITLES[params.kernel]}, D={inputs}, {region}, {outputs} {run}",
        axes={"kernel": kernel, "inputs": inputs, "region": region, "outputs": outputs, "run": run},
        version=VERSION,
        cost=0.1 + 6e-10 * settings.queries**2 * settings.pool * settings.n_outputs,
    )
