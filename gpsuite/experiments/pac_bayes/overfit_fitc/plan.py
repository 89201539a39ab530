"""Tasks of pac_bayes/overfit_fitc: one fit per data set and method."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import MethodOptions, Request, Task, require
from gpsuite.experiments.pac_bayes.overfit_fitc.settings import OverfitSettings
from gpsuite.experiments.pac_bayes.shared.method import with_inducing
from gpsuite.experiments.pac_bayes.shared.tasks import TrainingTask
from gpsuite.seeds import derived_seed


@dataclass(frozen=True, kw_only=True)
class OverfitTask(TrainingTask):
    """A fit to one data set: rows of a dataset, or a draw of a GP with noise; see `OverfitSettings`."""

    rows: int
    test_rows: int
    epsilon: float
    signal_std: float
    lengthscale: float
    noise_std: float
    input_range: float
    kind: str = "overfit"


def plan(request: Request[OverfitSettings]) -> list[Task[OverfitTask]]:
    """Return one task per data set and method; all methods see the same data and start."""
    settings = request.settings
    if request.dataset is not None:
        rows = request.dataset.rows
        require(settings.rows < rows, "rows", settings.rows, f"must be below the dataset's {rows}")
    return [
        request.task(
            task_params(request, options, repetition),
            label=f"{options.heading}  data set {repetition}",
            axes={"method": name, "repetition": repetition},
            version=options.method.version,
            cost=0.1,
        )
        for repetition in range(settings.repetitions)
        for name, options in request.methods.items()
    ]


def task_params(request: Request[OverfitSettings], options: MethodOptions, repetition: int) -> OverfitTask:
    """Return the science parameters of one data set and method."""
    settings = request.settings
    return OverfitTask(
        method=with_inducing(options, settings.inducing),
        ard=request.model.ard,
        split_seed=derived_seed(request.seed, "overfit", repetition),
        delta=settings.delta,
        max_evaluations=settings.max_evaluations,
        rows=settings.rows,
        test_rows=settings.test_rows,
        epsilon=settings.epsilon,
        signal_std=settings.signal_std,
        lengthscale=settings.lengthscale,
        noise_std=settings.noise_std,
        input_range=settings.input_range,
    )
