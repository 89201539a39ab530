"""Options of the pipelines of safe active learning, as their files under conf/method set them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast, get_args

from gpsuite.experiments.base import METHODS, Method, MethodOptions
from gpsuite.experiments.settings import one_of
from gpsuite.experiments.tasks import choice
from gpsuite.methods.active_learning.acquisition import Acquisition, Mixing, Queries

PIPELINE = "pipeline"  # the trait of every one: a multi-output model that chooses its own measurements
MIXINGS: tuple[Mixing, ...] = get_args(Mixing)
ACQUISITIONS: tuple[Acquisition, ...] = get_args(Acquisition)
QUERIES: tuple[Queries, ...] = get_args(Queries)
Options = TypeVar("Options", bound=MethodOptions)


@dataclass(frozen=True)
class PipelineOptions(MethodOptions):
    """A pipeline: a multi-output model, and how it chooses what to measure next.

    Attributes:
        mixing: mixing of the latent processes: free (linear model of coregionalisation), identity (independent GPs), or
            convolution (convolution process with Gaussian smoothing).
        acquisition: entropy of the predicted outputs, or random.
        safe: only points whose probability of being safe is above 1 - delta are queried.
        queries: one output at a time (partial), or all outputs of an input (full).
    """

    mixing: Annotated[str, one_of(MIXINGS)] = "free"
    acquisition: Annotated[str, one_of(ACQUISITIONS)] = "entropy"
    safe: bool = True
    queries: Annotated[str, one_of(QUERIES)] = "partial"


@dataclass(frozen=True)
class PipelineParams:
    """Parameters of a pipeline, without its name: part of the key of every task."""

    mixing: Mixing
    acquisition: Acquisition
    safe: bool
    queries: Queries


@dataclass(frozen=True, kw_only=True)
class PipelineMethod(Method[Options]):
    """A method of the family. `pipeline` says what its options are as a model and a rule."""

    pipeline: Callable[[Options], PipelineParams]


def pipeline_params(options: MethodOptions) -> PipelineParams:
    """Return what the pipeline of a method is: all with the trait `PIPELINE` are a `PipelineMethod`."""
    return cast(PipelineMethod[Any], options.method).pipeline(options)


def _as_set(options: PipelineOptions) -> PipelineParams:
    return PipelineParams(
        mixing=choice(options.mixing, MIXINGS),
        acquisition=choice(options.acquisition, ACQUISITIONS),
        safe=options.safe,
        queries=choice(options.queries, QUERIES),
    )


METHODS.register("safe_al")(
    PipelineMethod(
        options=PipelineOptions, dataset_tasks=("regression",), traits=frozenset({PIPELINE}), pipeline=_as_set
    )
)
