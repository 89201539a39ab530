"""One plan: tell what was measured, ask for what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.loading import load
from gpsuite.experiments.active_learning.plan.history import (
    ABOUT,
    STATE,
    about,
    new_planner,
    safety_of,
    unpack,
)
from gpsuite.experiments.active_learning.plan.plan import candidate_inputs
from gpsuite.experiments.active_learning.plan.tables import ALL_OUTPUTS
from gpsuite.experiments.active_learning.plan.tasks import PlanTask
from gpsuite.experiments.base import WARNINGS_APART, Outcome, SharedWork, Task, finite_or_none
from gpsuite.methods.active_learning.plan.answer import Plan
from gpsuite.text import counted


def run(task: Task[PlanTask], shared: SharedWork) -> Outcome:
    """Learn what is new in the table and ask for the next measurements."""
    asked, data = task.params.asked, load(task.require_dataset())
    planner = new_planner(data, asked)
    if task.params.state is not None:
        planner.restore(unpack(task.params.state))
    planner.tell(data.X, data.y, safety_of(data).z)
    budget = Budget(seconds=task.budget_seconds, observer=shared.observer)
    found = planner.ask(candidate_inputs(data), asked.measurements, asked.when_nothing_is_safe, budget)
    metrics: dict[str, float | int | str | bool | None] = {
        "values": planner.n_values,
        "candidates": len(candidate_inputs(data)),
        "safe_candidates": found.n_safe,
        "beyond_step": found.n_beyond_step,
        "proposals": len(found.proposals),
        "started": found.started,
        "note": found.reason,
        "warnings": WARNINGS_APART.join(found.warnings),
    }
    for model, diagnostics in found.diagnostics.items():
        metrics |= {f"{model}_{name}": finite_or_none(value) for name, value in diagnostics.items()}
    arrays = {f"{STATE}{name}": values for name, values in planner.state().items()}
    return Outcome(
        metrics,
        status=found.status,
        reason=found.reason if found.status != "done" else "",
        arrays={
            **arrays,
            **_arrays(found),
            ABOUT: about(data, task.params, task.label),
        },
        headline=f"{counted(len(found.proposals), 'proposal')}, "
        f"{found.n_safe} of {metrics['candidates']} candidates safe",
    )


def _arrays(found: Plan) -> Mapping[str, np.ndarray[Any, Any]]:
    outputs = [ALL_OUTPUTS if each.p is None else each.p for each in found.proposals]
    return {
        "row": np.array([each.row for each in found.proposals], dtype=np.int64),
        "output": np.array(outputs, dtype=np.int64),
        "proposal_entropy": np.array([each.entropy for each in found.proposals], dtype=np.float64),
        "probability_safe": found.probability_safe,
        "safe": found.safe,
        "mean": found.mean,
        "sd": found.sd,
        "entropy": found.entropy,
    }
