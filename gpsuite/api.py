"""Names that `import gpsuite` offers, and their modules: a module is imported when its name is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

EXPORTS = {
    "ConfidenceBand": "gpsuite.python.band",
    "MeasurementPlanner": "gpsuite.methods.active_learning.plan.ask_tell",
    "PACGPRegressor": "gpsuite.python.pac_gp",
    "PACSGPRegressor": "gpsuite.python.pac_gp",
    "SafetyLimit": "gpsuite.methods.active_learning.problem",
    "certify": "gpsuite.python.certification",
    "load": "gpsuite.experiments.guarantee.saved",
    "results": "gpsuite.python.frames",
}


def names() -> list[str]:
    """Return the public names, for completion and lists."""
    return sorted(EXPORTS)


def offered(name: str) -> Any:
    """Return the object of a public name.

    Raises:
        AttributeError: if nothing of this name is offered.
    """
    if name not in EXPORTS:
        from gpsuite.errors import nearest

        near = nearest(name, EXPORTS)
        meant = f". Did you mean '{near}'?" if near else f". It offers {', '.join(names())}"
        raise AttributeError(f"module 'gpsuite' has no attribute {name!r}{meant}")
    return getattr(import_module(EXPORTS[name]), name)
