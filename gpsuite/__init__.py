"""gpsuite: Gaussian processes with guarantees, rerun, checked and extended."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpsuite.estimators.band import ConfidenceBand as ConfidenceBand
    from gpsuite.estimators.pac_gp import PACGPRegressor as PACGPRegressor
    from gpsuite.estimators.pac_gp import PACSGPRegressor as PACSGPRegressor
    from gpsuite.experiments.guarantee.saved import load as load
    from gpsuite.frames import results as results
    from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner as MeasurementPlanner
    from gpsuite.methods.active_learning.problem import SafetyLimit as SafetyLimit

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # `from gpsuite import api` would ask this function for it
    return getattr(import_module("gpsuite.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *import_module("gpsuite.api").OFFERED])
