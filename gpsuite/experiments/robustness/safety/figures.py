"""Figures of robustness/safety: certified ranges of the points, and bounds against boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.safety.tables import COLUMNS
from gpsuite.methods.robustness.decision import HALF
from gpsuite.reporting.figures import figure_style, save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist


SMALLEST_GAP = 1e-4  # drawn; smaller ones lie on the edge
COLOURS = {"safe": "#009E73", "unsafe": "#D55E00", "unknown": "#777777", "timeout": "#777777"}


def draw_ranges(
    table: pd.DataFrame, titles: Mapping[str, str], classes: tuple[str, str], folder: Path, note: str | None
) -> None:
    """Draw every point's proved and attained range, in the order of its class probability."""
    import matplotlib.pyplot as plt

    present = [title for title in titles.values() if (table["method"] == title).any()]
    with figure_style():
        size = (7.5, 0.6 + 3.4 * len(present))
        fig, axes = plt.subplots(len(present), 1, figsize=size, squeeze=False)
        for ax, title in zip(axes[:, 0], present, strict=True):
            own = table[table["method"] == title].sort_values("probability", kind="stable")
            places = np.arange(len(own))
            for verdict, rows in own.groupby("verdict", sort=False):
                at, color = places[own["verdict"] == verdict], COLOURS[str(verdict)]
                ax.vlines(at, rows["min_proved"], rows["max_proved"], color=color, alpha=0.3, lw=5)
                ax.vlines(at, rows["min_attained"], rows["max_attained"], color=color, lw=2, label=verdict)
            ax.plot(places, own["probability"], "k.", ms=5, label="at the point")
            ax.axhline(HALF, color="#555555", lw=1)
            ax.set_xticks(places, own["point"], fontsize=7, rotation=90 if len(places) > 25 else 0)
            ax.set_ylim(-0.02, 1.02)
            ax.set_ylabel(f"probability of {classes[1]}")
            ax.set_title(title)
        axes[-1, 0].set_xlabel("test point, by class probability")
        found: dict[str, Artist] = {}
        for ax in axes[:, 0]:
            handles, labels = ax.get_legend_handles_labels()
            found.update(dict(zip(labels, handles, strict=True)))
        title = "thin: attained, wide: proved range"
        fig.legend(list(found.values()), list(found), loc="outside lower center", ncols=5, title=title)
        shown = table[["method", "point", "probability", *COLUMNS[5:10]]]
        save_figure(fig, shown, folder, "safety", note)


def draw_traces(
    records: Sequence[Record], titles: Mapping[str, str], tolerance: float, folder: Path, note: str | None
) -> None:
    """Draw the gap of every search against the boxes bounded so far."""
    import matplotlib.pyplot as plt
    import pandas as pd

    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            "side": side,
            "boxes": max(1.0, float(boxes)),
            "gap": abs(float(outer - inner)),
        }
        for record in records
        for side in ("minimum", "maximum")
        for boxes, inner, outer in record.arrays[f"{side}_trace"]
    ]
    if not rows:  # no search began
        return
    frame = pd.DataFrame(rows)
    with figure_style():
        fig, ax = plt.subplots(figsize=(6.4, 4.2))
        for (_, _, side), own in frame.groupby(["method", "point", "side"], sort=False):
            color = "#0072B2" if side == "maximum" else "#009E73"
            gap = own["gap"].clip(
                lower=SMALLEST_GAP
            )  # most searches end with their first box: a point, no line
            ax.step(own["boxes"], gap, where="post", color=color, marker="o", markersize=3, lw=0.9, alpha=0.6)
        for side, color in (("maximum", "#0072B2"), ("minimum", "#009E73")):
            ax.plot([], [], color=color, marker="o", markersize=3, label=f"search for the {side}")
        ax.axhline(tolerance, color="#555555", lw=1, label="tolerance")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(bottom=SMALLEST_GAP / 2.0)
        ax.set_xlabel("boxes bounded")
        ax.set_ylabel("gap between proved and attained probability")
        fig.legend(loc="outside lower center", ncols=3)
        save_figure(fig, frame, folder, "safety_trace", note)
