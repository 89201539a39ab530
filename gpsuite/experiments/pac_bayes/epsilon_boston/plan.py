"""Tasks of pac_bayes/epsilon_boston: one fit per split, method and accuracy goal."""

from __future__ import annotations

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.pac_bayes.epsilon_boston.settings import EpsilonSettings
from gpsuite.experiments.pac_bayes.shared.plan import fit_tasks
from gpsuite.experiments.pac_bayes.shared.tasks import FitTask, Goal


def plan(request: Request[EpsilonSettings]) -> list[Task[FitTask]]:
    """Return one task per split, method and epsilon."""
    return fit_tasks(request, [Goal(epsilon=value) for value in request.settings.epsilons])
