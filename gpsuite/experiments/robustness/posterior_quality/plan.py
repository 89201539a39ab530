"""Tasks of robustness/posterior_quality: delta at test points, and HMC chains."""

from __future__ import annotations

from collections.abc import Iterator

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.robustness.methods import GPCOptions
from gpsuite.experiments.robustness.posterior_quality.settings import ADVICE, PosteriorQualitySettings
from gpsuite.experiments.robustness.shared.classifiers import read_problem
from gpsuite.experiments.robustness.shared.paper_protocol import Study, study_of
from gpsuite.experiments.robustness.shared.probability_change import delta_tasks
from gpsuite.experiments.robustness.shared.settings import model_group, model_params

DELTA, HMC = "delta", "hmc"


def plan(request: Request) -> list[Task]:
    """Return per dataset the deltas, the same tasks as in distribution_*, and one HMC task per draw and training."""
    settings: PosteriorQualitySettings = request.settings
    for name in settings.hmc_trained_by:
        require(name in request.methods, "hmc_trained_by", name, f"{ADVICE}: {', '.join(request.methods)}")
    tasks: list[Task] = []
    for name, dataset in request.datasets.items():
        study = study_of(name)
        own = settings.on(study)
        options = next(iter(request.methods.values()))
        axes: dict[str, str | int | float] = {"part": DELTA, "dataset": study.title}
        tasks += delta_tasks(
            request, own, dataset, study.radii[: settings.gammas], axes
        )  # there may be too many
        tasks += _hmc_tasks(request, dataset, study)
        for number in range(own.draws):
            read_problem(dataset, model_params(request, own, options, number, 1))
    return tasks


def _hmc_tasks(request: Request, dataset: PreparedDataset, study: Study) -> Iterator[Task]:
    settings: PosteriorQualitySettings = request.settings
    searched = settings.on(study)
    inferences = {
        name: options.inference
        for name, options in request.methods.items()
        if isinstance(options, GPCOptions)
    }
    rows = min(settings.train_rows, dataset.rows) / 1000
    transitions = settings.burn_in + settings.samples
    for number in range(settings.draws):
        for name in settings.hmc_trained_by:
            options = request.methods[name]
            model = model_params(request, searched, options, number, settings.hmc_evaluations)
            yield Task(
                experiment=request.experiment,
                label=f"{dataset.name}  HMC at {options.title}'s hyperparameters  draw {number}",
                axes={
                    "part": HMC,
                    "dataset": study.title,
                    "method": name,
                    "evaluations": settings.hmc_evaluations,
                    "draw": number,
                },
                params={
                    "kind": "hmc_distance",
                    "model": model,
                    "inferences": inferences,
                    "chains": settings.chains,
                    "burn_in": settings.burn_in,
                    "samples": settings.samples,
                },
                dataset=dataset,
                version=options.method.version,
                group=model_group(dataset, model),
                cost=8.0 + 0.002 * settings.chains * transitions * rows**2,
                budget_seconds=request.budget_seconds,
            )
