"""Tasks of pac_bayes/inducing_*: one fit per split, method, kernel and M."""

from __future__ import annotations

from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.pac_bayes.inducing.settings import InducingSettings
from gpsuite.experiments.pac_bayes.shared.plan import sparse_fit, split_tasks
from gpsuite.experiments.pac_bayes.shared.tasks import FitTask


def plan(request: Request[InducingSettings]) -> list[Task[FitTask]]:
    """Return one task per M, split, method and kernel, in the order of M: an interrupted run has whole columns."""
    settings = request.settings
    data, ard = request.require_dataset(), request.model.ard
    for name in settings.other_kernel:
        advice = f"not a method of this run\nvalid: other_kernel=[], or any of {', '.join(request.methods)}"
        require(name in request.methods, "other_kernel", name, advice)
    tasks = []
    for inducing in settings.inducing:
        also = settings.other_kernel if inducing in settings.other_kernel_inducing else []
        fits = [
            sparse_fit(name, options, inducing, data, chosen, settings.epsilon)
            for name, options in request.methods.items()
            for chosen in ((ard, not ard) if name in also else (ard,))
        ]
        tasks += split_tasks(request, fits)
    return tasks
