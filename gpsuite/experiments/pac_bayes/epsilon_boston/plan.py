"""Tasks of pac_bayes/epsilon_boston: one fit per split, method and accuracy goal."""

from __future__ import annotations

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.pac_bayes.epsilon_boston.settings import EpsilonSettings
from gpsuite.experiments.pac_bayes.shared.plan import fit_tasks


def plan(request: Request) -> list[Task]:
    """Return one task per split, method and epsilon."""
    settings: EpsilonSettings = request.settings
    goals = [{"epsilon": value} for value in settings.epsilons]
    return fit_tasks(request, settings, goals, "epsilon")
