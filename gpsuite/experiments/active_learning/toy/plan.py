"""Tasks of active_learning/toy: repetitions, variants of inference and priors, and small checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpsuite.experiments.active_learning.shared.claims import AL
from gpsuite.experiments.active_learning.shared.generated_data import TOY_OUTPUTS
from gpsuite.experiments.active_learning.shared.plan import Axes, RepetitionSet, repetition_tasks
from gpsuite.experiments.active_learning.toy.parts import COST, IDENTITY, PARTS
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.base import Request, Task
from gpsuite.seeds import derived_seed

CHECK_VERSION = 1


@dataclass(frozen=True)
class IdentityTask:
    """Predictions of independent GPs against those of an LMC with W = I."""

    seed: int
    n_outputs: int = TOY_OUTPUTS
    kind: str = IDENTITY


@dataclass(frozen=True)
class CostTask:
    """Seconds of the likelihood at several numbers of values."""

    seed: int
    sizes: Sequence[int]
    n_outputs: int = TOY_OUTPUTS
    kind: str = COST


def plan(request: Request[ToySettings]) -> list[Task[object]]:
    """Return the repetitions of every pipeline, those of other inference and priors, and the checks."""
    settings, source = request.settings, request.settings.source(request.seed)
    main = RepetitionSet({"part": PARTS.main, "inference": settings.inference, "prior_factor": 1.0})
    tasks = repetition_tasks(request, settings, source, main)
    for variation, methods in _variations(settings):
        if all(name in request.methods for name in methods):
            tasks += repetition_tasks(request, settings, source, variation, methods)
    return [*tasks, *_checks(request)]


def _variations(settings: ToySettings) -> Iterator[tuple[RepetitionSet, tuple[str, ...]]]:
    for kind in settings.compared:
        axes: dict[str, str | int | float] = {"part": PARTS.inference, "inference": kind, "prior_factor": 1.0}
        yield RepetitionSet(axes, kind, settings.compared_iterations, label=kind), (AL,)
    if settings.hmc_repetitions:
        axes = {"part": PARTS.hmc, "inference": "hmc", "prior_factor": 1.0}
        yield RepetitionSet(axes, "hmc", settings.hmc_iterations, settings.hmc_repetitions, label="hmc"), ()
    for factor in settings.prior_factors:
        axes = {"part": PARTS.prior, "inference": settings.inference, "prior_factor": factor}
        yield RepetitionSet(axes, prior_factor=factor, label=f"priors x {factor:g}"), (AL,)


def _checks(request: Request[ToySettings]) -> Iterator[Task[object]]:
    identity = IdentityTask(derived_seed(request.seed, IDENTITY))
    cost = CostTask(derived_seed(request.seed, COST), request.settings.cost_sizes)
    for check, label in ((identity, "independent GPs as an LMC"), (cost, "cost of the likelihood")):
        axes: Axes = {"method": "", "part": check.kind, "inference": "", "prior_factor": 1.0, "repetition": 0}
        yield request.task(check, label=label, axes=axes, version=CHECK_VERSION)
