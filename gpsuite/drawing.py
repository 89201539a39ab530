"""Axes for the plots of results, when a person requests one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes(given: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure of pyplot, which notebooks show."""
    if given is not None:
        return given
    from matplotlib import pyplot

    return pyplot.subplots()[1]
