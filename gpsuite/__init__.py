"""gpsuite: Gaussian processes with guarantees, rerun, checked and extended."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpsuite.experiments.guarantee.saved import load
    from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
    from gpsuite.methods.active_learning.problem import SafetyLimit
    from gpsuite.python.band import ConfidenceBand
    from gpsuite.python.certification import certify
    from gpsuite.python.frames import results
    from gpsuite.python.pac_gp import PACGPRegressor, PACSGPRegressor

__version__ = "0.1.0"
__all__ = [
    "ConfidenceBand",
    "MeasurementPlanner",
    "PACGPRegressor",
    "PACSGPRegressor",
    "SafetyLimit",
    "certify",
    "load",
    "results",
]


def __getattr__(name: str) -> Any:
    """Return a public name of `gpsuite.api`, which is imported on first use: every layer imports this module."""
    if name.startswith("_"):
        raise AttributeError(f"module 'gpsuite' has no attribute {name!r}")
    return import_module("gpsuite.api").offered(name)


def __dir__() -> list[str]:
    return [*import_module("gpsuite.api").names(), "__version__"]
