"""What Li et al. 2022 state about the engine, as statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.experiments.active_learning.engine.plan import DATA, SATURATION
from gpsuite.experiments.active_learning.engine.settings import EngineSettings
from gpsuite.experiments.active_learning.shared.claims import (
    AL,
    IND,
    NOSAFE,
    RS,
    best_statistics,
    error_statistics,
    paired,
    paired_share,
    precision_statistics,
    safe_query_limit,
    safety_statistics,
    threshold_statistics,
)
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.repetition_data import FloatArray
from gpsuite.experiments.base import Record
from gpsuite.experiments.statistics import LEVEL, mean_statistic, share
from gpsuite.reporting.comparison import Statistic, statistic_name

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
        found.append(mean_statistic("saturated_rmse", saturated))
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
        *random_limit(curves),
        *easiest_statistics(curves),
        *safe_query_limit(curves, NOSAFE, "lower"),
        *slope_statistics(curves),
        *drop_statistics(curves, saturated),
    ]


def saturated_errors(others: Sequence[Record]) -> FloatArray:
    """Return the sparse GP's RMSE at the largest number of rows, one per repetition."""
    sparse = [record for record in others if record.axes["part"] == SATURATION and record.usable]
    largest = max((int(record.axes["rows"]) for record in sparse), default=0)
    return np.array([record.number("rmse") for record in sparse if record.axes["rows"] == largest])


def order_statistics(curves: Curves) -> list[Statistic]:
    """Return which steps of the order AL_MOGP < AL_indGPs < RS_MOGP of the last RMSE hold, paired."""
    steps = [(AL, IND), (IND, RS)]
    if not {AL, IND, RS} <= set(curves.methods):
        return []
    last = min(curves.final(method) for method in (AL, IND, RS))
    errors = {method: curves.curve(method, "rmse").at(last) for method in (AL, IND, RS)}
    pairs = [paired(curves, better, worse, errors) for better, worse in steps]
    return [paired_share("share_rmse_order", pairs, LEVEL)]


def random_limit(curves: Curves) -> list[Statistic]:
    """Return the lower 95 % limit of random search's mean RMSE at the end."""
    if RS not in curves.methods:
        return []
    last = curves.final(RS)
    whole = mean_statistic("", curves.curve(RS, "rmse").at(last))
    name = statistic_name("rmse_lower_limit", method=RS, n_sum=last)
    return [Statistic(name, float("nan") if whole.interval_low is None else whole.interval_low, n=whole.n)]


def easiest_statistics(curves: Curves) -> list[Statistic]:
    """Return for which outputs the temperature's standardised test error is the smaller one, with AL_MOGP."""
    if AL not in curves.methods:
        return []
    runs = list(curves.runs[AL].values())

    def mean(name: str) -> float:
        return float(np.mean([run.number(name) for run in runs]))

    names = sorted({name for run in runs for name in run.metrics if name.startswith("standardised_output")})
    if not names or not np.isfinite(mean("standardised_z")):
        return []
    found = share("share_temperature_easiest", [mean("standardised_z") < mean(name) for name in names])
    values = [mean("standardised_z"), *(mean(name) for name in names)]
    shown = ", ".join(f"{value:.3f}" for value in values)
    return [Statistic(found.name, found.value, n=found.n, note=f"{found.note}; z and outputs: {shown}")]


def slope_statistics(curves: Curves) -> list[Statistic]:
    """Return the slopes of precision against N_sum over the runs: random search rises, the active ones stay flat."""
    found = []
    if curves.has(RS, "precision_noisy"):
        rising = mean_statistic("", precision_slopes(curves, RS))
        low = float("nan") if rising.interval_low is None else rising.interval_low
        found.append(Statistic(statistic_name("precision_slope_lower_limit", method=RS), low, n=rising.n))
    flat = []
    for method in (name for name in (AL, IND) if curves.has(name, "precision_noisy")):
        slope = mean_statistic("", precision_slopes(curves, method))
        if slope.interval_low is not None and slope.interval_high is not None:
            flat.append(slope.interval_low <= 0.0 <= slope.interval_high)
    return [*found, share("share_flat_precision", flat)] if flat else found


def precision_slopes(curves: Curves, method: str) -> FloatArray:
    """Return each run's least-squares slope of precision against N_sum, per value."""
    curve = curves.curve(method, "precision_noisy")
    slopes = []
    for line in curve.lines:
        known = np.isfinite(line)
        if known.sum() > 1:
            slopes.append(float(np.polyfit(curve.n_sum[known], line[known], 1)[0]))
    return np.array(slopes)


def drop_statistics(curves: Curves, saturated: FloatArray) -> list[Statistic]:
    """Return AL_MOGP's last mean RMSE minus the sparse GP's at the largest number of rows."""
    if AL not in curves.methods or not len(saturated):
        return []
    last = curves.curve(AL, "rmse").at(curves.final(AL))
    drop = float(np.nanmean(last)) - float(saturated.mean())
    return [Statistic("saturated_rmse_drop", drop, n=len(last))]
