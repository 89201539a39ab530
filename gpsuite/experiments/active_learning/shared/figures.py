"""Figures of learning curves, safe queries and the precision of the safety model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.active_learning.shared.claims import DEMANDED
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.reporting.figures import figure_style, math_label, method_style, save_figure
from gpsuite.reporting.tables import summarise_groups

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


N_LABEL = math_label("measured output values $N_{sum}$")


MARKS = 8  # about so many markers along a curve


def draw_curves(
    curves: Curves,
    titles: Mapping[str, str],
    folder: Path,
    name: str,
    heading: str,
    units: str,
    thresholds: Sequence[float],
    note: str | None,
    metrics: Mapping[str, str] | None = None,
    dashed: Collection[str] = (),
) -> None:
    """Draw RMSE and log density against N_sum: means over the repetitions, bands of one standard error.

    Args:
        curves: at least one method.
        titles: method -> title.
        folder: the run's figures folder.
        name: file name.
        heading: the data, in words.
        units: of the RMSE.
        thresholds: errors that are marked by a line.
        note: drawn below.
        metrics: metric -> axis label; default: RMSE and log density.
        dashed: methods drawn with dashed lines.
    """
    import matplotlib.pyplot as plt

    shown = metrics or {"rmse": f"RMSE ({units})", "log_density": "log density of test data (nats)"}
    with figure_style():
        fig, axes = plt.subplots(1, len(shown), figsize=(5.4 * len(shown), 4.4), squeeze=False)
        for ax, (metric, label) in zip(axes[0], shown.items(), strict=True):
            _draw_metric(ax, curves, titles, metric, dashed)
            _name_n_sum(ax)
            ax.set_ylabel(label)
        for threshold in thresholds:
            axes[0, 0].axhline(threshold, color="0.4", lw=0.9, ls=":")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        most = max(len(runs) for runs in curves.runs.values())
        fewest = min(len(runs) for runs in curves.runs.values())
        count = str(most) if fewest == most else f"{fewest} to {most}"
        repetitions = f"mean ± standard error over {count} repetition{'s' if most > 1 else ''}"
        fig.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), title=repetitions)
        fig.suptitle(heading)
        save_figure(fig, curve_frame(curves, tuple(shown)), folder, name, note)


def _draw_metric(
    ax: Axes, curves: Curves, titles: Mapping[str, str], metric: str, dashed: Collection[str] = ()
) -> None:
    for method in (name for name in curves.methods if curves.has(name, metric)):
        curve, title = curves.curve(method, metric), titles[method]
        style = method_style(title)
        mean, error = curve.mean, curve.standard_error
        every = max(1, len(mean) // MARKS)
        ax.plot(
            curve.n_sum,
            mean,
            color=style["color"],
            ls="--" if method in dashed else "-",
            marker=style["marker"],
            markevery=every,
            label=title,
        )
        ax.fill_between(
            curve.n_sum, mean - error, mean + error, color=style["color"], alpha=0.18, linewidth=0
        )


def _name_n_sum(ax: Axes) -> None:
    ax.set_xlabel(N_LABEL)
    ax.locator_params(axis="x", integer=True)


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


def draw_safety(
    curves: Curves, titles: Mapping[str, str], folder: Path, name: str, heading: str, note: str | None
) -> None:
    """Draw the share of safe queries by both countings, and the precision of the safety model against N_sum."""
    import matplotlib.pyplot as plt

    with figure_style():
        fig, (left, right) = plt.subplots(1, 2, figsize=(10.8, 4.4))
        _draw_shares(left, curves, titles)
        _draw_metric(right, curves, titles, "precision_noisy")
        right.axhline(DEMANDED, color="0.4", lw=0.9, ls=":")
        _name_n_sum(right)
        right.set_ylabel("share truly safe (by measured z)\namong pool points marked safe")
        right.set_title("precision of the safety model")
        if right.get_legend_handles_labels()[0]:
            right.legend()
        fig.suptitle(heading)
        save_figure(fig, safety_frame(curves), folder, name, note)


def _draw_shares(ax: Axes, curves: Curves, titles: Mapping[str, str]) -> None:
    """Draw bars with 95 % t intervals: filled by measured z, outlined by the true h where it is known."""
    frame = safety_frame(curves)
    both = bool((frame["metric"] == "safe_true").any())
    places = {"safe_noisy": -0.2, "safe_true": 0.2} if both else {"safe_noisy": 0.0}
    for number, method in enumerate(curves.methods):
        style = method_style(titles[method])
        for metric, place in places.items():
            found = frame[(frame["method"] == method) & (frame["metric"] == metric)]
            if len(found):
                line = found.iloc[0]
                reach = line["interval_high"] - line["mean"]
                face = style["color"] if metric == "safe_noisy" else "white"
                ax.bar(number + place, line["mean"], 0.72 / len(places), color=face, edgecolor=style["color"],
                       yerr=reach if np.isfinite(reach) else 0.0, ecolor="0.2", capsize=3)  # fmt: skip
    ax.axhline(100.0 * DEMANDED, color="0.4", lw=0.9, ls=":")
    ax.set_xticks(range(len(curves.methods)), [titles[method] for method in curves.methods], fontsize=8)
    ax.set_ylabel("safe queries (%)")
    ax.set_ylim(0.0, 109.0)
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
