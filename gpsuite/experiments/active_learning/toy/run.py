"""One task of active_learning/toy: a repetition or a check."""

from __future__ import annotations

from gpsuite.experiments.active_learning.shared.run import run_repetition
from gpsuite.experiments.active_learning.toy.checks import COST, IDENTITY, run_check
from gpsuite.experiments.base import Outcome, SharedWork, Task


def run(task: Task, shared: SharedWork) -> Outcome:
    """Run a repetition or a check."""
    return run_check(task.params) if task.params["kind"] in (IDENTITY, COST) else run_repetition(task, shared)
