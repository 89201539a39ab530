"""What a run of perturbation/band_comparison shows of its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.perturbation.band_comparison.figures import draw
from gpsuite.experiments.perturbation.band_comparison.peers import FUNCTION, PEERS, RESPONSE
from gpsuite.experiments.perturbation.band_comparison.settings import BandSettings
from gpsuite.experiments.statistics import clopper_pearson, mean_statistic
from gpsuite.reporting.comparison import Statistic, statistic_name

if TYPE_CHECKING:
    import pandas as pd


FloatArray = npt.NDArray[np.float64]


LABELS = {
    "width": "mean width",
    "width_error": "standard error",
    "simultaneous": "simultaneous coverage",
    "low": "95 % interval from",
    "high": "to",
    "pointwise": "mean pointwise coverage",
    "pointwise_error": "standard error of it",
    "n": "data sets",
}


def summarise(report: Report[BandSettings]) -> list[Statistic]:
    """Write one table for the function and one for responses; draw width against coverage of the function."""
    settings, records = report.settings, report.records()
    frame = band_table(records)
    absent = [PEERS[band] for band in settings.bands if not report.records(band=band)]
    reasons = [f"; without {peer.title}{': not installed' if peer.missing else ''}" for peer in absent]
    about = f"{settings.rows} data, level {1.0 - settings.q / settings.m:g}, x uniform on [-2, 2]"
    for target in (FUNCTION, RESPONSE):
        part = frame[frame["target"] == target].drop(columns=["target", "band"])
        if target == RESPONSE:  # nobody promises that all new responses are inside
            part = part.drop(columns=["simultaneous", "low", "high"])
        if len(part):
            caption = f"Bands for the {target}: {about}{''.join(reasons)}"
            report.table(part, f"{target}_coverage", caption, LABELS)
    shown = frame[frame["target"] == FUNCTION]
    if len(shown):
        draw(report, shown)
    found = []
    for record in records:
        axes = {"noise": record.axes["noise"], "band": record.axes["band"]}
        for metric, key in (("band_width", "width"), ("pointwise_coverage", "share")):
            found.append(mean_statistic(statistic_name(metric, **axes), record.arrays[key]))
    return found


def band_table(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per noise and band: mean width, simultaneous and mean pointwise coverage, with n and errors."""
    import pandas as pd

    rows = []
    for record in records:
        peer = PEERS[str(record.axes["band"])]
        everywhere, n = record.arrays["everywhere"], len(record.arrays["everywhere"])
        low, high = clopper_pearson(int(everywhere.sum()), n)
        width, pointwise = (_mean_and_error(record.arrays[key]) for key in ("width", "share"))
        rows.append(
            {
                "noise": record.axes["noise"],
                "target": peer.target,
                "band": record.axes["band"],
                "title": peer.title,
                "kind": peer.kind,
                "width": width[0],
                "width_error": width[1],
                "simultaneous": float(everywhere.mean()),
                "low": low,
                "high": high,
                "pointwise": pointwise[0],
                "pointwise_error": pointwise[1],
                "n": n,
            }
        )
    return pd.DataFrame(rows)


def _mean_and_error(values: FloatArray) -> tuple[float, float]:
    """Return the mean and its standard error; infinite and unknown where a band is unbounded."""
    if len(values) < 2 or not np.isfinite(values).all():
        return float(np.mean(values)), float("nan")
    return float(np.mean(values)), float(np.std(values, ddof=1)) / len(values) ** 0.5
