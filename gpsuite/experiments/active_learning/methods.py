"""Options of the pipelines of safe active learning, as their files under conf/method set them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from gpsuite.errors import unknown_name
from gpsuite.experiments.base import METHODS, MethodBuilder, MethodOptions

BUILDER = "safe_al"
MIXINGS = ("free", "identity", "convolution")
ACQUISITIONS = ("entropy", "random")
QUERIES = ("partial", "full")


@dataclass(frozen=True)
class PipelineOptions(MethodOptions):
    """A pipeline: a multi-output model, and how it chooses what to measure next.

    Attributes:
        mixing: of the latent processes: free (linear model of coregionalisation), identity (independent GPs), or
            convolution (convolution process with Gaussian smoothing).
        acquisition: entropy of the predicted outputs, or random.
        safe: only points whose probability of being safe is above 1 - delta are queried.
        queries: one output at a time (partial), or all outputs of an input (full).
    """

    mixing: str = "free"
    acquisition: str = "entropy"
    safe: bool = True
    queries: str = "partial"

    def check(self) -> None:
        """Refuse unknown names."""
        for key, valid in (("mixing", MIXINGS), ("acquisition", ACQUISITIONS), ("queries", QUERIES)):
            if getattr(self, key) not in valid:
                raise unknown_name(f"method.{key}", getattr(self, key), valid)


def pipeline_params(options: MethodOptions) -> dict[str, str | bool]:
    """Return what the pipeline is, without its name: part of the key of every task.

    Raises:
        TypeError: if the options are those of another family.
    """
    if not isinstance(options, PipelineOptions):
        raise TypeError(f"{options.title} is not a pipeline of active learning")
    named = {field.name for field in fields(MethodOptions)}
    return {field.name: getattr(options, field.name) for field in fields(options) if field.name not in named}


def titles(methods: Mapping[str, MethodOptions]) -> dict[str, str]:
    """Return name -> title, in the order asked for."""
    return {name: options.title for name, options in methods.items()}


METHODS.register(BUILDER)(MethodBuilder(PipelineOptions, ("regression",)))
