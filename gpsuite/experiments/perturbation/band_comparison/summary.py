"""What a run of perturbation/band_comparison shows of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.perturbation.band_comparison.figures import draw
from gpsuite.experiments.perturbation.band_comparison.peers import FUNCTION, PEERS, RESPONSE
from gpsuite.experiments.perturbation.band_comparison.settings import BandSettings
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.estimates import mean, proportion

if TYPE_CHECKING:
    import pandas as pd


LABELS = {
    "width_error": "standard error",
    "low": "95 % interval from",
    "high": "to",
    "pointwise_error": "standard error of it",
    "n": "data sets",
}


def summarise(report: Report[BandSettings]) -> list[Statistic]:
    """Write one table for the function and one for responses; draw width against coverage of the function."""
    settings, records = report.settings, report.records()
    frame = band_table(records)
    absent = [PEERS[band].title for band in settings.bands if not report.records(band=band)]
    left_out = "".join(f"; without {title}" for title in absent)
    about = f"{settings.rows} data, level {1.0 - settings.q / settings.m:g}, x uniform on [-2, 2]"
    for target in (FUNCTION, RESPONSE):
        part = frame[frame["target"] == target].drop(columns=["target", "band"])
        if target == RESPONSE:  # nobody promises that all new responses are inside
            part = part.drop(columns=["simultaneous", "low", "high"])
        if len(part):
            caption = f"Bands for the {target}: {about}{left_out}"
            report.table(part, f"{target}_coverage", caption, LABELS)
    shown = frame[frame["target"] == FUNCTION]
    if len(shown):
        draw(report, shown)
    found = []
    for record in records:
        axes = {"noise": record.axes["noise"], "band": record.axes["band"]}
        for metric, key in (("band_width", "width"), ("pointwise_coverage", "share")):
            found.append(Statistic.of(statistic_name(metric, **axes), mean(record.arrays[key])))
    return found


def band_table(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per noise and band: mean width, simultaneous and mean pointwise coverage, with n and errors."""
    import pandas as pd

    rows = []
    for record in records:
        peer = PEERS[str(record.axes["band"])]
        everywhere, n = record.arrays["everywhere"], len(record.arrays["everywhere"])
        simultaneous = proportion(int(everywhere.sum()), n)
        width, pointwise = (mean(record.arrays[key]) for key in ("width", "share"))
        rows.append(
            {
                "noise": record.axes["noise"],
                "target": peer.target,
                "band": record.axes["band"],
                "title": peer.title,
                "kind": peer.kind,
                "width": width.value,
                "width_error": width.error,
                "simultaneous": simultaneous.value,
                "low": simultaneous.low,
                "high": simultaneous.high,
                "pointwise": pointwise.value,
                "pointwise_error": pointwise.error,
                "n": n,
            }
        )
    return pd.DataFrame(rows)
