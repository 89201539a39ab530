"""Tasks of active_learning/convergence: one per kernel, queries and constraint."""

from __future__ import annotations

from gpsuite.experiments.active_learning.convergence.settings import TITLES, ConvergenceSettings
from gpsuite.experiments.base import Request, Task
from gpsuite.seeds import derived_seed

VERSION = 1


def plan(request: Request) -> list[Task]:
    """Return one task per kernel, D, region, kind of outputs and run."""
    settings: ConvergenceSettings = request.settings
    return [
        _task(
            request, {"kernel": kernel, "inputs": inputs, "region": region, "outputs": outputs, "run": run_}
        )
        for kernel in settings.kernels
        for inputs in settings.dimensions
        for region in settings.regions
        for outputs in settings.outputs
        for run_ in range(settings.runs)
    ]


def _task(request: Request, axes: dict[str, str | int | float]) -> Task:
    settings: ConvergenceSettings = request.settings
    names = ("queries", "fit_from", "pool", "n_outputs", "n_latent", "lengthscales", "smoothing", "noise_sd")
    return Task(
        experiment=request.experiment,
        label=f"{TITLES[str(axes['kernel'])]}, D={axes['inputs']}, {axes['region']}, {axes['outputs']} {axes['run']}",
        axes=axes,
        params={
            "kind": "convergence",
            "seed": derived_seed(request.seed, "convergence", axes["inputs"], axes["run"]),
            **{key: axes[key] for key in ("kernel", "inputs", "region", "outputs")},
            **{key: getattr(settings, key) for key in names},
        },
        version=VERSION,
        cost=0.1 + 6e-10 * settings.queries**2 * settings.pool * settings.n_outputs,
    )
