"""The task of active_learning/plan: one plan for the dataset as it stands."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.errors import UserError
from gpsuite.experiments.active_learning.methods import MIXINGS, QUERIES
from gpsuite.experiments.active_learning.plan.history import (
    VERSION,
    find_start,
    new_planner,
    question,
    safety_of,
)
from gpsuite.experiments.active_learning.plan.settings import PlanSettings
from gpsuite.experiments.active_learning.plan.tasks import PlannerParams, PlanTask
from gpsuite.experiments.active_learning.shared.settings import KERNELS, WHEN_NOTHING_IS_SAFE
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.params import choice
from gpsuite.methods.active_learning.plan.answer import NothingToMeasureError
from gpsuite.methods.active_learning.plan.effort import plan_seconds
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from gpsuite.seeds import derived_seed
from gpsuite.text import typed_path


def plan(request: Request[PlanSettings]) -> list[Task[PlanTask]]:
    """Return one task; the data are read, so that bad ones are refused before any work.

    Raises:
        UserError: if nothing is left to measure.
    """
    settings, dataset = request.settings, request.require_dataset()
    data, asked = load(dataset), _asked(request)
    planner = new_planner(data, asked)
    planner.tell(data.X, data.y, safety_of(data).z)
    try:
        planner.check(candidate_inputs(data))
    except NothingToMeasureError as error:
        raise UserError(f"dataset.candidates: {error}; add candidates", key="dataset.candidates") from error
    start = find_start(typed_path(str(request.options.get("results_dir", "results"))), dataset, asked)
    params = PlanTask(asked, start.state, start.parent, question(dataset, asked))
    cost = _seconds(data, settings, start.state is not None)
    return [request.task(params, label=start.told, axes={}, version=VERSION, cost=cost)]


def _asked(request: Request[PlanSettings]) -> PlannerParams:
    settings = request.settings
    return PlannerParams(
        seed=derived_seed(request.seed, "plan"),
        measurements=settings.measurements,
        delta=settings.delta,
        step=settings.step,
        queries=choice(settings.queries, QUERIES),
        when_nothing_is_safe=choice(settings.when_nothing_is_safe, WHEN_NOTHING_IS_SAFE),
        mixing=choice(settings.mixing, MIXINGS),
        kernel=choice(settings.kernel, KERNELS),
        particles=settings.particles,
        moves=settings.moves,
        leapfrog=settings.leapfrog,
    )


def _seconds(data: Dataset, settings: PlanSettings, warm: bool) -> float:
    """Return the CPU seconds to expect, roughly."""
    measured = [int((~np.isnan(values)).sum()) for values in (data.y, safety_of(data).z)]
    return plan_seconds(
        *measured,
        outputs=len(data.target_names),
        candidates=len(candidate_inputs(data)),
        measurements=settings.measurements,
        smc=SMCSettings(settings.particles, settings.moves, settings.leapfrog),
        warm=warm,
    )


def candidate_inputs(data: Dataset) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the inputs that may be measured next, in the user's units [C, D]."""
    if data.grid is None:
        raise ValueError(f"{data.name} has no candidates")
    return data.grid
