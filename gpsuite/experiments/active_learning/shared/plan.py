"""One task per repetition of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpsuite.errors import unknown_name
from gpsuite.experiments.active_learning.methods import pipeline_params
from gpsuite.experiments.active_learning.shared.engine_data import EngineData
from gpsuite.experiments.active_learning.shared.generated_data import GpData, ToyData
from gpsuite.experiments.active_learning.shared.settings import (
    INFERENCES,
    KERNELS,
    WHEN_NOTHING_IS_SAFE,
    RepetitionSettings,
)
from gpsuite.experiments.active_learning.shared.tasks import InferenceParams, RepetitionTask
from gpsuite.experiments.base import MethodOptions, Request, Task
from gpsuite.experiments.params import choice
from gpsuite.methods.active_learning.inference import Kind
from gpsuite.methods.active_learning.pipelines import Kernel
from gpsuite.models.config import ModelSpec
from gpsuite.seeds import derived_seed

Axes = dict[str, str | int | float]


@dataclass(frozen=True)
class Source:
    """Where the data of the repetitions come from.

    Attributes:
        name: of the source.
        data: number of a repetition -> its data.
        n_outputs: P.
        seconds: rough CPU seconds of one iteration.
        pool_members: hyperparameter vectors used for predictions at the pool, or None for all.
        state_iteration: of which model predictions on the whole pool are kept, counted from 1; 0 keeps none.
    """

    name: str
    data: Callable[[int], ToyData | GpData | EngineData]
    n_outputs: int
    seconds: float
    pool_members: int | None = None
    state_iteration: int = 0


def repetition_seed(seed: int, source: str, repetition: int) -> int:
    """Return the seed of a repetition's data."""
    return derived_seed(seed, source, "repetition", repetition)


@dataclass(frozen=True)
class RepetitionSet:
    """What distinguishes one set of repetitions from the others of a plan.

    Attributes:
        axes: columns of records.csv beside method and repetition.
        inference: how hyperparameters are inferred, in place of the settings'.
        iterations: in place of the settings'.
        repetitions: in place of the settings'.
        prior_factor: every prior of the hyperparameters is that of this multiple.
        label: for people.
    """

    axes: Axes = field(default_factory=dict)
    inference: str | None = None
    iterations: int | None = None
    repetitions: int | None = None
    prior_factor: float = 1.0
    label: str = ""


def pipeline_kernel(model: ModelSpec) -> Kernel:
    """Return the kernel of the latent processes and of the safety model, with one lengthscale for all inputs.

    Raises:
        UserError: if there is none of that name for multi-output models.
    """
    if model.kernel not in KERNELS:
        raise unknown_name("model.kernel", model.kernel, KERNELS)
    return choice(model.kernel, KERNELS)


def repetition_tasks(
    request: Request[object],
    settings: RepetitionSettings,
    source: Source,
    variation: RepetitionSet | None = None,
    methods: tuple[str, ...] = (),
) -> list[Task[RepetitionTask]]:
    """Return one task per repetition and method; all methods of a repetition work on the same data.

    Args:
        request: the validated request.
        settings: of the repetitions.
        source: of the data.
        variation: what is different in these repetitions.
        methods: names of some of the request's methods; default: all.
    """
    chosen = {name: request.methods[name] for name in methods or request.methods}
    different = variation or RepetitionSet()
    iterations = different.iterations or settings.iterations
    kind = choice(different.inference or settings.inference, INFERENCES)
    ordinary = (different.prior_factor, iterations, kind) == (1.0, settings.iterations, settings.inference)
    drawn = bool(source.state_iteration) and ordinary
    return [
        request.task(
            RepetitionTask(
                source=source.name,
                data=source.data(repetition),
                pipeline=pipeline_params(options),
                kernel=pipeline_kernel(request.model),
                prior_factor=different.prior_factor,
                inference=_inference(kind, settings, source),
                sampler_seed=derived_seed(request.seed, source.name, "sampler", repetition),
                delta=settings.delta,
                iterations=_iterations(iterations, options, source.n_outputs),
                state_iteration=min(source.state_iteration, iterations),
                when_nothing_is_safe=choice(settings.when_nothing_is_safe, WHEN_NOTHING_IS_SAFE),
                # of the repetition that is drawn
                joint=(drawn and repetition == 0) or None,
            ),
            label="  ".join(filter(None, (options.title, different.label, f"repetition {repetition}"))),
            axes={"method": name, **different.axes, "repetition": repetition},
            version=options.method.version,
            cost=source.seconds * iterations * COSTS[kind],
        )
        for repetition in range(different.repetitions or settings.repetitions)
        for name, options in chosen.items()
    ]


COSTS = {"smc": 1.0, "hmc": 400.0, "map": 2.5, "ml": 10.0}  # relative


def _inference(kind: Kind, settings: RepetitionSettings, source: Source) -> InferenceParams:
    return InferenceParams(
        kind,
        particles=settings.particles if kind == "smc" else None,
        pool_members=source.pool_members if kind in ("smc", "hmc") else None,
    )


def _iterations(iterations: int, options: MethodOptions, n_outputs: int) -> int:
    """Return the number of models: full queries add P values each, and end at the same number of values."""
    partial = pipeline_params(options).queries == "partial"
    return iterations if partial else (iterations - 1) // n_outputs + 1
