"""Tasks of robustness/explain_synthetic2d and explain_spam: one per method and draw of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.robustness.global_effects.settings import GlobalEffectsSettings
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, classifier_params

VERSION = 1  # raised when the numbers of a task change; the classifier has its own in the model


@dataclass(frozen=True)
class GlobalEffectsTask:
    """Effects of all inputs at test points of one classifier.

    Attributes:
        model: the classifier.
        gammas: as every other field, of `GlobalEffectsSettings`.
    """

    model: ClassifierParams
    gammas: Sequence[float]
    points: int
    tolerance: float
    boxes: int
    kind: str = "global_effects"


def plan(request: Request[GlobalEffectsSettings]) -> list[Task[object]]:
    """Return one task per method and draw."""
    settings, dataset = request.settings, request.require_dataset()
    inputs = int(dataset.spec["n_inputs"])
    tasks: list[Task[object]] = []
    for method, options in request.methods.items():
        for draw in range(settings.draws):
            model = classifier_params(request, settings, options, draw, settings.evaluations)
            params = GlobalEffectsTask(
                model, settings.gammas, settings.points, settings.tolerance, settings.boxes
            )
            rows = settings.train_rows / 1000
            training, search = settings.evaluations * rows**3, settings.points * inputs * rows**2
            tasks.append(
                request.task(
                    params,
                    label=f"{options.title}  draw {draw}",
                    axes={"method": method, "draw": draw},
                    version=VERSION,
                    cost=0.3 * training + 0.01 * len(settings.gammas) * search,
                    group=model.group(dataset),
                )
            )
    return tasks
