"""GPs with a bound of their risk on new data: training by minimising a PAC-Bayesian bound, certificates.

Equation: Reeb et al. 2018, Eq. (4), Eq. (5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpsuite.methods.pac_bayes.exports import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Return an exported name. All are loaded when the first is requested: `gpsuite verify` requests none."""
    from importlib import import_module

    exports = import_module(f"{__name__}.exports")
    if name == "__all__" or name in exports.__all__:
        return getattr(exports, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the exported names."""
    from importlib import import_module

    return sorted(import_module(f"{__name__}.exports").__all__)
