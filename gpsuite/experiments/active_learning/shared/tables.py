"""Tables of learning curves: errors, safety, points to reach an error, samplers, time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.active_learning.shared.claims import first_below, threshold_interval
from gpsuite.experiments.active_learning.shared.curves import DIAGNOSTICS, Curve, Curves
from gpsuite.experiments.active_learning.shared.settings import ActiveSettings
from gpsuite.experiments.base import Report
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.tables import estimate_text
from gpsuite.statistics.estimates import finite, mean

if TYPE_CHECKING:
    import pandas as pd


PRECISIONS = ("precision_noisy", "precision_true", "marked_safe")
ERRORS = ("rmse", "rmse_all", "rmse_true", "rmse_noisy", "log_density", "log_density_mixture")
SECONDS = ("seconds_outputs", "seconds_safety", "seconds_predict")


def report_curves(report: Report[ActiveSettings], curves: Curves, name: str, what: str) -> None:
    """Write errors at the end, points to thresholds, precision, safe queries, samplers and time.

    Args:
        report: what is written on.
        curves: at least one method.
        name: beginning of the files' names.
        what: the data, in words, for the captions.
    """
    titles, thresholds = report.titles, report.settings.thresholds
    runs = "mean ± standard error over the repetitions"
    report.table(error_table(curves, titles), name, f"{what}: after the last query, {runs}")
    reached = f"{what}: values measured until the mean RMSE is at most a threshold, 95 % bootstrap interval"
    report.table(points_table(curves, titles, thresholds), f"{name}_points", reached)
    precision = precision_table(curves, titles, report.settings.points(curves.last))
    if len(precision):
        report.table(precision, f"{name}_precision", f"{what}: the safety model on the pool, {runs}")
    shares = f"{what}: queries that were safe, in percent; starting points do not count; 95 % t intervals"
    report.table(safe_table(curves, titles), f"{name}_safe_queries", shares)
    samplers = f"{what}: how the hyperparameters were inferred, means over iterations and repetitions"
    report.table(sampler_table(curves, titles), f"{name}_inference", samplers)
    report.table(timing_table(curves, titles), f"{name}_timing", f"{what}: seconds per repetition")


def _cell(values: FloatArray) -> str:
    return estimate_text(mean(finite(values)))


def error_table(curves: Curves, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the errors of each method's last model."""
    import pandas as pd

    rows = []
    for method in curves.methods:
        last = curves.final(method)
        row: dict[str, object] = {"method": titles[method], "N_sum": last}
        for error in ERRORS:
            has = curves.has(method, error)
            row[metric(error).heading] = _cell(curves.curve(method, error).at(last)) if has else None
        row["queries by output (%)"] = queries_by_output(curves, method)
        rows.append({**row, "repetitions": len(curves.runs[method])})
    return pd.DataFrame(rows).dropna(axis=1, how="all")


def queries_by_output(curves: Curves, method: str) -> str:
    """Return the percentage of queries that went to each output, such as `98 / 2`; `all` for full queries."""
    p = np.concatenate([run.arrays["p"] for run in curves.runs[method].values()]).astype(np.int64)
    outputs = sum(name.startswith("rmse_output_") for name in next(iter(curves.runs[method].values())).arrays)
    if (p < 0).any():
        return "all"
    return " / ".join(f"{share:.0f}" for share in 100.0 * np.bincount(p, minlength=outputs) / len(p))


def points_table(curves: Curves, titles: Mapping[str, str], thresholds: Sequence[float]) -> pd.DataFrame:
    """Return the first N_sum at which the mean RMSE is at most each threshold."""
    import pandas as pd

    rows = []
    for threshold in thresholds:
        for method in curves.methods:
            curve = curves.curve(method, "rmse")
            reached = first_below(curve.n_sum, curve.mean, threshold)
            low, high = threshold_interval(curve, threshold)
            rows.append(
                {
                    "RMSE at most": threshold,
                    "method": titles[method],
                    "values": _count(reached, curve),
                    "from": _count(low, curve),
                    "to": _count(high, curve),
                    "repetitions": len(curve.lines),
                }
            )
    return pd.DataFrame(rows)


def _count(points: float, curve: Curve) -> str:
    if math.isnan(points):
        return ""
    return f"{points:.0f}" if math.isfinite(points) else f"above {int(curve.n_sum[-1])}"


def precision_table(curves: Curves, titles: Mapping[str, str], points: Sequence[int]) -> pd.DataFrame:
    """Return the precision of the safety model at some N_sum, one column per method with a safety model."""
    import pandas as pd

    rows = []
    for share in PRECISIONS:
        methods = [method for method in curves.methods if curves.has(method, share)]
        for n_sum in points:
            found = {
                titles[method]: _cell(curves.curve(method, share).at(n_sum))
                for method in methods
                if n_sum in curves.curve(method, share).n_sum
            }
            if found:
                rows.append({"quantity": metric(share).heading, "N_sum": n_sum, **found})
    return pd.DataFrame(rows)


def safe_table(curves: Curves, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the share of safe queries by measured z and, where it is known, by the true h."""
    import pandas as pd

    rows = []
    for counting, label in (("safe_noisy", "measured z"), ("safe_true", "true h")):
        for method in (name for name in curves.methods if curves.has(name, counting)):
            shares = 100.0 * curves.per_run(method, counting)
            found = mean(shares).within(0.0, 100.0)
            rows.append(
                {
                    "safe by": label,
                    "method": titles[method],
                    "safe queries (%)": estimate_text(found),
                    "from": found.low,
                    "to": found.high,
                    "worst repetition": float(shares.min()),
                    "repetitions": len(shares),
                }
            )
    return pd.DataFrame(rows)


def sampler_table(curves: Curves, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the diagnostics of both models' hyperparameters, means over iterations and repetitions."""
    import pandas as pd

    rows = []
    for prefix, label in zip(DIAGNOSTICS, ("outputs", "safety"), strict=True):
        for method in curves.methods:
            runs = curves.runs[method].values()
            names = sorted({name for run in runs for name in run.arrays if name.startswith(prefix)})
            if names:
                row: dict[str, object] = {"model": label, "method": titles[method]}
                for name in names:
                    gathered = np.concatenate([run.arrays[name] for run in runs if name in run.arrays])
                    row[name.removeprefix(prefix)] = mean(finite(gathered)).value
                rows.append(row)
    return pd.DataFrame(rows)


def timing_table(curves: Curves, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return CPU seconds per repetition, and where they went."""
    import pandas as pd

    rows = []
    for method in curves.methods:
        runs = curves.runs[method].values()
        row: dict[str, object] = {
            "method": titles[method],
            "CPU seconds": float(np.mean([run.timing.get("cpu_seconds", np.nan) for run in runs])),
            "models": float(np.mean([len(run.arrays["n_sum"]) for run in runs])),
        }
        for name in SECONDS:
            row[metric(name).heading] = float(np.mean([run.number(name) for run in runs]))
        row["peak memory (MB)"] = float(np.max([run.timing.get("peak_memory_mb", np.nan) for run in runs]))
        rows.append(row)
    return pd.DataFrame(rows).round(4)
