"""What `import gpsuite` offers: a table of names, each imported when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

OFFERED = {
    "load": "gpsuite.experiments.guarantee.saved",
    "results": "gpsuite.frames",
    "PACGPRegressor": "gpsuite.estimators.pac_gp",
    "PACSGPRegressor": "gpsuite.estimators.pac_gp",
    "ConfidenceBand": "gpsuite.estimators.band",
    "MeasurementPlanner": "gpsuite.methods.active_learning.plan.ask_tell",
    "SafetyLimit": "gpsuite.methods.active_learning.problem",
}


def __getattr__(name: str) -> Any:
    if name not in OFFERED:
        raise AttributeError(f"module 'gpsuite' has no attribute {name!r}; it offers {', '.join(sorted(OFFERED))}")
    return getattr(import_module(OFFERED[name]), name)
