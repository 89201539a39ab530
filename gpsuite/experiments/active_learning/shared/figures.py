"""Figures of learning curves, safe queries and the precision of the safety model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.active_learning.shared.claims import DEMANDED
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.base import Report
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import LIMIT, method_style
from gpsuite.reporting.panels import panel
from gpsuite.reporting.tables import summarise_groups

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


N_LABEL = math_label("measured output values $N_{sum}$")


def errors(units: str) -> dict[str, str]:
    """Return the metrics of most figures of curves with their labels: RMSE in these units, and log density."""
    return {"rmse": f"RMSE ({units})", "log_density": "log density of test data (nats)"}


def draw_curves(
    report: Report[object],
    curves: Curves,
    name: str,
    heading: str,
    metrics: Mapping[str, str],
    *,
    thresholds: Sequence[float] = (),
    titles: Mapping[str, str] | None = None,
    styles: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Draw metrics against N_sum: means over the repetitions, bands of one standard error.

    Args:
        report: what is drawn on.
        curves: at least one method.
        name: file name.
        heading: the data, in words.
        metrics: metric -> axis label, one panel each.
        thresholds: values of the first metric that are marked by a line.
        titles: method -> title; default: the report's.
        styles: method -> properties that replace those of its style.
    """
    frame = curve_frame(curves, tuple(metrics))
    with report.figure(name, columns=len(metrics), size=(5.4 * len(metrics), 4.4)) as drawing:
        for ax, (metric, label) in zip(drawing.axes, metrics.items(), strict=True):
            found = frame[frame["metric"] == metric]
            panel(ax, found, "n_sum", titles or report.titles, kind="band", styles=styles)
            ax.locator_params(axis="x", integer=True)
            ax.set_xlabel(N_LABEL)
            ax.set_ylabel(label)
        for threshold in thresholds:
            drawing.ax.axhline(threshold, color=LIMIT, lw=0.9, ls=":", label=f"threshold {threshold:g}")
        drawing.legend("below", columns=4, title=f"mean ± standard error over {_repetitions(curves)}")
        drawing.fig.suptitle(heading)
        drawing.data = frame


def _repetitions(curves: Curves) -> str:
    counts = [len(runs) for runs in curves.runs.values()]
    fewest, most = min(counts), max(counts)
    count = str(most) if fewest == most else f"{fewest} to {most}"
    return f"{count} repetition{'s' if most > 1 else ''}"


def curve_frame(curves: Curves, metrics: Sequence[str]) -> pd.DataFrame:
    """Return mean, standard error and 95 % interval of each metric, one row per method, N_sum and metric."""
    import pandas as pd

    parts = []
    for metric in metrics:
        rows = [
            {"method": method, "n_sum": int(n_sum), metric: value}
            for method in curves.methods
            if curves.has(method, metric)
            for n_sum, column in zip(
                curves.curve(method, metric).n_sum, curves.curve(method, metric).lines.T, strict=True
            )
            for value in column
        ]
        if rows:
            parts.append(summarise_groups(pd.DataFrame(rows), ["method", "n_sum"], [metric]))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def draw_safety(report: Report[object], curves: Curves, name: str, heading: str) -> None:
    """Draw the share of safe queries by both countings, and the precision of the safety model against N_sum."""
    frame = safety_frame(curves)
    remark = (
        f"{_repetitions(curves)}; left: 95 % t intervals, cut at 0 and 100 %; right: ± standard error; "
        f"dotted: {100.0 * DEMANDED:g} %"
    )
    with report.figure(name, remark=remark, columns=2, size=(10.8, 4.4)) as drawing:
        left, right = drawing.axes
        _draw_shares(left, curves, frame, report.titles)
        precision = frame[frame["metric"] == "precision_noisy"]
        if len(precision):
            panel(right, precision, "n_sum", report.titles, kind="band")
            right.legend()
        right.axhline(DEMANDED, color=LIMIT, lw=0.9, ls=":")
        right.locator_params(axis="x", integer=True)
        right.set_xlabel(N_LABEL)
        right.set_ylabel("share truly safe (by measured z)\namong pool points marked safe")
        right.set_title("precision of the safety model")
        drawing.fig.suptitle(heading)
        drawing.data = frame


def _draw_shares(ax: Axes, curves: Curves, frame: pd.DataFrame, titles: Mapping[str, str]) -> None:
    """Draw bars with 95 % t intervals: filled by measured z, outlined by the true h where it is known."""
    both = bool((frame["metric"] == "safe_true").any())
    places = {"safe_noisy": -0.2, "safe_true": 0.2} if both else {"safe_noisy": 0.0}
    for number, method in enumerate(curves.methods):
        style = method_style(method)
        for metric, place in places.items():
            found = frame[(frame["method"] == method) & (frame["metric"] == metric)]
            if len(found):
                line = found.iloc[0]
                low, high = np.clip([line["interval_low"], line["interval_high"]], 0.0, 100.0)
                reach = np.nan_to_num([[line["mean"] - low], [high - line["mean"]]]).tolist()
                face = style["color"] if metric == "safe_noisy" else "white"
                ax.bar([number + place], [line["mean"]], 0.72 / len(places), color=face, edgecolor=style["color"],
                       yerr=reach, ecolor="0.2", capsize=3)  # fmt: skip
    ax.axhline(100.0 * DEMANDED, color=LIMIT, lw=0.9, ls=":")
    ax.set_xticks(range(len(curves.methods)), [titles[method] for method in curves.methods], fontsize=8)
    ax.set_ylabel("safe queries (%)")
    ax.set_ylim(0.0, 104.0)
    ax.set_title("safe by measured z (filled) and true h (outlined)" if both else "safe by measured z")


def safety_frame(curves: Curves) -> pd.DataFrame:
    """Return the shares of safe queries in percent with their intervals, and the precision over N_sum."""
    import pandas as pd

    parts = []
    for metric in ("safe_noisy", "safe_true"):
        rows = [
            {"method": method, metric: 100.0 * value}
            for method in curves.methods
            if curves.has(method, metric)
            for value in curves.per_run(method, metric)
        ]
        if rows:
            parts.append(summarise_groups(pd.DataFrame(rows), ["method"], [metric]))
    precision = curve_frame(curves, ("precision_noisy", "precision_true"))
    return pd.concat([*parts, precision], ignore_index=True)
