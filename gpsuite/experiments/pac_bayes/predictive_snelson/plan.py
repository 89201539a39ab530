"""Tasks of pac_bayes/predictive_snelson: the plotted fits, and the scan of goals and M."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from gpsuite.experiments.base import MethodOptions, Request, Task
from gpsuite.experiments.pac_bayes.predictive_snelson.settings import PAC, PredictiveSettings
from gpsuite.experiments.pac_bayes.shared.method import risk_method, sparse_options, with_inducing


@dataclass(frozen=True, kw_only=True)
class PredictiveTask:
    """A fit to all rows in their own units.

    Attributes:
        method: options of the method.
        epsilon: accuracy goal, in units of y.
        starts: k-means clusterings that a sparse method starts from.
        seed: of the clusterings.
        ard: one lengthscale per input, or a single one.
        delta: allowed probability that the bound fails.
        max_evaluations: limit on objective evaluations per start.
    """

    method: MethodOptions
    epsilon: float
    starts: int
    seed: int
    ard: bool
    delta: float
    max_evaluations: int
    kind: str = "predictive"


def plan(request: Request[PredictiveSettings]) -> list[Task[PredictiveTask]]:
    """Return one task per method and plotted goal, and one per further cell of the scan."""
    return list(_tasks(request))


def _tasks(request: Request[PredictiveSettings]) -> Iterator[Task[PredictiveTask]]:
    settings = request.settings
    plotted = list(asdict(settings.epsilons).values())
    for name, options in request.methods.items():
        inducing = 0 if sparse_options(options) is None else settings.inducing
        for epsilon in plotted:
            yield _task(request, name, inducing, epsilon)
    if PAC in request.methods:
        cells = {(count, goal) for count in settings.scan_inducing for goal in settings.scan_epsilons}
        for inducing, epsilon in sorted(cells - {(settings.inducing, goal) for goal in plotted}):
            yield _task(request, PAC, inducing, epsilon)


def _task(
    request: Request[PredictiveSettings], name: str, inducing: int, epsilon: float
) -> Task[PredictiveTask]:
    """Return one fit; `inducing` is 0 for a full GP."""
    settings, options = request.settings, request.methods[name]
    shown = f"  M {inducing}" if inducing else ""
    return request.task(
        PredictiveTask(
            method=with_inducing(options, inducing),
            epsilon=epsilon,
            starts=settings.starts,
            seed=request.seed,
            ard=request.model.ard,
            delta=settings.delta,
            max_evaluations=settings.max_evaluations,
        ),
        label=f"{options.heading}{shown}  epsilon {epsilon:g}",
        axes={"method": name, "inducing": inducing, "epsilon": epsilon},
        version=options.method.version,
        # a marginal likelihood does not know the goal: one training serves all goals
        group=name if risk_method(options).shares_training(options) else "",
        cost=0.1 * settings.starts,
    )
