"""What Li et al. 2022 state about the engine, as statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.active_learning.engine.plan import DATA, SATURATION
from gpsuite.experiments.active_learning.engine.settings import EngineSettings
from gpsuite.experiments.active_learning.shared.claims import (
    AL,
    IND,
    RS,
    best_statistics,
    error_statistics,
    precision_statistics,
    safety_statistics,
    threshold_statistics,
    wilcoxon_claim,
)
from gpsuite.experiments.active_learning.shared.curves import VALUE, Curves
from gpsuite.experiments.base import Record
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.estimates import finite, mean, slopes
from gpsuite.statistics.significance import LEVEL

ROUGHLY_100 = 100  # values, at which the appendix states an error


DATA_FACTS = (
    "dataset_channels",
    "dataset_raw_inputs",
    "dataset_inputs",
    "dataset_rows",
    "temperature_correlation",
    "max_abs_channel_mean",
    "max_channel_variance_error",
    "temperature_quantile_80",
    "safe_row_percent",
    "unsafe_row_percent",
)


def engine_statistics(curves: Curves, others: Sequence[Record], settings: EngineSettings) -> list[Statistic]:
    """Return the statistics that conf/paper names."""
    found = []
    for record in (each for each in others if each.axes["part"] == DATA):
        found += [Statistic(name, record.number(name), n=1) for name in DATA_FACTS]
    saturated = saturated_errors(others)
    if len(saturated):
        found.append(Statistic.of("saturated_rmse", mean(saturated)))
    if not curves.methods:
        return found
    points = settings.points(max(curves.final(method) for method in curves.methods))
    for threshold in settings.thresholds:
        found += threshold_statistics(curves, threshold)
    return [
        *found,
        *safety_statistics(curves),
        *error_statistics(curves, [*points, ROUGHLY_100]),
        *precision_statistics(curves, points),
        *best_statistics(curves),
        *order_statistics(curves),
        *easiest_statistics(curves),
        *slope_statistics(curves),
        *drop_statistics(curves, saturated),
    ]


def saturated_errors(others: Sequence[Record]) -> FloatArray:
    """Return the sparse GP's RMSE at the largest number of rows, one per repetition."""
    sparse = [record for record in others if record.axes["part"] == SATURATION]
    largest = max((int(record.axes["rows"]) for record in sparse), default=0)
    return np.array([record.number("rmse") for record in sparse if record.axes["rows"] == largest])


def order_statistics(curves: Curves) -> list[Statistic]:
    """Return which steps of the order AL_MOGP < AL_indGPs < RS_MOGP of the last RMSE hold, paired."""
    steps = [(AL, IND), (IND, RS)]
    if not {AL, IND, RS} <= set(curves.methods):
        return []
    last = min(curves.final(method) for method in (AL, IND, RS))
    errors = curves.paired({method: curves.curve(method, "rmse").at(last) for method in (AL, IND, RS)})
    pairs = [errors.pair(VALUE, better, worse) for better, worse in steps]
    return [wilcoxon_claim("share_rmse_order", pairs, LEVEL)]


def easiest_statistics(curves: Curves) -> list[Statistic]:
    """Return for which outputs the temperature's standardised test error is the smaller one, with AL_MOGP."""
    if AL not in curves.methods:
        return []
    runs = list(curves.runs[AL].values())

    def average(name: str) -> float:
        return mean([run.number(name) for run in runs]).value

    names = sorted({name for run in runs for name in run.metrics if name.startswith("standardised_output")})
    if not names or not np.isfinite(average("standardised_z")):
        return []
    of_z, others = average("standardised_z"), [average(name) for name in names]
    shown = ", ".join(f"{value:.3f}" for value in (of_z, *others))
    easier = [of_z < value for value in others]
    return [claim("share_temperature_easiest", easier, f"z and outputs: {shown}")]


def slope_statistics(curves: Curves) -> list[Statistic]:
    """Return the slopes of precision against N_sum over the runs: random search rises, the active ones stay flat."""
    found, flat = [], []
    for method in (name for name in (RS, AL, IND) if curves.has(name, "precision_noisy")):
        curve = curves.curve(method, "precision_noisy")
        slope = mean(finite(slopes(curve.lines, curve.n_sum)))
        found.append(Statistic.of(statistic_name("precision_slope", method=method), slope))
        if method != RS and slope.interval:
            flat.append(slope.contains(0.0))
    return [*found, claim("share_flat_precision", flat)] if flat else found


def drop_statistics(curves: Curves, saturated: FloatArray) -> list[Statistic]:
    """Return AL_MOGP's last mean RMSE minus the sparse GP's at the largest number of rows."""
    if AL not in curves.methods or not len(saturated):
        return []
    last = curves.curve(AL, "rmse").at(curves.final(AL))
    drop = float(np.nanmean(last)) - float(saturated.mean())
    return [Statistic("saturated_rmse_drop", drop, n=len(last))]
