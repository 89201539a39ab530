"""Figures of learning curves, safe queries and the precision of the safety model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.active_learning.shared.claims import DEMANDED
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.base import Report
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import LIMIT, method_style
from gpsuite.reporting.panels import panel, paper_marks
from gpsuite.reporting.tables import summarise_groups
from gpsuite.statistics.estimates import Estimate, mean

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


FEWEST = 0.05  # percent of unsafe queries; fewer lie on the edge


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
        marks = _of(curves, printed_errors(report.printed)) if "rmse" in metrics else []
        paper_marks(drawing.ax, marks)
        drawing.legend("below", columns=4, title=f"mean ± standard error over {_repetitions(curves)}")
        drawing.fig.suptitle(heading)
        drawing.data = with_marks(frame, "rmse", marks)


_ERROR = re.compile(r"rmse\[method=(\w+),n_sum=(\d+)\]")
_POINTS = re.compile(r"points_to_rmse\[method=(\w+),threshold=([\d.]+)\]")
_PRECISION = re.compile(r"safety_precision\[method=(\w+),n_sum=(\d+)\]")

Mark = tuple[str, float, float]
"""Method, N_sum and value of a printed number."""


def printed_errors(printed: Mapping[str, float]) -> list[Mark]:
    """Return the printed errors, and the thresholds at the printed numbers of values that reach them."""
    errors = [
        (found[1], float(found[2]), value)
        for name, value in printed.items()
        if (found := _ERROR.fullmatch(name))
    ]
    points = [
        (found[1], value, float(found[2]))
        for name, value in printed.items()
        if (found := _POINTS.fullmatch(name))
    ]
    return errors + points


def printed_precisions(printed: Mapping[str, float]) -> list[Mark]:
    """Return the printed precisions of the safety model."""
    return [
        (found[1], float(found[2]), value)
        for name, value in printed.items()
        if (found := _PRECISION.fullmatch(name))
    ]


def _of(curves: Curves, marks: Sequence[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark[0] in curves.methods]


def with_marks(frame: pd.DataFrame, metric: str, marks: Sequence[Mark]) -> pd.DataFrame:
    """Return the drawn numbers with the paper's among them, in a column of their own."""
    import pandas as pd

    rows = [
        {"method": name, "n_sum": n_sum, "metric": metric, "printed": value} for name, n_sum, value in marks
    ]
    return pd.concat([frame, pd.DataFrame(rows)], ignore_index=True) if rows else frame


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
    """Draw the share of unsafe queries by both countings, and the precision of the safety model against N_sum."""
    frame, precisions = safety_frame(curves), _of(curves, printed_precisions(report.printed))
    remark = (
        f"{_repetitions(curves)}; left: 95 % t intervals, below {FEWEST:g} % drawn there; right: ± standard error; "
        f"dotted: {100.0 * DEMANDED:g} % safe, as asked for"
    )
    with report.figure(name, remark=remark, columns=2, size=(10.8, 4.4)) as drawing:
        left, right = drawing.axes
        _draw_shares(left, curves, frame, report)
        precision = frame[frame["metric"] == "precision_noisy"]
        if len(precision):
            panel(right, precision, "n_sum", report.titles, kind="band")
            paper_marks(right, precisions)
            right.legend()
        right.axhline(DEMANDED, color=LIMIT, lw=0.9, ls=":")
        right.locator_params(axis="x", integer=True)
        right.set_xlabel(N_LABEL)
        right.set_ylabel("share truly safe (by measured z)\namong pool points marked safe")
        right.set_title("precision of the safety model")
        drawing.fig.suptitle(heading)
        drawing.data = with_marks(frame, "precision_noisy", precisions)


def _draw_shares(ax: Axes, curves: Curves, frame: pd.DataFrame, report: Report[object]) -> None:
    """Draw the shares of unsafe queries with 95 % t intervals: filled by measured z, outlined by the true h, if known.

    Unsafe ones, on a logarithmic axis: of shares of safe queries near 100 % nobody sees the difference.
    """
    both = bool((frame["metric"] == "safe_true").any())
    places = {"safe_noisy": -0.12, "safe_true": 0.12} if both else {"safe_noisy": 0.0}
    for number, method in enumerate(curves.methods):
        style = method_style(method)
        for metric, place in places.items():
            found = frame[(frame["method"] == method) & (frame["metric"] == metric)]
            if len(found):
                line = found.iloc[0]
                unsafe = np.array(
                    [line["mean"], line["interval_high"], line["interval_low"]], dtype=np.float64
                )
                value, low, high = np.clip(100.0 - unsafe, FEWEST, 100.0)
                face = style["color"] if metric == "safe_noisy" else "white"
                ax.errorbar([number + place], [value], yerr=[[value - low], [high - value]], fmt=style["marker"],
                            color=style["color"], mfc=face, ms=7, capsize=3)  # fmt: skip
    names = [f"safe_query_percent[method={method}]" for method in curves.methods]
    shown = zip(curves.methods, range(len(names)), names, strict=True)
    marks = [(method, x - 0.3, max(FEWEST, 100.0 - report.printed[name])) for method, x, name in shown
             if name in report.printed]  # fmt: skip
    paper_marks(ax, marks)
    if marks:
        ax.legend(loc="upper left")
    ax.axhline(100.0 * (1.0 - DEMANDED), color=LIMIT, lw=0.9, ls=":")
    titles = [report.titles[method] for method in curves.methods]
    ax.set_xticks(range(len(curves.methods)), titles, fontsize=8)
    ax.set_xlim(-0.5, len(curves.methods) - 0.5)
    ax.set_yscale("log")
    ax.set_ylim(0.8 * FEWEST, 130.0)
    ax.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    ax.set_ylabel("unsafe queries (%)")
    ax.set_title("by measured z (filled) and true h (outlined, with interval)" if both else "by measured z")


def _percentage(values: Sequence[float]) -> Estimate:
    return mean(values).within(0.0, 100.0)


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
            parts.append(summarise_groups(pd.DataFrame(rows), ["method"], [metric], _percentage))
    precision = curve_frame(curves, ("precision_noisy", "precision_true"))
    return pd.concat([*parts, precision], ignore_index=True)
