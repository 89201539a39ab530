"""Table, figure and statistics of robustness/bounds_1d."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.bounds_1d.figures import draw
from gpsuite.experiments.robustness.bounds_1d.settings import BOUNDS, Bounds1DSettings
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd


ROUNDING = 1e-12  # of the class probability where the bound is tight


def summarise(report: Report[Bounds1DSettings]) -> list[Statistic]:
    """Write the gaps by number of boxes and the picture; return whether the two statements of Fig. 1 hold."""
    records, settings = report.records(), report.settings
    caption = (
        f"Minimum of the class probability over [{settings.low:g}, {settings.high:g}], all boxes halved at each "
        f"level; made-up data of {settings.rows} rows"
    )
    report.table(gap_table(records, report.titles), "bounds_1d", caption)
    draw(report, records)
    return [statements(records)]


def gap_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return attained and proved minimum and their gap by number of boxes, one row per task and level."""
    import pandas as pd

    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "bound": BOUNDS[str(record.axes["bound"])],
            "boxes": int(boxes),
            "attained minimum": attained,
            "proved minimum": proved,
            "gap": attained - proved,
        }
        for record in records
        for boxes, attained, proved in record.arrays["levels"]
    ]
    return pd.DataFrame(rows)


def statements(records: Sequence[Record]) -> Statistic:
    """Return which of the two hold in every record: the lower function is below the output; a split shrinks the gap."""
    if not records:
        return claim("share_bounds_hold_and_shrink", [])
    below = all(bool(record.metrics["lower_function_holds"]) for record in records)
    shrinks = all(record.number("gap_after") < record.number("gap_before") for record in records)
    return claim("share_bounds_hold_and_shrink", [below, shrinks])
