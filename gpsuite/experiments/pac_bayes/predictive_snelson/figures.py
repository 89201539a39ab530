"""The figure of pac_bayes/predictive_snelson: kl-PAC-SGP at three goals above, the other GPs below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.pac_bayes.predictive_snelson.settings import PredictiveSettings
from gpsuite.reporting.palette import SKY, method_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


PAC, FULL = "kl_pac_sgp", "full_gp"


# what each shaded area contains, as the legend says it
LABELS = {
    PAC: "kl-PAC-SGP: mean ± std., without noise",
    FULL: "full GP: mean ± std., with noise",
    "vfe": "VFE: mean ± std., with noise",
    "fitc": "FITC: mean ± std., with noise",
}


def draw(report: Report[PredictiveSettings], plots: Mapping[tuple[str, str], Record]) -> None:
    """Draw one panel per goal of kl-PAC-SGP, and one per other method.

    Args:
        report: the sheet.
        plots: records by (method, goal).
    """
    data = load(report.request.require_dataset())
    goals = [goal for name, goal in plots if name == PAC]
    others = list(dict.fromkeys(name for name, _ in plots if name != PAC))
    first = {name: next(record for (other, _), record in plots.items() if other == name) for name in others}
    panels = max(len(goals), len(others), 1)
    rows = bool(goals) + bool(others)
    size = (4.6 * panels, 3.3 * rows + 0.8)
    with report.figure(
        "predictive_snelson", rows=rows, columns=panels, size=size, sharex=True, sharey=True
    ) as drawing:
        for ax, goal in zip(drawing.axes, goals, strict=False):
            _draw_goal(ax, data, plots[PAC, goal], goal, first.get(FULL))
        for ax, name in zip(drawing.axes[panels * bool(goals) :], others, strict=False):
            _draw_method(ax, data, name, report.titles[name], first[name])
        drawing.name_axes("input x", "output y")
        drawing.legend("above", columns=3)
        drawing.data = _curves(plots)


def _draw_goal(ax: Axes, data: Dataset, record: Record, goal: str, full: Record | None) -> None:
    """Draw kl-PAC-SGP at one goal over the full GP, with the band inside which data cost nothing."""
    epsilon = float(record.axes["epsilon"])
    x, mean = record.arrays["x"], record.arrays["mean"]
    if full is not None:
        _shade(ax, full, FULL, noise=True)
    band: dict[str, Any] = {"color": SKY, "linewidth": 1.0, "linestyle": (0, (4, 2))}
    ax.fill_between(x, mean - epsilon, mean + epsilon, color=SKY, alpha=0.15, linewidth=0,
                    label="± ε around the mean: no loss")  # fmt: skip
    for side in (-epsilon, epsilon):
        ax.plot(x, mean + side, **band)
    _shade(ax, record, PAC, noise=False)
    _data_and_inducing(ax, data, record)
    ax.set_title(f"{goal} ε = {epsilon:g}: KL/n = {record.number('kl_over_n'):.3f}")


def _draw_method(ax: Axes, data: Dataset, name: str, title: str, record: Record) -> None:
    _shade(ax, record, name, noise=True)
    _data_and_inducing(ax, data, record)
    ax.set_title(f"{title}: noise σ = {record.number('noise_std'):.3f}")


def _shade(ax: Axes, record: Record, name: str, noise: bool) -> None:
    x, mean, deviation = (record.arrays[key] for key in ("x", "mean", "std"))
    if noise:
        deviation = np.hypot(deviation, record.number("noise_std"))
    colour = method_style(name)["color"]
    label = LABELS.get(name, f"{name}: mean ± std., {'with' if noise else 'without'} noise")
    ax.plot(x, mean, color=colour)
    ax.fill_between(x, mean - deviation, mean + deviation, color=colour, alpha=0.3, linewidth=0, label=label)


def _data_and_inducing(ax: Axes, data: Dataset, record: Record) -> None:
    """Draw the data, and crosses above and below for the inducing inputs before and after training."""
    y = data.y[:, 0]
    ax.plot(data.X[:, 0], y, "k.", markersize=2.5, rasterized=True, label="data")
    low, high = float(y.min()), float(y.max())
    room = 0.3 * (high - low)
    for part, height, colour, when in (
        ("start", high + room, "0.45", "before"),
        ("end", low - room, "k", "after"),
    ):
        inputs = record.arrays[part]
        if len(inputs):
            marks = np.full(len(inputs), height)
            ax.plot(inputs[:, 0], marks, "x", color=colour,
                    label=f"inducing inputs {when} training ({'top' if part == 'start' else 'bottom'})")  # fmt: skip
    ax.set_ylim(low - 1.25 * room, high + 1.25 * room)
    edges = record.arrays["x"][[0, -1]]
    ax.set_xlim(*edges)
    outside = int(np.sum((record.arrays["end"] < edges[0]) | (record.arrays["end"] > edges[1])))
    if outside:
        ax.text(0.02, 0.08, f"{outside} after training outside", transform=ax.transAxes, fontsize=8)


def _curves(plots: Mapping[tuple[str, str], Record]) -> pd.DataFrame:
    """Return the drawn curves, without the data's rows."""
    import pandas as pd

    return pd.concat(
        [
            pd.DataFrame(
                {
                    "method": name,
                    "goal": goal,
                    "epsilon": record.axes["epsilon"],
                    **{key: record.arrays[key] for key in ("x", "mean", "std")},
                    "noise_std": record.number("noise_std"),
                }
            )
            for (name, goal), record in plots.items()
        ],
        ignore_index=True,
    )
