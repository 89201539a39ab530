"""Tasks of active_learning/observation_ablation: repetitions on each data set, equal and unequal."""

from __future__ import annotations

from gpsuite.experiments.active_learning.observation_ablation.settings import (
    GP_SAMPLES,
    TOY,
    AblationSettings,
)
from gpsuite.experiments.active_learning.shared.claims import AL
from gpsuite.experiments.active_learning.shared.generated_data import EQUAL
from gpsuite.experiments.active_learning.shared.plan import RepetitionSet, repetition_tasks
from gpsuite.experiments.active_learning.shared.tasks import RepetitionTask
from gpsuite.experiments.base import Request, Task


def plan(request: Request[AblationSettings]) -> list[Task[RepetitionTask]]:
    """Return the repetitions of every pipeline on each dataset, and AL_MOGP's on toys with unequal outputs."""
    settings, seed = request.settings, request.seed
    tasks: list[Task[RepetitionTask]] = []
    if TOY in settings.sources:
        own = settings.toy_settings()
        variation = RepetitionSet({"source": TOY, "unequal": EQUAL}, label=TOY)
        tasks += repetition_tasks(request, own, own.source(seed), variation)
        for which in settings.unequal if AL in request.methods else []:
            variation = RepetitionSet({"source": TOY, "unequal": which}, label=f"{TOY}  unequal {which}")
            tasks += repetition_tasks(request, own, own.source(seed, which), variation, (AL,))
    if GP_SAMPLES in settings.sources:
        sizes = settings.gp_settings()
        variation = RepetitionSet({"source": GP_SAMPLES, "unequal": EQUAL}, label=GP_SAMPLES)
        tasks += repetition_tasks(request, sizes, sizes.source(seed), variation)
    return tasks
