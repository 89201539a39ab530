"""Tasks of perturbation/coverage: one per model, noise and group, exact or broken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.perturbation.coverage.settings import CoverageSettings, suits
from gpsuite.experiments.perturbation.shared.coverage_models import BREAKS, MODEL_TITLES
from gpsuite.seeds import derived_seed

VERSION = 1


EXACT, BROKEN, REFUSALS = "exact", "broken", "refusals"


def plan(request: Request) -> list[Task]:
    """Return one task per cell, exact or broken, and one that asks for inadmissible q."""
    return list(_tasks(request, request.settings))


def _tasks(request: Request, settings: CoverageSettings) -> Iterator[Task]:
    for model in settings.models:
        for group in settings.groups:
            for noise in settings.noises:
                if suits(noise, group):
                    yield _task(request, EXACT, model, noise, group, {})
    for name in settings.breaks:
        broken = BREAKS[name]
        own = {"break": name, "design": broken.design, "break_ties": broken.break_ties}
        for model in broken.models:
            if model in settings.models:
                yield _task(request, BROKEN, model, broken.noise, broken.group, own)
    yield Task(
        experiment=request.experiment,
        label="inadmissible q",
        axes={"part": REFUSALS, "model": "", "noise": "", "group": "", "break": ""},
        params={"kind": "perturbation_refusals", "compared": list(settings.compared)},
        version=VERSION,
        cost=0.1,
    )


def _task(request: Request, part: str, model: str, noise: str, group: str, own: dict[str, Any]) -> Task:
    settings: CoverageSettings = request.settings
    name = str(own.get("break", ""))
    size = settings.repetitions * settings.rows * sum(settings.compared)
    return Task(
        experiment=request.experiment,
        label=f"{MODEL_TITLES[model]}  {noise}, {group}{f' ({name})' if name else ''}",
        axes={"part": part, "model": model, "noise": noise, "group": group, "break": name},
        params={
            "kind": "perturbation_coverage",
            "seed": derived_seed(request.seed, "coverage", name, model, noise, group),
            **{"model": model, "noise": noise, "group": group, "design": "fixed", "break_ties": True},
            **own,
            "compared": list(settings.compared),
            **{key: getattr(settings, key) for key in ("rows", "noise_scale", "designs", "repetitions")},
        },
        version=VERSION,
        cost=1.5e-7 * size
        if own.get("design", "fixed") in ("fixed", "repeated")
        else 2e-3 * settings.repetitions,
    )
