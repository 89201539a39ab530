"""Certified ranges of class probabilities or predictions of a GP within a region of inputs.

Equation: Blaas et al. 2020, Eq. (2), Eq. (3), Eq. (4)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpsuite.methods.robustness.exports import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Return an exported name. All are loaded when the first is requested: `gpsuite verify` requests none."""
    from importlib import import_module

    exports = import_module(f"{__name__}.exports")
    if name == "__all__" or name in exports.__all__:
        return getattr(exports, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the exported names, for completion and listing."""
    from importlib import import_module

    return sorted(import_module(f"{__name__}.exports").__all__)
