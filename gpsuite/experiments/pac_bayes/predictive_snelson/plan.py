"""Tasks of pac_bayes/predictive_snelson: the plotted fits, and the scan of goals and M."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from gpsuite.experiments.base import MethodOptions, Request, Task
from gpsuite.experiments.pac_bayes.predictive_snelson.settings import PAC, PredictiveSettings
from gpsuite.experiments.pac_bayes.shared.method import risk_method, sparse_options
from gpsuite.experiments.pac_bayes.shared.plan import request_dataset


def plan(request: Request) -> list[Task]:
    """Return one task per method and plotted goal, and one per further cell of the scan."""
    return list(_tasks(request, request.settings))


def _tasks(request: Request, settings: PredictiveSettings) -> Iterator[Task]:
    plotted = list(asdict(settings.epsilons).values())
    for name, options in request.methods.items():
        inducing = 0 if sparse_options(options) is None else settings.inducing
        for epsilon in plotted:
            yield _task(request, settings, name, options, inducing, epsilon)
    if PAC in request.methods:
        cells = {(count, goal) for count in settings.scan_inducing for goal in settings.scan_epsilons}
        for inducing, epsilon in sorted(cells - {(settings.inducing, goal) for goal in plotted}):
            yield _task(request, settings, PAC, request.methods[PAC], inducing, epsilon)


def _task(
    request: Request,
    settings: PredictiveSettings,
    name: str,
    options: MethodOptions,
    inducing: int,
    epsilon: float,
) -> Task:
    method = options.params
    if inducing:
        method["inducing"] = inducing
    shown = f"  M {inducing}" if inducing else ""
    return Task(
        experiment=request.experiment,
        label=f"{options.title}{shown}  epsilon {epsilon:g}",
        axes={"method": name, "inducing": inducing, "epsilon": epsilon},
        params={
            "kind": "predictive",
            "method": method,
            "epsilon": epsilon,
            "starts": settings.starts,
            "seed": request.seed,
            "ard": request.model.ard,
            "delta": settings.delta,
            "max_evaluations": settings.max_evaluations,
        },
        dataset=request_dataset(request),
        version=options.method.version,
        # a marginal likelihood does not know the goal: one training serves all goals
        group=name if risk_method(options).shares_training(options) else "",
        cost=0.1 * settings.starts,
        budget_seconds=request.budget_seconds,
    )
