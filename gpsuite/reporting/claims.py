"""A claim in words as a statistic: the share of cells in which it holds."""

from __future__ import annotations

from collections.abc import Iterable

from gpsuite.reporting.rows import Statistic
from gpsuite.statistics.estimates import share


def claim(name: str, cells: Iterable[object], note: str = "") -> Statistic:
    """Return the share of cells in which a claim holds, with its interval; NaN without cells.

    Args:
        name: of the statistic.
        cells: whether the claim holds in each.
        note: what a reader should know beside how many hold.
    """
    held = [bool(cell) for cell in cells]
    counted = f"{sum(held)} of {len(held)} cells" if held else ""
    return Statistic.of(name, share(held), note="; ".join(part for part in (counted, note) if part))
