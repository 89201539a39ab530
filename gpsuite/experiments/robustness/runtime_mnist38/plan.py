"""Tasks of robustness/runtime_mnist38: one search each."""

from __future__ import annotations

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.robustness.runtime_mnist38.settings import OURS, RuntimeSettings
from gpsuite.experiments.robustness.shared.free_inputs import available, check_words
from gpsuite.experiments.robustness.shared.settings import model_group, model_params, request_dataset

VERSION = 3  # raised when the numbers of a point change


def plan(request: Request) -> list[Task]:
    """Return one task per bound, cell and point.

    Raises:
        UserError: if there are more free pixels than inputs.
    """
    settings: RuntimeSettings = request.settings
    dataset = request_dataset(request)
    inputs = int(dataset.spec["n_inputs"])
    check_words([f"{settings.features}{count}" for count in settings.dimensions], inputs)
    rule = available(f"{settings.features}1")[:-1]
    bounds = {
        OURS: (settings.points, settings.boxes, None),
        settings.reference: (settings.reference_points, settings.reference_boxes, settings.reference_seconds),
    }
    tasks = []
    for method, options in request.methods.items():
        model = model_params(request, settings, options, 0, settings.evaluations)
        for bound, (points, boxes, seconds) in bounds.items():
            for gamma, d, epsilon in settings.cells():
                search = {"gamma": gamma, "features": f"{rule}{d}", "tolerance": epsilon, "bound": bound}
                limits = {"boxes": boxes, "seconds": seconds}
                label = f"{options.title}  {bound}  gamma {gamma:g}  d {d}  eps {epsilon:g}"
                tasks += [
                    Task(
                        experiment=request.experiment,
                        label=f"{label}  point {point}",
                        axes={
                            "method": method,
                            "bound": bound,
                            "gamma": gamma,
                            "d": d,
                            "eps": epsilon,
                            "point": point,
                        },
                        params={"kind": "runtime", "model": model, "point": point, **search, **limits},
                        dataset=dataset,
                        version=VERSION,
                        group=model_group(dataset, model),
                        cost=(seconds or 1.0) if bound != OURS else 0.02 * d,
                        budget_seconds=request.budget_seconds,
                    )
                    for point in range(points)
                ]
    return tasks
