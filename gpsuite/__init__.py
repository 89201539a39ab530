"""gpsuite: Gaussian processes with guarantees, rerun, checked and extended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpsuite.experiments.guarantee.saved import load
    from gpsuite.python.certification import certify

__version__ = "0.1.0"
__all__ = ["certify", "load"]


def __getattr__(name: str) -> Any:
    """Return what `gpsuite.api` offers; a light command imports nothing of it."""
    if name.startswith("_"):
        raise AttributeError(f"module 'gpsuite' has no attribute {name!r}")
    from gpsuite.api import offered

    return offered(name)


def __dir__() -> list[str]:
    from gpsuite.api import names

    return [*names(), "__version__"]
