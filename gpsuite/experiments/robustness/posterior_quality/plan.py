"""Tasks of robustness/posterior_quality: delta at test points, and HMC chains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.robustness.posterior_quality.settings import ADVICE, PosteriorQualitySettings
from gpsuite.experiments.robustness.shared.classifiers import read_problem
from gpsuite.experiments.robustness.shared.paper_protocol import STUDIES, Study
from gpsuite.experiments.robustness.shared.probability_change import Axes, delta_tasks
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, GPCParams, classifier_params

DELTA, HMC = "delta", "hmc"


@dataclass(frozen=True)
class HMCTask:
    """HMC at a trained classifier's hyperparameters, and the approximations' distances to it.

    Attributes:
        model: the classifier.
        inferences: name of a method -> its inference.
        chains: as every other field, of `PosteriorQualitySettings`.
        kind: of task.
    """

    model: ClassifierParams
    inferences: Mapping[str, str]
    chains: int
    burn_in: int
    samples: int
    kind: str = "hmc_distance"


def plan(request: Request[PosteriorQualitySettings]) -> list[Task[object]]:
    """Return per dataset the deltas, the same tasks as in distribution_*, and one HMC task per draw and training."""
    settings = request.settings
    for name in settings.hmc_trained_by:
        require(name in request.methods, "hmc_trained_by", name, f"{ADVICE}: {', '.join(request.methods)}")
    tasks: list[Task[object]] = []
    for name, dataset in request.datasets.items():
        study = STUDIES[name]
        own = settings.on(study)
        options = next(iter(request.methods.values()))
        axes: Axes = {"part": DELTA, "dataset": study.title}
        # first: there may be too many
        tasks += delta_tasks(request, own, dataset, study.radii[: settings.gammas], axes)
        tasks += _hmc_tasks(request, dataset, study)
        for number in range(own.draws):
            read_problem(dataset, classifier_params(request, own, options, number, 1))
    return tasks


def _hmc_tasks(
    request: Request[PosteriorQualitySettings], dataset: PreparedDataset, study: Study
) -> Iterator[Task[HMCTask]]:
    settings, searched = request.settings, request.settings.on(study)
    inferences = {name: GPCParams.of(options).inference for name, options in request.methods.items()}
    rows = min(settings.train_rows, dataset.rows) / 1000
    transitions = settings.burn_in + settings.samples
    evaluations = settings.hmc_evaluations
    for number in range(settings.draws):
        for name in settings.hmc_trained_by:
            options = request.methods[name]
            model = classifier_params(request, searched, options, number, evaluations)
            axes: Axes = {"part": HMC, "dataset": study.title, "method": name, "evaluations": evaluations}
            yield request.task(
                HMCTask(model, inferences, settings.chains, settings.burn_in, settings.samples),
                label=f"{dataset.name}  HMC at {options.title}'s hyperparameters  draw {number}",
                axes={**axes, "draw": number},
                version=options.method.version,
                cost=8.0 + 0.002 * settings.chains * transitions * rows**2,
                group=model.group(dataset),
                dataset=dataset,
            )
