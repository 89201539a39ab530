"""The robustness family: certified class-probability ranges of GP classifiers (Blaas et al. 2020)."""

from gpsuite.experiments.robustness import (
    any_dataset,
    bounds_1d,
    distribution,
    local_safety,
    methods,
    posterior_quality,
    runtime,
)

__all__ = [
    "any_dataset",
    "bounds_1d",
    "distribution",
    "local_safety",
    "methods",
    "posterior_quality",
    "runtime",
]
