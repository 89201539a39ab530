"""Figures of robustness/safety: certified ranges of the points, and bounds against boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.safety.settings import SafetySettings
from gpsuite.experiments.robustness.safety.tables import COLUMNS
from gpsuite.methods.robustness.decision import HALF
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import BLACK, GREEN, GREY, HIGHEST, LIMIT, LOWEST, VERMILION

if TYPE_CHECKING:
    import pandas as pd


SMALLEST_GAP = 1e-4  # drawn; smaller ones lie on the edge
COLOURS = {"safe": GREEN, "unsafe": VERMILION, "unknown": GREY, "timeout": GREY}


def draw_ranges(report: Report[object], table: pd.DataFrame, shown: str, binary: bool) -> None:
    """Draw every point's proved and attained range of a class probability, in the order of that."""
    present = [title for title in report.titles.values() if (table["method"] == title).any()]
    with report.figure("safety", rows=len(present), size=(7.5, 0.6 + 3.4 * len(present))) as drawing:
        for ax, title in zip(drawing.axes, present, strict=True):
            own = table[table["method"] == title].sort_values("probability", kind="stable")
            places = np.arange(len(own))
            for verdict, rows in own.groupby("verdict", sort=False):
                at, color = places[own["verdict"] == verdict], COLOURS[str(verdict)]
                ax.vlines(at, rows["min_proved"], rows["max_proved"], color=color, alpha=0.3, lw=5)
                ax.vlines(
                    at, rows["min_attained"], rows["max_attained"], color=color, lw=2, label=str(verdict)
                )
            ax.plot(places, own["probability"], ".", color=BLACK, ms=5, label="at the point")
            if binary:  # where the class changes
                ax.axhline(HALF, color=LIMIT, lw=1, label="decided here")
            ax.set_xticks(places, own["point"], fontsize=7, rotation=90 if len(places) > 25 else 0)
            ax.set_ylim(-0.02, 1.02)
            ax.set_title(title)
        drawing.name_axes("test point, by class probability", f"probability of {shown}")
        drawing.legend("below", 5, "thin: attained, wide: proved range")
        drawing.data = table[["method", "point", "probability", *COLUMNS[5:10]]]


def draw_traces(report: Report[SafetySettings], records: Sequence[Record]) -> None:
    """Draw the gap of every search against the boxes bounded so far."""
    import pandas as pd

    rows = [
        {
            "method": report.titles[str(record.axes["method"])],
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
    colours = {"maximum": HIGHEST, "minimum": LOWEST}
    style: dict[str, Any] = {"marker": "o", "markersize": 3}
    with report.figure("safety_trace", size=(6.4, 4.2)) as drawing:
        ax, drawing.data = drawing.ax, frame
        for (_, _, side), own in frame.groupby(["method", "point", "side"], sort=False):
            # most searches end with their first box: a point, no line
            gap = own["gap"].clip(lower=SMALLEST_GAP)
            ax.step(own["boxes"], gap, where="post", color=colours[str(side)], lw=0.9, alpha=0.6, **style)
        for side, colour in colours.items():
            ax.plot([], [], color=colour, label=f"search for the {side}", **style)
        ax.axhline(report.settings.tolerance, color=LIMIT, lw=1, label="tolerance")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(bottom=SMALLEST_GAP / 2.0)
        ax.set_xlabel("boxes bounded")
        ax.set_ylabel(metric("gap", "robustness").label)
        drawing.legend("below")
