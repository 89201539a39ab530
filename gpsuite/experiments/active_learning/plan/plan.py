"""The task of active_learning/plan: one plan for the dataset as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError
from gpsuite.experiments.active_learning.plan.history import (
    VERSION,
    find_start,
    new_planner,
    question,
    safety_of,
)
from gpsuite.experiments.active_learning.plan.settings import PlanSettings
from gpsuite.experiments.base import Request, Task
from gpsuite.methods.active_learning.plan.answer import NothingToMeasureError
from gpsuite.methods.active_learning.plan.effort import plan_seconds
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from gpsuite.seeds import derived_seed


def plan(request: Request) -> list[Task]:
    """Return one task; the data are read, so that bad ones are refused before any work.

    Raises:
        UserError: if nothing is left to measure.
    """
    settings: PlanSettings = request.settings
    dataset = dataset_of(request)
    data = load(dataset)
    params: dict[str, Any] = {
        "kind": "active_learning_plan",
        "seed": derived_seed(request.seed, "plan"),
        **vars(settings),
    }
    planner = new_planner(data, params)
    planner.tell(data.X, data.y, safety_of(data).z)
    try:
        planner.check(candidate_inputs(data))
    except NothingToMeasureError as error:
        raise UserError(f"dataset.candidates: {error}; add candidates", key="dataset.candidates") from error
    start = find_start(Path(str(request.options.get("results_dir", "results"))), dataset, params)
    carried = {"state": start.state, "parent": start.parent, "question": question(dataset, params)}
    return [
        Task(
            request.experiment,
            start.told,
            {},
            {**params, **carried},
            dataset,
            VERSION,
            cost=_seconds(data, settings, start.state is not None),
            budget_seconds=request.budget_seconds,
        )
    ]


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


def dataset_of(request: Request) -> PreparedDataset:
    """Return the request's dataset.

    Raises:
        UserError: if there is none.
    """
    if request.dataset is None:
        raise UserError("dataset: active_learning/plan needs one", key="dataset")
    return request.dataset
