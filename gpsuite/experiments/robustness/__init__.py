"""The robustness family: certified class-probability ranges of GP classifiers (Blaas et al. 2020)."""

from gpsuite.experiments.robustness import (
    bounds_1d,
    distribution,
    explain,
    global_effects,
    methods,
    pixel_maps,
    posterior_quality,
    regression,
    runtime_mnist38,
    safety,
    safety_curves,
)

__all__ = [
    "bounds_1d",
    "distribution",
    "explain",
    "global_effects",
    "methods",
    "pixel_maps",
    "posterior_quality",
    "regression",
    "runtime_mnist38",
    "safety",
    "safety_curves",
]
