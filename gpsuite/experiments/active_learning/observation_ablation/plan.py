"""Tasks of active_learning/observation_ablation: repetitions on each data set, equal and unequal."""

from __future__ import annotations

from dataclasses import replace

from gpsuite.experiments.active_learning.observation_ablation.settings import (
    GP_SAMPLES,
    TOY,
    AblationSettings,
)
from gpsuite.experiments.active_learning.shared.claims import AL
from gpsuite.experiments.active_learning.shared.generated_data import EQUAL
from gpsuite.experiments.active_learning.shared.plan import Variation, repetition_tasks
from gpsuite.experiments.base import Request, Task


def plan(request: Request) -> list[Task]:
    """Return the repetitions of every pipeline on each dataset, and AL_MOGP's on toys with unequal outputs."""
    settings: AblationSettings = request.settings
    tasks: list[Task] = []
    if TOY in settings.sources:
        own = replace(request, settings=settings.toy_settings())
        source = settings.toy_settings().source()
        tasks += repetition_tasks(own, source, Variation({"source": TOY, "unequal": EQUAL}, label=TOY))
        for which in settings.unequal if AL in request.methods else []:
            changed = replace(source, params={**source.params, "unequal": which})
            axes: dict[str, str | int | float] = {"source": TOY, "unequal": which}
            label = f"{TOY}  unequal {which}"
            tasks += repetition_tasks(own, changed, Variation(axes, label=label), (AL,))
    if GP_SAMPLES in settings.sources:
        own = replace(request, settings=settings.gp_settings())
        variation = Variation({"source": GP_SAMPLES, "unequal": EQUAL}, label=GP_SAMPLES)
        tasks += repetition_tasks(own, settings.gp_settings().source(request), variation)
    return tasks
