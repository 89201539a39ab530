"""One task per repetition of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpsuite.data.loading import PreparedDataset
from gpsuite.errors import UserError, unknown_name
from gpsuite.experiments.active_learning.methods import pipeline_params
from gpsuite.experiments.active_learning.shared.settings import KERNELS, RepetitionSettings
from gpsuite.experiments.base import MethodOptions, Request, Task
from gpsuite.models.config import ModelSpec
from gpsuite.seeds import derived_seed

Axes = dict[str, str | int | float]


@dataclass(frozen=True)
class Source:
    """Where the data of the repetitions come from.

    Attributes:
        name: one of `SOURCES`.
        params: what its campaigns need beside seed and repetition.
        n_outputs: P.
        seconds: rough CPU seconds of one iteration.
        dataset: of the engine; else None.
        pool_members: hyperparameter vectors used for predictions at the pool, or None for all.
        state_iteration: of which model predictions on the whole pool are kept, counted from 1; 0 keeps none.
    """

    name: str
    params: Mapping[str, Any]
    n_outputs: int
    seconds: float
    dataset: PreparedDataset | None = None
    pool_members: int | None = None
    state_iteration: int = 0


@dataclass(frozen=True)
class Variation:
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


def pipeline_kernel(model: ModelSpec) -> str:
    """Return the kernel of the latent processes and of the safety model.

    Raises:
        UserError: if there is none of that name for multi-output models, or one lengthscale per input is asked for.
    """
    if model.kernel not in KERNELS:
        raise unknown_name("model.kernel", model.kernel, KERNELS)
    if model.ard:
        raise UserError(
            "model.ard=true: the multi-output models have one lengthscale for all inputs", key="model.ard"
        )
    return model.kernel


def repetition_tasks(
    request: Request, source: Source, variation: Variation | None = None, methods: tuple[str, ...] = ()
) -> list[Task]:
    """Return one task per repetition and method; all methods of a repetition work on the same data.

    Args:
        request: the validated request; its settings are `RepetitionSettings`.
        source: of the data.
        variation: what is different in these repetitions.
        methods: names of some of the request's methods; default: all.
    """
    settings: RepetitionSettings = request.settings
    chosen = {name: request.methods[name] for name in methods or request.methods}
    different = variation or Variation()
    return [
        _task(request, source, different, name, options, repetition)
        for repetition in range(different.repetitions or settings.repetitions)
        for name, options in chosen.items()
    ]


def _task(
    request: Request, source: Source, variation: Variation, name: str, options: MethodOptions, repetition: int
) -> Task:
    settings: RepetitionSettings = request.settings
    iterations = variation.iterations or settings.iterations
    kind = variation.inference or settings.inference
    return Task(
        experiment=request.experiment,
        label="  ".join(
            part for part in (options.title, variation.label, f"repetition {repetition}") if part
        ),
        axes={"method": name, **variation.axes, "repetition": repetition},
        params={
            "kind": "safe_active_learning",
            "source": source.name,
            "data": {
                **source.params,
                "seed": derived_seed(request.seed, source.name, "repetition", repetition),
                "initial": settings.initial,
                "offers": settings.offers,
                **_numbered(source, request.seed, repetition),
            },
            "pipeline": pipeline_params(options),
            "kernel": pipeline_kernel(request.model),
            "prior_factor": variation.prior_factor,
            "inference": _inference_params(kind, settings, source),
            "sampler_seed": derived_seed(request.seed, source.name, "sampler", repetition),
            "delta": settings.delta,
            "iterations": _iterations(iterations, options, source.n_outputs),
            "state_iteration": min(source.state_iteration, iterations),
            "when_nothing_is_safe": settings.when_nothing_is_safe,
        },
        dataset=source.dataset,
        version=options.method.version,
        cost=source.seconds * iterations * COSTS[kind],
        budget_seconds=request.budget_seconds,
    )


COSTS = {"smc": 1.0, "hmc": 60.0, "map": 2.0, "ml": 2.0}  # relative


PUBLISHED_STARTS = 123


def _numbered(source: Source, seed: int, repetition: int) -> dict[str, int]:
    """Return what depends on the repetition's number: the draw, or the authors' starting set."""
    if source.name == "gp_samples":
        return {"draw": repetition}
    if source.name == "engine":
        start_seed = PUBLISHED_STARTS if seed == 0 else derived_seed(seed, "engine", "start")
        return {"repetition": repetition, "start_seed": start_seed}
    return {}


def _inference_params(kind: str, settings: RepetitionSettings, source: Source) -> dict[str, Any]:
    """Return what decides the inference's numbers, and no setting of another kind of inference."""
    params: dict[str, Any] = {"kind": kind}
    if kind == "smc":
        params["particles"] = settings.particles
    if source.pool_members is not None and kind in ("smc", "hmc"):
        params["pool_members"] = source.pool_members
    return params


def _iterations(iterations: int, options: MethodOptions, n_outputs: int) -> int:
    """Return the number of models: full queries add P values each, and end at the same number of values."""
    partial = pipeline_params(options)["queries"] == "partial"
    return iterations if partial else (iterations - 1) // n_outputs + 1
