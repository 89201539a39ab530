"""Figures of robustness/safety: certified ranges of the points, and bounds against boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
# share of the searches -> line and label
QUANTILES = {
    0.5: ("-", "half of the searches at most"),
    0.9: ("--", "nine in ten at most"),
    1.0: (":", "all at most"),
}
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
    """Draw quantiles over the searches of the gap against the boxes bounded so far, where one needed several."""
    rows: list[dict[str, object]] = [
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
    if len({row["boxes"] for row in rows}) > 1:  # else no search began, or each ended with its first box
        _draw_quantiles(report, rows)


def _draw_quantiles(report: Report[SafetySettings], rows: Sequence[dict[str, object]]) -> None:
    import pandas as pd

    frame = pd.DataFrame(rows)
    quantiles = gap_quantiles(frame)
    with report.figure("safety_trace", columns=2, size=(10.0, 4.4), sharey=True) as drawing:
        for ax, (side, colour) in zip(
            drawing.axes, {"maximum": HIGHEST, "minimum": LOWEST}.items(), strict=True
        ):
            own = quantiles[quantiles["side"] == side].sort_values("boxes")
            for share, (style, label) in QUANTILES.items():
                gap = own[f"{100 * share:g} %"].clip(lower=SMALLEST_GAP)
                ax.step(
                    own["boxes"],
                    gap,
                    style,
                    where="post",
                    color=colour,
                    marker=".",
                    label=label,
                )
            ax.axhline(report.settings.tolerance, color=LIMIT, lw=1, label="tolerance")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlim(0.8, max(10.0, 1.2 * float(frame["boxes"].max())))
            ax.set_ylim(bottom=SMALLEST_GAP / 2.0)
            closed = int((_last(frame[frame["side"] == side]) <= report.settings.tolerance).sum())
            count = frame[frame["side"] == side].groupby(["method", "point"]).ngroups
            ax.set_title(f"searches for the {side}: {closed} of {count} closed")
        drawing.name_axes("boxes bounded", metric("gap", "robustness").label)
        drawing.legend("below", 4)
        drawing.data = quantiles


def _last(own: pd.DataFrame) -> pd.Series[float]:
    """Return the gap at which each search ended."""
    return own.sort_values("boxes", kind="stable").groupby(["method", "point"])["gap"].last()


def gap_quantiles(frame: pd.DataFrame) -> pd.DataFrame:
    """Return quantiles over the searches of their gap by boxes bounded; one that ended keeps its last gap.

    Args:
        frame: columns method, point, side, boxes and gap, one row per step of a search.
    """
    import pandas as pd

    rows: list[dict[str, object]] = []
    for side, own in frame.groupby("side"):
        steps = own.groupby(["boxes", "method", "point"])["gap"].min().unstack(["method", "point"])
        current = steps.sort_index().ffill()
        for boxes, gaps in current.iterrows():
            values = {f"{100 * share:g} %": float(gaps.quantile(share)) for share in QUANTILES}
            rows.append({"side": side, "boxes": boxes, "searches": int(gaps.count()), **values})
    return pd.DataFrame(rows)
