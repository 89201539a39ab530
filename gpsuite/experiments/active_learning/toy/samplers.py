"""The paper's HMC against sequential Monte Carlo: learning curves of the same repetitions, paired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.active_learning.shared.curves import Curve, Curves, paired_curves
from gpsuite.experiments.active_learning.shared.figures import N_LABEL
from gpsuite.experiments.base import Report
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.palette import LIMIT
from gpsuite.reporting.panels import panel
from gpsuite.reporting.tables import estimate_text, summarise_groups
from gpsuite.statistics.estimates import finite, mean

if TYPE_CHECKING:
    import pandas as pd


METRICS = {"rmse": "RMSE (output units)", "log_density": "log density (nats)"}
GAP = "HMC - SMC"  # a name of its own: differences of RMSEs may be negative
NAME = "toy_samplers"


def report_samplers(report: Report[object], ours: Curves, hmc: Curves) -> None:
    """Write table and figure of the paired differences HMC - SMC; nothing without shared repetitions."""
    frame = sampler_differences(ours, hmc)
    if frame.empty:
        return
    caption = (
        "The paper's HMC against sequential Monte Carlo in the same repetitions: heights of the learning curves, "
        "means over the models ± standard error, and their paired difference with 95 % t interval"
    )
    report.table(sampler_table(ours, hmc, report.titles), NAME, caption)
    _draw_differences(report, frame)


def sampler_statistics(ours: Curves, hmc: Curves) -> list[Statistic]:
    """Return the share of learning curves whose height differs by an interval containing 0, if any is known."""
    judged = [_contains_zero(second.heights - first.heights) for _, _, first, second in _pairs(ours, hmc)]
    within = [equal for equal in judged if equal is not None]
    return [claim("share_curves_equal_between_samplers", within)] if within else []


def sampler_table(ours: Curves, hmc: Curves, names: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per pipeline and metric: mean heights of both curves and their paired difference."""
    import pandas as pd

    rows = []
    for method, metric, first, second in _pairs(ours, hmc):
        smc, slow = (mean(curve.heights) for curve in (first, second))
        gap = mean(second.heights - first.heights)
        each = [_contains_zero(gaps) for gaps in (second.lines - first.lines).T]
        rows.append({
            "method": names.get(method, method),
            "metric": METRICS[metric],
            "N_sum": f"{first.n_sum[0]} to {first.n_sum[-1]}",
            "HMC": estimate_text(slow),
            "SMC": estimate_text(smc),
            "HMC - SMC": gap.value,
            "from": gap.low,
            "to": gap.high,
            "models whose own interval contains 0": f"{each.count(True)} of {len(each)}",
            "repetitions": gap.n,
        })  # fmt: skip
    return pd.DataFrame(rows)


def sampler_differences(ours: Curves, hmc: Curves) -> pd.DataFrame:
    """Return mean, standard error and 95 % t interval of HMC - SMC per pipeline, metric and N_sum."""
    import pandas as pd

    parts = []
    for method, metric, first, second in _pairs(ours, hmc):
        gap = second.lines - first.lines
        tidy = pd.DataFrame({
            "method": method,
            "n_sum": np.tile(first.n_sum, len(gap)),
            GAP: gap.ravel(),
        })  # fmt: skip
        parts.append(summarise_groups(tidy, ["method", "n_sum"], [GAP]).assign(metric=metric))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _pairs(ours: Curves, hmc: Curves) -> list[tuple[str, str, Curve, Curve]]:
    """Return (method, metric, SMC's curve, HMC's curve) at shared N_sum and repetitions."""
    found = []
    for method in (name for name in hmc.methods if name in ours.methods):
        for metric in METRICS:
            first, second = paired_curves(ours.curve(method, metric), hmc.curve(method, metric))
            if first.lines.size:
                found.append((method, metric, first, second))
    return found


def _contains_zero(gaps: FloatArray) -> bool | None:
    """Return whether the 95 % t interval of the mean of finite gaps contains 0; None if there is no interval."""
    found = mean(finite(gaps))
    return found.contains(0.0) if found.interval else None


def _draw_differences(report: Report[object], frame: pd.DataFrame) -> None:
    """Draw HMC - SMC against N_sum, a row per metric and a column per pipeline, with 95 % t intervals."""
    methods = list(dict.fromkeys(frame["method"]))
    size = (2.2 + 2.7 * len(methods), 5.4)
    with report.figure(
        NAME, rows=len(METRICS), columns=len(methods), size=size, sharex=True, sharey="row"
    ) as drawing:
        for row, (metric, label) in zip(drawing.grid, METRICS.items(), strict=True):
            for ax, method in zip(row, methods, strict=True):
                found = frame[(frame["method"] == method) & (frame["metric"] == metric)]
                title = report.titles.get(method, method)
                ax.axhline(0.0, color=LIMIT, lw=0.9, ls=":")
                panel(ax, found, "n_sum", {method: title}, kind="band", error="interval")
                ax.set_title(title)
            row[0].set_ylabel(f"HMC - SMC, {label}")
        for ax in drawing.grid[-1]:
            ax.set_xlabel(N_LABEL)
            ax.locator_params(axis="x", integer=True)
        runs = int(frame["n"].max())
        drawing.fig.suptitle(
            f"sine and sigmoid: HMC and SMC in the\nsame {runs} repetitions, mean and 95 % interval"
        )
        drawing.data = frame
