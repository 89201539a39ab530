"""Tasks of robustness/runtime_mnist38: one search each."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.robustness.runtime_mnist38.settings import OURS, RuntimeSettings
from gpsuite.experiments.robustness.shared.free_inputs import check_words
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, classifier_params

Axes = dict[str, str | int | float]

VERSION = 4  # raised when the numbers of a point change, its seconds among them


@dataclass(frozen=True)
class RuntimeTask:
    """One timed search for the largest class probability.

    Attributes:
        model: the classifier.
        point: number of the test row.
        gamma: radius of the box (L-infinity).
        features: which pixels may move.
        tolerance: at which the search ends.
        bound: its name.
        boxes: limit.
        seconds: limit, or None.
        kind: of task.
    """

    model: ClassifierParams
    point: int
    gamma: float
    features: str
    tolerance: float
    bound: str
    boxes: int
    seconds: float | None
    kind: str = "runtime"


def plan(request: Request[RuntimeSettings]) -> list[Task[object]]:
    """Return one task per bound, cell and point.

    Raises:
        UserError: if there are more free pixels than inputs.
    """
    settings, dataset = request.settings, request.require_dataset()
    inputs = int(dataset.spec["n_inputs"])
    check_words([f"{settings.features}{count}" for count in settings.dimensions], inputs, request.model)
    bounds = {
        OURS: (settings.points, settings.boxes, None),
        settings.reference: (settings.reference_points, settings.reference_boxes, settings.reference_seconds),
    }
    tasks: list[Task[object]] = []
    for method, options in request.methods.items():
        model = classifier_params(request, settings, options, 0, settings.evaluations)
        for bound, (points, boxes, seconds) in bounds.items():
            for gamma, d, epsilon in settings.cells():
                axes: Axes = {"method": method, "bound": bound, "gamma": gamma, "d": d, "eps": epsilon}
                label = f"{options.title}  {bound}  gamma {gamma:g}  d {d}  eps {epsilon:g}"
                tasks += [
                    request.task(
                        RuntimeTask(
                            model, point, gamma, f"{settings.features}{d}", epsilon, bound, boxes, seconds
                        ),
                        label=f"{label}  point {point}",
                        axes={**axes, "point": point},
                        version=VERSION,
                        cost=min(seconds or 1.0, 10.0) if bound != OURS else 0.02 * d,
                        group=model.group(dataset),
                    )
                    for point in range(points)
                ]
    return tasks
