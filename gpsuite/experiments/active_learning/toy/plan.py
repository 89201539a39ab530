"""Tasks of active_learning/toy: repetitions, variants of inference and priors, and small checks."""

from __future__ import annotations

from collections.abc import Iterator

from gpsuite.experiments.active_learning.shared.claims import AL
from gpsuite.experiments.active_learning.shared.plan import Variation, repetition_tasks
from gpsuite.experiments.active_learning.toy.checks import COST, IDENTITY
from gpsuite.experiments.active_learning.toy.claims import PARTS
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.base import Request, Task
from gpsuite.seeds import derived_seed

CHECK_VERSION = 1


def plan(request: Request) -> list[Task]:
    """Return the repetitions of every pipeline, those of other inference and priors, and the checks."""
    settings: ToySettings = request.settings
    main = Variation({"part": PARTS.main, "inference": settings.inference, "prior_factor": 1.0})
    tasks = repetition_tasks(request, settings.source(), main)
    for variation, methods in _variations(settings):
        if all(name in request.methods for name in methods):
            tasks += repetition_tasks(request, settings.source(), variation, methods)
    return [*tasks, *_checks(request, settings)]


def _variations(settings: ToySettings) -> Iterator[tuple[Variation, tuple[str, ...]]]:
    for kind in settings.compared:
        axes: dict[str, str | int | float] = {"part": PARTS.inference, "inference": kind, "prior_factor": 1.0}
        yield Variation(axes, kind, settings.compared_iterations, label=kind), (AL,)
    if settings.hmc_repetitions:
        axes = {"part": PARTS.hmc, "inference": "hmc", "prior_factor": 1.0}
        yield Variation(axes, "hmc", settings.hmc_iterations, settings.hmc_repetitions, label="hmc"), ()
    for factor in settings.prior_factors:
        axes = {"part": PARTS.prior, "inference": settings.inference, "prior_factor": factor}
        yield Variation(axes, prior_factor=factor, label=f"priors x {factor:g}"), (AL,)


def _checks(request: Request, settings: ToySettings) -> Iterator[Task]:
    for kind in (IDENTITY, COST):
        own = {"sizes": settings.cost_sizes} if kind == COST else {}
        yield Task(
            experiment=request.experiment,
            label={IDENTITY: "independent GPs as an LMC", COST: "cost of the likelihood"}[kind],
            axes={"method": "", "part": kind, "inference": "", "prior_factor": 1.0, "repetition": 0},
            params={"kind": kind, "seed": derived_seed(request.seed, kind), "n_outputs": 2, **own},
            version=CHECK_VERSION,
            cost=1.0,
        )
