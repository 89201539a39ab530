"""The figure of pac_bayes/overfit_fitc: one data set's fits above, all data sets' noise and gaps below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.pac_bayes.overfit_fitc.settings import OverfitSettings
from gpsuite.experiments.pac_bayes.shared.run import Split
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import method_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


_BELOW = ("noise_std", "gap", "gibbs_risk_test")  # the learned noise, and what overfitting shows in


def draw(report: Report[OverfitSettings], frame: pd.DataFrame, split: Split) -> None:
    """Draw the first data set's fits, where there is one input, and each metric over all data sets.

    Args:
        report: the sheet.
        frame: one row per method and repetition.
        split: the first data set.
    """
    first = report.records(repetition=0)
    fits = {str(record.axes["method"]): record for record in first if "x" in record.arrays}
    columns, rows = max(len(fits), len(_BELOW)), 1 + bool(fits)
    size = (4.4 * columns, 3.5 * rows)
    with report.figure("overfit_fitc", rows=rows, columns=columns, size=size) as drawing:
        for number, (ax, name) in enumerate(zip(drawing.grid[0], fits, strict=False)):
            _draw_fit(ax, report.titles[name], name, fits[name], split)
            ax.set_ylabel("" if number else "output y (standardised)")
        below = drawing.grid[-1]
        for ax, shown in zip(below, _BELOW, strict=False):
            _draw_metric(ax, report.titles, frame, shown)
            ax.set_ylabel(metric(shown, "pac_bayes").axis)
        if report.request.dataset is None:
            below[0].axhline(report.settings.noise_std, color="k", linestyle="--", label="true noise")
            below[0].legend(loc="lower left")
        drawing.data = frame


def _draw_fit(ax: Axes, title: str, name: str, record: Record, split: Split) -> None:
    x, mean, deviation = (record.arrays[key] for key in ("x", "mean", "std"))
    colour = method_style(name)["color"]
    ax.plot(split.X[:, 0], split.y, "k.", markersize=3, label="training data")
    ax.plot(x, mean, color=colour, label="mean")
    ax.fill_between(
        x,
        mean - deviation,
        mean + deviation,
        color=colour,
        alpha=0.3,
        linewidth=0,
        label="± std., with noise",
    )
    low, high = float(split.y.min()), float(split.y.max())
    Z = record.arrays["Z"]
    inside = Z[np.abs(Z - (x[0] + x[-1]) / 2) <= (x[-1] - x[0]) / 2]
    height = np.full(len(inside), low - 0.15 * (high - low))
    ax.plot(inside, height, "kx", label="inducing inputs")
    ax.set_ylim(low - 0.25 * (high - low), high + 0.6 * (high - low))
    ax.legend(loc="upper center", ncols=2)
    ax.set_xlabel("input x (standardised)")
    ax.set_title(f"{title}, data set 0: noise σ = {record.number('noise_std'):.3f} (units of y)")


def _draw_metric(ax: Axes, titles: Mapping[str, str], frame: pd.DataFrame, shown: str) -> None:
    """Draw every data set's value as a line across the methods, and the methods' medians."""
    names = [name for name in titles if name in set(frame["method"])]
    wide = frame.pivot(index="repetition", columns="method", values=shown)[names]
    places = list(range(len(names)))
    for _, row in wide.iterrows():
        ax.plot(places, row, color="0.75", linewidth=0.7, zorder=1)
    for place, name in zip(places, names, strict=True):
        style = method_style(name)
        ax.plot(
            np.full(len(wide), place),
            wide[name],
            style["marker"],
            color=style["color"],
            markersize=3.5,
            alpha=0.7,
        )
        ax.plot([place - 0.2, place + 0.2], [wide[name].median()] * 2, color="k", linewidth=2.5)
    ax.set_xticks(places, [titles[name] for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_title(f"{len(wide)} data sets, bar: median")
