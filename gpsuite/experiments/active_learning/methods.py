"""Options of the pipelines of safe active learning, as their files under conf/method set them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpsuite.errors import unknown_name
from gpsuite.experiments.base import METHODS, Method, MethodOptions

PIPELINE = "pipeline"  # the trait of every one: a multi-output model that chooses its own measurements
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
    """Return what the pipeline is, without its name: part of the key of every task."""
    return {name: value for name, value in options.params.items() if name != "builder"}


def titles(methods: Mapping[str, MethodOptions]) -> dict[str, str]:
    """Return name -> title, in the order asked for."""
    return {name: options.title for name, options in methods.items()}


METHODS.register("safe_al")(Method(PipelineOptions, ("regression",), frozenset({PIPELINE})))
