"""Tasks of robustness/distribution_*."""

from __future__ import annotations

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.robustness.distribution.settings import DistributionSettings
from gpsuite.experiments.robustness.shared.classifiers import read_problem
from gpsuite.experiments.robustness.shared.probability_change import delta_tasks
from gpsuite.experiments.robustness.shared.tasks import classifier_params


def plan(request: Request[DistributionSettings]) -> list[Task[object]]:
    """Return one task per training, draw, number of evaluations, method, radius and point."""
    settings, dataset = request.settings, request.require_dataset()
    options = next(iter(request.methods.values()))
    tasks: list[Task[object]] = list(
        delta_tasks(request, settings, dataset, settings.radii, {})
    )  # first: there may be too many
    for number in range(settings.draws):  # two classes, and rows enough of both, before any work
        read_problem(dataset, classifier_params(request, settings, options, number, 1))
    return tasks
