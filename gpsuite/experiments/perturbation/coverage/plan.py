"""Tasks of perturbation/coverage: one per model, noise and group, exact or broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.params import OPTIONAL, named
from gpsuite.experiments.perturbation.coverage.settings import CoverageSettings, suits
from gpsuite.experiments.perturbation.shared.coverage_models import BREAKS, MODEL_TITLES
from gpsuite.seeds import derived_seed

VERSION = 1


EXACT, BROKEN, REFUSALS = "exact", "broken", "refusals"
FIXED_DESIGNS = ("fixed", "repeated")  # noise and perturbations alone are drawn anew


@dataclass(frozen=True)
class CoverageTask:
    """Ranks of true coefficients over simulated data sets.

    Attributes:
        model: key of `MODELS`.
        noise: key of `NOISES`.
        group: key of `GROUPS`.
        rows: data in each data set.
        noise_scale: factor of the noise.
        designs: sets of inputs and true coefficients.
        repetitions: simulated data sets.
        compared: every m.
        seed: of all that is drawn.
        broken: key of `BREAKS`, or None where coverage must be exact.
        design: how the inputs arise, see `Break`.
        break_ties: whether the tie-breaking permutation is used.
        kind: of task.
    """

    model: str
    noise: str
    group: str
    rows: int
    noise_scale: float
    designs: int
    repetitions: int
    compared: Sequence[int]
    seed: int
    broken: str | None = field(default=None, metadata={**OPTIONAL, **named("break")})
    design: str = "fixed"
    break_ties: bool = True
    kind: str = "perturbation_coverage"

    @property
    def cost(self) -> float:
        """Estimated CPU seconds."""
        if self.design in FIXED_DESIGNS:
            return 3e-8 * self.repetitions * self.rows * sum(self.compared)
        return 5e-4 * self.repetitions


@dataclass(frozen=True)
class RefusalsTask:
    """Regions of every m are asked for at inadmissible q."""

    compared: Sequence[int]
    kind: str = "perturbation_refusals"


def plan(request: Request[CoverageSettings]) -> list[Task[object]]:
    """Return one task per cell, exact or broken, and one that asks for inadmissible q."""
    settings = request.settings
    refusals = request.task(
        RefusalsTask(list(settings.compared)),
        label="inadmissible q",
        axes={"part": REFUSALS, "model": "", "noise": "", "group": "", "break": ""},
        version=VERSION,
        cost=0.1,
    )
    return [*(_task(request, cell) for cell in _cells(request)), refusals]


def _cells(request: Request[CoverageSettings]) -> Iterator[CoverageTask]:
    settings = request.settings
    for model in settings.models:
        for group in settings.groups:
            for noise in settings.noises:
                if suits(noise, group):
                    yield _cell(request, model, noise, group)
    for name in settings.breaks:
        broken = BREAKS[name]
        for model in broken.models:
            if model in settings.models:
                yield _cell(request, model, broken.noise, broken.group, name)


def _cell(
    request: Request[CoverageSettings], model: str, noise: str, group: str, broken: str | None = None
) -> CoverageTask:
    settings = request.settings
    return CoverageTask(
        model=model,
        noise=noise,
        group=group,
        rows=settings.rows,
        noise_scale=settings.noise_scale,
        designs=settings.designs,
        repetitions=settings.repetitions,
        compared=list(settings.compared),
        seed=derived_seed(request.seed, "coverage", broken or "", model, noise, group),
        broken=broken,
        design=BREAKS[broken].design if broken else "fixed",
        break_ties=BREAKS[broken].break_ties if broken else True,
    )


def _task(request: Request[CoverageSettings], cell: CoverageTask) -> Task[CoverageTask]:
    broken = f" ({cell.broken})" if cell.broken else ""
    return request.task(
        cell,
        label=f"{MODEL_TITLES[cell.model]}  {cell.noise}, {cell.group}{broken}",
        axes={
            "part": BROKEN if cell.broken else EXACT,
            "model": cell.model,
            "noise": cell.noise,
            "group": cell.group,
            "break": cell.broken or "",
        },
        version=VERSION,
        cost=cell.cost,
    )
